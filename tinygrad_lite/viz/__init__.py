"""Graphs to look at: `draw(graph, "x.svg")`, and `render` for DOT source."""

from tinygrad_lite.viz.drawing import EXTENSIONS, draw
from tinygrad_lite.viz.renderer import NoRenderer, render, renderer_program

__all__ = ["EXTENSIONS", "NoRenderer", "draw", "render", "renderer_program"]
