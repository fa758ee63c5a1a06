"""What a pass is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from tinygrad_lite.ir.graph import Graph


@dataclass(frozen=True)
class Pass:
    """A named function Graph → Graph. It counts in the Counter what it did, by rule, for the observers."""

    name: str
    apply: Callable[[Graph, Counter[str]], Graph]

    def __call__(self, graph: Graph, hits: Counter[str] | None = None) -> Graph:
        return self.apply(graph, Counter() if hits is None else hits)
