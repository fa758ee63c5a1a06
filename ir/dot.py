"""DOT source of a graph's drawing, through the graphviz package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tinygrad_lite.ir.diagram import CAP, Box, Diagram, Edge, Path, diagram
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.types import TensorType

# fill and outline by phase; the rest by role
_PHASES = {
    "forward": ("#dce9f7", "#4a78a8"),
    "backward": ("#fbe4d0", "#b5713a"),
    "optimiser": ("#dcefdc", "#4b8a57"),
    "recompute": ("#ebe0f5", "#7d5ba6"),
}
_OTHER = ("#eeeeee", "#777777")
_ROLES = {
    "parameter": {"shape": "box", "style": "filled", "fillcolor": "#fff6d6", "color": "#b59a3a"},
    "input": {"shape": "ellipse", "style": "filled", "fillcolor": "#ffffff", "color": "#333333"},
    "output": {"shape": "ellipse", "style": "filled,bold", "fillcolor": "#ffffff", "color": "#333333"},
    "merge": {"shape": "circle", "style": "filled", "fillcolor": "#ffffff", "color": "#333333"},
    "update": {"shape": "box", "style": "filled,dashed", "fillcolor": "#fff6d6", "color": "#b59a3a"},
}
_EDGES = {
    "data": {},
    "residual": {"color": "#b5713a", "penwidth": "1.8"},
    "saved": {"style": "dashed", "constraint": "false", "color": "#b9a08c", "fontcolor": "#b9a08c"},
    "carried": {"style": "dashed", "constraint": "false", "color": "#333333"},
}
_EXPLAINED = {
    "saved": "dashed edge: kept for backward",
    "carried": "dashed edge: to the next block",
    "residual": "thick edge: residual, past its branch",
}
_FONT = "Helvetica"
Groups = Sequence[tuple[str, Sequence[Node]]]  # titles and nodes


def to_dot(
    graph: Graph,
    *,
    depth: int | None = None,
    cap: int = CAP,
    movement: bool = False,
    fold: bool = True,
    legend: bool = True,
    rankdir: str = "TB",
) -> str:
    """DOT source: modules as nested clusters, colour by phase, parameters by name, shapes on edges, repeats folded.

    Args:
        depth, cap, movement, fold: what is drawn, see `diagram`.
        legend: explain colours and lines in a corner.
        rankdir: TB, LR, BT or RL.
    """
    return _emit(diagram(graph, depth=depth, cap=cap, movement=movement, fold=fold), legend, rankdir)


def dot_of(drawn: Diagram, *, legend: bool = True, rankdir: str = "TB") -> str:
    """DOT source of any Diagram."""
    return _emit(drawn, legend, rankdir)


def _emit(drawn: Diagram, legend: bool, rankdir: str) -> str:
    import graphviz

    dot = graphviz.Digraph(name="graph")
    dot.attr(rankdir=rankdir, compound="true", fontname=_FONT, fontsize="12", nodesep="0.18", ranksep="0.32")
    dot.attr(label=_escaped("\n".join([drawn.title, *drawn.notes])), labelloc="t")
    dot.attr("node", fontname=_FONT, fontsize="10", height="0.25", margin="0.09,0.04", penwidth="0.8")
    dot.attr("edge", fontname=_FONT, fontsize="8", arrowsize="0.55", color="#555555", fontcolor="#555555")
    names = {key: f"n{i}" for i, key in enumerate(drawn.boxes)}
    _emit_group(dot, drawn, (), _tree(drawn), names)
    for (start, end), edge in drawn.edges.items():
        if start not in names or end not in names:
            continue
        dot.edge(names[start], names[end], label=_escaped(_edge_label(edge)), **_EDGES[edge.kind])
    if legend:
        _emit_legend(dot, drawn)
    return str(dot.source)


def grouped_dot(graph: Graph, groups: Groups, *, depth: int | None = None, cap: int = CAP, **options: Any) -> str:
    """DOT source with each group of fused nodes as one frame: title, and its nodes as boxes.

    With `depth`, or where there are more than `cap` groups, modules are drawn instead, as by `to_dot`.
    """
    if depth is not None or len(groups) > cap:
        return to_dot(graph, depth=depth, cap=cap, **options)
    return dot_of(grouped(graph, groups), **options)


def grouped(graph: Graph, groups: Groups) -> Diagram:
    """Every group as a frame around its nodes."""
    drawn = diagram(graph, cap=10**9, fold=False)
    title_of = {id(n): title for title, nodes in groups for n in nodes}
    for key, box in drawn.boxes.items():
        box.path = (title_of[key],) if key in title_of else ()
    drawn.by_phase, drawn.notes = False, [f"{len(groups)} groups: each is one kernel's work"]
    return drawn


def table_dot(title: str, labels: Sequence[str], phases: Sequence[str], edges: Iterable[tuple[int, int]]) -> str:
    """DOT source of plain boxes, coloured by phase, and arrows between their numbers."""
    drawn = Diagram(title)
    for i, (label, phase) in enumerate(zip(labels, phases, strict=True)):
        drawn.boxes[i] = Box(label, (), "op", phase)
    drawn.edges = {edge: Edge("data") for edge in sorted(edges) if edge[0] != edge[1]}
    return _emit(drawn, True, "TB")


def _tree(drawn: Diagram) -> dict[Path, tuple[list[Path], list[Any]]]:
    """path → (child paths, keys of own boxes)."""
    tree: dict[Path, tuple[list[Path], list[Any]]] = {(): ([], [])}
    for key, box in drawn.boxes.items():
        for i in range(1, len(box.path) + 1):
            if box.path[:i] not in tree:
                tree[box.path[:i]] = ([], [])
                tree[box.path[: i - 1]][0].append(box.path[:i])
        tree[box.path][1].append(key)
    return tree


def _emit_group(dot: Any, drawn: Diagram, path: Path, tree: Any, names: dict[Any, str]) -> None:
    children, keys = tree[path]
    for key in keys:
        dot.node(names[key], label=_escaped(drawn.boxes[key].label), **_box_style(drawn.boxes[key]))
    for number, child in enumerate(children):
        cluster_path = _inner(child, drawn, tree)
        with dot.subgraph(name=f"cluster_{'_'.join(map(str, _numbers(path, tree)))}_{number}") as cluster:
            cluster.attr(**_cluster_style(drawn, cluster_path, len(path)))
            _emit_group(cluster, drawn, cluster_path, tree, names)


def _inner(path: Path, drawn: Diagram, tree: Any) -> Path:
    """Groups that hold nothing but one group share its frame: blocks, then 0, is drawn as blocks.0."""
    while path not in drawn.folded and not tree[path][1] and len(tree[path][0]) == 1 and not _is_phase(drawn, path):
        path = tree[path][0][0]
    return path


def _is_phase(drawn: Diagram, path: Path) -> bool:
    return drawn.by_phase and len(path) == 1


def _numbers(path: Path, tree: Any) -> list[int]:
    """A cluster's name: the child numbers that lead to it, safe whatever the modules are called."""
    return [tree[path[: i - 1]][0].index(path[:i]) for i in range(1, len(path) + 1)]


def _cluster_style(drawn: Diagram, path: Path, above: int) -> dict[str, str]:
    is_phase, name = _is_phase(drawn, path), ".".join(path[above:])
    _, line = _PHASES.get(path[0], _OTHER) if is_phase else ("", "#aaaaaa")
    style = {"label": _escaped(name), "labeljust": "l", "fontsize": "10", "fontcolor": line, "color": line}
    style |= {"style": "rounded", "penwidth": "0.8", "fontname": _FONT, "margin": "7"}
    if is_phase:
        style |= {"fontsize": "12", "penwidth": "1.4"}
    if path in drawn.folded:
        times, last = drawn.folded[path]
        label = f"{name} .. {last}   × {times}"
        style |= {"label": _escaped(label), "peripheries": "2", "fontcolor": "#222222", "color": "#444444"}
    return style


def _box_style(box: Box) -> dict[str, str]:
    if box.role in _ROLES:
        return _ROLES[box.role]
    fill, line = _PHASES.get(box.phase, _OTHER)
    return {"shape": "box", "style": "filled,rounded", "fillcolor": fill, "color": line}


def _edge_label(edge: Edge) -> str:
    """The shapes that pass, up to two."""
    types = list(edge.types.values())
    if edge.kind == "saved" and len(types) > 1:
        return f"{len(types)} values"
    return ", ".join(map(_shape_text, types[:2])) + (f" +{len(types) - 2}" if len(types) > 2 else "")


def _shape_text(type: TensorType) -> str:
    sizes = "×".join(map(str, type.shape)) or "scalar"
    return sizes if type.dtype.kind == "f" else f"{type.dtype.short} {sizes}"


def _emit_legend(dot: Any, drawn: Diagram) -> None:
    roles = list(dict.fromkeys(b.role for b in drawn.boxes.values() if b.role in _ROLES))
    kinds = [k for k in dict.fromkeys(e.kind for e in drawn.edges.values()) if k != "data"]
    with dot.subgraph(name="cluster_legend") as box:
        box.attr(label="legend", fontsize="9", color="#cccccc", style="rounded", fontname=_FONT, fontcolor="#777777")
        box.attr("node", fontsize="8", height="0.18", margin="0.06,0.02")
        for phase in drawn.phases:
            box.node(f"legend_{phase}", label=_escaped(phase), **_box_style(Box("", (), "op", phase)))
        for role in roles:
            box.node(f"legend_{role}", label=role, **_ROLES[role])
        for kind in kinds:
            text = _EXPLAINED[kind]
            box.node(f"legend_{kind}", label=text, shape="plaintext")


def _escaped(text: str) -> str:
    """DOT reads backslashes in labels as escapes, and <…> as markup; line ends become \\n."""
    import graphviz

    clean = "".join(c if c.isprintable() or c == "\n" else "?" for c in text)
    return str(graphviz.escape(clean)).replace("\n", "\\n")
