"""Pooling: reductions over windows, which are views and are never copied.

Windows are reduced with the last spatial axis innermost, so that kernels compare or add whole rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import mode
from tinygrad_lite.ir.types import int32, int64
from tinygrad_lite.ops import create, elementwise, indexing, movement, reduce
from tinygrad_lite.ops.conv import padded
from tinygrad_lite.ops.graft import graft
from tinygrad_lite.ops.leaf import constant
from tinygrad_lite.ops.window import window

Ints = tuple[int, ...]


class Pool:
    """How windows lie over the last axes of an input: sizes, steps, what is padded, and how many there are."""

    def __init__(
        self,
        name: str,
        shape: Ints,
        sizes: Ints,
        steps: Ints,
        padding: Ints,
        dilations: Ints,
        ceil_mode: bool = False,
    ) -> None:
        self.name, self.sizes, self.steps, self.padding, self.dilations = name, sizes, steps, padding, dilations
        self.dims = len(sizes)
        self.lengths = shape[len(shape) - self.dims :]
        self.lead = shape[: len(shape) - self.dims]
        self._check()
        self.counts = tuple(self._count(i, ceil_mode) for i in range(self.dims))
        if min(self.counts, default=1) < 1:
            raise RuntimeError(
                f"{name}: output size {list(self.counts)} of input size {list(self.lengths)} is too small"
            )

    def _check(self) -> None:
        for what, values in (("kernel_size", self.sizes), ("stride", self.steps), ("dilation", self.dilations)):
            if min(values) < 1:
                raise RuntimeError(f"{self.name}: {what} should be greater than zero, got {list(values)}")
        if any(p < 0 or p > self.extent(i) // 2 for i, p in enumerate(self.padding)):
            raise RuntimeError(
                f"{self.name}: pad should be at most half of effective kernel size and not negative, "
                f"got padding {list(self.padding)} for kernel_size {list(self.sizes)}"
            )

    def extent(self, i: int) -> int:
        return self.dilations[i] * (self.sizes[i] - 1) + 1

    def _count(self, i: int, ceil_mode: bool) -> int:
        room = self.lengths[i] + 2 * self.padding[i] - self.extent(i)
        if not ceil_mode:
            return room // self.steps[i] + 1
        count = -(-room // self.steps[i]) + 1
        starts_outside = (count - 1) * self.steps[i] >= self.lengths[i] + self.padding[i]
        return count - starts_outside

    @property
    def amounts(self) -> list[tuple[int, int]]:
        """What is added before and after each axis; ceil_mode may reach beyond the padding."""
        ends = [(c - 1) * s + self.extent(i) for i, (c, s) in enumerate(zip(self.counts, self.steps, strict=True))]
        return [(p, max(e - p - n, 0)) for p, e, n in zip(self.padding, ends, self.lengths, strict=True)]

    def windows(self, x: Node, value: float | int) -> Node:
        """(*lead, *counts but the last, *sizes, last count)"""
        first = len(self.lead)
        axes = tuple(range(first, first + self.dims))
        whole = padded(x, self.amounts, value)
        stops = [(c - 1) * s + self.extent(i) for i, (c, s) in enumerate(zip(self.counts, self.steps, strict=True))]
        whole = movement.slice_(whole, (0,) * whole.type.ndim, (*self.lead, *stops))
        return movement.permute(window(whole, axes, self.sizes, self.steps, self.dilations), self._order())

    def _order(self) -> Ints:
        first, dims = len(self.lead), self.dims
        return (*range(first + dims - 1), *range(first + dims, first + 2 * dims), first + dims - 1)

    @property
    def axes(self) -> Ints:
        """The windows' own axes in `windows`."""
        start = len(self.lead) + self.dims - 1
        return tuple(range(start, start + self.dims))

    def along(self, x: Node, i: int, of_positions: bool) -> Node:
        """A vector over the positions, or the window's elements, of axis i, to broadcast with `windows`."""
        last = 2 * self.dims - 1
        at = (i if i < self.dims - 1 else last) if of_positions else self.dims - 1 + i
        return movement.reshape(x, [-1 if a == at else 1 for a in range(2 * self.dims)])

    def finished(self, kept: Node) -> Node:
        return movement.reshape(kept, (*self.lead, *self.counts))


def max_pool(x: Node, pool: Pool, wants_index: bool = False) -> tuple[Node, Node | None]:
    """The largest element of each window, NaN above all, and where in the plane it was first met (int64).

    The gradient goes to that element alone.
    """
    windows = pool.windows(x, _lowest(x))
    follows = mode.grad_enabled and x.grad is not None
    if not (wants_index or follows):
        return pool.finished(reduce.max(windows, pool.axes, keepdim=True)), None
    still = elementwise.detach(windows)
    best = reduce.max(still, pool.axes, keepdim=True)
    number = _numbers(x, pool)
    place = _where_met(still, best, number, pool)
    result = best
    if follows:
        chosen = elementwise.where(elementwise.eq(number, place), windows, 0.0)
        result = graft(best, reduce.sum(chosen, pool.axes, keepdim=True))
    return pool.finished(result), pool.finished(
        _plane_index(elementwise.cast(place, int64), pool)
    ) if wants_index else None


def _lowest(x: Node) -> float | int:
    if x.dtype.kind == "f":
        return -math.inf
    if x.dtype.kind == "b":
        raise RuntimeError(f"max_pool: not defined for bool tensors, got {x.type}")
    return 0 if x.dtype.kind == "u" else -(2 ** (8 * x.dtype.itemsize - 1))


def _numbers(x: Node, pool: Pool) -> Node:
    """The windows' elements in order, from 0: integers as wide as x's, so that vectors hold as many of either."""
    total = math.prod(pool.sizes)
    dtype = int32 if x.dtype.itemsize <= 4 and total < 2**31 else int64
    return movement.reshape(create.arange(total, dtype=dtype), (*(1,) * (pool.dims - 1), *pool.sizes, 1))


def _where_met(windows: Node, best: Node, number: Node, pool: Pool) -> Node:
    """The number in its window of the first element that is the maximum, padding excepted."""
    hit = elementwise.eq(windows, best)
    if windows.dtype.kind == "f":
        hit = elementwise.logical_or(hit, elementwise.ne(windows, windows))
    for i, (low, high) in enumerate(pool.amounts):
        if low or high:
            at = _coordinate(pool, i)
            inside = elementwise.logical_and(elementwise.ge(at, 0), elementwise.lt(at, pool.lengths[i]))
            hit = elementwise.logical_and(hit, inside)
    return reduce.min(elementwise.where(hit, number, math.prod(pool.sizes)), pool.axes, keepdim=True)


def _coordinate(pool: Pool, i: int) -> Node:
    """Where each element of each window lies on spatial axis i of the unpadded input."""
    starts = pool.along(create.arange(pool.counts[i]), i, of_positions=True)
    within = pool.along(create.arange(pool.sizes[i]), i, of_positions=False)
    first = elementwise.sub(elementwise.mul(starts, pool.steps[i]), pool.padding[i])
    return elementwise.add(first, elementwise.mul(within, pool.dilations[i]))


def _plane_index(place: Node, pool: Pool) -> Node:
    """Row-major number in the input's spatial axes of element `place` of each window."""
    total: Node = create.zeros((), int64)
    below = math.prod(pool.sizes)
    for i in range(pool.dims):
        below //= pool.sizes[i]
        within = elementwise.remainder(elementwise.floor_divide(place, below), pool.sizes[i])
        starts = pool.along(create.arange(pool.counts[i]), i, of_positions=True)
        at = elementwise.add(elementwise.mul(starts, pool.steps[i]), elementwise.mul(within, pool.dilations[i]))
        total = elementwise.add(elementwise.mul(total, pool.lengths[i]), elementwise.sub(at, pool.padding[i]))
    return total


def avg_pool(x: Node, pool: Pool, count_include_pad: bool = True, divisor: int | None = None) -> Node:
    """The mean of each window; of what counts, padding or not, or Σ / divisor."""
    if x.dtype.kind != "f":
        raise RuntimeError(f"{pool.name}: needs a floating input, got {x.type}")
    total = pool.finished(reduce.sum(pool.windows(x, 0), pool.axes))
    if divisor is not None:
        if divisor == 0:
            raise RuntimeError(f"{pool.name}: divisor must be not zero")
        return elementwise.div(total, float(divisor))
    counts = [_counted(pool, i, count_include_pad) for i in range(pool.dims)]
    if all(len(set(c)) == 1 for c in counts):
        return elementwise.div(total, float(math.prod(c[0] for c in counts)))
    for i, each in enumerate(counts):
        shape = [-1 if a == i else 1 for a in range(pool.dims)]
        total = elementwise.div(total, movement.reshape(constant(each, x.dtype), shape))
    return total


def _counted(pool: Pool, i: int, count_include_pad: bool) -> list[int]:
    """How many elements of each window of axis i count."""
    length, padding = pool.lengths[i], pool.padding[i]
    low, high = (-padding, length + padding) if count_include_pad else (0, length)
    starts = [p * pool.steps[i] - padding for p in range(pool.counts[i])]
    return [min(s + pool.sizes[i], high) - max(s, low) for s in starts]


# ---- adaptive: as many windows as asked for ---------------------------------------------------------------


def _even(x: Node, outputs: Ints, name: str) -> Pool | None:
    """The windows of an adaptive pool where they all have one size."""
    lengths = x.shape[x.type.ndim - len(outputs) :]
    if any(o == 0 or n % o for n, o in zip(lengths, outputs, strict=True)):
        return None
    sizes = tuple(n // o for n, o in zip(lengths, outputs, strict=True))
    return Pool(name, x.shape, sizes, sizes, (0,) * len(sizes), (1,) * len(sizes))


def _bounds(length: int, outputs: int) -> tuple[list[int], list[int]]:
    return [o * length // outputs for o in range(outputs)], [-(-(o + 1) * length // outputs) for o in range(outputs)]


def _uneven(x: Node, outputs: Ints) -> tuple[Node, Node, Node]:
    """(windows, which of their elements count, their numbers in the plane), all (…, *outputs, *longest windows)."""
    first = x.type.ndim - len(outputs)
    dims, valid, number = len(outputs), create.full((), True), create.zeros((), int64)
    lengths = x.shape[first:]
    for i, (length, wanted) in enumerate(zip(lengths, outputs, strict=True)):
        starts, ends = _bounds(length, wanted)
        longest = max((b - a for a, b in zip(starts, ends, strict=True)), default=1)
        at = [[min(a + k, length - 1) for k in range(longest)] for a in starts]
        counts = [[a + k < b for k in range(longest)] for a, b in zip(starts, ends, strict=True)]
        index = movement.reshape(constant([v for row in at for v in row], int64), (wanted, longest))
        counted = movement.reshape(create.full((0,), True) if not at else _bools(counts), (wanted, longest))
        shape = [wanted if a == i else longest if a == dims + i else 1 for a in range(2 * dims)]
        number = elementwise.add(elementwise.mul(number, length), movement.reshape(index, shape))
        valid = elementwise.logical_and(valid, movement.reshape(counted, shape))
        x = movement.move_axis(indexing.gather(x, index, first + i), first + i + 1, -1)
    return x, valid, number


def _bools(rows: Sequence[Sequence[bool]]) -> Node:
    from tinygrad_lite.ir.types import bool_

    return constant([v for row in rows for v in row], bool_)


def adaptive_avg_pool(x: Node, outputs: Ints, name: str) -> Node:
    """Means over `outputs` windows an axis, from floor(i n / m) to ceil((i + 1) n / m)."""
    pool = _even(x, outputs, name)
    if pool is not None:
        return avg_pool(x, pool)
    windows, valid, _ = _uneven(x, outputs)
    axes = tuple(range(x.type.ndim, x.type.ndim + len(outputs)))
    total = reduce.sum(elementwise.where(valid, windows, 0.0), axes)
    count = reduce.sum(elementwise.cast(valid, x.dtype), tuple(range(len(outputs), 2 * len(outputs))))
    return elementwise.div(total, count)


def adaptive_max_pool(x: Node, outputs: Ints, name: str, wants_index: bool = False) -> tuple[Node, Node | None]:
    """Maxima over the windows of `adaptive_avg_pool`, and where they were met."""
    pool = _even(x, outputs, name)
    if pool is not None:
        return max_pool(x, pool, wants_index)
    windows, valid, number = _uneven(x, outputs)
    dims = len(outputs)
    masked = elementwise.where(valid, windows, elementwise.as_node(_lowest(x), x.dtype))
    flat = movement.flatten(masked, x.type.ndim, -1) if dims > 1 else masked
    place = reduce.argmax(flat, -1, keepdim=True)
    result = movement.squeeze(indexing.take_along(flat, place, -1), -1)
    if not wants_index:
        return result, None
    spread = movement.broadcast_to(number, (*x.shape[: x.type.ndim - dims], *number.shape))
    flat_number = movement.flatten(spread, x.type.ndim, -1) if dims > 1 else spread
    return result, movement.squeeze(indexing.take_along(flat_number, place, -1), -1)
