"""fold: compute now what depends on constants alone, by the ops' own NumPy rules, so no bit can differ.

Only small results: a graph must not grow by its constants. For the same reason a value made from ranges (a causal mask)
is folded only if it is uniform: computed in the loop it costs no storage. Random values are never drawn here, and what
raises (an index out of range) is left to raise when the program runs.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from tinygrad_lite.ir.equality import value_key
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.passes.base import Pass
from tinygrad_lite.ir.passes.values import full
from tinygrad_lite.ir.rewrite import build, inherit
from tinygrad_lite.ops.leaf import CONSTANT

MAX_ELEMENTS = 64
_LEFT_TO_RUN = frozenset({"random", "loop", "opaque"})  # kinds
_SOURCES = frozenset({"constant", "full", "arange"})  # already as short as they get

Array = np.ndarray[Any, Any]


def fold(graph: Graph, hits: Counter[str]) -> Graph:
    """`graph` with small constant subgraphs replaced by constants."""
    known: dict[int, Array] = {}

    def visit(node: Node, inputs: tuple[Node, ...]) -> Node:
        node = node.with_inputs(inputs)
        value = _evaluate(node, known)
        if value is None:
            return node
        if node.op.name not in _SOURCES and (_is_uniform(value) or not _made_from_ranges(node, ranges)):
            hits[node.op.name] += 1
            node = _constant(value, node)
        elif _made_from_ranges(node, ranges):
            ranges.add(id(node))
        known[id(node)] = value
        alive.append(node)
        return node

    ranges: set[int] = set()
    alive: list[Node] = []  # ids are keys of `known`: a node must outlive its entry
    return graph.rebuild(visit)


def _made_from_ranges(node: Node, ranges: set[int]) -> bool:
    return node.op.name in ("arange", "expand") or any(id(i) in ranges for i in node.inputs)


def _is_uniform(value: Array) -> bool:
    return len({value_key(v) for v in value.ravel().tolist()}) == 1


def _evaluate(node: Node, known: dict[int, Array]) -> Array | None:
    if node.type.size > MAX_ELEMENTS or node.op.kind.value in _LEFT_TO_RUN:
        return None
    if not node.inputs and node.op.name not in _SOURCES:
        return None
    operands = [known.get(id(i)) for i in node.inputs]
    if any(o is None for o in operands):
        return None
    try:
        with np.errstate(all="ignore"):
            return np.asarray(node.op.numpy(*operands, **node.attrs))
    except (ArithmeticError, IndexError, RuntimeError, TypeError, ValueError):
        return None


def _constant(value: Array, node: Node) -> Node:
    data = tuple(value.ravel().tolist())
    if _is_uniform(value):
        new = full(data[0], node.shape, node.dtype)
    else:
        new = build(CONSTANT, data=data, dtype=node.dtype, shape=node.shape)
    inherit(new, node)
    return new


FOLD = Pass("fold", fold)
