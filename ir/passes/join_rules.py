"""Joins and splits: `concat` against `slice`, and the sums of zero-padded pieces that the VJP of a split leaves.

All keep every bit, except that `concat_from_pads` leaves a -0.0 where x + 0 gives 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.rewrite import Rule, rule
from tinygrad_lite.ops import movement

_MAX_PIECES = 64  # a sum of more padded pieces is left alone: looking for them at every add would be quadratic


@rule("concat", why="concat(x) = x; pieces of size 0 add nothing")
def concat_of_one(node: Node) -> Node | None:
    axis = node.attrs["axis"]
    kept = [x for x in node.inputs if x.shape[axis]] or list(node.inputs[:1])
    if len(kept) == 1:
        return kept[0]
    return movement.concat(kept, axis) if len(kept) < len(node.inputs) else None


@rule("concat", why="concat(x[0:a], x[a:b], x[b:n]) = x; neighbours x[a:b], x[b:c] merge to x[a:c]")
def concat_of_slices(node: Node) -> Node | None:
    axis = node.attrs["axis"]
    pieces = [node.inputs[0]]
    for piece in node.inputs[1:]:
        joined = _joined(pieces[-1], piece, axis)
        pieces[-1:] = [joined] if joined is not None else [pieces[-1], piece]
    if len(pieces) == len(node.inputs):
        return None
    return pieces[0] if len(pieces) == 1 else movement.concat(pieces, axis)


@rule("slice", why="concat(a, b)[…] = a[…] where the slice lies within the piece a")
def slice_of_concat(node: Node) -> Node | None:
    (x,) = node.inputs
    if x.op.name != "concat":
        return None
    axis = x.attrs["axis"]
    start, stop = node.attrs["starts"][axis], node.attrs["stops"][axis]
    for piece, (low, high) in zip(x.inputs, _edges(x.inputs, axis), strict=True):
        if low <= start and stop <= high:
            starts = _with(node.attrs["starts"], axis, start - low)
            return movement.slice_(piece, starts, _with(node.attrs["stops"], axis, stop - low), node.attrs["steps"])
    return None


@rule("add", why="pad(a) + pad(b) + … = concat(a, b, …) where the padded pieces tile the result along one axis")
def concat_from_pads(node: Node) -> Node | None:
    if node.inputs[0].op.name not in ("add", "pad") or node.inputs[1].op.name not in ("add", "pad"):
        return None
    pads = _padded_terms(node)
    axis = _common_axis(pads)
    if axis is None:
        return None
    pads.sort(key=lambda p: p.attrs["low"][axis])
    sources = [p.inputs[0] for p in pads]
    tiled = [low for low, _ in _edges(sources, axis)] == [p.attrs["low"][axis] for p in pads]
    if not tiled or sum(s.shape[axis] for s in sources) != node.shape[axis]:
        return None
    return movement.concat(sources, axis)


def _padded_terms(node: Node) -> list[Node]:
    """The terms of a tree of adds if all of them are pads, else none."""
    pads: list[Node] = []
    pending = [node]
    while pending:
        term = pending.pop()
        if term.op.name == "add":
            pending.extend(term.inputs)
        elif term.op.name == "pad" and len(pads) < _MAX_PIECES:
            pads.append(term)
        else:
            return []
        if len(pending) > _MAX_PIECES:
            return []
    return pads


def _common_axis(pads: Sequence[Node]) -> int | None:
    """The one axis along which all of `pads` pad."""
    axes = {a for p in pads for a, (x, y) in enumerate(zip(p.attrs["low"], p.attrs["high"], strict=True)) if x or y}
    return axes.pop() if len(axes) == 1 else None


def _joined(a: Node, b: Node, axis: int) -> Node | None:
    """x[…, i:j] and x[…, j:k] as x[…, i:k]."""
    if a.op.name != "slice" or b.op.name != "slice" or a.inputs[0] is not b.inputs[0] or a.attrs["steps"][axis] != 1:
        return None
    same_elsewhere = all(_with(a.attrs[n], axis, 0) == _with(b.attrs[n], axis, 0) for n in ("starts", "stops"))
    if not same_elsewhere or a.attrs["steps"] != b.attrs["steps"] or a.attrs["stops"][axis] != b.attrs["starts"][axis]:
        return None
    stops = _with(a.attrs["stops"], axis, b.attrs["stops"][axis])
    return movement.slice_(a.inputs[0], a.attrs["starts"], stops, a.attrs["steps"])


def _edges(pieces: Sequence[Node], axis: int) -> list[tuple[int, int]]:
    return list(pairwise(accumulate((p.shape[axis] for p in pieces), initial=0)))


def _with(values: tuple[int, ...], axis: int, value: int) -> tuple[int, ...]:
    return (*values[:axis], value, *values[axis + 1 :])


RULES: tuple[Rule, ...] = (concat_of_one, concat_of_slices, slice_of_concat, concat_from_pads)
