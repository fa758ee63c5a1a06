"""What a drawing of a graph shows, before any drawing language: boxes, edges, nested groups, and what was left out.

Constants are written into their users, `reshape expand permute` are drawn through, repeated blocks (`blocks.0` to
`blocks.11`, of one structure) are shown once, and a graph of more than `cap` boxes is summarised by module.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tinygrad_lite.ir.equality import attrs_key
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.text import short_number, value_text
from tinygrad_lite.ir.types import TensorType

Path = tuple[str, ...]
CAP = 80  # what fits a page
_MAX_INPUTS = 3  # that go to the same box and are drawn one by one
_MAX_DEPTH = 12  # module scopes nest no deeper in a drawing
_RELABELS = frozenset({"reshape", "expand", "permute", "detach", "check_index"})


@dataclass
class Box:
    """One drawn node. role: op, module, parameter, input, output or update."""

    label: str
    path: Path
    role: str
    phase: str
    nodes: int = 1
    members: Sequence[Node] = ()  # what it stands for, blocks drawn once apart


@dataclass
class Edge:
    """kind: data; saved (forward value kept for backward); carried (from one folded block to the next)."""

    kind: str
    types: dict[int, TensorType] = field(default_factory=dict)  # by id of the value, as it arrives first


@dataclass
class Diagram:
    """Boxes by key, edges by (source key, target key), times and last name by the path of a folded block."""

    title: str
    boxes: dict[Any, Box] = field(default_factory=dict)
    edges: dict[tuple[Any, Any], Edge] = field(default_factory=dict)
    folded: dict[Path, tuple[int, str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    by_phase: bool = False  # the first entry of each path is a phase

    @property
    def phases(self) -> list[str]:
        return list(dict.fromkeys(b.phase for b in self.boxes.values() if b.role in ("op", "module")))


def diagram(
    graph: Graph, *, depth: int | None = None, cap: int = CAP, movement: bool = False, fold: bool = True
) -> Diagram:
    """The drawing of `graph`.

    Args:
        depth: show modules nested deeper as one box each; None shows single operations as long as `cap` allows.
        cap: the most boxes; beyond it modules are summarised, the deepest first.
        movement: draw reshape, expand and permute as boxes of their own.
        fold: show neighbouring blocks of equal structure once.
    """
    view = _View(graph, movement)
    folding = _Folding(view, fold)
    if depth is None and len(folding.kept) + len(graph.results) <= cap:
        return _Drawing(view, folding, None).diagram()
    deepest = max((len(view.paths[id(n)]) for n in folding.kept), default=0)
    for level in range(deepest if depth is None else depth, 0, -1):
        drawn = _Drawing(view, folding, level).diagram()
        if len(drawn.boxes) <= cap:
            return drawn
    return _truncated(_Drawing(view, folding, 1 if depth is None else depth).diagram(), cap)


class _View:
    """The nodes worth a box, their operands seen through relabelling ops, and the module path each belongs to."""

    def __init__(self, graph: Graph, movement: bool) -> None:
        self.graph = graph
        self.constants: dict[int, str] = {}
        self.seen_as: dict[int, Node] = {}
        self.items: list[Node] = []
        hidden = frozenset({"detach", "check_index"}) if movement else _RELABELS
        for node in graph.nodes:
            self._look_at(node, hidden)
        used = {id(self.seen_as.get(id(i), i)) for n in graph.nodes for i in n.inputs} | {id(r) for r in graph.results}
        self.items = [n for n in self.items if n.op.name != "state" or id(n) in used]
        phases = {phase_of(n) for n in self.items if n.op.kind is not Kind.LEAF}
        self.by_phase = len(phases) > 1
        self.paths: dict[int, Path] = {}
        self._place()

    def _look_at(self, node: Node, hidden: frozenset[str]) -> None:
        text = self._constant(node)
        if text is not None:
            self.constants[id(node)] = text
        elif node.op.name in hidden:
            source = node.inputs[0]
            self.seen_as[id(node)] = self.seen_as.get(id(source), source)
        else:
            self.items.append(node)

    def _constant(self, node: Node) -> str | None:
        """How a value that depends on nothing is named within its users' labels."""
        if node.op.name == "full":
            return short_number(node.attrs["value"], node.type.dtype)
        if node.op.name == "constant":
            data = node.attrs["data"]
            return short_number(data[0], node.type.dtype) if len(set(data)) == 1 else f"constant {node.type}"
        if node.op.kind in (Kind.LEAF, Kind.RANDOM) or any(id(i) not in self.constants for i in node.inputs):
            return None
        return self.constants[id(node.inputs[0])] if node.op.name in _RELABELS else node.op.name

    def operands(self, node: Node) -> list[tuple[Node, TensorType]]:
        """The drawn sources of a node's inputs, each with the type in which it arrives."""
        return [(self.seen_as.get(id(i), i), i.type) for i in node.inputs if id(i) not in self.constants]

    def _place(self) -> None:
        for node in self.items:
            if node.op.kind is not Kind.LEAF:
                self.paths[id(node)] = self._path(phase_of(node), node.location.scope if node.location else "")
        known = {p[:i] for p in self.paths.values() for i in range(len(p) + 1)}
        first_user: dict[int, Node] = {}
        for node in self.items:
            for source, _ in self.operands(node):
                first_user.setdefault(id(source), node)
        for node in self.items:
            if node.op.kind is Kind.LEAF:
                self.paths[id(node)] = self._leaf_path(node, known, first_user.get(id(node)))

    def _path(self, phase: str, scope: str) -> Path:
        parts = scope.split(".") if scope else []
        parts = parts[:_MAX_DEPTH]
        return (phase, *parts) if self.by_phase else tuple(parts)

    def _leaf_path(self, node: Node, known: set[Path], user: Node | None) -> Path:
        """A parameter stands in the module that its name says, else where it is used first; an input stands outside."""
        if node.op.name == "input" or user is None:
            return ()
        path = self._path(phase_of(user), node.attrs.get("name", "").rpartition(".")[0])
        while path and path not in known:
            path = path[:-1]
        return path

    def is_reference(self, source: Node, user: Node) -> bool:
        """Is `source` a parameter of another phase? Then it is named in the label, for an edge would cross the page."""
        return source.op.name == "state" and self.by_phase and self.paths[id(source)][:1] != self.paths[id(user)][:1]

    def label(self, node: Node) -> str:
        if node.op.kind is Kind.LEAF:
            name = str(node.attrs.get("name", node.op.name))
            return (
                f"{name.rpartition('.')[2] if node.op.name == 'state' and self.paths[id(node)] else name}\n{node.type}"
            )
        known = [self.constants[id(i)] for i in node.inputs if id(i) in self.constants]
        named = [s.attrs["name"] for s, _ in self.operands(node) if self.is_reference(s, node)]
        return " ".join([node.op.name, *_attribute_texts(node), *known, *named])


def phase_of(node: Node) -> str:
    """forward, backward, optimiser or recompute."""
    return node.location.phase if node.location else "forward"


_SHOWN_ATTRIBUTES = ("axes", "axis", "dtype", "low", "high", "starts")


def _attribute_texts(node: Node) -> list[str]:
    return [value_text(node.attrs[n]).replace(" ", "") for n in _SHOWN_ATTRIBUTES if n in node.attrs]


class _Folding:
    """Runs of equal siblings, found by comparing their nodes in topological order; `kept` are the nodes drawn."""

    def __init__(self, view: _View, fold: bool) -> None:
        self.view = view
        self.members: dict[Path, list[Node]] = {}
        for node in view.items:
            path = view.paths[id(node)]
            for i in range(1, len(path) + 1):
                self.members.setdefault(path[:i], []).append(node)
        self.stands_for: dict[int, Node] = {}
        self.folded: dict[Path, tuple[int, str]] = {}
        self.run_of: dict[Path, Path] = {}
        if fold:
            for run in self._runs():
                self._fold(run)
        self.kept = [n for n in view.items if self.drawn_as(n) is n]

    def drawn_as(self, node: Node) -> Node:
        """The node that is drawn in this one's stead; in nested folds a stand-in may itself have one."""
        while id(node) in self.stands_for:
            node = self.stands_for[id(node)]
        return node

    def crosses(self, a: Node, b: Node) -> bool:
        """Do a and b lie in different blocks of one folded run?"""
        for x, y in zip(self._prefixes(a), self._prefixes(b), strict=False):
            if x != y:
                return x in self.run_of and self.run_of.get(y) == self.run_of[x]
        return False

    def _prefixes(self, node: Node) -> list[Path]:
        path = self.view.paths[id(node)]
        return [path[:i] for i in range(1, len(path) + 1)]

    def _runs(self) -> list[list[Path]]:
        families: dict[tuple[Path, str], list[tuple[int, Path]]] = {}
        for path in self.members:
            found = re.fullmatch(r"(.*?)(\d{1,9})", path[-1])
            if found:
                families.setdefault((path[:-1], found.group(1)), []).append((int(found.group(2)), path))
        return [run for family in families.values() for run in self._equal_neighbours(sorted(family))]

    def _equal_neighbours(self, family: list[tuple[int, Path]]) -> list[list[Path]]:
        runs: list[list[Path]] = []
        last: tuple[int, Any] = (-1, None)
        for number, path in family:
            form = self._form(path)
            if runs and last == (number - 1, form):
                runs[-1].append(path)
            else:
                runs.append([path])
            last = (number, form)
        # two that merely look alike (ln_1, ln_2) need not be a sequence; blocks.0, blocks.1 are
        return [run for run in runs if len(run) > (1 if run[0][-1].isdigit() else 2)]

    def _form(self, path: Path) -> Any:
        """Equal for blocks that differ in nothing but names and what they are connected to."""
        index = {id(n): i for i, n in enumerate(self.members[path])}
        return tuple(self._node_form(node, path, index) for node in self.members[path])

    def _node_form(self, node: Node, path: Path, index: dict[int, int]) -> Any:
        operands = tuple((index.get(id(s)), t) for s, t in self.view.operands(node))
        known = tuple(self.view.constants.get(id(i)) for i in node.inputs)
        attrs = {k: v for k, v in node.attrs.items() if k != "name"}
        leaf = str(node.attrs.get("name", "")).rpartition(".")[2]
        return node.op.name, node.type, attrs_key(attrs), leaf, self.view.paths[id(node)][len(path) :], operands, known

    def _fold(self, run: list[Path]) -> None:
        first = run[0]
        self.folded[first] = (len(run), run[-1][-1])
        for path in run:
            self.run_of[path] = first
            if path != first:
                self.stands_for |= {id(n): r for n, r in zip(self.members[path], self.members[first], strict=True)}


class _Drawing:
    """Boxes and edges at one level of detail: single operations (level None), or modules down to `level`."""

    def __init__(self, view: _View, folding: _Folding, level: int | None) -> None:
        self.view, self.folding, self.level = view, folding, level
        self.keys: dict[int, Any] = {}
        self.content: dict[Any, list[Node]] = {}
        self.kept_values: dict[Any, set[int]] = {}
        for node in folding.kept:
            if node.op.kind is Kind.LEAF:
                self.keys[id(node)] = id(node)
        segments = None if level is None else _segments(folding.kept, view, level)
        for node in folding.kept:
            if node.op.kind is not Kind.LEAF:
                path = view.paths[id(node)][:level]
                self.keys[id(node)] = id(node) if segments is None else (path, segments[id(node)])
            self.content.setdefault(self.keys[id(node)], []).append(node)

    def diagram(self) -> Diagram:
        graph = self.view.graph
        drawn = Diagram(graph.name, by_phase=self.view.by_phase)
        for key, nodes in self.content.items():
            if self.level is None or nodes[0].op.name != "state":
                drawn.boxes[key] = self._box(key, nodes)
                drawn.boxes[key].members = nodes
        for node in self.view.items:
            for source, type in self.view.operands(node):
                if not self.view.is_reference(source, node):
                    self._connect(drawn, source, node, type)
        if self.kept_values:
            self._tell_kept_values(drawn)
        _join_inputs(drawn)
        self._add_results(drawn)
        shown = {b.path[:i] for b in drawn.boxes.values() for i in range(len(b.path) + 1)}
        drawn.folded = {p: f for p, f in self.folding.folded.items() if p in shown or self._is_box(p)}
        drawn.notes = self._notes(drawn, len(graph))
        return drawn

    def _tell_kept_values(self, drawn: Diagram) -> None:
        """A summary says how many forward values a backward box reads; one edge shows where backward begins."""
        for key, values in self.kept_values.items():
            drawn.boxes[key].label += f"\nreads {len(values)} forward value{'s' * (len(values) > 1)}"
        loss = [self._key(o) for o in self.view.graph.outputs if self._key(o) in drawn.boxes]
        first = [k for k, b in drawn.boxes.items() if b.phase == "backward"]
        if loss and first:
            drawn.edges[loss[0], first[0]] = Edge("saved")

    def _is_box(self, path: Path) -> bool:
        return self.level is not None and len(path) == self.level

    def _box(self, key: Any, nodes: list[Node]) -> Box:
        node = nodes[0]
        phase, path = phase_of(node), self.view.paths[id(node)]
        if node.op.name == "input":
            return Box(self.view.label(node), (), "input", phase)
        if node.op.kind is Kind.LEAF:
            return Box(self.view.label(node), path, "parameter", phase)
        if self.level is None or (len(nodes) == 1 and len(path) < self.level):
            return Box("\n".join(filter(None, [self.view.label(node), self._weights(nodes)])), path, "op", phase)
        return self._module_box(key, nodes, phase)

    def _module_box(self, key: Any, nodes: list[Node], phase: str) -> Box:
        path, segment = key
        whole = len(path) == self.level
        name = path[-1] if path and whole else ""
        if whole and path in self.folding.folded:
            times, last = self.folding.folded[path]
            name = f"{name} .. {last}  × {times}"
        lines = [name + (f" (use {segment + 1})" if segment and name else ""), _op_counts(nodes), self._weights(nodes)]
        return Box("\n".join(filter(None, lines)), path[:-1] if whole else path, "module", phase, len(nodes))

    def _weights(self, nodes: Sequence[Node]) -> str:
        """The parameters of the box's own phase that it reads."""
        if self.level is None:
            return ""
        pairs = [(s, n) for n in nodes for s, _ in self.view.operands(n) if s.op.name == "state"]
        own = {id(s): s for s, n in pairs if not self.view.is_reference(s, n)}
        total = sum(s.type.size for s in own.values())
        what = "states" if phase_of(nodes[0]) == "optimiser" else "parameters"
        return f"{_thousands(total)} {what}" if own else ""

    def _connect(self, drawn: Diagram, source: Node, user: Node, type: TensorType) -> None:
        start, end = (self.keys[id(self.folding.drawn_as(n))] for n in (source, user))
        if start not in drawn.boxes or end not in drawn.boxes:
            return
        carried = self.folding.crosses(source, user)
        if start == end and (not carried or self.level is None):
            return
        saved = self.view.by_phase and phase_of(source) == "forward" and phase_of(user) == "backward"
        if saved and self.level is not None:
            self.kept_values.setdefault(end, set()).add(id(self.folding.drawn_as(source)))
            return
        edge = drawn.edges.setdefault((start, end), Edge("carried" if carried else "saved" if saved else "data"))
        if edge.kind == "carried" and not carried:
            edge.kind = "data"
        edge.types.setdefault(id(self.folding.drawn_as(source)), type)

    def _add_results(self, drawn: Diagram) -> None:
        graph = self.view.graph
        for i, output in enumerate(graph.outputs):
            key = ("output", i)
            drawn.boxes[key] = Box(f"output {i}\n{output.type}", (), "output", "forward")
            self._lead_to(drawn, output, key)
        if self.level is None:
            for i, update in enumerate(graph.updates):
                name = str(update.state.attrs.get("name", "state"))
                home = self.view.paths.get(id(self._seen(update.value)), ())
                drawn.boxes["update", i] = Box(f"new {name}", home, "update", phase_of(update.value))
                self._lead_to(drawn, update.value, ("update", i))
        elif graph.updates:
            self._count_updates(drawn)

    def _seen(self, value: Node) -> Node:
        return self.folding.drawn_as(self.view.seen_as.get(id(value), value))

    def _key(self, value: Node) -> Any:
        return self.keys.get(id(self._seen(value)))

    def _lead_to(self, drawn: Diagram, value: Node, key: Any) -> None:
        if self._key(value) in drawn.boxes:
            drawn.edges[self._key(value), key] = Edge("data", {id(value): value.type})

    def _count_updates(self, drawn: Diagram) -> None:
        """A summary says how many states a box updates, rather than drawing each."""
        counts: Counter[Any] = Counter()
        for update in self.view.graph.updates:
            counts[self._key(update.value)] += 1
        for key, count in counts.items():
            if key in drawn.boxes and drawn.boxes[key].role == "module":
                drawn.boxes[key].label += f"\nupdates {count} states"

    def _notes(self, drawn: Diagram, total: int) -> list[str]:
        notes = [f"{len(drawn.boxes)} boxes for {total:,} nodes"]
        if self.level is not None:
            notes.append("summarised by module")
        notes += [f"{'.'.join(p)} .. {last} drawn once (× {n})" for p, (n, last) in drawn.folded.items()]
        return notes


def _join_inputs(drawn: Diagram) -> None:
    """Inputs that go to the same boxes, such as an optimiser's settings, become one ellipse where there are many."""
    users: dict[Any, list[Any]] = {}
    for start, end in drawn.edges:
        users.setdefault(start, []).append(end)
    alike: dict[tuple[Any, ...], list[Any]] = {}
    for key, box in drawn.boxes.items():
        if box.role == "input" and key in users:
            alike.setdefault(tuple(users[key]), []).append(key)
    for ends, keys in alike.items():
        if len(keys) <= _MAX_INPUTS:
            continue
        first = drawn.boxes[keys[0]]
        name, _, type = first.label.partition("\n")
        first.label = f"{name}\nand {len(keys) - 1} more inputs\n{type}"
        first.members = [n for key in keys for n in drawn.boxes[key].members]
        for key in keys[1:]:
            del drawn.boxes[key]
            for end in ends:
                del drawn.edges[key, end]


def _segments(kept: Iterable[Node], view: _View, level: int) -> dict[int, int]:
    """Numbers a module's nodes anew when values left the module and came back: one box for both would make a cycle."""
    reach: dict[int, dict[Path, int]] = {}
    segments: dict[int, int] = {}
    for node in kept:
        home = view.paths[id(node)][:level]
        merged: dict[Path, int] = {}
        segment = 0
        for source, _ in view.operands(node):
            seen = reach.get(id(source))
            if seen is None:
                continue
            if home in seen:
                inside = view.paths[id(source)][:level] == home and source.op.kind is not Kind.LEAF
                segment = max(segment, seen[home] + (0 if inside else 1))
            for path, number in seen.items():
                merged[path] = max(number, merged.get(path, 0))
        if node.op.kind is not Kind.LEAF:
            merged[home] = segment
            segments[id(node)] = segment
        reach[id(node)] = merged
    return segments


def _truncated(drawn: Diagram, cap: int) -> Diagram:
    """The first `cap` boxes, where even a summary by top-level modules has more."""
    left_out = len(drawn.boxes) - cap
    if left_out > 0:
        drawn.boxes = dict(list(drawn.boxes.items())[:cap])
        drawn.edges = {k: e for k, e in drawn.edges.items() if k[0] in drawn.boxes and k[1] in drawn.boxes}
        drawn.notes.append(f"{left_out} boxes left out")
    return drawn


def _op_counts(nodes: Sequence[Node]) -> str:
    """The three commonest ops of a box, and how many others."""
    counts = Counter(n.op.name for n in nodes).most_common()
    shown = [name if n == 1 else f"{name} ×{n}" for name, n in counts[:3]]
    rest = sum(n for _, n in counts[3:])
    return ", ".join(shown) + (f", {rest} more" if rest else "")


def _thousands(n: int) -> str:
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if n >= size:
            return f"{n / size:.3g}{unit}"
    return str(n)
