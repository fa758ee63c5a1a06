"""Indices that are plain to see: a range needs no check, and gathering by one is a slice.

All keep every bit, except that `scatter_of_range` leaves a -0.0 where 0 + x gives 0.0.
"""

from __future__ import annotations

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.passes.values import is_uniform
from tinygrad_lite.ir.rewrite import Rule, rule
from tinygrad_lite.ir.types import int64
from tinygrad_lite.ops import movement


@rule("check_index", why="an index checked against n lies within any size >= n")
def checked_twice(node: Node) -> Node | None:
    (x,) = node.inputs
    return x if x.op.name == "check_index" and x.attrs["size"] <= node.attrs["size"] else None


@rule("check_index", why="a range within [0, size) needs no check")
def checked_range(node: Node) -> Node | None:
    found = _range(node.inputs[0])
    if found is None or len(found) == 0:
        return None
    return node.inputs[0] if 0 <= min(found[0], found[-1]) <= max(found[0], found[-1]) < node.attrs["size"] else None


@rule("gather", why="x[a, a + s, …] along an axis is a slice")
def gather_of_range(node: Node) -> Node | None:
    table, index = node.inputs
    found, axis = _range(index), node.attrs["axis"]
    if not _selects(found, table.shape[axis]):
        return None
    assert found is not None
    return movement.slice_axis(table, axis, found[0], found[-1] + 1, found.step)


@rule("scatter_add", why="0 + x at rows a, a + 1, … is x padded by zeros")
def scatter_of_range(node: Node) -> Node | None:
    base, index, source = node.inputs
    found, axis = _range(index), node.attrs["axis"]
    if not _selects(found, base.shape[axis]) or not is_uniform(base, 0):
        return None
    assert found is not None
    if found.step != 1:
        return None
    low, high = [0] * base.type.ndim, [0] * base.type.ndim
    low[axis], high[axis] = found[0], base.shape[axis] - found[-1] - 1
    return movement.pad(source, low, high)


def _range(index: Node) -> range | None:
    """The int64 range that a one-dimensional index is, if that is plain to see."""
    if index.op.name != "arange" or index.dtype is not int64:
        return None
    start, step, size = (index.attrs[n] for n in ("start", "step", "size"))
    if type(start) is not int or type(step) is not int or step == 0:
        return None
    return range(start, start + step * size, step)


def _selects(found: range | None, size: int) -> bool:
    """Is it an ascending, non-empty range within [0, size)?"""
    return found is not None and found.step > 0 and len(found) > 0 and found[0] >= 0 and found[-1] < size


RULES: tuple[Rule, ...] = (checked_twice, checked_range, gather_of_range, scatter_of_range)
