"""Text of a graph: `to_text` prints it, `parse` reads it back to a structurally equal one. docs/ir.md is the grammar.

A type closes each line, so the attributes `dtype` and `shape` are written only where they differ from it.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np

from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Location, Node
from tinygrad_lite.ir.parse import POSITIONAL, ParseError, parse
from tinygrad_lite.ir.reading import Folded, amount, cost_lines, live_bytes, one_line
from tinygrad_lite.ir.signature import signature
from tinygrad_lite.ir.types import DType, TensorType, float32

__all__ = ["ParseError", "node_text", "parse", "to_text", "value_names"]

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


def to_text(
    graph: Graph, comments: bool = True, *, depth: int | None = None, costs: bool = False, memory: bool = False
) -> str:
    """The graph as text.

    Args:
        comments: add phase, module scope and user line to each line that has them.
        depth: show scopes of this many levels as one line each (0: each phase); such text is for reading only.
        costs: end with a table of FLOPs and bytes by scope, as comments.
        memory: beside each line, the bytes of computed values alive after it.
    """
    lines = _statements(graph, comments, depth, memory).splitlines()
    if costs:
        lines[-1:-1] = cost_lines(graph, depth)
    return f"graph {name_text(graph.name)} {{\n" + "\n".join(lines) + "\n}\n"


def name_text(name: str) -> str:
    """A graph's name, in quotes where it is no word."""
    return name if _WORD.fullmatch(name) else quoted(name)


def _statements(graph: Graph, comments: bool, depth: int | None = None, memory: bool = False) -> str:
    names = value_names(graph)
    folded = None if depth is None else Folded(graph, depth)
    live = live_bytes(graph) if memory else []
    lines = []
    shown: set[int] = set()
    for i, node in enumerate(graph.nodes):
        part = folded.of.get(id(node)) if folded else None
        if part is None:
            note = f"live {amount(live[i], 'B')}" if live and node.inputs else ""
            lines.append(_line(node, names, comments, note))
        elif folded and id(part) not in shown:
            shown.add(id(part))
            lines.append(f"  {folded.line(part, names)}")
    lines += update_lines(graph, names) if depth is None else _updates_folded(graph)
    lines.append(return_line(graph, names))
    return "\n".join(lines)


def update_lines(graph: Graph, names: dict[int, str]) -> list[str]:
    """The `update` lines."""
    return [f"  update {names[id(u.state)]} = {names[id(u.value)]}" for u in graph.updates]


def return_line(graph: Graph, names: dict[int, str]) -> str:
    """The `return` line."""
    return f"  return {', '.join(names[id(o)] for o in graph.outputs)}".rstrip()


def _updates_folded(graph: Graph) -> list[str]:
    return [f"  # updates {len(graph.updates)} states"] if graph.updates else []


def value_names(graph: Graph) -> dict[int, str]:
    """id(node) → %0, %1, …: names belong to a printing, not to the nodes."""
    return {id(node): f"%{i}" for i, node in enumerate(graph.nodes)}


def node_text(node: Node, names: dict[int, str]) -> str:
    """One node as the line (with a body: the lines) that `to_text` would print, without indent and comment."""
    operands = ", ".join(names.get(id(i), "%?") for i in node.inputs)
    words = [node.op.name, _positional(node), operands, *_attributes(node)]
    return f"{names.get(id(node), '%?')} = {' '.join(filter(None, words))} : {node.type}"


def location_text(location: Location) -> str:
    """Phase (unless forward), scope and file:line, on one printable line."""
    phase = "" if location.phase == "forward" else f"{location.phase} "
    file = re.split(r"[/\\]", location.file)[-1]
    scope = f"{location.scope} " if location.scope else ""
    return one_line(f"{phase}{scope}{file}:{location.line}")


def quoted(text: str) -> str:
    """`text` in double quotes with JSON's escapes."""
    return json.dumps(text, ensure_ascii=not text.isprintable())


def value_text(value: Any) -> str:
    """An attribute's value: none, true, 3, 0.5, nan, "text", f32, a list of those, or a body in braces."""
    if value is None:
        return "none"
    kind = type(value)
    if kind is bool:
        return "true" if value else "false"
    if kind is int or kind is float:
        return repr(value)
    if kind is str:
        return quoted(value)
    if kind is tuple:
        return f"[{', '.join(map(value_text, value))}]"
    if isinstance(value, DType):
        return value.short
    if kind is Graph:
        return f"{{\n{_statements(value, False)}\n}}".replace("\n", "\n  ")
    raise TypeError(f"an attribute cannot hold a {kind.__name__}: {value!r}")


def _line(node: Node, names: dict[int, str], comments: bool, note: str = "") -> str:
    remarks = [note, location_text(node.location) if comments and node.location else ""]
    return "  # ".join(filter(None, [f"  {node_text(node, names)}", "; ".join(filter(None, remarks))]))


def _positional(node: Node) -> str:
    name = POSITIONAL.get(node.op.name)
    if name is None:
        return ""
    value = node.attrs[name]
    return _constant_text(value, node.type) if node.op.name == "constant" else value_text(value)


def _attributes(node: Node) -> list[str]:
    sign = signature(node.op)
    implied = {"dtype": node.type.dtype, "shape": node.type.shape}
    order = [*(n for n in sign.attrs if n in node.attrs), *sorted(n for n in node.attrs if n not in sign.attrs)]
    shown = []
    for name in order:
        value = node.attrs[name]
        said_by_type = name in sign.required and name in implied and implied[name] == value
        if not said_by_type and name != POSITIONAL.get(node.op.name):
            shown.append(f"{name}={value_text(value)}")
    return shown


def _constant_text(data: tuple[Any, ...], type: TensorType) -> str:
    texts = [short_number(v, type.dtype) for v in data]
    return texts[0] if type.shape == () and len(texts) == 1 else f"[{', '.join(texts)}]"


def short_number(value: Any, dtype: DType) -> str:
    """The shortest decimal that rounds to the same float32: 0.1 rather than 0.10000000149011612."""
    if dtype is not float32 or type(value) is not float:
        return value_text(value)
    with np.errstate(all="ignore"):
        short = np.float32(value)
    return str(short) if float(short) == value or value != value else value_text(value)
