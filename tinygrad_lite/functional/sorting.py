"""Order, search and counting. `unique`, `bincount` and the like, whose results' sizes depend on values, read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tinygrad_lite.functional.common import Scalar, fresh, node_of, unwrap, wrap
from tinygrad_lite.functional.reduction import ValuesIndices
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import leaf
from tinygrad_lite.ir.types import float32, float64, int32, int64
from tinygrad_lite.ops import create, indexing, movement, reduce, sorting
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops.promote import result_type

__all__ = [
    "argsort",
    "bincount",
    "bucketize",
    "histc",
    "histogram",
    "isin",
    "kthvalue",
    "msort",
    "searchsorted",
    "sort",
    "topk",
    "unique",
    "unique_consecutive",
]

# ---- order --------------------------------------------------------------------------------------------------


def argsort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> Tensor:
    """Indices that sort along `dim`; always stable. NaN is the greatest."""
    return wrap(sorting.argsort(node_of(input, "input"), dim, bool(descending)))


def sort(input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False) -> ValuesIndices:
    """(values, indices) sorted along `dim`; always stable, so that of equals the first keeps its gradient's place."""
    node = node_of(input, "input")
    values, index = sorting.sort(node, dim, bool(descending))
    return ValuesIndices(fresh(values, node), wrap(index))


def msort(input: Tensor) -> Tensor:
    """Sorted along the first dim."""
    return sort(input, 0).values


def topk(input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> ValuesIndices:
    """(values, indices) of the k largest or smallest along `dim`, in order; of equals the first."""
    node = node_of(input, "input")
    axis = movement.normalize_axis(dim, node.type.ndim)
    if not 0 <= k <= (node.shape[axis] if node.type.ndim else 1):
        raise RuntimeError(f"topk: selected index k out of range: {k} of {node.type} along dim {dim}")
    if not node.type.ndim:
        return (
            sort(input) if k else ValuesIndices(wrap(create.zeros((0,), node.dtype)), wrap(create.zeros((0,), int64)))
        )
    values, index = sorting.sort(node, axis, bool(largest))
    return ValuesIndices(*(wrap(movement.narrow(part, axis, 0, k)) for part in (values, index)))


def kthvalue(input: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """(values, indices) of the k-th smallest along `dim`, counted from 1."""
    node = node_of(input, "input")
    axis = movement.normalize_axis(dim, node.type.ndim)
    if not 1 <= k <= (node.shape[axis] if node.type.ndim else 1):
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {dim}: {k} of {node.type}")
    if not node.type.ndim:
        return sort(input)
    picked = [movement.narrow(part, axis, k - 1, 1) for part in sorting.sort(node, axis)]
    return ValuesIndices(*(wrap(p if keepdim else movement.squeeze(p, axis)) for p in picked))


# ---- search -------------------------------------------------------------------------------------------------


def searchsorted(
    sorted_sequence: Tensor,
    input: Tensor | Scalar,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Where each element would go in a sorted vector, or in the row of `sorted_sequence` that stands beside its own.

    Args:
        right, side: after equals ("right") rather than before them ("left").
        sorter: indices that sort `sorted_sequence`, where it is not sorted itself.

    Raises:
        RuntimeError: shapes that do not fit; side against right.
    """
    edges = node_of(sorted_sequence, "sorted_sequence")
    if side not in (None, "left", "right") or (side == "left" and right):
        raise RuntimeError(f"searchsorted: side must be 'left' or 'right' and agree with right={right}, got {side!r}")
    if sorter is not None:
        edges = _in_order(edges, node_of(sorter, "sorter"))
    values = unwrap(input)
    dtype = result_type([edges, values])
    edges, values = ew.cast(edges, dtype), ew.cast(ew.as_node(values, dtype), dtype)
    if not edges.type.ndim or (edges.type.ndim > 1 and edges.shape[:-1] != values.shape[:-1]):
        raise RuntimeError(f"searchsorted: boundaries {edges.type} must be a vector or have the rows of {values.type}")
    found = sorting.searchsorted(edges, values, right or side == "right")
    return wrap(ew.cast(found, int32) if out_int32 else found)


def _in_order(edges: Node, sorter: Node) -> Node:
    if sorter.shape != edges.shape or sorter.dtype is not int64:
        raise RuntimeError(f"searchsorted: sorter must be int64 of the shape of {edges.type}, got {sorter.type}")
    return indexing.take_along(edges, sorter, -1)


def bucketize(input: Tensor | Scalar, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The bucket of each element between sorted boundaries: as searchsorted(boundaries, input)."""
    if node_of(boundaries, "boundaries").type.ndim != 1:
        raise RuntimeError(f"bucketize: boundaries must be a vector, got {boundaries._node.type}")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def isin(
    elements: Tensor | Scalar, test_elements: Tensor | Scalar, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Whether each element is one of `test_elements`. `assume_unique` changes nothing."""
    given = [unwrap(elements), unwrap(test_elements)]
    dtype = result_type(given)
    x, tests = (ew.cast(ew.as_node(n, dtype), dtype) for n in given)
    flat = movement.reshape(tests, (tests.type.size,))
    if not flat.shape[0]:
        return wrap(create.full(x.shape, bool(invert)))
    ordered, _ = sorting.sort(flat, 0)
    place = ew.minimum(sorting.searchsorted(ordered, x), flat.shape[0] - 1)
    found = ew.eq(indexing.gather(ordered, place), x)
    return wrap(ew.logical_not(found) if invert else found)


# ---- counts -------------------------------------------------------------------------------------------------


class Histogram(NamedTuple):
    """Counts, and the edges of their bins."""

    hist: Tensor
    bin_edges: Tensor


def histc(input: Tensor, bins: int = 100, min: Scalar = 0, max: Scalar = 0) -> Tensor:
    """How many elements lie in each of `bins` equal bins of [min, max], by default between the extremes of the data."""
    node = node_of(input, "input")
    if node.dtype.kind != "f":
        raise RuntimeError(f"histc: not implemented for {node.type}")
    if bins <= 0:
        raise RuntimeError(f"histc: bins must be > 0, got {bins}")
    if min > max:
        raise RuntimeError(f"histc: max must be larger than min, got {min} and {max}")
    low, high = (ew.as_node(v, node.dtype) for v in (float(min), float(max)))
    if min == max:
        low, high = (reduce.min(node), reduce.max(node)) if node.type.size else (low, high)
        same = ew.eq(low, high)
        low, high = ew.sub(low, ew.cast(same, node.dtype)), ew.add(high, ew.cast(same, node.dtype))
    place = ew.floor(ew.div(ew.mul(ew.sub(node, low), float(bins)), ew.sub(high, low)))
    inside = ew.logical_and(ew.ge(node, low), ew.le(node, high))
    return wrap(_counted(ew.minimum(place, float(bins - 1)), inside, None, bins, node))


def _counted(place: Node, inside: Node, weight: Node | None, bins: int, like: Node) -> Node:
    """Σ of weights (1 by default) a bin; what is not inside goes to a bin that is dropped."""
    index = ew.cast(ew.where(inside, place, place.dtype.numpy.type(bins).item()), int64)
    flat = movement.reshape(index, (index.type.size,))
    added = create.ones(flat.shape, like.dtype) if weight is None else movement.reshape(weight, flat.shape)
    return movement.narrow(indexing.scatter_add(create.zeros((bins + 1,), like.dtype), flat, added), 0, 0, bins)


def histogram(
    input: Tensor,
    bins: int | Tensor,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> Histogram:
    """(hist, bin_edges): counts, or sums of `weight`, between edges or in equal bins of `range`; the last is closed.

    Args:
        density: divide by the total and by the bins' widths.

    Raises:
        RuntimeError: not floating, another dtype of bins, a weight of another shape, fewer than one bin.
    """
    node = node_of(input, "input")
    if node.dtype.kind != "f":
        raise RuntimeError(f"histogram: not implemented for {node.type}")
    scale = None if weight is None else node_of(weight, "weight")
    if scale is not None and scale.type != node.type:
        raise RuntimeError(f"histogram: weight must be of type {node.type}, got {scale.type}")
    edges = node_of(bins, "bins") if isinstance(bins, Tensor) else _even_edges(node, bins, range)
    if edges.type.ndim != 1 or edges.shape[0] < 2 or edges.dtype is not node.dtype:
        raise RuntimeError(
            f"histogram: bins must be a vector of 2 or more edges of dtype {node.dtype}, got {edges.type}"
        )
    count = edges.shape[0] - 1
    last = movement.reshape(movement.narrow(edges, 0, count, 1), ())
    first = movement.reshape(movement.narrow(edges, 0, 0, 1), ())
    place = ew.minimum(ew.sub(sorting.searchsorted(edges, node, right=True), 1), count - 1)
    inside = ew.logical_and(ew.ge(node, first), ew.le(node, last))
    hist = _counted(place, inside, scale, count, node)
    if density:
        widths = ew.sub(movement.narrow(edges, 0, 1, count), movement.narrow(edges, 0, 0, count))
        hist = ew.div(ew.div(hist, reduce.sum(hist)), widths)
    return Histogram(wrap(hist), wrap(edges))


def _even_edges(node: Node, bins: int, span: Sequence[float] | None) -> Node:
    if bins < 1:
        raise RuntimeError(f"histogram: bins must be > 0, got {bins}")
    if span is not None:
        if len(span) != 2 or not span[0] <= span[1]:
            raise RuntimeError(f"histogram: range must be (low, high), got {span}")
        low, high = (ew.as_node(float(v), node.dtype) for v in span)
    else:
        ends = (reduce.min(node), reduce.max(node)) if node.type.size else (0.0, 1.0)
        low, high = (ew.as_node(v, node.dtype) for v in ends)
    same = ew.cast(ew.eq(low, high), node.dtype)
    low, high = ew.sub(low, ew.mul(same, 0.5)), ew.add(high, ew.mul(same, 0.5))
    step = ew.div(ew.sub(high, low), float(bins))
    inner = ew.add(ew.mul(create.arange(0.0, float(bins), dtype=node.dtype), step), low)
    return movement.concat([inner, movement.reshape(high, (1,))])


def bincount(input: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    """How often each non-negative integer occurs, or the sum of its weights. Reads values.

    Raises:
        RuntimeError: not a vector of non-negative integers; weights of another shape; a negative minlength.
    """
    node = node_of(input, "input")
    if node.dtype.kind not in "iu" or (node.type.ndim != 1 and node.type.size):
        raise RuntimeError(f"bincount only supports 1-d non-negative integral inputs, got {node.type}")
    if minlength < 0:
        raise RuntimeError(f"bincount: minlength should be >= 0, got {minlength}")
    values = input._values("bincount()").reshape(-1)
    if values.size and values.min() < 0:
        raise RuntimeError(f"bincount only supports 1-d non-negative integral inputs, got {values.min()}")
    length = max(minlength, int(values.max()) + 1 if values.size else 0)
    if weights is None:
        return wrap(leaf(np.bincount(values, minlength=length).astype(np.int64)))
    scale = node_of(weights, "weights")
    if scale.shape != (values.size,):
        raise RuntimeError(f"bincount: weights should have the shape of input {node.type}, got {scale.type}")
    scale = scale if scale.dtype is float32 else ew.cast(scale, float64)
    return wrap(indexing.scatter_add(create.zeros((length,), scale.dtype), node, scale))


# ---- distinct elements ----------------------------------------------------------------------------------------


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements (or slices along `dim`) in order; optionally where each went, how often. Reads values."""
    values = input._values("unique()")
    axis = None if dim is None else movement.normalize_axis(dim, input.ndim)
    found, inverse, counts = np.unique(values, return_inverse=True, return_counts=True, axis=axis, equal_nan=False)
    inverse = inverse.reshape(-1 if axis is not None else values.shape)
    return _parts(found, inverse, counts, return_inverse, return_counts)


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of each run of equals (elements or slices along `dim`); optionally numbers, lengths. Reads values."""
    values = input._values("unique_consecutive()")
    axis = 0 if dim is None else movement.normalize_axis(dim, input.ndim)
    rows = values.reshape(-1) if dim is None else np.moveaxis(values, axis, 0)
    new = np.ones(len(rows), bool)
    if len(rows):
        differs = rows[1:] != rows[:-1]
        new[1:] = differs.reshape(len(rows) - 1, -1).any(1) if len(rows) > 1 else new[1:]
    starts = np.flatnonzero(new)
    inverse = np.cumsum(new) - 1
    counts = np.diff(np.append(starts, len(rows)))
    inverse = inverse.reshape(values.shape) if dim is None else inverse
    return _parts(np.moveaxis(rows[starts], 0, axis), inverse, counts, return_inverse, return_counts)


def _parts(found: Any, inverse: Any, counts: Any, return_inverse: bool, return_counts: bool) -> Any:
    parts = [found] + [inverse.astype(np.int64)] * return_inverse + [counts.astype(np.int64)] * return_counts
    made = tuple(wrap(leaf(np.ascontiguousarray(p))) for p in parts)
    return made if len(made) > 1 else made[0]
