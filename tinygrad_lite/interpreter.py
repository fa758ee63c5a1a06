"""The reference executor: a Graph run by the ops' NumPy rules in order. What it computes is what a graph means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node

Array = np.ndarray[Any, Any]
Observer = Callable[[Node, Array], None]


def evaluate(
    graph: Graph, args: Sequence[Any], states: Sequence[Any] = (), observe: Observer | None = None
) -> tuple[list[Array], list[Array]]:
    """Outputs, and the value each state has afterwards (one per state, unchanged ones too); all are fresh arrays.

    `observe(node, value)` sees every node's value, which is dropped after its last use but never written again.
    Raises TypeError where an argument's shape or dtype is not the graph's, RuntimeError where a rule breaks its type.
    """
    values = _bind(graph.args, args, "argument") | _bind(graph.states, states, "state")
    uses = _use_counts(graph)
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            if id(node) not in values:
                values[id(node)] = _compute(node, values)
            if observe is not None:
                observe(node, values[id(node)])
            _release(node, values, uses)
    changed = {id(u.state): u.value for u in graph.updates}
    outputs = [np.array(values[id(o)]) for o in graph.outputs]
    return outputs, [np.array(values[id(changed.get(id(s), s))]) for s in graph.states]


def _bind(leaves: Sequence[Node], arrays: Sequence[Any], role: str) -> dict[int, Array]:
    if len(leaves) != len(arrays):
        raise TypeError(f"the graph takes {len(leaves)} {role}s, got {len(arrays)}")
    values = {}
    for leaf, given in zip(leaves, arrays, strict=True):
        array = np.asarray(given)
        if array.shape != leaf.type.shape or array.dtype != leaf.type.dtype.numpy:
            shape = f"{array.dtype}{list(array.shape)}"
            raise TypeError(f"{role} {leaf.attrs['name']!r} must be {leaf.type}, got {shape}")
        values[id(leaf)] = array
    return values


def _compute(node: Node, values: dict[int, Array]) -> Array:
    try:
        value = np.asarray(node.op.numpy(*[values[id(i)] for i in node.inputs], **node.attrs))
    except Exception as error:
        error.add_note(f"in {node!r}" + (f", recorded at {node.location}" if node.location else ""))
        raise
    if value.shape != node.type.shape or value.dtype != node.type.dtype.numpy:
        raise RuntimeError(f"{node!r}: its NumPy rule gave {value.dtype}{list(value.shape)}")
    return value


def _use_counts(graph: Graph) -> dict[int, int]:
    """How many operands and results still need each value; leaves are held by the caller anyway."""
    uses = {id(n): 0 for n in graph.nodes}
    for node in graph.nodes:
        for operand in node.inputs:
            uses[id(operand)] += 1
    for node in (*graph.results, *graph.states):
        uses[id(node)] += 1
    return uses


def _release(node: Node, values: dict[int, Array], uses: dict[int, int]) -> None:
    for operand in node.inputs:
        uses[id(operand)] -= 1
        if not uses[id(operand)]:
            values.pop(id(operand), None)
    if not uses[id(node)]:
        del values[id(node)]
