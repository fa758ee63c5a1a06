"""Which values are written over an operand: a loop over elements reads each element before it writes there.

Only where the loop is the last to touch the operand, and both fill a storage of one type in the same order. What
backward makes of a gradient thus takes the gradient's place, and a peak of two arrays becomes one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.schedule.place import Placement, is_virtual
from tinygrad_lite.ir.schedule.rematerialise import is_recomputed, late_nodes

if TYPE_CHECKING:
    from tinygrad_lite.ir.schedule.fuse import Group


def reuse(graph: Graph, groups: Sequence[Group], placement: Placement, fixed: set[int]) -> dict[int, Node]:
    """id of a storage → the storage that it takes over, for groups in run order; those with ids in `fixed` do not move.

    In a step that trains, forward overwrites nothing: what is small there is no peak, and `budget` lets go of values
    one by one.
    """
    first, last = _touches(groups, placement)
    late = late_nodes(graph)
    fixed = fixed | {id(placement[r].owner) for r in graph.results}
    over: dict[int, Node] = {}
    taken: set[int] = set()
    for i, group in enumerate(groups):
        other = group.kind != "loops" or group.axes or 0 in group.shape
        if other or (late and not _is_late(group, late)):
            continue
        free = [o for o in _whole_operands(group, placement) if last[id(o)] == i and id(o) not in fixed | taken]
        for node in group.stored:
            owner = placement[node].owner
            if first[id(owner)] < i or id(owner) in fixed or not placement[node].is_whole:
                continue
            found = next((o for o in free if o.type.size == owner.type.size and o.dtype == owner.dtype), None)
            if found is not None:
                free.remove(found)
                taken.add(id(found))
                over[id(owner)] = found
    return over


def _is_late(group: Group, late: set[int]) -> bool:
    return all(id(n) in late or is_recomputed(n) for n in group.nodes)


def storage(owner: Node, over: dict[int, Node]) -> Node:
    """The storage whose memory is `owner`'s."""
    while id(owner) in over:
        owner = over[id(owner)]
    return owner


def _touches(groups: Sequence[Group], placement: Placement) -> tuple[dict[int, int], dict[int, int]]:
    """id of a storage → the first and the last group that reads or writes it."""
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for i, group in enumerate(groups):
        for owner in _touched(group, placement):
            first.setdefault(id(owner), i)
            last[id(owner)] = i
    return first, last


def _touched(group: Group, placement: Placement) -> Iterator[Node]:
    inside = {id(n) for n in group.nodes}
    for node in group.stored if group.kind == "loops" else group.nodes:
        yield placement[node].owner
    for node in group.nodes:
        for operand in node.inputs:
            if id(operand) not in inside:
                yield from _read(placement[operand].owner, placement)


def _read(owner: Node, placement: Placement) -> Iterator[Node]:
    yield owner
    if is_virtual(owner):
        for scalar in owner.inputs:
            yield placement[scalar].owner


def _whole_operands(group: Group, placement: Placement) -> list[Node]:
    """Storages that the group reads element by element, as they lie, and in no other way."""
    inside = {id(n) for n in group.nodes}
    whole: dict[int, Node] = {}
    other: set[int] = set()
    for node in group.nodes:
        for operand in node.inputs:
            if id(operand) in inside:
                continue
            place = placement[operand]
            owner = place.owner
            plain = node.op.kind is Kind.ELEMENTWISE and operand.shape == group.shape and place.is_whole
            if plain and owner.op.kind is not Kind.LEAF and not is_virtual(owner):
                whole[id(owner)] = owner
            else:
                other.add(id(owner))
    return [o for i, o in whole.items() if i not in other]
