"""Lowering of loops: the body is scheduled like any graph, and its storages are found in those of the graph around it.

Its arguments and results are windows that move from step to step: a carry reads one slot of the packed result and
writes the next, x_t reads its row of the operand in place, whatever its strides. Nothing is copied between steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_lite.ir.graph import Graph, copied
from tinygrad_lite.ir.kernels.words import Address, Frame, Moving
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.schedule.place import Placement
from tinygrad_lite.ir.schedule.schedule import Schedule, schedule
from tinygrad_lite.ir.schedule.views import View
from tinygrad_lite.ops.control import Order, segments


@dataclass(frozen=True)
class _Spot:
    """Where a storage of the body lies: element `offset` of `owner`, further on by `moves[turn]` at each step."""

    owner: Node
    offset: int
    moves: Any  # an int64 array, or None for what stands still


@dataclass(frozen=True)
class LoopBody:
    """A body's schedule, and where the storages of its arguments and results are."""

    frame: Frame
    schedule: Schedule
    spots: dict[int, _Spot]

    def owner(self, node: Node) -> Node:
        """The storage around the loop that one of the body's lies in; temporaries are their own."""
        spot = self.spots.get(id(node))
        return node if spot is None else spot.owner

    def word(self, word: Any) -> Any:
        """A word of the body's kernels in terms of the storages around the loop."""
        if not isinstance(word, Address | Moving) or id(word.owner) not in self.spots:
            return word
        spot = self.spots[id(word.owner)]
        moves = word.moves if isinstance(word, Moving) else ()
        if spot.moves is not None:
            moves = ((self.frame, spot.moves), *moves)
        offset = spot.offset + word.offset
        return Moving(spot.owner, offset, moves) if moves else Address(spot.owner, offset)


def lower_loop(node: Node, placement: Placement) -> LoopBody:
    """The schedule of a scan's body within the placement of the graph around it."""
    attrs = node.attrs
    body = copied(attrs["body"])  # loops may share one; their storages are their own
    views, spots = _arguments(node, body, placement)
    plan = schedule(body, views)
    _results(node, plan, placement, spots)
    return LoopBody(Frame(attrs["length"], plan.graph), plan, spots)


def _arguments(node: Node, body: Graph, placement: Placement) -> tuple[dict[int, View], dict[int, _Spot]]:
    """id(argument) → how it lies in memory, and where."""
    attrs, views, spots = node.attrs, {}, {}
    order, at = Order(attrs["length"], attrs["reverse"]), placement[node]
    parts = segments([o.type for o in body.outputs], attrs["length"], attrs["history"])
    for i, arg in enumerate(body.args):
        if i < attrs["carries"]:
            slots = [order.slot(turn, attrs["history"][i]) for turn in range(attrs["length"])]
            views[id(arg)] = View.of(arg.shape)
            spots[id(arg)] = _Spot(at.owner, at.view.offset + parts[i].start, np.array(slots, np.int64) * parts[i].size)
            continue
        place = placement[node.inputs[i]]
        view, moves = place.view, None
        if i < attrs["carries"] + attrs["xs"]:
            moves = np.array([order.time(turn) for turn in range(attrs["length"])], np.int64) * view.strides[0]
            view = View(view.shape[1:], view.strides[1:])
        views[id(arg)] = View(view.shape, view.strides)
        spots[id(arg)] = _Spot(place.owner, place.view.offset, moves)
    return views, spots


def _results(node: Node, plan: Schedule, placement: Placement, spots: dict[int, _Spot]) -> None:
    attrs, at = node.attrs, placement[node]
    order = Order(attrs["length"], attrs["reverse"])
    parts = segments([o.type for o in attrs["body"].outputs], attrs["length"], attrs["history"])
    for i, (output, part) in enumerate(zip(plan.graph.outputs, parts, strict=True)):
        turns = range(attrs["length"])
        if i < attrs["carries"]:
            slots = [order.slot(turn + 1, attrs["history"][i]) for turn in turns]
        else:
            slots = [order.time(turn) for turn in turns]
        moves = np.array(slots, np.int64) * part.size
        spots[id(plan.placement[output].owner)] = _Spot(at.owner, at.view.offset + part.start, moves)
