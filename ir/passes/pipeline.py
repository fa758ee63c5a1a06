"""The pipeline: a visible tuple of named passes, and observers for all that is not a pass.

Order: `cse` first, for it is the cheapest and leaves less to rewrite; `canonicalise` shrinks what is computed on
constants to scalars; `fold` computes those; `loops` does the same within loops and trims them; `cse` merges what is now
equal; `canonicalise` uses what is now known (a constant condition, two branches that are one); `cse` again; `dce` drops
updates that turned out to change nothing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tinygrad_lite.ir.difference import Difference
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.passes.base import Pass
from tinygrad_lite.ir.passes.canonicalise import CANONICALISE
from tinygrad_lite.ir.passes.cse import CSE
from tinygrad_lite.ir.passes.dce import DCE
from tinygrad_lite.ir.passes.fold import FOLD
from tinygrad_lite.ir.passes.loops import LOOPS
from tinygrad_lite.ir.text import to_text
from tinygrad_lite.ir.verify import GraphError, verify

PIPELINE: tuple[Pass, ...] = (CSE, CANONICALISE, FOLD, LOOPS, CSE, CANONICALISE, CSE, DCE)


class Applied(NamedTuple):
    """One pass as it ran: number in the pipeline, graphs before and after, seconds, and what it did how often."""

    number: int
    name: str
    before: Graph
    after: Graph
    seconds: float
    hits: Counter[str]

    def diff(self) -> Difference:
        """What the pass changed."""
        return Difference(self.before, self.after)

    def to_dict(self) -> dict[str, Any]:
        """Name, sizes, seconds and rule hits."""
        sizes = {"before": len(self.before), "after": len(self.after)}
        return {"number": self.number, "pass": self.name, **sizes, "seconds": self.seconds, "hits": dict(self.hits)}

    def __str__(self) -> str:
        done = ", ".join(f"{name} {count}" for name, count in self.hits.most_common())
        sizes = f"{len(self.before)} → {len(self.after)} nodes"
        return f"{self.number} {self.name}: {sizes}, {self.seconds * 1e3:.1f} ms" + (f" ({done})" if done else "")


Observer = Callable[[Applied], None]


def run(graph: Graph, passes: Iterable[Pass] = PIPELINE, observers: Sequence[Observer] = ()) -> Graph:
    """`graph` through `passes` in order; each observer is called after each pass."""
    for number, each in enumerate(passes):
        hits: Counter[str] = Counter()
        start = time.perf_counter()
        after = each.apply(graph, hits)
        applied = Applied(number, each.name, graph, after, time.perf_counter() - start, hits)
        for observe in observers:
            observe(applied)
        graph = after
    return graph


def verifying(applied: Applied) -> None:
    """Observer: GraphError, with a note of the pass, where a pass broke the graph or its signature."""
    try:
        verify(applied.after)
        if applied.after.args != applied.before.args or applied.after.states != applied.before.states:
            raise GraphError("arguments or states changed", applied.after)
    except GraphError as error:
        error.add_note(f"after pass {applied.number} {applied.name}")
        raise


def dumping(folder: str | Path) -> Observer:
    """Observer: writes the text after each pass to `folder`, as 1-canonicalise.txt."""

    def observe(applied: Applied) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        path = Path(folder) / f"{applied.number}-{applied.name}.txt"
        path.write_text(to_text(applied.after), encoding="utf-8")

    return observe


class PassLog:
    """Observer: remembers every pass that ran; prints as a table of sizes, times and rule hits."""

    def __init__(self) -> None:
        self.passes: list[Applied] = []

    def __call__(self, applied: Applied) -> None:
        self.passes.append(applied)

    def __iter__(self) -> Iterator[Applied]:
        return iter(self.passes)

    def __len__(self) -> int:
        return len(self.passes)

    def to_dict(self) -> list[dict[str, Any]]:
        """One entry a pass."""
        return [applied.to_dict() for applied in self.passes]

    def __str__(self) -> str:
        return "\n".join(map(str, self.passes))
