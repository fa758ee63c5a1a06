"""A graph's text for a reader: scopes folded to a line each, what they cost, and the memory alive beside each line.

Whatever is added is a comment, but where scopes are folded the text no longer parses: their values are not defined.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind

Scope = tuple[str, ...]
PRODUCTS = frozenset({Kind.MATMUL, Kind.CONVOLUTION, Kind.ATTENTION})
_VIEWS = frozenset({"reshape", "permute", "expand", "slice", "flip", "window", "detach"})


def levels(scope: str) -> Scope:
    """blocks.0.attn as ("blocks.0", "attn"): the number of a block is no level of its own."""
    return tuple(re.split(r"\.(?!\d+(?:\.|$))", scope)) if scope else ()


def phase_and_scope(node: Node) -> tuple[str, Scope]:
    """Phase and module path that a node was recorded in."""
    return (node.location.phase, levels(node.location.scope)) if node.location else ("forward", ())


@dataclass
class Part:
    """What a scope amounts to: its nodes, FLOPs, and the bytes they would move if nothing were fused."""

    phase: str
    scope: Scope
    nodes: list[Node] = field(default_factory=list)
    flops: int = 0
    bytes: int = 0

    def add(self, node: Node) -> None:
        cost = node.op.cost(node)
        self.nodes.append(node)
        self.flops += cost.flops
        self.bytes += cost.bytes

    @property
    def title(self) -> str:
        where = ".".join(self.scope)
        return " ".join(filter(None, ("" if self.phase == "forward" and where else self.phase, where)))

    def __str__(self) -> str:
        return f"{self.title}: {len(self.nodes)} nodes, {amount(self.flops, 'FLOP')}, {amount(self.bytes, 'B')}"


def one_line(text: str) -> str:
    """`text` fit for a comment: names of user code may hold line ends."""
    return "".join(c if c.isprintable() else "?" for c in text)


def amount(n: float, unit: str) -> str:
    """12.3 MFLOP, 1.5 kB: three digits and a decimal prefix."""
    for prefix, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if n >= size:
            return f"{n / size:.3g} {prefix}{unit}"
    return f"{n:.3g} {unit}"


def product_flops_of(nodes: Iterable[Node], kinds: frozenset[Kind] = PRODUCTS) -> int:
    """FLOPs of the products among nodes, those of a loop's body as often as it runs."""
    total = 0
    for node in nodes:
        if node.op.kind is Kind.LOOP:
            total += int(node.attrs["length"]) * product_flops_of(node.attrs["body"].nodes, kinds)
        elif node.op.kind in kinds:
            total += node.op.cost(node).flops
    return total


def parts(graph: Graph, depth: int | None = None) -> list[Part]:
    """Every scope with nodes in it or below it, outermost first, in order of appearance; down to `depth` levels."""
    found: dict[tuple[str, Scope], Part] = {}
    for node in graph.nodes:
        if node.op.kind is Kind.LEAF:
            continue
        phase, scope = phase_and_scope(node)
        for i in range(len(scope[:depth]) + 1):
            found.setdefault((phase, scope[:i]), Part(phase, scope[:i])).add(node)
    order = {key: i for i, key in enumerate(found)}
    prefixes = {key: tuple(order[key[0], key[1][:i]] for i in range(len(key[1]) + 1)) for key in found}
    return sorted(found.values(), key=lambda p: prefixes[p.phase, p.scope])


def cost_lines(graph: Graph, depth: int | None) -> Iterator[str]:
    """A table of comments: FLOPs and bytes of every scope."""
    rows = [("scope", "nodes", "FLOPs", "bytes")]
    for part in parts(graph, depth):
        name = "  " * (len(part.scope) + 1) + (part.scope[-1] if part.scope else part.phase)
        rows.append((name, str(len(part.nodes)), amount(part.flops, ""), amount(part.bytes, "B")))
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    for row in rows:
        cells = (row[0].ljust(widths[0]), *(row[i].rjust(widths[i]) for i in (1, 2, 3)))
        yield one_line(f"  # {'  '.join(cells)}").rstrip()


def live_bytes(graph: Graph) -> list[int]:
    """For each node in order, the bytes of computed values alive after it; results live to the end.

    Arguments and states are not counted, and views share the memory of what they look at. This is what the order of the
    text would need, without fusion.
    """
    root: dict[int, int] = {}
    last: dict[int, int] = {}
    size: dict[int, int] = {}
    for i, node in enumerate(graph.nodes):
        root[id(node)] = root[id(node.inputs[0])] if node.op.name in _VIEWS and node.inputs else id(node)
        size[id(node)] = 0 if node.op.kind is Kind.LEAF else node.type.nbytes
        for operand in (node, *node.inputs):
            last[root[id(operand)]] = i
    for result in graph.results:
        last[root[id(result)]] = len(graph.nodes)
    freed = [0] * (len(graph.nodes) + 1)
    for key, i in last.items():
        freed[i] += size[key]
    live, now = [], 0
    for i, node in enumerate(graph.nodes):
        now += size[id(node)] if root[id(node)] == id(node) else 0
        live.append(now)
        now -= freed[i]
    return live


class Folded:
    """Which nodes of a graph are shown, and which lie in a scope that has `depth` levels and is shown as one line."""

    def __init__(self, graph: Graph, depth: int) -> None:
        if depth < 0:
            raise ValueError(f"depth must be 0 or more, not {depth}")
        self.graph, self.depth = graph, depth
        self.parts: dict[tuple[str, Scope], Part] = {}
        self.of: dict[int, Part] = {}
        for node in graph.nodes:
            phase, scope = self._home(node)
            outside = phase == "forward" or scope  # the optimiser has no modules: it is one scope
            if node.op.name == "input" or (len(scope) < depth and outside):
                continue
            part = self.parts.setdefault((phase, scope[:depth]), Part(phase, scope[:depth]))
            part.add(node)
            self.of[id(node)] = part

    def _home(self, node: Node) -> tuple[str, Scope]:
        if node.op.name == "state":
            return "states", levels(str(node.attrs["name"]).rpartition(".")[0])
        return phase_and_scope(node)

    def line(self, part: Part, names: dict[int, str]) -> str:
        """The line in a folded scope's stead: what it reads, what of it is used elsewhere, its cost."""
        return one_line(self._line(part, names))

    def _line(self, part: Part, names: dict[int, str]) -> str:
        inside = {id(n) for n in part.nodes}
        if part.phase == "states":
            total = sum(n.type.size for n in part.nodes)
            states = f"{len(part.nodes)} state{'s' * (len(part.nodes) > 1)}"
            return f"# {'.'.join(part.scope) or 'model'}: {states} of {total:,} numbers"
        reads = _named(
            (i for n in part.nodes for i in n.inputs if id(i) not in inside and i.op.kind is not Kind.LEAF), names
        )
        results = {id(r) for r in self.graph.results}
        users = self.graph.users
        out = [n for n in part.nodes if id(n) in results or any(id(u) not in inside for u in users[id(n)])]
        gives = ", ".join(f"{names[id(n)]} : {n.type}" for n in out[:3])
        gives += f" and {len(out) - 3} more" if len(out) > 3 else ""
        return f"# {part}" + (f"; reads {reads}" if reads else "") + (f"; gives {gives}" if gives else "")


def _named(nodes: Iterable[Node], names: dict[int, str]) -> str:
    distinct = list(dict.fromkeys(names[id(n)] for n in nodes))
    return " ".join(distinct[:4]) + (f" and {len(distinct) - 4} more" if len(distinct) > 4 else "")
