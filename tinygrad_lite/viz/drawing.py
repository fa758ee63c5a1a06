"""A stage of the compiler to a file, in the form that the file's extension names; and a graph back from one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tinygrad_lite.errors import UserError
from tinygrad_lite.ir.export import from_dict
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.present import Presentable
from tinygrad_lite.ir.text import parse
from tinygrad_lite.viz.renderer import FORMATS, laid_out, render, write_whole

EXTENSIONS = (*FORMATS, ".dot", ".txt", ".json", ".html")
LARGEST = 200_000_000  # bytes of a graph file that is still read


def draw(stage: Presentable, path: str | Path, **options: Any) -> Path:
    """Write `stage`, such as a Graph, to `path` as .svg, .png, .dot, .txt, .json or .html. Returns the path.

    `options` are those of `to_dot`, `to_text`, `to_json` or `viz.page`. The file appears whole or not at all. Raises
    UserError for another extension, NoRenderer where nothing can draw.
    """
    path = Path(path)
    extension = path.suffix.lower()
    if extension in FORMATS:
        return render(stage.to_dot(**options), path)
    write_whole(path, _content(stage, extension, options).encode("utf-8", "replace"))
    return path


def picture(stage: Presentable, format: str, **options: Any) -> bytes:
    """`stage` as "svg" or "png"; `options` are those of its `to_dot`."""
    return laid_out(stage.to_dot(**options), format)


def _content(stage: Presentable, extension: str, options: dict[str, Any]) -> str:
    if extension == ".dot":
        return stage.to_dot(**options)
    if extension == ".txt":
        return stage.to_text(**options)
    if extension == ".json":
        return stage.to_json(**{"indent": 1, **options})
    if extension == ".html":
        from tinygrad_lite.viz.webpage import page

        return page(stage, **options)
    raise UserError(f"cannot write a graph as {extension or 'a file without extension'}: use {', '.join(EXTENSIONS)}")


def load(path: str | Path) -> Graph:
    """The graph of a file that `save` wrote as .txt or .json.

    Raises UserError where there is no such file, and where it holds no graph: for text with line and column.
    """
    path = Path(path)
    try:
        if path.stat().st_size > LARGEST:
            raise UserError(f"{path} is too large for a graph: {path.stat().st_size:,} bytes, at most {LARGEST:,}")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise UserError(f"{path} is not a graph: it is no UTF-8 text") from None
    from tinygrad_lite.ir.schedule import schedule as _  # noqa: F401  (ops that only scheduled graphs hold)

    try:
        return from_dict(_json(text)) if text.lstrip().startswith("{") else parse(text)
    except UserError as error:
        raise UserError(f"{path} is not a graph: {error}") from error


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UserError(f"expected JSON: {error}") from error
