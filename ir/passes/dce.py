"""dce: updates that leave a state as it is go, and with them whatever only they needed.

A Graph lists what its results depend on, so other dead nodes are gone as soon as their users are. States stay in the
signature, read or not: whoever runs the graph counts on it.
"""

from __future__ import annotations

from collections import Counter

from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.passes.base import Pass


def dce(graph: Graph, hits: Counter[str]) -> Graph:
    """`graph` without updates of a state by itself."""
    updates = tuple(u for u in graph.updates if u.value is not u.state)
    if len(updates) == len(graph.updates):
        return graph
    hits["update by itself"] += len(graph.updates) - len(updates)
    return Graph(graph.name, graph.args, graph.states, graph.outputs, updates, graph.meta)


DCE = Pass("dce", dce)
