"""Rematerialisation: backward reads copies of forward values, made just before it needs them; the originals die early.

The copies are nodes of the phase "recompute", which `cse` leaves alone. Their `order` is that of the first backward
node that needs them, so the scheduler runs them then, and `fuse` draws them into no earlier kernel. Equal ops on equal
operands give equal bits, random numbers too, for those are functions of a seed and an offset. State updates have no
copies, for no gradient reads them; nor has what can fail: it is checked once, and its result kept.
"""

from __future__ import annotations

from collections.abc import Set

from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.passes.cse import RECOMPUTE
from tinygrad_lite.ir.schedule.place import can_fail, is_computed, root_of


def late_nodes(graph: Graph) -> set[int]:
    """ids of the nodes of backward and optimiser, and of what is computed from them."""
    late: set[int] = set()
    for node in graph.nodes:
        phase = node.location.phase if node.location else ""
        if phase in ("backward", "optimiser") or any(id(i) in late for i in node.inputs):
            late.add(id(node))
    return late


def is_recomputed(node: Node) -> bool:
    """Is it a copy, made a second time to save memory?"""
    return node.location is not None and node.location.phase == RECOMPUTE


def rematerialise(graph: Graph, dropped: Set[int], why: str = "") -> Graph:
    """`graph` in which backward reads copies of the computed nodes whose ids are in `dropped`, not these themselves.

    Copies read copies of what is dropped, and all else as it is. They belong to the segment `why`, or to their own.
    """
    late = late_nodes(graph)
    when = _first_uses(graph, dropped, late)
    new: dict[int, Node] = {id(n): n for n in (*graph.args, *graph.states)}
    copies: dict[int, Node] = {}
    for node in graph.nodes:
        if id(node) not in new:
            known = copies if id(node) in late else {}
            inputs = tuple(known.get(id(i), new[id(i)]) for i in node.inputs)
            new[id(node)] = node.with_inputs(inputs)
        if id(node) in when:
            inputs = tuple(copies.get(id(i), new[id(i)]) for i in node.inputs)
            if id(node) in dropped or any(id(i) in copies for i in node.inputs):
                copies[id(node)] = _copy(node, inputs, when[id(node)], why)
    return graph.with_results([new[id(o)] for o in graph.outputs], [new[id(u.value)] for u in graph.updates])


def _first_uses(graph: Graph, dropped: Set[int], late: Set[int]) -> dict[int, int]:
    """id of a dropped node, or of a view of anything, that backward needs → the order of the first that does."""
    when: dict[int, int] = {}
    for node in reversed(graph.nodes):
        if id(node) not in late and id(node) not in when:
            continue
        now = node.order if id(node) in late else when[id(node)]
        for each in node.inputs:
            if id(each) in dropped or not (id(each) in late or is_computed(each) or each.op.kind is Kind.LEAF):
                when[id(each)] = min(now, when.get(id(each), now))
    return when


def _copy(node: Node, inputs: tuple[Node, ...], order: int, why: str) -> Node:
    copy = Node(node.op, inputs, node.attrs, node.type, node.location)
    copy.order = order
    if node.location is not None:
        copy.location = node.location._replace(phase=RECOMPUTE, segment=why or node.location.segment)
    return copy


# ---- segments that the user has marked -------------------------------------------------------------------


def recompute_segments(graph: Graph) -> Graph:
    """`graph` in which backward computes anew what lies inside of the segments that `checkpoint()` has marked.

    Results of a segment are kept: another segment starts from them. A segment within another is computed a third time,
    from what the second computation of the outer one keeps.
    """
    level = 1
    while dropped := _inside(graph, level):
        graph = rematerialise(graph, dropped)
        level += 1
    return graph


def _path(node: Node, level: int) -> tuple[str, ...]:
    """The names of the segments that a node is in, from the outside in, down to `level`."""
    segment = node.location.segment if node.location else ""
    return tuple(segment.split("/")[:level]) if segment else ()


def _inside(graph: Graph, level: int) -> set[int]:
    """ids of the computed nodes that no segment of this level hands out."""
    late = late_nodes(graph)
    leaving = {id(root_of(r)) for r in graph.results}
    for node in graph.nodes:
        if id(node) not in late:
            leaving |= {id(root_of(i)) for i in node.inputs if _path(i, level) != _path(node, level)}
    return {
        id(n)
        for n in graph.nodes
        if len(_path(n, level)) == level and id(n) not in late and is_computed(n) and not can_fail(n)
    } - leaving
