"""The verifier: what every pass may rely on and must keep. It types each node again by the rule that recorded it."""

from __future__ import annotations

import linecache
from collections.abc import Iterable

from tinygrad_lite.ir.equality import value_key
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.signature import signature
from tinygrad_lite.ir.text import location_text, node_text, value_names, value_text

# int64 values that are in range by construction or by the builder's own arithmetic
_INDEX_SOURCES = frozenset({"check_index", "constant", "full", "arange", "argmax", "argmin", "argsort"})
_ALONG = ("put_along", "put_along_add", "put_along_mul", "put_along_max", "put_along_min")
_INDEXED = frozenset({"gather", "take_along", "scatter_add", "put", *_ALONG})


class GraphError(ValueError):
    """A graph that breaks a rule; the message shows the rule, the printed node and the user's line."""

    def __init__(self, problem: str, graph: Graph, node: Node | None = None) -> None:
        self.problem, self.node = problem, node
        super().__init__("\n".join([f"graph {graph.name!r}: {problem}", *_where(graph, node)]))


def verify(graph: Graph) -> Graph:
    """`graph` itself where it is well formed; GraphError where not."""
    position = {id(n): i for i, n in enumerate(graph.nodes)}
    for node in graph.nodes:
        for operand in node.inputs:
            if position[id(operand)] >= position[id(node)]:
                raise GraphError("a node comes before its input", graph, node)
        _check_node(graph, node)
    _check_leaves(graph)
    _check_updates(graph)
    _check_indices(graph)
    return graph


def _check_node(graph: Graph, node: Node) -> None:
    sign = signature(node.op)
    if len(node.inputs) < sign.low or (sign.high is not None and len(node.inputs) > sign.high):
        raise GraphError(f"{node.op.name} has {len(node.inputs)} operands", graph, node)
    try:
        for value in node.attrs.values():
            verify(value) if isinstance(value, Graph) else value_text(value)
        inferred = node.op.infer(*[i.type for i in node.inputs], **node.attrs)
    except Exception as error:
        raise GraphError(str(error), graph, node) from error
    if inferred != node.type:
        raise GraphError(f"{node.op.name} gives {inferred}, the node says {node.type}", graph, node)
    if node.op.name == "constant":
        _check_constant(graph, node)


def _check_constant(graph: Graph, node: Node) -> None:
    """Data must be what the dtype holds, or text and kernels would disagree on it."""
    data = node.attrs["data"]
    held = node.op.numpy(**node.attrs).ravel().tolist()
    if any(value_key(a) != value_key(b) for a, b in zip(data, held, strict=True)):
        raise GraphError(f"constant data must be exact in {node.type.dtype.name}", graph, node)


def _check_leaves(graph: Graph) -> None:
    _check_named(graph, graph.args, "input", "argument")
    _check_named(graph, graph.states, "state", "state")
    declared = {id(n) for n in (*graph.args, *graph.states)}
    for node in graph.nodes:
        if node.op.name in ("input", "state") and id(node) not in declared:
            raise GraphError(f"{node.op.name} {node.attrs['name']!r} is not in the graph's signature", graph, node)


def _check_named(graph: Graph, leaves: Iterable[Node], op: str, role: str) -> None:
    names: set[str] = set()
    for node in leaves:
        if node.op.name != op:
            raise GraphError(
                f"an {role} must be a leaf of op {op}" if op == "input" else f"a {role} must be a leaf", graph, node
            )
        if node.attrs["name"] in names:
            raise GraphError(f"two {role}s are called {node.attrs['name']!r}", graph, node)
        names.add(node.attrs["name"])


def _check_updates(graph: Graph) -> None:
    states = {id(s) for s in graph.states}
    updated: set[int] = set()
    for state, value in graph.updates:
        if id(state) not in states:
            raise GraphError("an update of what is no state of the graph", graph, state)
        if id(state) in updated:
            raise GraphError(f"state {state.attrs['name']!r} is updated twice", graph, state)
        if value.type != state.type:
            raise GraphError(f"state {state.attrs['name']!r} of {state.type} is updated by {value.type}", graph, value)
        updated.add(id(state))


def _check_indices(graph: Graph) -> None:
    """Every index of a gather or scatter went through check_index, or is integer arithmetic on such values."""
    checked: set[int] = set()
    for node in graph.nodes:
        if node.op.name in _INDEXED and id(node.inputs[1]) not in checked:
            raise GraphError(f"the index of {node.op.name} did not pass check_index", graph, node)
        if node.op.name in _INDEX_SOURCES or _keeps_checked(node, checked):
            checked.add(id(node))


def _keeps_checked(node: Node, checked: set[int]) -> bool:
    if node.op.kind not in (Kind.MOVEMENT, Kind.ELEMENTWISE, Kind.GATHER) or node.type.dtype.kind not in "iu":
        return False
    integers = [i for i in node.inputs if i.type.dtype.kind in "iu"]
    return bool(integers) and all(id(i) in checked for i in integers)


def _where(graph: Graph, node: Node | None) -> list[str]:
    if node is None:
        return []
    lines = [f"  {_printed(graph, node)}"]
    if node.location is not None:
        source = linecache.getline(node.location.file, node.location.line).strip()
        lines.append(f"  recorded at {location_text(node.location)}" + (f": {source}" if source else ""))
    return lines


def _printed(graph: Graph, node: Node) -> str:
    try:
        return node_text(node, value_names(graph))
    except Exception:  # the broken node is what we are telling of
        return repr(node)
