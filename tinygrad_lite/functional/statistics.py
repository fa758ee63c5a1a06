"""Order statistics and running reductions: median, quantile, mode, cumsum and the like."""

from __future__ import annotations

import math
from typing import Any

from tinygrad_lite.functional.common import Scalar, as_dtype, fresh, node_of, unwrap, wrap
from tinygrad_lite.functional.reduction import ValuesIndices
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.types import DType, int64
from tinygrad_lite.ops import cumulate, indexing, movement, reduce, sorting, special
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops.graft import graft

__all__ = [
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_trapezoid",
    "diff",
    "logcumsumexp",
    "median",
    "mode",
    "nanmedian",
    "nanquantile",
    "quantile",
    "trapezoid",
    "trapz",
]

# ---- running reductions ---------------------------------------------------------------------------------------


def _running(build: Any, input: Tensor, dim: int, dtype: DType | None) -> Tensor:
    node = node_of(input, "input")
    result = build(node if dtype is None else ew.cast(node, as_dtype(dtype)), dim)
    return fresh(result if dtype is None else ew.cast(result, as_dtype(dtype)), node)


def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """Running sums along `dim`; integers and bools add up in int64, float32 in float64."""
    return _running(cumulate.cumsum, input, dim, dtype)


def cumprod(input: Tensor, dim: int, *, dtype: DType | None = None) -> Tensor:
    """Running products along `dim`; gradients are exact also where elements are 0."""
    return _running(cumulate.cumprod, input, dim, dtype)


def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """log of the running sums of exp(x) along `dim`, without overflow. RuntimeError unless floating."""
    node = node_of(input, "input")
    return fresh(cumulate.logcumsumexp(node, dim), node)


def cummax(input: Tensor, dim: int) -> ValuesIndices:
    """(values, indices) of the largest element so far along `dim`; of equals the last, which has the gradient."""
    node = node_of(input, "input")
    values, index = cumulate.cummax(node, dim)
    return ValuesIndices(fresh(values, node), wrap(index))


def cummin(input: Tensor, dim: int) -> ValuesIndices:
    """(values, indices) of the smallest element so far along `dim`; of equals the last, which has the gradient."""
    node = node_of(input, "input")
    values, index = cumulate.cummin(node, dim)
    return ValuesIndices(fresh(values, node), wrap(index))


def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Differences of neighbours along `dim`, taken n times; of bools where they differ. RuntimeError for n < 0."""
    node = node_of(input, "input")
    if n < 0:
        raise RuntimeError(f"diff: order must be non-negative but got {n}")
    if not node.type.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    axis = movement.normalize_axis(dim, node.type.ndim)
    if n == 0:
        return fresh(node, node)
    ends = [None if end is None else node_of(end, "prepend or append") for end in (prepend, append)]
    parts = [part for part in (ends[0], node, ends[1]) if part is not None]
    node = movement.concat(parts, axis) if len(parts) > 1 else node
    for _ in range(min(n, node.shape[axis])):
        length = node.shape[axis] - 1
        later, earlier = movement.narrow(node, axis, 1, length), movement.narrow(node, axis, 0, length)
        node = ew.ne(later, earlier) if node.dtype.kind == "b" else ew.sub(later, earlier)
    return fresh(node, input._read())


def _areas(y: Tensor, x: Tensor | None, dx: Scalar, dim: int) -> Node:
    """Of the trapezoids between neighbours along `dim`."""
    node = node_of(y, "y")
    axis = movement.normalize_axis(dim, node.type.ndim)
    n = node.shape[axis]
    heights = ew.add(movement.narrow(node, axis, 1, n - 1), movement.narrow(node, axis, 0, n - 1))
    if x is None:
        return ew.mul(heights, dx / 2)
    points = node_of(x, "x")
    if points.type.ndim == 1:
        points = movement.reshape(points, [-1 if a == axis else 1 for a in range(node.type.ndim)])
    axis = axis - node.type.ndim + points.type.ndim
    m = points.shape[axis]
    widths = ew.sub(movement.narrow(points, axis, 1, m - 1), movement.narrow(points, axis, 0, m - 1))
    return ew.div(ew.mul(widths, heights), 2.0)


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Scalar = 1, dim: int = -1) -> Tensor:
    """The integral of y along `dim` by the trapezoidal rule, over points x or steps dx."""
    return wrap(reduce.sum(_areas(y, x, dx, dim), dim))


trapz = trapezoid


def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Scalar = 1, dim: int = -1) -> Tensor:
    """The running integral of y along `dim` by the trapezoidal rule."""
    return wrap(cumulate.cumsum(_areas(y, x, dx, dim), dim))


# ---- order statistics ---------------------------------------------------------------------------------------


def _rows(input: Tensor, dim: int | None) -> tuple[Node, int]:
    """The node to take statistics of and its axis; a flat one where `dim` is None."""
    node = node_of(input, "input")
    if dim is not None and node.type.ndim:
        return node, movement.normalize_axis(dim, node.type.ndim)
    if dim is not None:
        movement.normalize_axis(dim, 0)
    return movement.reshape(node, (node.type.size,)), 0


def _moved(x: Node, source: int, target: int) -> Node:
    """Axis `source` in place `target`, the others in their order."""
    order = [a for a in range(x.type.ndim) if a != source]
    order.insert(target, source)
    return movement.permute(x, order)


def _is_nan(x: Node) -> Node:
    return ew.ne(x, x)


def median(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower of the middle elements; with `dim`, (values, indices) along it. NaN if there is one.

    Without `dim` elements equal to the median share its gradient, along `dim` the element found has it.
    """
    return _median(input, dim, keepdim, skip=False)


def nanmedian(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    """`median` of the elements that are not NaN."""
    return _median(input, dim, keepdim, skip=True)


def _median(input: Tensor, dim: int | None, keepdim: bool, skip: bool) -> Any:
    x, axis = _rows(input, dim)
    if x.dtype.kind == "b":
        raise RuntimeError(f"median(): not defined for bool tensors, got {x.type}")
    if not x.shape[axis]:
        if dim is None and x.dtype.kind == "f":
            return wrap(ew.mul(reduce.sum(x), math.nan))
        raise IndexError(f"median(): Expected reduction dim {dim} to have non-zero size, got {x.type}")
    index = _middle(x, axis, skip)
    values = indexing.take_along(x, index, axis)
    if dim is None:
        return wrap(_shared(movement.reshape(x, (-1,)), movement.reshape(values, ())))
    if not keepdim or not input.ndim:
        values, index = movement.squeeze(values, axis), movement.squeeze(index, axis)
    return ValuesIndices(wrap(values), wrap(index))


def _middle(x: Node, axis: int, skip: bool) -> Node:
    """Where the lower middle element stands along the axis, which is kept."""
    _, order = sorting.sort(x, axis)
    n = x.shape[axis]
    if x.dtype.kind != "f":
        return movement.narrow(order, axis, (n - 1) // 2, 1)
    found = movement.narrow(order, axis, (n - 1) // 2, 1)
    if skip:
        count = reduce.sum(ew.eq(x, x), axis, keepdim=True)
        at = ew.floor_divide(ew.sub(ew.maximum(count, 1), 1), 2)
        return indexing.take_along(order, at, axis)
    bad = _is_nan(x)
    first = reduce.argmax(ew.cast(bad, int64), axis, keepdim=True)
    return ew.where(reduce.any(bad, axis, keepdim=True), first, found)


def _shared(x: Node, value: Node) -> Node:
    """`value`, whose gradient all elements equal to it share."""
    if x.dtype.kind != "f":
        return value
    value = ew.detach(value)
    hit = ew.logical_or(ew.eq(x, value), ew.logical_and(_is_nan(x), _is_nan(value)))
    count = reduce.sum(ew.cast(hit, x.dtype))
    return graft(value, ew.div(reduce.sum(ew.where(hit, x, 0.0)), count))


def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> ValuesIndices:
    """(values, indices) of the most frequent element along `dim`, the smallest of several, where it last stands.

    Compares all pairs of a row.
    """
    x, axis = _rows(input, dim)
    if not x.shape[axis]:
        raise IndexError(f"mode(): Expected reduction dim {dim} to have non-zero size, got {x.type}")
    moved = _moved(x, axis, x.type.ndim - 1)
    same = ew.eq(movement.unsqueeze(moved, -1), movement.unsqueeze(moved, -2))
    count = reduce.sum(same, -1)
    most = ew.eq(count, reduce.max(count, -1, keepdim=True))
    _, order = sorting.sort(moved, -1)
    ranked = indexing.take_along(ew.cast(most, int64), order, -1)
    first = indexing.take_along(order, reduce.argmax(ranked, -1, keepdim=True), -1)
    chosen = ew.eq(moved, indexing.take_along(moved, first, -1))
    flipped = movement.flip(ew.cast(chosen, int64), (moved.type.ndim - 1,))
    last = ew.sub(moved.shape[-1] - 1, reduce.argmax(flipped, -1, keepdim=True))
    index = _moved(last, x.type.ndim - 1, axis)
    values = indexing.take_along(x, index, axis)
    if not keepdim or not input.ndim:
        values, index = movement.squeeze(values, axis), movement.squeeze(index, axis)
    return ValuesIndices(wrap(values), wrap(index))


def quantile(
    input: Tensor,
    q: float | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """The q-th quantiles along `dim` (all elements by default), between neighbours by `interpolation`.

    q is a number or a vector in [0, 1]; a vector adds a first axis. A row with NaN gives NaN.

    Raises:
        RuntimeError: not float32 or float64; q of another dtype, of more axes or out of [0, 1]; nothing to order.
        ValueError: another interpolation than linear, lower, higher, midpoint, nearest.
    """
    return _quantile(input, q, dim, keepdim, interpolation, skip=False)


def nanquantile(
    input: Tensor,
    q: float | Tensor,
    dim: int | None = None,
    keepdim: bool = False,
    *,
    interpolation: str = "linear",
) -> Tensor:
    """`quantile` of the elements that are not NaN."""
    return _quantile(input, q, dim, keepdim, interpolation, skip=True)


_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(
    input: Tensor, q: float | Tensor, dim: int | None, keepdim: bool, interpolation: str, skip: bool
) -> Tensor:
    x, axis = _rows(input, dim)
    shares = _shares(x, q, interpolation)
    vector = shares.type.ndim == 1
    moved = _moved(x, axis, x.type.ndim - 1)
    values, _ = sorting.sort(moved, -1)
    ranks = _ranks(moved, movement.reshape(shares, (-1,)), skip)  # (rows…, quantiles)
    found = _between(values, ranks, interpolation)
    found = _moved(found, found.type.ndim - 1, 0)
    if keepdim:
        kept = [1 if dim is None or a == axis else n for a, n in enumerate(input.shape)]
        found = movement.reshape(found, (found.shape[0], *kept))
    elif dim is None or x.type.ndim == 1:
        found = movement.reshape(found, (-1,))
    return wrap(found if vector else movement.squeeze(found, 0))


def _shares(x: Node, q: float | Tensor, interpolation: str) -> Node:
    if x.dtype.kind != "f" or x.dtype.is_half:
        raise RuntimeError(f"quantile() input tensor must be either float or double dtype, got {x.type}")
    if not x.type.size:
        raise RuntimeError(f"quantile() input tensor must be non-empty, got {x.type}")
    if interpolation not in _INTERPOLATIONS:
        raise ValueError(f"quantile() interpolation must be one of {', '.join(_INTERPOLATIONS)}, got {interpolation!r}")
    shares = unwrap(q)
    node = shares if isinstance(shares, Node) else ew.as_node(float(shares), x.dtype)
    if node.dtype is not x.dtype or node.type.ndim > 1:
        raise RuntimeError(f"quantile() q must be a scalar or a vector of the input's dtype, got {node.type}")
    if node.value is not None and not ((node.value >= 0) & (node.value <= 1)).all():
        raise RuntimeError("quantile() q values must be in the range [0, 1]")
    return node


def _ranks(x: Node, shares: Node, skip: bool) -> Node:
    """Positions in the sorted rows: of the rows that hold NaN the last one, which is NaN."""
    last = x.shape[-1] - 1
    if skip:
        count = reduce.sum(ew.cast(ew.eq(x, x), x.dtype), -1, keepdim=True)
        ranks = ew.mul(shares, ew.sub(count, 1.0))
        return ew.where(ew.lt(ranks, 0.0), 0.0, ranks)
    ranks = ew.mul(shares, float(last))
    return ew.where(reduce.any(_is_nan(x), -1, keepdim=True), float(last), ranks)


def _between(values: Node, ranks: Node, interpolation: str) -> Node:

    if interpolation == "lower":
        ranks = ew.floor(ranks)
    elif interpolation == "higher":
        ranks = special.ceil(ranks)
    elif interpolation == "nearest":
        ranks = special.round(ranks)
    below = ew.floor(ranks)
    low = indexing.take_along(values, ew.cast(below, int64), -1)
    if interpolation not in ("linear", "midpoint"):
        return low
    high = indexing.take_along(values, ew.cast(special.ceil(ranks), int64), -1)
    weight: Any = 0.5 if interpolation == "midpoint" else ew.sub(ranks, below)
    near = ew.add(low, ew.mul(ew.sub(high, low), weight))
    if interpolation == "midpoint":
        return near
    far = ew.sub(high, ew.mul(ew.sub(high, low), ew.sub(1.0, weight)))
    return ew.where(ew.lt(weight, 0.5), near, far)
