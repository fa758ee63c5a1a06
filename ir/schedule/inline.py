"""What backward computes again in registers: a value one operation away from others that it reads anyway.

A normalised row, for one, is the centred row times a number a row; layer norm's backward reads both the centred and the
normalised one. It need not be kept, and costs backward a multiplication instead of a load.
"""

from __future__ import annotations

from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.schedule.place import can_fail, is_view, root_of
from tinygrad_lite.ir.schedule.rematerialise import is_settled, late_nodes

SMALL = 8  # an operand that has fewer elements by this factor is kept at no cost worth counting
LOOPS = (Kind.ELEMENTWISE, Kind.REDUCE)


def inline(graph: Graph) -> Graph:
    """`graph` with a copy of each such value for each of its users in backward. A settled graph stays as it is."""
    if is_settled(graph):
        return graph
    late = late_nodes(graph)
    kept = {id(root_of(r)) for r in graph.results}
    chosen = {id(n) for n in graph.nodes if id(n) not in kept and _is_near(n, graph, late)}
    if not chosen:
        return graph

    def visit(node: Node, inputs: tuple[Node, ...]) -> Node:
        if id(node) not in late:
            return node.with_inputs(inputs)
        pairs = zip(node.inputs, inputs, strict=True)
        return node.with_inputs(tuple(_copy(new, node) if id(old) in chosen else new for old, new in pairs))

    return graph.rebuild(visit)


def _is_near(node: Node, graph: Graph, late: set[int]) -> bool:
    """Is it a forward value that only loops of backward read, at one operation from what backward reads too?"""
    if node.op.kind is not Kind.ELEMENTWISE or id(node) in late or can_fail(node):
        return False
    if node.op.cost(node).flops > node.type.size or "copy" in node.op.traits:
        return False
    users = [u for u in graph.users[id(node)] if id(u) in late]
    if not users or any(is_view(u) or u.op.kind not in LOOPS for u in users):
        return False
    return all(_is_there(root_of(i), node, graph, late) for i in node.inputs)


def _is_there(operand: Node, node: Node, graph: Graph, late: set[int]) -> bool:
    """Does backward have the operand anyway, or is it small?"""
    if operand.type.size * SMALL <= node.type.size:
        return True
    return any(id(u) in late for u in graph.users[id(operand)])


def _copy(value: Node, user: Node) -> Node:
    copy = Node(value.op, value.inputs, value.attrs, value.type, user.location)
    copy.order, copy.follows = user.order, True
    return copy
