"""Graphs to look at: `draw(graph, "x.svg")`, `load("x.json")`, `diff(before, after)`, and `render` for DOT source."""

import importlib
from typing import Any

from tinygrad_lite.ir.difference import diff
from tinygrad_lite.viz.drawing import EXTENSIONS, draw, load, picture
from tinygrad_lite.viz.renderer import NoRenderer, render, renderer_program

_LATE = {
    "architecture": "tinygrad_lite.viz.blocks",
    "page": "tinygrad_lite.viz.webpage",
    "summary": "tinygrad_lite.viz.tables",
}

__all__ = ["EXTENSIONS", "NoRenderer", "diff", "draw", "load", "picture", "render", "renderer_program"]


def __getattr__(name: str) -> Any:  # these need nn: imported when first asked for
    if name in _LATE:
        return getattr(importlib.import_module(_LATE[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
