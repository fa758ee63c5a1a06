"""Picking elements by index and putting them there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_lite.described import refuse
from tinygrad_lite.functional.common import Scalar, fresh, node_of, unwrap, wrap
from tinygrad_lite.functional.reduction import vector_norm
from tinygrad_lite.functional.sorting import argsort, sort, topk  # noqa: F401  (reductions look for them here)
from tinygrad_lite.functional.statistics import cumsum
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import leaf, mode
from tinygrad_lite.ir.types import DType, bool_, int64
from tinygrad_lite.ops import composite, create, indexing, movement
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops.graft import graft

__all__ = [
    "argwhere",
    "embedding",
    "gather",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_reduce",
    "index_select",
    "masked_scatter",
    "masked_select",
    "nonzero",
    "one_hot",
    "put",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "take",
    "take_along_dim",
    "unravel_index",
]


def _index(x: Any, name: str) -> Node:
    """An index argument's node; RuntimeError unless it holds integers."""
    node = node_of(x, name)
    if node.dtype.kind not in "iu":
        raise RuntimeError(f"{name} must be a tensor of integers (int64), got {node.type}")
    return node


# ---- along an axis, element by element ----------------------------------------------------------------------


def gather(input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    """out[i][j] = input[index[i][j]][j] for dim 0, and likewise for others. `sparse_grad` changes nothing."""
    x, picks = node_of(input, "input"), _index(index, "gather(): index")
    if not x.type.ndim and picks.type.ndim == 1:  # a scalar is a vector of one
        x = movement.reshape(x, (1,))
    return wrap(indexing.take_along(x, picks, dim))


def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None) -> Tensor:
    """`gather` with negative indices and broadcasting; without `dim`, of the flattened tensor, but no negative ones."""
    x, picks = node_of(input, "input"), _index(indices, "take_along_dim(): indices")
    if dim is None:
        flat = movement.reshape(x, (x.type.size,))
        return wrap(indexing.take_along(flat, movement.reshape(picks, (picks.type.size,)), 0))
    if x.type.ndim != picks.type.ndim:
        raise RuntimeError(
            f"torch.take_along_dim(): input and indices should have the same number of dimensions, but got {x.type} "
            f"and {picks.type}"
        )
    axis = movement.normalize_axis(dim, x.type.ndim)
    if not x.type.ndim:
        return wrap(indexing.take_along(x, picks, axis, wrap=True))
    rest = [tuple(1 if a == axis else n for a, n in enumerate(t.shape)) for t in (x, picks)]
    shape = ew.broadcast_shapes("take_along_dim", rest)
    x, picks = (
        movement.expand(t, tuple(t.shape[axis] if a == axis else n for a, n in enumerate(shape))) for t in (x, picks)
    )
    return wrap(indexing.take_along(x, picks, axis, wrap=True))


def _source(src: Tensor | Scalar, base: Node, index: Node, name: str) -> Node:
    value = unwrap(src)
    if not isinstance(value, Node):
        return movement.broadcast_to(ew.as_node(value, base.dtype), index.shape)
    if value.dtype is not base.dtype:
        raise RuntimeError(f"{name}: Expected self.dtype to be equal to src.dtype, got {base.type} and {value.type}")
    return value


def _vectors(*nodes: Node) -> list[Node]:
    """PyTorch reads scalars as vectors of one."""
    return [n if n.type.ndim else movement.reshape(n, (1,)) for n in nodes]


def _scattered(how: str | None, base: Node, index: Node, source: Node, dim: int) -> Tensor:
    movement.normalize_axis(dim, base.type.ndim)
    x, picks, added = _vectors(base, index, source)
    if not index.type.size:
        return fresh(base, base)
    if how is None:
        out = indexing.put_along(x, picks, added, dim)
    else:
        out = indexing.put_along_with(how, x, picks, added, dim)
    return fresh(movement.reshape(out, base.shape), base)


_REDUCE_ARGUMENT = {"add": "sum", "multiply": "prod"}


def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor | Scalar | None = None,
    value: Scalar | None = None,
    *,
    reduce: str | None = None,
) -> Tensor:
    """`input` with out[index[i][j]][j] = src[i][j] for dim 0; of repeated indices the last stands.

    Args:
        src: a tensor, or a number for all places, which may be called `value`.
        reduce: "add" or "multiply" instead of replacing.

    Raises:
        RuntimeError: shapes, dtypes or `reduce` that do not fit. IndexError: an index or dim out of range.
    """
    base, picks = node_of(input, "input"), _index(index, "scatter(): index")
    given = value if src is None else src
    if given is None:
        raise TypeError("scatter(): needs src or value")
    source = _source(given, base, picks, "scatter")
    if reduce is None:
        return _scattered(None, base, picks, source, dim)
    if reduce not in _REDUCE_ARGUMENT:
        raise RuntimeError(f"scatter: reduce argument must be either add or multiply, got {reduce!r}")
    return _scattered(_REDUCE_ARGUMENT[reduce], base, picks, source, dim)


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """`input` with out[index[i][j]][j] += src[i][j] for dim 0."""
    base, picks = node_of(input, "input"), _index(index, "scatter_add(): index")
    return _scattered("sum", base, picks, _tensor_source(src, base, "scatter_add"), dim)


def _tensor_source(src: Any, base: Node, name: str) -> Node:
    node_of(src, "src")
    return _source(src, base, base, name)


def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """`input` with its elements combined with all of src[i][j] that index[i][j] sends to them along `dim`.

    Args:
        reduce: "sum", "prod", "mean", "amax" or "amin".
        include_self: count the elements of `input` that are sent something among the combined.

    Gradients: amax and amin share it among equals; prod gives each the product of the others, zeros included.

    Raises:
        RuntimeError: shapes, dtypes or `reduce` that do not fit. IndexError: an index or dim out of range.
    """
    base, picks = node_of(input, "input"), _index(index, "scatter_reduce(): index")
    source = _tensor_source(src, base, "scatter_reduce")
    if reduce not in _NEUTRAL:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce!r}")
    movement.normalize_axis(dim, base.type.ndim)
    start = base
    if not include_self:
        neutral = ew.as_node(_neutral(reduce, base), base.dtype)
        start = _scattered(None, base, picks, movement.broadcast_to(neutral, picks.shape), dim)._read()
    if reduce != "mean":
        return _scattered(reduce, start, picks, source, dim)
    total = _scattered("sum", start, picks, source, dim)._read()
    ones = create.ones(picks.shape, base.dtype)
    count = create.ones(base.shape, base.dtype)
    if not include_self:
        count = _scattered(None, count, picks, create.zeros(picks.shape, base.dtype), dim)._read()
    count = ew.maximum(_scattered("sum", count, picks, ones, dim)._read(), base.dtype.numpy.type(1).item())
    return wrap(ew.div(total, count) if base.dtype.kind == "f" else ew.floor_divide(total, count))


_NEUTRAL = {"sum": 0, "mean": 0, "prod": 1, "amax": None, "amin": None}


def _neutral(how: str, base: Node) -> Scalar:
    if how not in ("amax", "amin"):
        return base.dtype.numpy.type(_NEUTRAL[how]).item()  # type: ignore[no-any-return]
    if base.dtype.kind == "f":
        return float("-inf") if how == "amax" else float("inf")
    if base.dtype is bool_:
        return how == "amin"
    info = np.iinfo(base.dtype.numpy)
    return int(info.min if how == "amax" else info.max)


# ---- along an axis, slice by slice --------------------------------------------------------------------------


def _vector(index: Any, name: str) -> Node:
    picks = _index(index, f"{name}(): index")
    if picks.type.ndim > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, got {picks.type}")
    return _vectors(picks)[0]


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices of `input` at a vector of indices along `dim`."""
    node, picks = node_of(input, "input"), _vector(index, "index_select")
    if not node.type.ndim:
        movement.normalize_axis(dim, 0)
        if picks.shape != (1,):
            raise IndexError(f"index_select(): Index to scalar can have only 1 value, got {picks.type}")
        return wrap(movement.reshape(indexing.gather(movement.reshape(node, (1,)), picks, 0), ()))
    return wrap(indexing.gather(node, picks, dim))


def _slices(name: str, input: Tensor, dim: int, index: Tensor, source: Tensor) -> tuple[Node, Node, Node, int]:
    """base, index, source and axis of an op on slices. The source has the base's shape but along `dim`."""
    base, picks, added = node_of(input, "input"), _vector(index, name), node_of(source, "source")
    axis = movement.normalize_axis(dim, base.type.ndim)
    if added.dtype is not base.dtype:
        raise RuntimeError(
            f"{name}(): self and source expected to have the same dtype, got {base.type} and {added.type}"
        )
    if not base.type.ndim:
        base = movement.reshape(base, (1,))
    if not added.type.ndim and picks.type.size == 1 and not node_of(input).type.ndim:
        added = movement.reshape(added, (1,))
    expected = (*base.shape[:axis], picks.shape[0], *base.shape[axis + 1 :])
    if added.shape != expected:
        only_count = (
            added.type.ndim == base.type.ndim
            and added.type.size * base.shape[axis] == base.type.size * added.shape[axis]
        )
        raise (IndexError if name == "index_copy" and only_count else RuntimeError)(
            f"{name}(): source must have shape {list(expected)} for {base.type} and an index of {picks.shape[0]} along "
            f"dim {dim}, got {list(added.shape)}"
        )
    return base, picks, added, axis


def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Scalar = 1) -> Tensor:
    """`input` plus alpha times each slice of `source` at its index along `dim`; repeated indices add up."""
    base, picks, added, axis = _slices("index_add", input, dim, index, source)
    added = added if alpha == 1 else ew.cast(ew.mul(added, alpha), base.dtype)
    return wrap(movement.reshape(indexing.scatter_add(base, picks, added, axis), tuple(input.shape)))


def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """`input` with its slices at `index` along `dim` replaced by `source`'s; of repeated indices the last stands."""
    base, picks, added, axis = _slices("index_copy", input, dim, index, source)
    return wrap(movement.reshape(indexing.put(base, picks, added, axis), tuple(input.shape)))


def index_fill(input: Tensor, dim: int, index: Tensor, value: Tensor | Scalar) -> Tensor:
    """`input` with its slices at `index` along `dim` filled; negative indices count from the end."""
    base, picks = node_of(input, "input"), _vector(index, "index_fill")
    filler = unwrap(value)
    if isinstance(filler, Node) and filler.type.ndim:
        raise RuntimeError(f"index_fill only supports a 0-dimensional value tensor, but got {filler.type}")
    axis = movement.normalize_axis(dim, base.type.ndim)
    (x,) = _vectors(base)
    shape = (*x.shape[:axis], *picks.shape, *x.shape[axis + 1 :])
    source = movement.broadcast_to(ew.cast(ew.as_node(filler, base.dtype), base.dtype), shape)
    return wrap(movement.reshape(indexing.put(x, picks, source, axis, wrap=True), base.shape))


_INDEX_REDUCE = {"prod": "prod", "mean": "mean", "amax": "amax", "amin": "amin"}


def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """`scatter_reduce` of whole slices: `reduce` is "prod", "mean", "amax" or "amin"."""
    if reduce not in _INDEX_REDUCE:
        raise RuntimeError(f"index_reduce(): reduce must be one of prod, mean, amax or amin, got {reduce!r}")
    base, picks, added, axis = _slices("index_reduce", input, dim, index, source)
    lined = movement.reshape(picks, tuple(-1 if a == axis else 1 for a in range(base.type.ndim)))
    everywhere = wrap(movement.expand(lined, added.shape))
    out = scatter_reduce(wrap(base), axis, everywhere, wrap(added), reduce, include_self=include_self)
    return wrap(movement.reshape(out._read(), tuple(input.shape)))


# ---- in the flattened tensor, or with an index an axis ---------------------------------------------------------


def take(input: Tensor, index: Tensor) -> Tensor:
    """Elements of the flattened tensor; negative indices count from the end."""
    node = node_of(input, "input")
    return wrap(
        indexing.gather(movement.reshape(node, (node.type.size,)), _index(index, "take(): index"), 0, wrap=True)
    )


def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """`input` with elements of the flattened tensor replaced or increased by `source`; negative indices count back."""
    base, picks, added = node_of(input, "input"), _index(index, "put(): index"), node_of(source, "source")
    if added.dtype is not base.dtype:
        raise RuntimeError(f"put(): self and source expected to have the same dtype, got {base.type} and {added.type}")
    if added.type.size != picks.type.size:
        raise IndexError(f"put(): index and source should have as many elements, got {picks.type} and {added.type}")
    flat = movement.reshape(base, (base.type.size,))
    change = indexing.scatter_add if accumulate else indexing.put
    return wrap(movement.reshape(change(flat, picks, movement.reshape(added, picks.shape), 0, wrap=True), base.shape))


def index_put(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """`input` with input[indices] replaced by `values`, or increased by them; repeated indices then add up.

    Raises:
        RuntimeError: another dtype of values. CaptureError: a boolean mask in a capture.
    """
    base, source = node_of(input, "input"), node_of(values, "values")
    if source.dtype is not base.dtype:
        raise RuntimeError(
            f"index_put requires the source and destination dtypes match, got {base.type} and {source.type}"
        )
    nodes: list[Node | None] = []
    for index in indices:
        nodes += [None] if index is None else _positions(index) if index.dtype is bool_ else [_index(index, "index")]
    return wrap(indexing.index_put_nd(base, nodes, source, bool(accumulate)))


def _positions(mask: Tensor) -> list[Node]:
    return [i._read() for i in nonzero(mask, as_tuple=True)]


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Positions in the flattened tensor of a shape as an index an axis; negative ones count from the end.

    Raises:
        IndexError: a position outside the shape.
    """
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(n < 0 for n in extents):
        raise ValueError(f"unravel_index: shape cannot have negative values, got {extents}")
    rest = ew.check_index(_index(indices, "unravel_index(): indices"), math.prod(extents), wrap=True)
    found: list[Tensor] = []
    for n in reversed(extents):
        found.append(wrap(ew.remainder(rest, n)))
        rest = ew.floor_divide(rest, n)
    return tuple(reversed(found))


# ---- masks --------------------------------------------------------------------------------------------------


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Positions of the nonzero elements: an (n, ndim) tensor, or one vector an axis. Reads values."""
    if mode.trace is not None:
        refuse("nonzero() makes a result whose size depends on values")
    found = np.nonzero(np.atleast_1d(input._values("nonzero()")))
    if as_tuple:
        return tuple(wrap(leaf(axis)) for axis in found)
    columns = found if input.ndim else ()
    return wrap(leaf(np.stack(columns, 1) if columns else np.zeros((len(found[0]), 0), np.int64)))


def argwhere(input: Tensor) -> Tensor:
    """Positions of the nonzero elements, a row each. Reads values."""
    return nonzero(input)  # type: ignore[no-any-return]


def _mask(mask: Any, name: str) -> Node:
    node = node_of(mask, "mask")
    if node.dtype is not bool_:
        raise RuntimeError(f"{name}: expected BoolTensor for mask, got {node.type}")
    return node


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where mask is True, as a vector. Reads the mask's values."""
    _mask(mask, "masked_select")
    if mode.trace is not None:
        refuse("masked_select() makes a result whose size depends on values")
    shape = ew.broadcast_shapes("masked_select", [tuple(input.shape), tuple(mask.shape)])
    return input.expand(shape)[mask.expand(shape)]


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """`input` with its elements where mask is True replaced by those of `source`, in order.

    Raises:
        RuntimeError: another dtype of source. IndexError: more places than elements of source.
    """
    flags, base, values = _mask(mask, "masked_scatter"), node_of(input, "input"), node_of(source, "source")
    if values.dtype is not base.dtype:
        raise RuntimeError(
            f"masked_scatter: expected self and source to have same dtypes but got {base.type} and {values.type}"
        )
    shape = ew.broadcast_shapes("masked_scatter", [base.shape, flags.shape])
    flags, base = movement.broadcast_to(flags, shape), movement.broadcast_to(base, shape)
    if not values.type.size or not flags.type.size:
        if mode.trace is None and wrap(flags)._values("masked_scatter()").any():
            raise RuntimeError("masked_scatter: expected the number of masked elements to be at most that of source, 0")
        return fresh(base, base)
    places = cumsum(wrap(movement.reshape(flags, (flags.type.size,))), 0)._read()
    place = ew.sub(movement.reshape(places, shape), 1)
    picks = ew.where(flags, place, 0)
    taken = indexing.gather(movement.reshape(values, (values.type.size,)), picks, 0)
    return wrap(ew.where(flags, taken, base))


# ---- tables -------------------------------------------------------------------------------------------------


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """weight[input]; the row `padding_idx` gets no gradient. `sparse` changes nothing.

    Args:
        max_norm: rows that are looked up are first scaled down, in the table, to at most this norm_type-norm.
        scale_grad_by_freq: divide a row's gradient by how often the row is looked up.

    Raises:
        IndexError: an index outside the table.
    """
    index = node_of(input, "input")
    limit_rows(weight, index, max_norm, norm_type)
    rows = composite.embedding(node_of(weight, "weight"), index, padding_idx)
    return wrap(by_frequency(rows, index, weight.shape[0]) if scale_grad_by_freq else rows)


def limit_rows(weight: Tensor, index: Node, max_norm: float | None, norm_type: float) -> None:
    """Scale rows of the table that `index` names down to a norm_type-norm of max_norm, in place, outside autograd."""
    if max_norm is None:
        return
    with mode.set(grad_enabled=False):
        node = node_of(weight, "weight")
        norms = vector_norm(wrap(ew.detach(node)), norm_type, 1, True)._read()
        asked = ew.gt(movement.unsqueeze(_counts(index, node.shape[0], node.dtype), 1), 0)
        long = ew.logical_and(asked, ew.gt(norms, float(max_norm)))
        weight._write(ew.mul(node, ew.where(long, ew.div(float(max_norm), ew.add(norms, 1e-7)), 1.0)))


def by_frequency(rows: Node, index: Node, size: int) -> Node:
    """`rows`, looked up at `index` in a table of `size`, with gradients divided by how often the row was looked up."""
    share = indexing.gather(_counts(index, size, rows.dtype), index)
    return graft(ew.detach(rows), ew.div(rows, movement.unsqueeze(share, -1)))


def _counts(index: Node, size: int, dtype: DType) -> Node:
    """How often each row of a table of `size` is named."""
    flat = movement.reshape(index, (index.type.size,))
    return indexing.scatter_add(create.zeros((size,), dtype), flat, create.ones(flat.shape, dtype))


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 rows with a 1 at the index; num_classes -1 reads the largest index.

    Raises:
        RuntimeError: an index that does not fit. CaptureError: num_classes -1 in a capture.
    """
    index = node_of(tensor, "tensor")
    if index.dtype is not int64:
        raise RuntimeError("one_hot is only applicable to index tensor of type LongTensor.")
    if num_classes == -1:
        values = tensor._values("one_hot() without num_classes")
        if not values.size:
            raise RuntimeError("Can not infer total number of classes from empty tensor.")
        num_classes = int(values.max()) + 1
    if num_classes < 1 and index.type.size:
        raise RuntimeError(f"one_hot: num_classes should be positive, got {num_classes}")
    checked = ew.check_index(index, num_classes)
    return wrap(ew.cast(ew.eq(movement.unsqueeze(checked, -1), create.arange(num_classes)), int64))
