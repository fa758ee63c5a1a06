"""What backward computes again, so that one array is kept where it would read several that follow from it.

GELU's value and slope are functions of what goes in. Keeping that alone halves the memory, and no more bytes move, for
forward stores one array less and backward one more. The same holds of a row that backward reads centred and normalised.
"""

from __future__ import annotations

from collections import defaultdict

from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.schedule.inline import LOOPS, SMALL
from tinygrad_lite.ir.schedule.place import can_fail, is_computed, is_view, is_virtual, root_of
from tinygrad_lite.ir.schedule.rematerialise import is_settled, late_nodes

WORTH = 1 << 20  # bytes that must be saved: what is smaller stays in caches
FLOPS = 8  # of copies for each byte that is saved, at most


def again(graph: Graph) -> Graph:
    """`graph` with copies, for backward, of what follows from one value of forward. A settled graph stays as it is."""
    if is_settled(graph):
        return graph
    late = late_nodes(graph)
    source = _sources(graph, late)
    chosen = _chosen(graph, late, source)
    if not chosen:
        return graph
    dropped = {i for i, s in source.items() if id(s) in chosen and i != id(s)}
    return _Copies(graph, late, dropped).rebuilt()


def _sources(graph: Graph, late: set[int]) -> dict[int, Node]:
    """id of a node → the one value, but for small ones, that it follows from element by element; itself, where there
    is none, and where it is a result and thus kept. Nodes of backward are listed if loops compute them from forward's
    values."""
    source: dict[int, Node] = {}
    kept = {id(root_of(r)) for r in graph.results}
    for node in graph.nodes:
        early = id(node) not in late or (is_virtual(node) and not node.inputs)
        ready = early or (node.op.kind in LOOPS and all(id(root_of(i)) in source for i in node.inputs))
        if ready and not is_view(node):
            follows = None if id(node) in kept else _source(node, source)
            source[id(node)] = follows or node
    return source


def _source(node: Node, source: dict[int, Node]) -> Node | None:
    if node.op.kind is not Kind.ELEMENTWISE or can_fail(node) or "copy" in node.op.traits:
        return None
    roots = [r for r in map(root_of, node.inputs) if r.type.size * SMALL > node.type.size and not is_virtual(r)]
    found = {id(source[id(r)]): source[id(r)] for r in roots}
    only = next(iter(found.values())) if len(found) == 1 else None
    return only if only is not None and is_computed(only) else None


def _chosen(graph: Graph, late: set[int], source: dict[int, Node]) -> set[int]:
    """ids of the sources to keep in place of what follows from them: that saves bytes, at few FLOPs."""
    read = _read_late(graph, late, source)
    kept: dict[int, int] = defaultdict(int)
    work: dict[int, int] = defaultdict(int)
    for node in graph.nodes:
        if (s := source.get(id(node))) is None or s is node:
            continue
        if id(node) in read:
            kept[id(s)] += node.type.nbytes
        if id(node) not in late:
            work[id(s)] += node.op.cost(node).flops
    chosen = set()
    for node in graph.nodes:
        before = kept.get(id(node), 0)
        saved = before - (0 if id(node) in read else node.type.nbytes)
        if saved >= max(WORTH, before / 2) and work[id(node)] <= FLOPS * saved:
            chosen.add(id(node))
    return chosen


def _read_late(graph: Graph, late: set[int], source: dict[int, Node]) -> set[int]:
    """ids of the values that nodes read which must wait for backward."""
    return {
        id(root_of(i))
        for n in graph.nodes
        if id(n) in late and id(n) not in source and not is_view(n)
        for i in n.inputs
    }


class _Copies:
    """The rebuilding of a graph whose backward reads copies of the nodes with ids in `dropped`, and of their views.

    What takes a few operations is computed in the registers of each kernel that reads it; what takes an exponential or
    the like, and what a product reads, once.
    """

    def __init__(self, graph: Graph, late: set[int], dropped: set[int]) -> None:
        self.graph, self.late, self.dropped = graph, late, dropped
        self.light = self._light()
        self.first = self._first_readers()
        self.new: dict[int, Node] = {id(n): n for n in (*graph.args, *graph.states)}
        self.shared: dict[int, Node] = {}

    def rebuilt(self) -> Graph:
        graph, new = self.graph, self.new
        for node in graph.nodes:
            at = id(node)
            if at in self.late:
                inputs = tuple(self._late_inputs(node, node))
                new[at] = _late(node, inputs) if at in self.dropped else node.with_inputs(inputs)
                continue
            if at not in new:
                new[at] = node.with_inputs(tuple(new[id(i)] for i in node.inputs))
            if at in self.first:
                user = self.first[at]
                self.shared[at] = _copy(node, self._late_inputs(node, user), user)
        return graph.with_results([new[id(o)] for o in graph.outputs], [new[id(u.value)] for u in graph.updates])

    def _light(self) -> set[int]:
        """ids of the dropped nodes of forward that nothing expensive is needed for."""
        light: set[int] = set()
        for node in self.graph.nodes:
            if id(node) not in self.dropped or id(node) in self.late or "expensive" in node.op.traits:
                continue
            if all(id(root_of(i)) in light or id(root_of(i)) not in self.dropped for i in node.inputs):
                light.add(id(node))
        return light

    def _first_readers(self) -> dict[int, Node]:
        """id of a node that is copied once → the first in backward that reads the copy."""
        first: dict[int, Node] = {}
        for node in reversed(self.graph.nodes):
            user = node if id(node) in self.late else first.get(id(node))
            if user is None:
                continue
            for i in node.inputs:
                again = id(root_of(i)) in self.dropped and id(i) not in self.late
                if again and not self._is_private(i, node):
                    first[id(i)] = min(first.get(id(i), user), user, key=lambda n: n.order)
        return first

    def _is_private(self, operand: Node, user: Node) -> bool:
        return id(operand) in self.light and user.op.kind in LOOPS

    def _late_inputs(self, node: Node, user: Node) -> list[Node]:
        """What `node`, or the copy of it that is made for `user`, reads."""
        return [self._private(i, user) if self._is_private(i, node) else self._shared(i) for i in node.inputs]

    def _shared(self, operand: Node) -> Node:
        return self.shared.get(id(operand), self.new[id(operand)])

    def _private(self, operand: Node, user: Node) -> Node:
        copies: dict[int, Node] = {}
        for node in self._chain(operand):
            inputs = [copies.get(id(i)) or self._shared(i) for i in node.inputs]
            copies[id(node)] = _copy(node, inputs, user)
            copies[id(node)].follows = True
        return copies[id(operand)]

    def _chain(self, node: Node) -> list[Node]:
        """The light nodes that `node` follows from, and itself, in order."""
        found, stack = {id(node): node}, [node]
        while stack:
            for i in stack.pop().inputs:
                if id(i) in self.light and id(i) not in found:
                    found[id(i)] = i
                    stack.append(i)
        return sorted(found.values(), key=lambda n: n.serial)


def _copy(node: Node, inputs: list[Node], user: Node) -> Node:
    copy = _late(node, tuple(inputs))
    copy.order = user.order
    if node.location is not None:
        copy.location = node.location._replace(phase="backward")
    return copy


def _late(node: Node, inputs: tuple[Node, ...]) -> Node:
    late = node.copy(inputs)
    late.late = True
    return late
