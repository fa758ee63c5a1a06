"""Rematerialisation: backward reads copies of forward values, made just before it needs them; the originals die early.

`settle` starts from the schedule without copies, and has every node keep its kernel: what runs anyway runs as it did,
in the same kernels (but for values that nobody reads any more), so sums keep their order and all results their bits. A
kernel that contains a node of the forward pass is one of forward, whatever backward has in it.

Copies are nodes of the phase "recompute": `cse` leaves them alone. They are in kernels of their own, ordered like the
first of backward that needs them. Equal ops on equal operands give equal bits, random numbers too, for those are
functions of a seed and an offset; but not sums, which are reordered with the kernel around them: they stay, and are
small. So does what can fail, which is checked once.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node, Settled
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.passes.cse import RECOMPUTE
from tinygrad_lite.ir.schedule.place import can_fail, is_assembled, is_computed, root_of

if TYPE_CHECKING:
    from tinygrad_lite.ir.schedule.fuse import Group


def is_recomputed(node: Node) -> bool:
    """Is it a copy, made a second time to save memory?"""
    return node.location is not None and node.location.phase == RECOMPUTE


def is_settled(graph: Graph) -> bool:
    """Do nodes have their kernels, or their place in time, already?"""
    return any(n.kernel or is_recomputed(n) for n in graph.nodes)


def stays(node: Node) -> bool:
    """Must it not be computed again? Sums of floats, attention's too, and what can fail."""
    is_sum = node.op.name in ("sum", "prod", "attention_lse") and node.dtype.kind == "f"
    return is_sum or can_fail(node)


def is_late(node: Node) -> bool:
    """Does its kernel run after forward?"""
    return node.kernel is not None and node.kernel.late


def fresh(graph: Graph) -> Graph:
    """The same graph of nodes that may be settled without anybody else noticing."""
    return graph.rebuild(Node.copy)


def settle(graph: Graph, groups: Sequence[Group]) -> None:
    """Have the nodes of a scheduled graph keep their kernels, `groups` in run order, which becomes program order."""
    late = late_nodes(graph)
    for number, group in enumerate(groups):
        stored = {id(n) for n in group.stored}
        is_late_kernel = all(id(n) in late for n in group.nodes)
        for node in group.nodes:
            node.kernel = Settled(number, group.shape, group.axes, is_late_kernel, id(node) in stored)
            node.order = number
    for node in graph.nodes:
        if is_assembled(node):  # by its pieces' kernels
            pieces = [root_of(i) for i in node.inputs]
            node.kernel = Settled(-1, (), frozenset(), any(map(is_late, pieces)), True)
            node.order = max(p.order for p in pieces)


def late_nodes(graph: Graph) -> set[int]:
    """ids of the nodes of backward and optimiser, and of what is computed from them."""
    late: set[int] = set()
    for node in graph.nodes:
        phase = node.location.phase if node.location else ""
        if phase in ("backward", "optimiser") or any(id(i) in late for i in node.inputs):
            late.add(id(node))
    return late


def rematerialise(graph: Graph, dropped: Set[int], why: str = "") -> Graph:
    """`graph`, which is settled, with copies of the nodes whose ids are in `dropped` for late kernels to read.

    Copies read copies of what is dropped, and all else as it is. They belong to the segment `why`, or to their own.
    What no kernel stores is copied for each time at which it is needed: kept in between, it would take memory.
    """
    times = _times(graph, dropped)
    new: dict[int, Node] = {id(n): n for n in (*graph.args, *graph.states)}
    copies: dict[tuple[int, int], Node] = {}  # by id and time

    def read(node: Node, time: int) -> Node:
        return copies.get((id(node), time), new[id(node)])

    for node in graph.nodes:
        if id(node) not in new:
            inputs = tuple(read(i, node.order) if is_late(node) else new[id(i)] for i in node.inputs)
            new[id(node)] = node.with_inputs(inputs)
        needed = times.get(id(node), set())
        for made in sorted(needed) if _is_passing(node) else sorted(needed)[:1]:
            inputs = tuple(read(i, made) for i in node.inputs)
            if id(node) in dropped or any(i is not new[id(old)] for i, old in zip(inputs, node.inputs, strict=True)):
                copy = _copy(node, inputs, made, why)
                copies |= {(id(node), time): copy for time in ({made} if _is_passing(node) else needed)}
    return graph.with_results([new[id(o)] for o in graph.outputs], [new[id(u.value)] for u in graph.updates])


def _is_passing(node: Node) -> bool:
    """Does it leave its kernel's registers for no memory?"""
    return node.kernel is not None and not node.kernel.stored


def _times(graph: Graph, dropped: Set[int]) -> dict[int, set[int]]:
    """id of a dropped node, or of a view of anything, that backward needs → the orders of the kernels that do."""
    times: dict[int, set[int]] = {}
    for node in reversed(graph.nodes):
        if is_late(node):
            now = {node.order}
        elif id(node) in times:
            now = times[id(node)] if _is_passing(node) else {min(times[id(node)])}
        else:
            continue
        for each in node.inputs:
            if id(each) in dropped or not (is_computed(each) or each.op.kind is Kind.LEAF):
                times.setdefault(id(each), set()).update(now)
    return times


def _copy(node: Node, inputs: tuple[Node, ...], order: int, why: str) -> Node:
    copy = Node(node.op, inputs, node.attrs, node.type, node.location)
    copy.order = order
    if node.location is not None:
        copy.location = node.location._replace(phase=RECOMPUTE, segment=why or node.location.segment)
    return copy


# ---- segments that the user has marked -------------------------------------------------------------------


def recompute_segments(graph: Graph) -> Graph:
    """`graph`, which is settled, in which backward computes anew what lies inside of the segments of `checkpoint()`.

    Results of a segment are kept: another segment starts from them. A segment within another is computed a third time,
    from what the second computation of the outer one keeps.
    """
    level = 1
    while dropped := _inside(graph, level):
        graph = rematerialise(graph, dropped)
        level += 1
    return graph


def has_segments(graph: Graph) -> bool:
    """Has the user marked any?"""
    return any(n.location is not None and n.location.segment for n in graph.nodes)


def _path(node: Node, level: int) -> tuple[str, ...]:
    """The names of the segments that a node is in, from the outside in, down to `level`."""
    segment = node.location.segment if node.location else ""
    return tuple(segment.split("/")[:level]) if segment else ()


def _inside(graph: Graph, level: int) -> set[int]:
    """ids of the computed nodes that no segment of this level hands out."""
    leaving = {id(root_of(r)) for r in graph.results}
    for node in graph.nodes:
        if not is_late(node):
            leaving |= {id(root_of(i)) for i in node.inputs if _path(i, level) != _path(node, level)}
    return {
        id(n)
        for n in graph.nodes
        if len(_path(n, level)) == level and not is_late(n) and is_computed(n) and not stays(n)
    } - leaving
