"""Gather, scatter and their composites. The ops take int64 indices that `check_index` passed; the builders call it.

`gather` and `scatter_add` / `put` index whole slices along an axis (NumPy's `take`); `take_along` and `put_along_add` /
`put_along` index single elements (NumPy's `take_along_axis`). Assignments with repeated indices: the last one stands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Cost, Kind, Op, moved_bytes, only_bytes, register
from tinygrad_lite.ir.record import record
from tinygrad_lite.ir.types import TensorType, int64
from tinygrad_lite.ops import create, elementwise, movement
from tinygrad_lite.ops.elementwise import check_index
from tinygrad_lite.ops.extremum import MAXIMUM, MINIMUM, Extremum

Array = np.ndarray[Any, Any]

# ---- inference ------------------------------------------------------------------------------------


def _needs_index(name: str, index: TensorType) -> None:
    if index.dtype is not int64:
        raise TypeError(f"{name}: needs an int64 index from check_index, got {index}")


def _taken(table: TensorType, index: TensorType, axis: int) -> tuple[int, ...]:
    return table.shape[:axis] + index.shape + table.shape[axis + 1 :]


def _infer_gather(table: TensorType, index: TensorType, *, axis: int) -> TensorType:
    movement.check_axis("gather", axis, table)
    _needs_index("gather", index)
    return TensorType(table.dtype, _taken(table, index, axis))


def _infer_scatter(name: str) -> Callable[..., TensorType]:
    def infer(base: TensorType, index: TensorType, source: TensorType, *, axis: int) -> TensorType:
        movement.check_axis(name, axis, base)
        _needs_index(name, index)
        if source != TensorType(base.dtype, _taken(base, index, axis)):
            raise RuntimeError(f"{name}: source {source} does not fit base {base} indexed by {index} along axis {axis}")
        return base

    return infer


def _check_along(name: str, x: TensorType, index: TensorType, axis: int) -> None:
    movement.check_axis(name, axis, x)
    _needs_index(name, index)
    if x.ndim != index.ndim or _taken(x, TensorType(int64, ()), axis) != _taken(index, TensorType(int64, ()), axis):
        raise RuntimeError(f"{name}: index {index} must have the shape of {x} but for axis {axis}")


def _infer_take_along(x: TensorType, index: TensorType, *, axis: int) -> TensorType:
    _check_along("take_along", x, index, axis)
    return TensorType(x.dtype, index.shape)


def _infer_put_along(name: str) -> Callable[..., TensorType]:
    def infer(base: TensorType, index: TensorType, source: TensorType, *, axis: int) -> TensorType:
        _check_along(name, base, index, axis)
        if source != TensorType(base.dtype, index.shape):
            raise RuntimeError(f"{name}: source {source} must have the dtype of {base} and the shape of {index}")
        return base

    return infer


def _infer_slice_update(base: TensorType, source: TensorType, **attrs: tuple[int, ...]) -> TensorType:
    part = movement.SLICE.infer(base, **attrs)
    if source != part:
        raise RuntimeError(f"slice_update: source {source} does not fit the slice {part} of {base}")
    return base


# ---- NumPy rules: the base is copied, never written --------------------------------------------------


def _scatter_add(base: Array, index: Array, source: Array, *, axis: int) -> Array:
    out = base.copy()
    np.add.at(np.moveaxis(out, axis, 0), index, np.moveaxis(source, range(axis, axis + index.ndim), range(index.ndim)))
    return out


def _put(base: Array, index: Array, source: Array, *, axis: int) -> Array:
    out = base.copy()
    out[(slice(None),) * axis + (index,)] = source
    return out


def _along(index: Array, axis: int) -> tuple[Array, ...]:
    """The full index of take_along_axis."""
    grid: list[Array] = list(np.indices(index.shape, sparse=True))
    grid[axis] = index
    return tuple(grid)


def _put_along_add(base: Array, index: Array, source: Array, *, axis: int) -> Array:
    out = base.copy()
    np.add.at(out, _along(index, axis), source)
    return out


def _put_along(base: Array, index: Array, source: Array, *, axis: int) -> Array:
    out = base.copy()
    out[_along(index, axis)] = source
    return out


def _slice_update(base: Array, source: Array, **attrs: tuple[int, ...]) -> Array:
    out = base.copy()
    out[movement.as_slices(**attrs)] = source
    return out


def _put_along_mul(base: Array, index: Array, source: Array, *, axis: int) -> Array:
    out = base.copy()
    np.multiply.at(out, _along(index, axis), source)
    return out


def _put_along_extremum(of: Extremum) -> Callable[..., Array]:
    return lambda base, index, source, *, axis: of.put(base, _along(index, axis), source)


# ---- VJPs -------------------------------------------------------------------------------------------


def _vjp_gather(g: Node, node: Node, i: int) -> Node | None:
    table, index = node.inputs
    return record(SCATTER_ADD, create.zeros_like(table), index, g, axis=node.attrs["axis"]) if i == 0 else None


def _vjp_scatter_add(g: Node, node: Node, i: int) -> Node | None:
    if i == 2:
        return record(GATHER, g, node.inputs[1], axis=node.attrs["axis"])
    return g if i == 0 else None


def _vjp_take_along(g: Node, node: Node, i: int) -> Node | None:
    x, index = node.inputs
    return record(PUT_ALONG_ADD, create.zeros_like(x), index, g, axis=node.attrs["axis"]) if i == 0 else None


def _vjp_put_along_add(g: Node, node: Node, i: int) -> Node | None:
    if i == 2:
        return record(TAKE_ALONG, g, node.inputs[1], axis=node.attrs["axis"])
    return g if i == 0 else None


def _vjp_assignment(take: Callable[[], Op], put: Callable[[], Op]) -> Callable[[Node, Node, int], Node | None]:
    """What was overwritten gets nothing, be it the base's or an earlier source's."""

    def vjp(g: Node, node: Node, i: int) -> Node | None:
        _, index, source = node.inputs
        axis = node.attrs["axis"]
        if i == 0:
            return record(put(), g, index, create.zeros_like(source), axis=axis)
        if i == 1:
            return None
        places = movement.reshape(create.arange(source.type.size), source.shape)
        last = record(put(), create.full(g.shape, -1, int64), index, places, axis=axis)
        stands = elementwise.eq(record(take(), last, index, axis=axis), places)
        return elementwise.where(stands, record(take(), g, index, axis=axis), 0.0)

    return vjp


def _vjp_put_along_extremum(g: Node, node: Node, i: int) -> Node | None:
    """Spread evenly over the base's element and the source's that attain the extremum."""
    base, index, source = node.inputs
    axis = node.attrs["axis"]
    if i == 1:
        return None
    mine = elementwise.cast(elementwise.eq(base, node), g.dtype)
    theirs = elementwise.cast(elementwise.eq(source, record(TAKE_ALONG, node, index, axis=axis)), g.dtype)
    share = elementwise.div(g, record(PUT_ALONG_ADD, mine, index, theirs, axis=axis))
    return _only(mine, share) if i == 0 else _only(theirs, record(TAKE_ALONG, share, index, axis=axis))


def _only(hit: Node, g: Node) -> Node:
    return elementwise.where(elementwise.ne(hit, 0.0), g, 0.0)


def _vjp_put_along_mul(g: Node, node: Node, i: int) -> Node | None:
    """Times the product of the others: of a group with one zero only that element gets any."""
    base, index, source = node.inputs
    axis = node.attrs["axis"]
    if i == 0:
        others = record(PUT_ALONG_MUL, create.ones(base.shape, base.dtype), index, source, axis=axis)
        return elementwise.mul(g, others)
    if i == 1:
        return None

    def taken(x: Node) -> Node:
        return record(TAKE_ALONG, x, index, axis=axis)

    zero = elementwise.eq(source, 0.0)
    zeros = record(PUT_ALONG_ADD, create.zeros_like(base), index, elementwise.cast(zero, g.dtype), axis=axis)
    alone = elementwise.logical_and(zero, elementwise.eq(taken(zeros), 1.0))
    without = record(PUT_ALONG_MUL, base, index, elementwise.where(alone, 1.0, source), axis=axis)
    quotient = elementwise.div(taken(elementwise.mul(g, node)), elementwise.where(zero, 1.0, source))
    return elementwise.where(alone, taken(elementwise.mul(g, without)), quotient)


def _vjp_slice_update(g: Node, node: Node, i: int) -> Node:
    if i == 0:
        return record(SLICE_UPDATE, g, create.zeros_like(node.inputs[1]), **node.attrs)
    return record(movement.SLICE, g, **node.attrs)


# ---- the ops ----------------------------------------------------------------------------------------


def _adds(node: Node) -> Cost:
    return Cost(node.inputs[2].type.size, moved_bytes(node))


def _scatter(name: str, infer: Any, rule: Any, vjp: Any, cost: Any = only_bytes) -> Op:
    return register(Op(name, Kind.SCATTER, infer, rule, vjp, None, cost))


GATHER = register(
    Op(
        "gather",
        Kind.GATHER,
        _infer_gather,
        lambda table, index, *, axis: np.take(table, index, axis),
        _vjp_gather,
        None,
        only_bytes,
    )
)
TAKE_ALONG = register(
    Op(
        "take_along",
        Kind.GATHER,
        _infer_take_along,
        lambda x, index, *, axis: np.take_along_axis(x, index, axis),
        _vjp_take_along,
        None,
        only_bytes,
    )
)
SCATTER_ADD = _scatter("scatter_add", _infer_scatter("scatter_add"), _scatter_add, _vjp_scatter_add, _adds)
PUT_ALONG_ADD = _scatter("put_along_add", _infer_put_along("put_along_add"), _put_along_add, _vjp_put_along_add, _adds)
PUT: Op = _scatter("put", _infer_scatter("put"), _put, _vjp_assignment(lambda: GATHER, lambda: PUT))
PUT_ALONG: Op = _scatter(
    "put_along", _infer_put_along("put_along"), _put_along, _vjp_assignment(lambda: TAKE_ALONG, lambda: PUT_ALONG)
)
PUT_ALONG_MUL: Op = _scatter(
    "put_along_mul", _infer_put_along("put_along_mul"), _put_along_mul, _vjp_put_along_mul, _adds
)
PUT_ALONG_MAX, PUT_ALONG_MIN = (
    _scatter(name, _infer_put_along(name), _put_along_extremum(of), _vjp_put_along_extremum, _adds)
    for name, of in (("put_along_max", MAXIMUM), ("put_along_min", MINIMUM))
)
SLICE_UPDATE = _scatter("slice_update", _infer_slice_update, _slice_update, _vjp_slice_update)

# ---- builders: indices are any integer dtype and are checked here -------------------------------------


def gather(table: Node, index: Node, axis: int = 0, wrap: bool = False) -> Node:
    """Slices of `table` along `axis`: shape table.shape[:axis] + index.shape + table.shape[axis + 1:]."""
    axis = movement.normalize_axis(axis, table.type.ndim)
    return record(GATHER, table, check_index(index, table.shape[axis], wrap), axis=axis)


def scatter_add(base: Node, index: Node, source: Node, axis: int = 0, wrap: bool = False) -> Node:
    """`base` plus each slice of `source` at its index along `axis`; repeated indices add up."""
    axis = movement.normalize_axis(axis, base.type.ndim)
    return record(SCATTER_ADD, base, check_index(index, base.shape[axis], wrap), source, axis=axis)


def put(base: Node, index: Node, source: Node, axis: int = 0, wrap: bool = False) -> Node:
    """`base` with its slices at `index` along `axis` replaced."""
    axis = movement.normalize_axis(axis, base.type.ndim)
    return record(PUT, base, check_index(index, base.shape[axis], wrap), source, axis=axis)


def take_along(x: Node, index: Node, axis: int, wrap: bool = False) -> Node:
    """out[i…] = x[…index[i…]…] along `axis` (torch.gather): index may be smaller than x on the other axes."""
    if not x.type.ndim and not index.type.ndim:  # PyTorch reads scalars as vectors of one
        return movement.reshape(take_along(movement.reshape(x, (1,)), movement.reshape(index, (1,)), axis, wrap), ())
    axis = movement.normalize_axis(axis, x.type.ndim)
    x = _cut_to(x, index, axis)
    return record(TAKE_ALONG, x, check_index(index, x.shape[axis], wrap), axis=axis)


def _cut_to(x: Node, index: Node, axis: int) -> Node:
    stops = _common(x, index, axis)
    return movement.slice_(x, (0,) * len(stops), stops)


def _common(x: Node, index: Node, axis: int) -> tuple[int, ...]:
    """x's shape cut to the index's on all axes but one; RuntimeError where the index is larger."""
    if x.type.ndim != index.type.ndim:
        raise RuntimeError(f"index must have the same number of dimensions as {x.type}, got {index.type}")
    if any(t > s for a, (s, t) in enumerate(zip(x.shape, index.shape, strict=True)) if a != axis):
        raise RuntimeError(f"index {index.type} must not exceed {x.type} apart from dimension {axis}")
    return tuple(s if a == axis else t for a, (s, t) in enumerate(zip(x.shape, index.shape, strict=True)))


def put_along(base: Node, index: Node, source: Node, axis: int, wrap: bool = False) -> Node:
    """base[…index[i…]…] = source[i…] along `axis` (torch.scatter)."""
    return _along_axis(PUT_ALONG, base, index, source, axis, wrap)


def put_along_add(base: Node, index: Node, source: Node, axis: int, wrap: bool = False) -> Node:
    """base[…index[i…]…] += source[i…] along `axis` (torch.scatter_add)."""
    return _along_axis(PUT_ALONG_ADD, base, index, source, axis, wrap)


_COMBINING = {"sum": PUT_ALONG_ADD, "prod": PUT_ALONG_MUL, "amax": PUT_ALONG_MAX, "amin": PUT_ALONG_MIN}


def put_along_with(how: str, base: Node, index: Node, source: Node, axis: int) -> Node:
    """base[…index[i…]…] combined with source[i…] along `axis`; `how` is sum, prod, amax or amin."""
    return _along_axis(_COMBINING[how], base, index, source, axis, False)


def _along_axis(op: Op, base: Node, index: Node, source: Node, axis: int, wrap: bool) -> Node:
    axis = movement.normalize_axis(axis, base.type.ndim)
    stops = _common(base, index, axis)
    if source.type.ndim != index.type.ndim or any(t > s for s, t in zip(source.shape, index.shape, strict=True)):
        raise RuntimeError(f"{op.name}: index {index.type} must not exceed source {source.type}")
    zeros = (0,) * len(stops)
    part, source = movement.slice_(base, zeros, stops), movement.slice_(source, zeros, index.shape)
    done = record(op, part, check_index(index, base.shape[axis], wrap), source, axis=axis)
    return done if part is base else slice_update(base, done, zeros, stops)


def slice_update(
    base: Node, source: Node, starts: Sequence[int], stops: Sequence[int], steps: Sequence[int] | None = None
) -> Node:
    """`base` with base[starts:stops:steps] replaced by `source`, which is converted and broadcast."""
    starts, stops = tuple(map(int, starts)), tuple(map(int, stops))
    steps = (1,) * len(starts) if steps is None else tuple(map(int, steps))
    source = _fitted(source, base, movement.sliced_shape(starts, stops, steps))
    return record(SLICE_UPDATE, base, source, starts=starts, stops=stops, steps=steps)


def _fitted(source: Node, base: Node, shape: tuple[int, ...]) -> Node:
    """What is assigned takes the base's dtype and the place's shape; leading axes of size 1 may be too many."""
    source = elementwise.cast(source, base.dtype)
    extra = source.type.ndim - len(shape)
    if extra > 0 and all(s == 1 for s in source.shape[:extra]):
        source = movement.reshape(source, source.shape[extra:])
    if elementwise.broadcast_shapes("assignment", [source.shape, shape]) != shape:
        raise RuntimeError(f"assignment: value of shape {list(source.shape)} does not fit the place {list(shape)}")
    return movement.broadcast_to(source, shape)


# ---- advanced indexing --------------------------------------------------------------------------------


def index_nd(x: Node, indices: Sequence[Node | None]) -> Node:
    """x[i0, :, i2, …] with integer tensors and None for a whole axis; negative indices count from the end.

    The indices broadcast together; their axes stand where the first index did when the indexed axes are neighbours,
    else in front (NumPy's rule).
    """
    merged, index, axis, _ = _merge_indexed(x, indices)
    return record(GATHER, merged, index, axis=axis)


def index_put_nd(x: Node, indices: Sequence[Node | None], source: Node, accumulate: bool = False) -> Node:
    """x with x[i0, :, i2, …] replaced by `source`, or increased by it."""
    merged, index, axis, order = _merge_indexed(x, indices)
    source = _fitted(source, x, _taken(merged.type, index.type, axis))
    done = record(SCATTER_ADD if accumulate else PUT, merged, index, source, axis=axis)
    back = movement.reshape(done, [x.shape[a] for a in order])
    return movement.permute(back, sorted(range(len(order)), key=order.__getitem__))


def _merge_indexed(x: Node, indices: Sequence[Node | None]) -> tuple[Node, Node, int, list[int]]:
    """x with its indexed axes merged into one, the checked linear index into that, its axis, and the axes' order."""
    if len(indices) > x.type.ndim:
        raise IndexError(f"too many indices for tensor of dimension {x.type.ndim}, got {len(indices)}")
    named = [(a, i) for a, i in enumerate(indices) if i is not None]
    if not named:
        raise IndexError("index_nd: at least one index tensor is needed")
    axes = [a for a, _ in named]
    first = axes[0] if axes[-1] - axes[0] == len(axes) - 1 else 0
    rest = [a for a in range(x.type.ndim) if a not in axes]
    order = rest[:first] + axes + rest[first:]
    size = math.prod(x.shape[a] for a in axes)
    merged = [x.shape[a] for a in rest[:first]] + [size] + [x.shape[a] for a in rest[first:]]
    return movement.reshape(movement.permute(x, order), merged), _linear_index(x, named), first, order


def _linear_index(x: Node, named: list[tuple[int, Node]]) -> Node:
    """Row-major position among the indexed axes."""
    try:
        shape = elementwise.broadcast_shapes("index", [i.shape for _, i in named])
    except RuntimeError as error:
        raise IndexError(f"shape mismatch: indexing tensors could not be broadcast together: {error}") from None
    total: Node | None = None
    for axis, index in named:
        part = movement.broadcast_to(check_index(index, x.shape[axis], wrap=True), shape)
        total = part if total is None else elementwise.add(elementwise.mul(total, x.shape[axis]), part)
    assert total is not None
    return total
