"""A stage as one HTML file: no network, nothing to install; data and drawings are inside, compressed.

Names from user code reach the page as data, which the script puts into text nodes; a content security policy allows
no script but the page's own.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections.abc import Iterator, Sequence
from importlib import resources
from typing import Any

from tinygrad_lite.errors import UserError
from tinygrad_lite.instructions import Listing
from tinygrad_lite.ir.diagram import Box, Diagram, diagram
from tinygrad_lite.ir.difference import Difference
from tinygrad_lite.ir.dot import dot_of, grouped
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.passes import pipeline
from tinygrad_lite.ir.present import Presentable
from tinygrad_lite.ir.reading import parts
from tinygrad_lite.ir.text import node_text, value_names
from tinygrad_lite.memory import Memory
from tinygrad_lite.program import Program
from tinygrad_lite.stages import Planned, Scheduled
from tinygrad_lite.viz.renderer import NoRenderer, laid_out

LARGEST = 40_000  # nodes that a page shows
GROUPS = 60  # fused groups that are drawn as frames
LEVELS = (("operations", None), ("modules, 3 levels", 3), ("modules, 2 levels", 2), ("modules, 1 level", 1))


def page(stage: Any, *, profile: Any = None, title: str | None = None) -> str:
    """`stage` and the stages after it as the text of one HTML file.

    Args:
        stage: a Graph, a view of a compiled program, a compiled function, or an Architecture (drawn alone).
        profile: a Profile to show, as `compiled.profile()` gives it.

    Raises:
        UserError: a graph of more than 40,000 nodes.
    """
    data = _data(stage, profile)
    data["title"] = title or data["title"]
    return _document(data)


def _data(stage: Any, profile: Any) -> dict[str, Any]:
    capture = getattr(stage, "_latest", None)
    if capture is not None:
        last = capture()
        return _Pages(last.graph, list(last.log), last.program, profile=profile).data()
    if isinstance(stage, Graph):
        log = pipeline.PassLog()
        return _Pages(stage, log, *_planned(stage, log), profile=profile).data()
    program = getattr(stage, "program", None)
    if program is not None:
        return _Pages(program.schedule.graph, [], program, profile=profile).data()
    return _drawing_alone(stage)


def _planned(graph: Graph, log: pipeline.PassLog) -> tuple[Program | None, str]:
    """The program of a graph without native code, or None and the reason why there is none."""
    if len(graph) > LARGEST:
        most = f"a page shows at most {LARGEST:,}: save it as .txt or .json"
        raise UserError(f"the graph has {len(graph):,} nodes, {most}")
    try:
        return Planned(pipeline.run(graph, observers=[log])), ""
    except Exception as error:  # a graph that cannot be compiled is still one to look at
        return None, f"not scheduled: {type(error).__name__}: {error}"


def _drawing_alone(stage: Presentable) -> dict[str, Any]:
    step = {"title": type(stage).__name__, "note": "", "lines": [["", line] for line in str(stage).splitlines()]}
    drawn = stage.diagram() if hasattr(stage, "diagram") else None
    step["drawings"] = [_drawing("drawing", drawn, {}, {})] if drawn is not None else []
    return {"title": step["title"], "steps": [step], "nodes": [], "kernels": [], "memory": None, "profile": None}


class _Pages:
    """The data of a page. Nodes are rows shared by all steps: a pass keeps most of what it is given."""

    def __init__(self, graph: Graph, log: Any, program: Program | None, why: str = "", *, profile: Any = None) -> None:
        self.graph, self.log, self.program, self.why, self.profile = graph, list(log), program, why, profile
        self.rows: list[list[Any]] = []
        self.row_of: dict[int, int] = {}
        self.kept: list[Node] = []  # ids are keys: a node must outlive its entry
        self.listing = Listing(program) if program is not None else None
        self.group_of = self._groups()

    def _groups(self) -> dict[int, int]:
        if self.listing is None:
            return {}
        return {id(n): i for i, g in enumerate(self.listing.groups) for n in g.nodes}

    def data(self) -> dict[str, Any]:
        steps = [self._plain_step("traced", self.graph)]
        steps += [self._pass_step(applied) for applied in self.log]
        if self.program is not None:
            steps.append(self._scheduled_step(Scheduled(self.program)))
        return {
            "title": self.graph.name,
            "note": self.why,
            "steps": steps,
            "nodes": self.rows,
            "scopes": self._scopes(),
            "kernels": self._kernels(),
            "tape": [s.to_dict() for s in self.listing.steps] if self.listing else [],
            "memory": Memory(self.program).to_dict() if self.program is not None else None,
            "profile": self.profile.to_dict() if self.profile is not None else None,
        }

    def _scopes(self) -> list[dict[str, Any]]:
        return [
            {"name": p.title or p.phase, "nodes": len(p.nodes), "flops": p.flops, "bytes": p.bytes}
            for p in parts(self.graph, 3)
        ]

    def _row(self, node: Node) -> int:
        """[op, type, scope, phase, file:line, flops, bytes, group]"""
        row = self.row_of.get(id(node))
        if row is None:
            at, cost = node.location, node.op.cost(node) if node.op.kind is not Kind.LEAF else (0, 0)
            where = [at.scope, at.phase, f"{at.file}:{at.line}"] if at else [str(node.attrs.get("name", "")), "", ""]
            group = self.group_of.get(id(node), -1)
            row = self.row_of[id(node)] = len(self.rows)
            self.rows.append([node.op.name, str(node.type), *where, *cost, group])
            self.kept.append(node)
        return row

    def _lines(self, graph: Graph) -> list[list[Any]]:
        names = value_names(graph)
        lines: list[list[Any]] = [["", node_text(n, names), self._row(n)] for n in graph.nodes]
        lines += [["", f"update {u.state.attrs.get('name')} = {names[id(u.value)]}"] for u in graph.updates]
        return [*lines, ["", f"return {', '.join(names[id(o)] for o in graph.outputs)}"]]

    def _plain_step(self, title: str, graph: Graph) -> dict[str, Any]:
        note = f"{len(graph):,} nodes"
        return {"title": title, "note": note, "lines": self._lines(graph), "drawings": self._drawings(graph, {})}

    def _pass_step(self, applied: pipeline.Applied) -> dict[str, Any]:
        difference: Difference = applied.diff()
        step = {"title": f"after {applied.name}", "note": str(applied), "hits": dict(applied.hits)}
        if not difference:
            return step | {"same": True}
        marks = {id(line.node): line.mark for line in difference.lines if line.node is not None and line.mark in "+~"}
        lines = [
            [line.mark.strip(), line.text] + ([self._row(line.node)] if line.node is not None else [])
            for line in difference.lines
        ]
        return step | {"lines": lines, "drawings": self._drawings(applied.after, marks)}

    def _scheduled_step(self, scheduled: Scheduled) -> dict[str, Any]:
        lines: list[list[Any]] = []
        for text, node in scheduled.entries():
            mark = "#" if text.startswith("  #") else ""
            lines.append([mark, text.strip()] + ([self._row(node)] if node is not None else []))
        drawings = self._drawings(scheduled.graph, {})
        groups = list(scheduled.chapters())
        if len(groups) <= GROUPS:
            titled = [(head.split("  ")[0], nodes) for head, nodes in groups]
            drawn = grouped(scheduled.graph, titled)
            drawings.insert(0, _drawing("fused groups", drawn, self.row_of, {}))
        note = f"{len(groups)} groups in run order, {len(scheduled.listing.steps)} instructions"
        return {"title": "scheduled", "note": note, "lines": lines, "drawings": drawings}

    def _drawings(self, graph: Graph, marks: dict[int, str]) -> list[dict[str, Any]]:
        """One drawing a level of detail, those that look alike once."""
        drawings: list[dict[str, Any]] = []
        seen: set[str] = set()
        for node in graph.nodes:
            self._row(node)
        for name, depth in LEVELS:
            drawn = diagram(graph, depth=depth)
            key = str([b.label for b in drawn.boxes.values()])
            if key not in seen:
                seen.add(key)
                summarised = depth is None and "summarised by module" in drawn.notes
                drawings.append(_drawing("overview" if summarised else name, drawn, self.row_of, marks))
        return [d for d in drawings if d]

    def _kernels(self) -> list[dict[str, Any]]:
        return [dict(k.__dict__) for k in self.listing.kernels] if self.listing else []


def _drawing(name: str, drawn: Diagram, row_of: dict[int, int], marks: dict[int, str]) -> dict[str, Any]:
    try:
        picture = laid_out(dot_of(drawn), "svg").decode()
    except NoRenderer as error:
        return {"name": name, "svg": "", "note": str(error), "boxes": []}
    boxes = [_box(box, row_of, marks) for box in drawn.boxes.values()]
    return {"name": name, "svg": _inner_svg(picture), "boxes": boxes, "note": "; ".join(drawn.notes)}


def _box(box: Box, row_of: dict[int, int], marks: dict[int, str]) -> list[Any]:
    """[label, module, rows of its nodes, is it changed]"""
    rows = [row_of[id(n)] for n in box.members if id(n) in row_of]
    changed = [marks[id(n)] for n in box.members if id(n) in marks]
    return [box.label, ".".join(box.path), rows, "+" if "+" in changed else "~" if changed else ""]


def _inner_svg(picture: str) -> str:
    """The SVG element without prologue and comments, coordinates to one decimal."""
    text = re.sub(r"<!--.*?-->\s*", "", picture[picture.index("<svg") :], flags=re.DOTALL)
    return re.sub(r"(?<=\d)\.(\d)\d+(?=[, \"A-Z])", r".\1", text.replace(' xml:space="preserve"', ""))


# ---- the document ---------------------------------------------------------------------------------------


def _document(data: dict[str, Any]) -> str:
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    packed = base64.b64encode(gzip.compress(text.encode("utf-8", "replace"), 9, mtime=0)).decode()
    style, script = (_asset(name) for name in ("page.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    fields = {
        "TITLE": html.escape(data["title"]),
        "POLICY": f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; img-src data:",
        "STYLE": style,
        "DATA": packed,
        "SCRIPT": script,
        "TEXT": html.escape("\n".join(_first_lines(data["steps"][0]["lines"]))),
    }
    return re.sub(r"\{\{([A-Z]+)\}\}", lambda found: fields[found[1]], _asset("page.html"))


def _first_lines(lines: Sequence[Sequence[Any]], most: int = 400) -> Iterator[str]:
    """What a reader without script sees."""
    yield from (str(line[1]) for line in lines[:most])
    if len(lines) > most:
        yield f"… and {len(lines) - most} lines more"


def _asset(name: str) -> str:
    return resources.files("tinygrad_lite.viz").joinpath("web", name).read_text(encoding="utf-8")
