"""What one graph has and another has not: nodes are paired by their structure first, then by op, type and user line.

A pass keeps most nodes and renumbers all of them, so lines of text do not line up; this compares the nodes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tinygrad_lite.ir.equality import attrs_key
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.text import node_text, value_names

CONTEXT = 2  # unchanged lines shown around a change
_COLOURS = {"-": "red", "+": "green", "~": "yellow", " ": "dim"}


@dataclass(frozen=True)
class Line:
    """One line of a difference. mark: "-" removed, "+" added, "~" its operands changed, " " kept."""

    mark: str
    text: str
    node: Node | None = None


class Difference:
    """The difference of two graphs. str() shows what changed with a little context; `print()` in colour on a terminal.

    Values of `after` are called as in its text, removed ones %old12 after their number in `before`.
    """

    def __init__(self, before: Graph, after: Graph) -> None:
        self.before, self.after = before, after
        self.pairs = _pairs(before, after)
        self.lines = tuple(self._lines())

    @property
    def removed(self) -> list[Node]:
        return [line.node for line in self.lines if line.mark == "-" and line.node]

    @property
    def added(self) -> list[Node]:
        return [line.node for line in self.lines if line.mark == "+" and line.node]

    @property
    def rewired(self) -> list[Node]:
        return [line.node for line in self.lines if line.mark == "~" and line.node]

    def __bool__(self) -> bool:
        return any(line.mark != " " for line in self.lines)

    def summary(self) -> str:
        """The counts."""
        counts = f"{len(self.removed)} removed, {len(self.added)} added, {len(self.rewired)} rewired"
        return f"{self.before.name} → {self.after.name}: {len(self.before)} → {len(self.after)} nodes, {counts}"

    def shown(self, context: int = CONTEXT) -> Iterator[Line]:
        """Changed lines and `context` kept ones around each; a line "…" stands for what is left out."""
        near: set[int] = set()
        for i, line in enumerate(self.lines):
            if line.mark != " ":
                near.update(range(i - context, i + context + 1))
        skipped = False
        for i, line in enumerate(self.lines):
            if i in near:
                skipped = False
                yield line
            elif not skipped:
                skipped = True
                yield Line(" ", "…")

    def __str__(self) -> str:
        return "\n".join([self.summary(), *(f"{line.mark} {line.text}" for line in self.shown())]) + "\n"

    def to_dict(self) -> dict[str, Any]:
        """Counts and lines."""
        lines = [{"mark": line.mark, "text": line.text} for line in self.shown()]
        counts = {"removed": len(self.removed), "added": len(self.added), "rewired": len(self.rewired)}
        return {"before": len(self.before), "after": len(self.after), **counts, "lines": lines}

    def print(self, console: Any = None) -> None:
        """Print through rich: removed red, added green, rewired yellow."""
        from rich.console import Console
        from rich.text import Text

        console = console or Console(highlight=False, soft_wrap=True)
        console.print(Text(self.summary(), style="bold"))
        for line in self.shown():
            console.print(Text(f"{line.mark} {line.text}", style=_COLOURS[line.mark]))

    def _lines(self) -> Iterator[Line]:
        new_names = value_names(self.after)
        old_names = {id(n): f"%old{i}" for i, n in enumerate(self.before.nodes)}
        old_names |= {id(b): new_names[id(a)] for b, a in self.pairs}
        merged = old_names | {i: new_names[id(a)] for i, a in self._merged().items()}
        kept, partner = {id(b) for b, _ in self.pairs}, {id(a): b for b, a in self.pairs}
        place = {id(n): i for i, n in enumerate(self.before.nodes)}
        at = 0
        for node in self.after.nodes:
            old = partner.get(id(node))
            while old is not None and at <= place[id(old)]:
                if id(self.before.nodes[at]) not in kept:
                    yield self._removed(self.before.nodes[at], old_names, merged)
                at += 1
            mark = "+" if old is None else " " if _same_operands(old, node, merged, new_names) else "~"
            yield Line(mark, node_text(node, new_names), node)
        rest = (n for n in self.before.nodes[at:] if id(n) not in kept)
        yield from (self._removed(n, old_names, merged) for n in rest)
        yield from self._results(merged, new_names)

    def _merged(self) -> dict[int, Node]:
        """id of a removed duplicate → the node of `after` that computes the same."""
        paired, old, new = {id(b) for b, _ in self.pairs}, *_structures(self.before, self.after)
        of = {new[id(n)]: n for n in reversed(self.after.nodes)}
        return {i: of[number] for i, number in old.items() if i not in paired and number in of}

    def _removed(self, node: Node, names: dict[int, str], merged: dict[int, str]) -> Line:
        same = merged[id(node)]
        return Line("-", node_text(node, names) + (f"  (is {same})" if same != names[id(node)] else ""), node)

    def _results(self, old_names: dict[int, str], new_names: dict[int, str]) -> Iterator[Line]:
        old, new = (_result_lines(g, n) for g, n in ((self.before, old_names), (self.after, new_names)))
        yield from (Line("-", text) for text in old if text not in new)
        yield from (Line(" " if text in old else "+", text) for text in new)


def diff(before: Graph, after: Graph) -> Difference:
    """What changed from `before` to `after`."""
    return Difference(before, after)


def _same_operands(old: Node, new: Node, old_names: dict[int, str], new_names: dict[int, str]) -> bool:
    return [old_names[id(i)] for i in old.inputs] == [new_names[id(i)] for i in new.inputs]


def _result_lines(graph: Graph, names: dict[int, str]) -> dict[str, None]:
    lines = [f"update {_label(u.state)} = {names[id(u.value)]}" for u in graph.updates]
    return dict.fromkeys([*lines, f"return {', '.join(names[id(o)] for o in graph.outputs)}"])


def _label(state: Node) -> str:
    return str(state.attrs.get("name", state.op.name))


def _pairs(before: Graph, after: Graph) -> list[tuple[Node, Node]]:
    """Counterparts: equal down to the leaves, else equal but for operands, in order."""
    old, new = _structures(before, after)
    pairs: list[tuple[Node, Node]] = []
    for key_of in (lambda n: old.get(id(n), new.get(id(n))), _surface):
        done = {id(n) for pair in pairs for n in pair}
        waiting: dict[Any, deque[Node]] = {}
        for node in before.nodes:
            if id(node) not in done:
                waiting.setdefault(key_of(node), deque()).append(node)
        for node in after.nodes:
            if id(node) not in done and waiting.get(key := key_of(node)):
                pairs.append((waiting[key].popleft(), node))
    return pairs


def _structures(*graphs: Graph) -> list[dict[int, int]]:
    """For each graph id(node) → a number equal for equal computations, in whichever of the graphs."""
    numbers: dict[Any, int] = {}
    found = []
    for graph in graphs:
        own: dict[int, int] = {}
        for node in graph.nodes:
            key = (node.op, node.type, attrs_key(node.attrs), tuple(own[id(i)] for i in node.inputs))
            own[id(node)] = numbers.setdefault(key, len(numbers))
        found.append(own)
    return found


def _surface(node: Node) -> Any:
    return node.op, node.type, attrs_key(node.attrs), node.location
