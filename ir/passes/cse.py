"""cse: equal operations on equal inputs become one node.

Random ops take their seed and offset as inputs, so two dropouts differ and a replayed one is the same. What was
recorded in the phase "recompute" was duplicated on purpose, to save memory: it is never merged with anything.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from tinygrad_lite.ir.equality import attrs_key
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.passes.base import Pass

RECOMPUTE = "recompute"
_COMMUTES = frozenset({"add", "mul", "eq", "ne", "logical_and", "logical_or"})


def cse(graph: Graph, hits: Counter[str]) -> Graph:
    """`graph` with duplicates merged into the first of them."""
    known: dict[Any, Node] = {}

    def visit(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.location is not None and node.location.phase == RECOMPUTE:
            return node.with_inputs(inputs)
        operands = [id(i) for i in inputs]
        if node.op.name in _COMMUTES:
            operands.sort()
        key = (node.op, node.type, tuple(operands), attrs_key(node.attrs))
        if key in known:
            hits[node.op.name] += 1
            return known[key]
        known[key] = node.with_inputs(inputs)
        return known[key]

    return graph.rebuild(visit)


CSE = Pass("cse", cse)
