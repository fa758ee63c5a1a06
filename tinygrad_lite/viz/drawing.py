"""A graph to a file, in the form that the file's extension names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tinygrad_lite.errors import UserError
from tinygrad_lite.ir.export import to_dict, to_dot
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.text import to_text
from tinygrad_lite.viz.renderer import FORMATS, render, write_whole

EXTENSIONS = (*FORMATS, ".dot", ".txt", ".json")


def draw(graph: Graph, path: str | Path, **options: Any) -> Path:
    """Write `graph` to `path` as .svg, .png, .dot, .txt or .json; `options` are those of `to_dot`. Returns the path.

    The file appears whole or not at all. Raises UserError for another extension, NoRenderer where nothing can draw.
    """
    path = Path(path)
    extension = path.suffix.lower()
    if extension in FORMATS:
        return render(to_dot(graph, **options), path)
    write_whole(path, _content(graph, extension, options).encode())
    return path


def _content(graph: Graph, extension: str, options: dict[str, Any]) -> str:
    if extension == ".dot":
        return to_dot(graph, **options)
    if extension == ".txt":
        return to_text(graph)
    if extension == ".json":
        return json.dumps(to_dict(graph), allow_nan=False, indent=1)
    raise UserError(f"cannot write a graph as {extension or 'a file without extension'}: use {', '.join(EXTENSIONS)}")
