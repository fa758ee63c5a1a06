"""A graph for other tools: JSON-ready dictionaries (read back losslessly), networkx, and DOT (see ir/dot.py)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinygrad_lite.errors import UserError
from tinygrad_lite.ir.dot import to_dot
from tinygrad_lite.ir.graph import Graph, Update
from tinygrad_lite.ir.node import Location, Node
from tinygrad_lite.ir.op import op_named
from tinygrad_lite.ir.types import DType, TensorType, dtype_named

__all__ = ["FORMAT", "FormatError", "from_dict", "to_dict", "to_dot", "to_networkx"]

FORMAT = "tinygrad_lite.graph/1"


class FormatError(UserError):
    """A dictionary that does not hold a graph; the message names the entry."""


def to_dict(graph: Graph) -> dict[str, Any]:
    """The graph as dictionaries, lists, strings and numbers that `json.dumps(..., allow_nan=False)` accepts."""
    index = {id(n): i for i, n in enumerate(graph.nodes)}
    return {
        "format": FORMAT,
        "name": graph.name,
        "nodes": [_node_dict(node, index) for node in graph.nodes],
        "args": [index[id(n)] for n in graph.args],
        "states": [index[id(n)] for n in graph.states],
        "outputs": [index[id(n)] for n in graph.outputs],
        "updates": [{"state": index[id(u.state)], "value": index[id(u.value)]} for u in graph.updates],
    }


def from_dict(data: Any) -> Graph:
    """The graph that `to_dict` described, every node typed again by its op's rule; FormatError where it is none."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise FormatError(f"not a graph: expected an object whose 'format' is {FORMAT!r}")
    nodes: list[Node] = []
    for i, row in enumerate(_list(data, "nodes")):
        try:
            nodes.append(_node_from(row, nodes))
        except Exception as error:  # whatever is wrong with the entry, the entry is to blame
            raise FormatError(f"nodes[{i}]: {type(error).__name__}: {error}") from error
    groups = {role: _pick(nodes, _list(data, role), role) for role in ("args", "states", "outputs")}
    return Graph(_name(data), groups["args"], groups["states"], groups["outputs"], _updates_from(data, nodes))


def to_networkx(graph: Graph) -> Any:
    """A networkx.DiGraph over node indices in topological order.

    Node attributes: op, kind, type, dtype, shape, attrs, role (argument, state, output or ""), name, scope, phase,
    segment, file, line, flops, bytes. Edge attributes: operands (the positions it is taken at), operand (the first),
    type.
    """
    import networkx as nx

    drawn = nx.DiGraph(name=graph.name)
    index = {id(n): i for i, n in enumerate(graph.nodes)}
    roles = {id(n): "output" for n in graph.results}
    roles |= {id(n): "argument" for n in graph.args} | {id(n): "state" for n in graph.states}
    for i, node in enumerate(graph.nodes):
        drawn.add_node(i, **_node_facts(node, roles.get(id(node), "")))
    for i, node in enumerate(graph.nodes):
        for position, operand in enumerate(node.inputs):
            source = index[id(operand)]
            if drawn.has_edge(source, i):
                drawn.edges[source, i]["operands"] += (position,)
            else:
                drawn.add_edge(source, i, operand=position, operands=(position,), type=str(operand.type))
    return drawn


def _node_facts(node: Node, role: str) -> dict[str, Any]:
    where = node.location or Location("", 0)
    cost = node.op.cost(node)
    return {
        "op": node.op.name,
        "kind": node.op.kind.value,
        "type": str(node.type),
        "dtype": node.type.dtype.name,
        "shape": node.type.shape,
        "attrs": {k: str(v) if isinstance(v, Graph) else v for k, v in node.attrs.items()},
        "role": role,
        "name": node.attrs.get("name", ""),
        "scope": where.scope,
        "phase": where.phase,
        "segment": where.segment,
        "file": where.file,
        "line": where.line,
        "flops": cost.flops,
        "bytes": cost.bytes,
    }


def _node_dict(node: Node, index: dict[int, int]) -> dict[str, Any]:
    row: dict[str, Any] = {"op": node.op.name, "inputs": [index[id(i)] for i in node.inputs]}
    if node.attrs:
        row["attrs"] = {name: _encode(value) for name, value in node.attrs.items()}
    row |= {"dtype": node.type.dtype.name, "shape": list(node.type.shape)}
    if node.location is not None:
        row["location"] = list(node.location)
    return row


def _node_from(row: dict[str, Any], nodes: Sequence[Node]) -> Node:
    op = op_named(row["op"])
    inputs = _pick(nodes, row["inputs"], "inputs")
    attrs = {str(name): _decode(value) for name, value in row.get("attrs", {}).items()}
    wanted = TensorType(dtype_named(row["dtype"]), tuple(row["shape"]))
    inferred = op.infer(*[i.type for i in inputs], **attrs)
    if inferred != wanted:
        raise TypeError(f"{op.name} gives {inferred}, the entry says {wanted}")
    where = row.get("location")
    return Node(op, inputs, attrs, inferred, Location(*where) if where else None)


def _encode(value: Any) -> Any:
    """JSON has no tuples, dtypes, graphs or non-finite numbers: lists, {"dtype": …}, {"graph": …}, {"float": …}."""
    if isinstance(value, tuple):
        return [_encode(v) for v in value]
    if isinstance(value, DType):
        return {"dtype": value.name}
    if isinstance(value, Graph):
        return {"graph": to_dict(value)}
    if type(value) is float and not math.isfinite(value):
        return {"float": repr(value)}
    if value is None or type(value) in (bool, int, float, str):
        return value
    raise TypeError(f"an attribute cannot hold a {type(value).__name__}: {value!r}")


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(v) for v in value)
    if isinstance(value, dict) and "graph" in value:
        return from_dict(value["graph"])
    if isinstance(value, dict):
        return dtype_named(value["dtype"]) if "dtype" in value else float(value["float"])
    return value


def _list(data: dict[str, Any], key: str) -> list[Any]:
    value = data.get(key)
    if not isinstance(value, list):
        raise FormatError(f"{key!r} must be a list")
    return value


def _name(data: dict[str, Any]) -> str:
    if not isinstance(data.get("name"), str):
        raise FormatError("'name' must be a string")
    return str(data["name"])


def _pick(nodes: Sequence[Node], indices: Any, role: str) -> tuple[Node, ...]:
    for i in indices:
        if type(i) is not int or not 0 <= i < len(nodes):
            raise FormatError(f"{role}: {i!r} is not the index of an earlier node")
    return tuple(nodes[i] for i in indices)


def _updates_from(data: dict[str, Any], nodes: Sequence[Node]) -> tuple[Update, ...]:
    rows = _list(data, "updates")
    if not all(isinstance(row, dict) for row in rows):
        raise FormatError("'updates' must hold objects of 'state' and 'value'")
    states = _pick(nodes, [row.get("state") for row in rows], "updates")
    values = _pick(nodes, [row.get("value") for row in rows], "updates")
    return tuple(Update(s, v) for s, v in zip(states, values, strict=True))
