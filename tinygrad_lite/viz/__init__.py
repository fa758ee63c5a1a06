"""Graphs to look at: `draw(graph, "x.svg")`, `load("x.json")`, `diff(before, after)`, and `render` for DOT source."""

from tinygrad_lite.ir.difference import diff
from tinygrad_lite.viz.drawing import EXTENSIONS, draw, load, picture
from tinygrad_lite.viz.renderer import NoRenderer, render, renderer_program

__all__ = ["EXTENSIONS", "NoRenderer", "diff", "draw", "load", "picture", "render", "renderer_program"]
