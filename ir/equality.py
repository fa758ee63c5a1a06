"""Structural equality: same ops on the same inputs under the same attributes, whatever identities and locations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.types import DType


def value_key(value: Any) -> Any:
    """A hashable stand-in by which attributes compare: 1, 1.0 and True differ, -0.0 and 0.0 too, nan equals nan.

    Graphs (bodies of loops) compare by structure.
    """
    kind = type(value)
    if kind is tuple:
        return tuple(map(value_key, value))
    if kind is int or kind is str or kind is DType:
        return value
    if kind is Graph:
        return graph_key(value)
    return (kind.__name__, repr(value))


def attrs_key(attrs: Mapping[str, Any]) -> Any:
    """`value_key` of a whole attribute mapping, independent of its order."""
    if not attrs:
        return ()
    return tuple((name, value_key(attrs[name])) for name in sorted(attrs))


def graph_key(graph: Graph) -> Any:
    """A hashable stand-in by which graphs compare, as `structurally_equal` does."""
    index = _indices(graph)
    roots = tuple(tuple(index[id(n)] for n in group) for group in _roots(graph))
    return ("graph", tuple(_node_key(n, index) for n in graph.nodes), roots)


def structurally_equal(a: Graph, b: Graph) -> bool:
    """Do both graphs compute the same thing by the same operations? Names of the graphs and locations do not count."""
    return first_difference(a, b) is None


def first_difference(a: Graph, b: Graph) -> str | None:
    """The first place in which two graphs differ, as text lines of both sides; None where they are equal."""
    index_a, index_b = _indices(a), _indices(b)
    for mine, other in zip(a.nodes, b.nodes, strict=False):
        if _node_key(mine, index_a) != _node_key(other, index_b):
            return _pair(f"node {index_a[id(mine)]} differs", _line(a, mine), _line(b, other))
    if len(a) != len(b):
        longer, shorter = (a, b) if len(a) > len(b) else (b, a)
        extra = _line(longer, longer.nodes[len(shorter)])
        return f"one graph has {len(a)} nodes, the other {len(b)}; the first without counterpart:\n  {extra}"
    return _roots_difference(a, b, index_a, index_b)


def _roots_difference(a: Graph, b: Graph, index_a: dict[int, int], index_b: dict[int, int]) -> str | None:
    for role, of_a, of_b in zip(_ROLES, _roots(a), _roots(b), strict=True):
        if len(of_a) != len(of_b):
            return f"one graph has {len(of_a)} {role}s, the other {len(of_b)}"
        for i, (mine, other) in enumerate(zip(of_a, of_b, strict=True)):
            if index_a[id(mine)] != index_b[id(other)]:
                return _pair(f"{role} {i} differs", _line(a, mine), _line(b, other))
    return None


_ROLES = ("argument", "state", "output", "updated state", "update")


def _roots(graph: Graph) -> list[list[Node]]:
    updated = [u.state for u in graph.updates]
    return [list(graph.args), list(graph.states), list(graph.outputs), updated, [u.value for u in graph.updates]]


def _indices(graph: Graph) -> dict[int, int]:
    return {id(n): i for i, n in enumerate(graph.nodes)}


def _node_key(node: Node, index: dict[int, int]) -> Any:
    return node.op, node.type, tuple(index[id(i)] for i in node.inputs), attrs_key(node.attrs)


def _line(graph: Graph, node: Node) -> str:
    from tinygrad_lite.ir.text import node_text, value_names

    return node_text(node, value_names(graph))


def _pair(what: str, mine: str, other: str) -> str:
    return f"{what}:\n  {mine}\n  {other}"
