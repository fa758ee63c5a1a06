"""What every stage of the compiler can be looked at through: text, DOT, JSON, networkx, pictures, files, notebooks.

The IR draws nothing itself. Whoever can, the package's root, installs a function that finds the drawing module.
"""

from __future__ import annotations

import html
import json
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tinygrad_lite.errors import UserError

_drawers: list[Callable[[], Any]] = []


def install_drawer(find: Callable[[], Any]) -> None:
    """`find()` gives the module that draws: its `draw(stage, path)`, `picture(stage, format)`, and `NoRenderer`."""
    _drawers[:] = [find]


def _drawer() -> Any:
    if not _drawers:
        raise RuntimeError("nothing draws here: import tinygrad_lite")
    return _drawers[0]()


class Presentable:
    """A stage to look at. Subclasses say what its text, its dictionary, its DOT source and its networkx graph are."""

    @abstractmethod
    def to_text(self, **options: Any) -> str:
        """The stage as text."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """The stage as dictionaries, lists, strings and numbers."""

    @abstractmethod
    def to_dot(self, **options: Any) -> str:
        """DOT source."""

    @abstractmethod
    def to_networkx(self) -> Any:
        """A networkx.DiGraph."""

    def to_json(self, indent: int | None = None) -> str:
        """`to_dict()` as JSON."""
        return json.dumps(self.to_dict(), allow_nan=False, indent=indent)

    def to_svg(self, **options: Any) -> str:
        """The drawing as SVG; `options` are those of `to_dot`. UserError where no program draws."""
        return str(_drawer().picture(self, "svg", **options).decode())

    def to_png(self, **options: Any) -> bytes:
        """The drawing as PNG; `options` are those of `to_dot`. UserError where no program draws."""
        return bytes(_drawer().picture(self, "png", **options))

    def save(self, path: str | Path, **options: Any) -> Path:
        """Write to `path` in the form that its extension names: .txt .json .dot .svg .png .html. Returns the path."""
        return Path(_drawer().draw(self, path, **options))

    def print(self, **options: Any) -> None:
        """Print the text; `options` are those of `to_text`."""
        print(self.to_text(**options), end="")

    def _repr_svg_(self) -> str | None:
        try:
            return self.to_svg()
        except UserError:  # no renderer: a notebook falls back on text
            return None

    def _repr_html_(self) -> str:
        drawn = self._repr_svg_()
        if drawn is not None:
            return f'<div style="overflow:auto;max-height:60em">{drawn[max(0, drawn.find("<svg")) :]}</div>'
        return f"<pre>{html.escape(self.to_text())}</pre>"
