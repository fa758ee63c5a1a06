"""Picking elements by index, and the functions whose results' sizes or order depend on values."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_lite.described import refuse
from tinygrad_lite.functional.common import Scalar, as_dtype, fresh, node_of, unwrap, wrap
from tinygrad_lite.functional.reduction import ValuesIndices
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import leaf, mode
from tinygrad_lite.ir.types import DType, bool_, int64
from tinygrad_lite.ops import composite, create, indexing, movement
from tinygrad_lite.ops import elementwise as ew

__all__ = [
    "argsort",
    "argwhere",
    "bincount",
    "embedding",
    "gather",
    "index_add",
    "index_copy",
    "index_fill",
    "index_select",
    "masked_select",
    "nonzero",
    "one_hot",
    "scatter",
    "scatter_add",
    "searchsorted",
    "sort",
    "take_along_dim",
    "topk",
    "tril_indices",
    "triu_indices",
    "unique",
]


def gather(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """out[i][j] = input[index[i][j]][j] for dim 0, and likewise for others."""
    return wrap(indexing.take_along(node_of(input, "input"), node_of(index, "index"), dim))


def take_along_dim(input: Tensor, indices: Tensor, dim: int) -> Tensor:
    """`gather` with negative indices."""
    return wrap(indexing.take_along(node_of(input, "input"), node_of(indices, "indices"), dim, wrap=True))


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices of `input` at a vector of indices along `dim`."""
    picks = node_of(index, "index")
    if picks.type.ndim > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    picks = picks if picks.type.ndim else movement.reshape(picks, (1,))
    return wrap(indexing.gather(node_of(input, "input"), picks, dim))


def _source(src: Tensor | Scalar, base: Node, index: Node, name: str) -> Node:
    value = unwrap(src)
    if not isinstance(value, Node):
        return movement.broadcast_to(ew.as_node(value, base.dtype), index.shape)
    if value.dtype is not base.dtype:
        raise RuntimeError(f"{name}: Expected self.dtype to be equal to src.dtype, got {base.type} and {value.type}")
    return value


def scatter(input: Tensor, dim: int, index: Tensor, src: Tensor | Scalar) -> Tensor:
    """`input` with out[index[i][j]][j] = src[i][j] for dim 0; of repeated indices the last stands."""
    base, picks = node_of(input, "input"), node_of(index, "index")
    return fresh(indexing.put_along(base, picks, _source(src, base, picks, "scatter"), dim), base)


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """`input` with out[index[i][j]][j] += src[i][j] for dim 0."""
    base, picks = node_of(input, "input"), node_of(index, "index")
    return fresh(indexing.put_along_add(base, picks, _source(src, base, picks, "scatter_add"), dim), base)


def index_add(input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Scalar = 1) -> Tensor:
    """`input` plus alpha times each slice of `source` at its index along `dim`."""
    base, picks, added = node_of(input, "input"), node_of(index, "index"), node_of(source, "source")
    added = added if alpha == 1 else ew.mul(added, alpha)
    return wrap(indexing.scatter_add(base, picks, added, dim))


def index_copy(input: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """`input` with its slices at `index` along `dim` replaced by those of `source`."""
    return wrap(indexing.put(node_of(input, "input"), node_of(index, "index"), node_of(source, "source"), dim))


def index_fill(input: Tensor, dim: int, index: Tensor, value: Scalar) -> Tensor:
    """`input` with its slices at `index` along `dim` filled."""
    base, picks = node_of(input, "input"), node_of(index, "index")
    axis = movement.normalize_axis(dim, base.type.ndim)
    shape = (*base.shape[:axis], *picks.shape, *base.shape[axis + 1 :])
    return wrap(indexing.put(base, picks, movement.broadcast_to(ew.as_node(unwrap(value), base.dtype), shape), axis))


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

    Raises:
        NotImplementedError: max_norm or scale_grad_by_freq. IndexError: an index outside the table.
    """
    if max_norm is not None or scale_grad_by_freq:
        raise NotImplementedError("embedding: max_norm and scale_grad_by_freq are not supported")
    return wrap(composite.embedding(node_of(weight, "weight"), node_of(input, "input"), padding_idx))


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
        num_classes = int(values.max()) + 1 if values.size else 0
    checked = ew.check_index(index, num_classes)
    return wrap(ew.cast(ew.eq(movement.unsqueeze(checked, -1), create.arange(num_classes)), int64))


# ---- results that depend on values --------------------------------------------------------------------------


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Positions of the nonzero elements: an (n, ndim) tensor, or one vector an axis. Reads values."""
    if mode.trace is not None:
        refuse("nonzero() makes a result whose size depends on values")
    found = np.nonzero(np.atleast_1d(input._values("nonzero()")))
    if as_tuple:
        return tuple(wrap(leaf(axis)) for axis in found)
    columns = found if input.ndim else ()
    return wrap(leaf(np.stack(columns, 1) if columns else np.zeros((len(found[0]), 0), np.int64)))


argwhere = nonzero


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where mask is True, as a vector. Reads the mask's values."""
    if node_of(mask, "mask").dtype is not bool_:
        raise RuntimeError(f"masked_select: expected BoolTensor for mask, got {mask._node.type}")
    shape = ew.broadcast_shapes("masked_select", [tuple(input.shape), tuple(mask.shape)])
    wide: Tensor = input.expand(shape)
    return wide[mask.expand(shape)]


def _ordered(input: Tensor, dim: int, descending: bool, what: str) -> np.ndarray[Any, Any]:
    values = input._values(what)
    if not descending:
        return np.argsort(values, axis=dim, kind="stable")
    # Stable and with NaN first: sort the reversed order, then reverse it.
    size = values.shape[dim]
    order: np.ndarray[Any, Any] = size - 1 - np.argsort(np.flip(values, dim), axis=dim, kind="stable")
    return np.ascontiguousarray(np.flip(order, dim))


def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """Indices that sort along `dim`; always stable. Reads values."""
    if not input.ndim:
        return wrap(create.zeros((), int64))
    return wrap(leaf(_ordered(input, dim, descending, "argsort()")))


def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> ValuesIndices:
    """(values, indices) sorted along `dim`; always stable. Reads values."""
    index = argsort(input, dim, descending)
    return ValuesIndices(gather(input, dim, index), index)


def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesIndices:
    """(values, indices) of the k largest or smallest along `dim`, in order. Reads values."""
    node = node_of(input, "input")
    axis = movement.normalize_axis(dim, node.type.ndim)
    if not 0 <= k <= (node.shape[axis] if node.type.ndim else 1):
        raise RuntimeError("selected index k out of range")
    order = argsort(input, dim, descending=largest)
    index = order.narrow(axis, 0, k) if node.type.ndim else order
    return ValuesIndices(gather(input, dim, index), index.contiguous())


def unique(input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False) -> Any:
    """The distinct elements in order; optionally where each element went, and how often. Reads values."""
    values, inverse, counts = np.unique(input._values("unique()"), return_inverse=True, return_counts=True)
    parts = [values] + [inverse.reshape(input.shape)] * return_inverse + [counts] * return_counts
    made = tuple(wrap(leaf(np.ascontiguousarray(p))) for p in parts)
    return made if len(made) > 1 else made[0]


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each non-negative integer occurs. Reads values."""
    scale = None if weights is None else weights._values("bincount()")
    return wrap(leaf(np.bincount(input._values("bincount()"), scale, minlength)))


def searchsorted(sorted_sequence: Tensor, input: Tensor, *, right: bool = False) -> Tensor:
    """Where each element would be inserted into a sorted vector. Reads values."""
    edges, values = sorted_sequence._values("searchsorted()"), input._values("searchsorted()")
    return wrap(leaf(np.asarray(np.searchsorted(edges, values, "right" if right else "left")).astype(np.int64)))


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: DType | None = None) -> Tensor:
    """(2, n) positions of the lower triangle."""
    return wrap(leaf(np.stack(np.tril_indices(row, offset, col)).astype(as_dtype(dtype, int64).numpy)))


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: DType | None = None) -> Tensor:
    """(2, n) positions of the upper triangle."""
    return wrap(leaf(np.stack(np.triu_indices(row, offset, col)).astype(as_dtype(dtype, int64).numpy)))
