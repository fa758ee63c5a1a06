"""Drawings of a model's architecture: modules as boxes with what they cost and see, residual arrows past branches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tinygrad_lite.errors import UserError
from tinygrad_lite.ir.diagram import CAP, Box, Diagram, Edge
from tinygrad_lite.ir.dot import dot_of
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.present import Presentable
from tinygrad_lite.ir.reading import amount, levels
from tinygrad_lite.nn.module import Module
from tinygrad_lite.viz.receptive import Field, fields
from tinygrad_lite.viz.tables import ModuleCall, steps_of, traced_calls

_MERGES = {"add": "+", "mul": "×", "sub": "−", "concat": "concat"}
# what functions of the nn.functional kind leave behind in a trace
_IDIOMS = {
    ("le", "where"): "relu",
    ("mul", "sigmoid", "sloped"): "silu",
    ("add", "erf", "mul", "sloped"): "gelu",
    ("add", "mul", "sloped", "tanh"): "gelu (tanh)",
}
_PASSED = frozenset({"reshape", "expand", "permute", "slice", "detach", "check_index", "cast"})


class Architecture(Presentable):
    """A model's modules and what flows between them, for one example input. Made by `architecture`."""

    def __init__(self, model: Module, inputs: tuple[Any, ...], train: bool = False) -> None:
        self.model = model
        self.calls, self.graph = traced_calls(model, inputs, train)

    def diagram(self, depth: int | None = None, cap: int = CAP, fold: bool = True) -> Diagram:
        """The drawing; modules more than `depth` levels down are part of the box of their parent."""
        deepest = max((len(levels(c.path)) for c in self.calls), default=0)
        for level in range(max(deepest, 1), 0, -1) if depth is None else [depth]:
            drawn = _Plan(self, level, fold).diagram()
            if len(drawn.boxes) <= cap:
                return drawn
        return drawn

    def to_dot(self, *, depth: int | None = None, cap: int = CAP, fold: bool = True, **options: Any) -> str:
        """DOT source; `options` are legend and rankdir."""
        return dot_of(self.diagram(depth, cap, fold), **options)

    def to_text(self, depth: int | None = None) -> str:
        """One line a box and one an arrow."""
        drawn = self.diagram(depth)
        names = {key: "/".join([*b.path, " ".join(b.label.split("\n"))]) for key, b in drawn.boxes.items()}
        arrows = [
            f"{names[a]} -> {names[b]}" + (f"  [{e.kind}]" if e.kind != "data" else "")
            for (a, b), e in drawn.edges.items()
        ]
        return "\n".join([drawn.title, *drawn.notes, *names.values(), "", *arrows]) + "\n"

    def to_dict(self) -> dict[str, Any]:
        drawn = self.diagram()
        index = {key: i for i, key in enumerate(drawn.boxes)}
        boxes = [{"label": b.label, "path": list(b.path), "role": b.role} for b in drawn.boxes.values()]
        edges = [{"from": index[a], "to": index[b], "kind": e.kind} for (a, b), e in drawn.edges.items()]
        return {"format": "tinygrad_lite.architecture/1", "name": drawn.title, "boxes": boxes, "edges": edges}

    def to_networkx(self) -> Any:
        import networkx as nx

        data = self.to_dict()
        drawn = nx.DiGraph(name=data["name"])
        drawn.add_nodes_from((i, box) for i, box in enumerate(data["boxes"]))
        drawn.add_edges_from((e["from"], e["to"], {"kind": e["kind"]}) for e in data["edges"])
        return drawn

    def __str__(self) -> str:
        return self.to_text()


def architecture(model: Module, *inputs: Any, train: bool = False) -> Architecture:
    """`model` as it looks for one call on example `inputs`: print it, `.save("x.svg")`, show it in a notebook.

    Boxes are modules, with class, parameter count and, behind convolutions and pools, receptive field and jump. Where
    branches meet there is a sign; the arrow of a residual connection is drawn past its branch. Equal neighbours in a
    list of modules are drawn once.

    Raises:
        UserError: `model` is no Module.
    """
    if not isinstance(model, Module):
        raise UserError(f"architecture takes a Module, not {type(model).__name__}")
    return Architecture(model, inputs, train)


class _Plan:
    """Which module or operation each node is drawn as, at one level of detail."""

    def __init__(self, of: Architecture, level: int, fold: bool) -> None:
        self.graph: Graph = of.graph
        self.model = of.model
        self.modules = dict(of.model.named_modules())
        self.level = level
        self.field: dict[int, Field] = fields(of.graph, steps_of(of.calls))
        self.uses: dict[str, list[ModuleCall]] = {}
        for call in of.calls:
            self.uses.setdefault(call.scope, []).append(call)
        self.stands_for = _folds(of.model, {c.path for c in of.calls}) if fold else {}
        self.of: dict[int, Any] = {}
        self.label: dict[Any, list[str]] = {}
        self.home: dict[Any, str] = {}
        self.counts: dict[tuple[str, str], int] = {}
        self.fed: dict[Any, set[Any]] = {}
        self._place()

    def _place(self) -> None:
        for node in self.graph.nodes:
            if node.op.name == "input":
                self.of[id(node)] = ("input", id(node))
            elif node.op.kind is not Kind.LEAF:
                self._place_one(node, list(dict.fromkeys(self._sources(node))))

    def _place_one(self, node: Node, sources: list[Any]) -> None:
        scope = self._scope(node)
        if scope and self._is_box(scope):
            self.of[id(node)] = ("module", self._folded(scope), self._use(node, scope))
        elif node.op.name in _PASSED and sources:
            self.of[id(node)] = sources[0]
        elif sources:  # else made of constants alone
            self._place_own(node, scope, sources)

    def _place_own(self, node: Node, scope: str, sources: list[Any]) -> None:
        """An operation of a module's own forward: a sign where branches meet, else part of a box of operations."""
        home = self._folded(scope)
        near = [s for s in sources if s[0] == "ops" and self.home[s] == home]
        kind = (
            "merge"
            if len(sources) > 1 and node.op.name in _MERGES and self._meet(node.op.name, sources, near)
            else "ops"
        )
        key = near[0] if near and kind == "ops" else self._next(kind, scope, home)
        self.of[id(node)] = key
        self.home[key] = home
        names = self.label.setdefault(key, [])
        if node.op.name not in names:
            names.append(node.op.name)
        if kind == "ops":
            self.fed.setdefault(key, set()).update(s for s in sources if s != key)

    def _meet(self, op: str, sources: list[Any], near: list[Any]) -> bool:
        """Branches meet where no operand is arithmetic on the others, as in x · erf(x)."""
        others = {s for s in sources if s not in near}
        return not near or (op in ("add", "concat") and not any(self.fed.get(s, set()) & others for s in near))

    def _next(self, kind: str, scope: str, home: str) -> Any:
        """The n-th of a block stands for the n-th of the block that is drawn in its stead."""
        number = self.counts.get((scope, kind), 0)
        self.counts[scope, kind] = number + 1
        return (kind, home, number)

    def _use(self, node: Node, scope: str) -> int:
        """Which call of its module a node was recorded in: a module used twice is drawn twice."""
        calls = self.uses[scope]
        return next((i for i, c in enumerate(calls) if c.first <= node.serial <= c.last), 0)

    def _sources(self, node: Node) -> Iterator[Any]:
        return (self.of[id(i)] for i in node.inputs if id(i) in self.of)

    def _scope(self, node: Node) -> str:
        scope = node.location.scope if node.location else ""
        while scope and scope not in self.uses:
            scope = scope.rpartition(".")[0]
        return scope

    def _is_box(self, scope: str) -> bool:
        below = f"{scope}."
        return len(levels(scope)) >= self.level or not any(s.startswith(below) for s in self.uses)

    def _folded(self, path: str) -> str:
        parts = path.split(".")
        for i in range(1, len(parts) + 1):
            first = self.stands_for.get(".".join(parts[:i]))
            if first is not None:
                return self._folded(".".join([first, *parts[i:]]))
        return self._cut(path)

    def _cut(self, path: str) -> str:
        kept = levels(path)[: self.level]
        return ".".join(kept)

    # ---- the drawing ----

    def diagram(self) -> Diagram:
        drawn = Diagram(type(self.model).__name__)
        for node in self.graph.nodes:
            key = self.of.get(id(node))
            if key is not None and key not in drawn.boxes:
                drawn.boxes[key] = self._box(key, node)
        for node in self.graph.nodes:
            if id(node) in self.of:
                self._connect(drawn, node)
        for i, output in enumerate(self.graph.outputs):
            drawn.boxes["output", i] = Box(f"output {i}\n{output.type}", (), "output", "forward")
            if id(output) in self.of:
                drawn.edges[self.of[id(output)], ("output", i)] = Edge("data", {id(output): output.type})
        self._mark_residuals(drawn)
        self._finish(drawn)
        return drawn

    def _box(self, key: Any, node: Node) -> Box:
        if key[0] == "input":
            return Box(f"{node.attrs['name']}\n{node.type}", (), "input", "forward")
        if key[0] == "module":
            return self._module_box(key[1], key[2])
        home = tuple(self.home[key].split(".")) if self.home[key] else ()
        if key[0] == "merge":
            return Box(_MERGES[self.label[key][0]], home, "merge", "forward")
        names = self.label[key]
        known = _IDIOMS.get(tuple(sorted(names)))
        if known:
            return Box(known, home, "op", "forward")
        return Box(", ".join(names[:3]) + (", …" if len(names) > 3 else ""), home, "op", "forward")

    def _module_box(self, scope: str, use: int) -> Box:
        uses = self.uses.get(scope, [])
        call = uses[use] if use < len(uses) else None
        module = uses[0].module if uses else self.modules.get(scope, self.model)
        parts = scope.split(".")
        again = f" (use {use + 1})" if use else ""
        lines = [f"{parts[-1]}: {type(module).__name__}{again}", "" if module._modules else described(module)]
        count = sum(p.numel() for p in {id(p): p for p in module.parameters()}.values())
        if count:
            frozen = "" if any(p.requires_grad for p in module.parameters()) else ", frozen"
            lines.append(f"{amount(count, '')}".strip() + f" parameters{frozen}")
        field = next((self.field[id(o)] for o in (call.outputs if call else ()) if id(o) in self.field), None)
        if field is not None:
            lines.append(f"sees {field}".replace(" / ", ", jump "))
        return Box("\n".join(filter(None, lines)), tuple(parts[:-1]), "module", "forward")

    def _connect(self, drawn: Diagram, node: Node) -> None:
        end = self.of[id(node)]
        for operand in node.inputs:
            start = self.of.get(id(operand))
            if start is None or start == end:
                continue
            carried = self._carried(operand, node)
            edge = drawn.edges.setdefault((start, end), Edge("carried" if carried else "data"))
            if edge.kind == "carried" and not carried:
                edge.kind = "data"
            edge.types.setdefault(0, operand.type)

    def _carried(self, source: Node, user: Node) -> bool:
        """From one folded block to the next?"""
        a, b = self._block(self._scope(source)), self._block(self._scope(user))
        return a is not None and b is not None and a != b and self._first(a) == self._first(b)

    def _block(self, path: str) -> str | None:
        """The block of a folded run that a module lies in."""
        parts = path.split(".")
        names = (".".join(parts[:i]) for i in range(1, len(parts) + 1))
        return next((n for n in names if n in self.stands_for or n in self.stands_for.values()), None)

    def _first(self, block: str) -> str:
        return self.stands_for.get(block, block)

    def _mark_residuals(self, drawn: Diagram) -> None:
        """Into a merge: the arrow whose source also reaches it by way of another operand."""
        above: dict[Any, set[Any]] = {}
        place = {key: i for i, key in enumerate(drawn.boxes)}
        for (a, b), edge in drawn.edges.items():
            if place[a] > place[b]:  # from a block back to the one that is drawn in its stead
                edge.kind = "carried"
            if edge.kind != "carried":
                above.setdefault(b, set()).add(a)
        for key, box in drawn.boxes.items():
            if box.role != "merge":
                continue
            sources = above.get(key, set())
            for source in sources:
                if any(source in _ancestors(other, above) for other in sources if other != source):
                    drawn.edges[source, key].kind = "residual"

    def _finish(self, drawn: Diagram) -> None:
        times: dict[str, list[str]] = {}
        for path, first in self.stands_for.items():
            times.setdefault(first, []).append(path)
        for first, others in times.items():
            drawn.folded[tuple(first.split("."))] = (len(others) + 1, others[-1].rpartition(".")[2])
            drawn.notes.append(f"{first} .. {others[-1].rpartition('.')[2]} drawn once (× {len(others) + 1})")
        total = sum(p.numel() for p in {id(p): p for p in self.model.parameters()}.values())
        drawn.notes.insert(0, f"{total:,} parameters")


def described(module: Module) -> str:
    """The sizes of a layer, such as 3 → 16, 3×3, stride 2; else what its repr has between parentheses, shortened."""
    sizes = [(getattr(module, f"in_{w}", None), getattr(module, f"out_{w}", None)) for w in ("features", "channels")]
    known = [f"{a} → {b}" for a, b in sizes if a is not None and b is not None]
    window = getattr(module, "kernel_size", None)
    if window is not None:
        known.append("×".join(map(str, window)) if isinstance(window, tuple) else f"window {window}")
        for name in ("stride", "dilation", "groups"):
            value = getattr(module, name, None)
            each = value[0] if isinstance(value, tuple) and len(set(value)) == 1 else value
            known += [f"{name} {each}"] if each not in (None, 1, window) else []
    if known:
        return ", ".join(known)
    extra = module.extra_repr()
    return extra if len(extra) <= 32 else f"{extra[:30]}…"


def _ancestors(key: Any, above: dict[Any, set[Any]]) -> set[Any]:
    seen: set[Any] = set()
    stack = [key]
    while stack:
        for parent in above.get(stack.pop(), ()):
            if parent not in seen:
                seen.add(parent)
                stack.append(parent)
    return seen


def _folds(model: Module, called: set[str]) -> dict[str, str]:
    """path → the earlier sibling it is drawn as: numbered neighbours that print alike."""
    stands_for: dict[str, str] = {}
    for path, module in model.named_modules():
        run, last = "", None
        for name, child in module._modules.items():
            full = f"{path}.{name}" if path else name
            form = repr(child) if child is not None and child._modules and full in called and name.isdigit() else None
            if form is not None and form == last:
                stands_for[full] = run
            else:
                run, last = full, form
    return {path: first for path, first in stands_for.items() if first}
