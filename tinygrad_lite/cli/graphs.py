"""The looking commands: graph, view, summary, profile, explain, diff."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

import tinygrad_lite as tl
from tinygrad_lite import viz
from tinygrad_lite.cli.targets import Target, make
from tinygrad_lite.errors import UserError
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.present import Presentable
from tinygrad_lite.viz.renderer import write_whole


def write(stage: Presentable, extension: str, output: Path | None, **options: Any) -> None:
    """`stage` in the form of an extension of `viz.draw`, to a file or to standard output."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = viz.draw(stage, Path(folder) / f"graph{extension}", **options).read_bytes()
        except viz.NoRenderer:
            raise UserError(str(viz.NoRenderer())) from None
        except TypeError as error:  # an option that this stage or form does not have
            raise UserError(f"{type(stage).__name__} as {extension}: {error}") from error
    if output is None:
        sys.stdout.buffer.write(made) if extension == ".png" else sys.stdout.write(made.decode())
        return
    try:
        output.write_bytes(made)
    except OSError as error:
        raise UserError(f"cannot write {output}: {error.strerror}") from error


def view(what: Target, output: Path | None, runs: int, show: bool) -> Path:
    """The page of a target, with a profile of `runs` runs unless 0; returns where it is."""
    path = output or Path(f"{what.name.replace(':', '.').replace('/', '.')}.html")
    if path.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"a page is an .html file, not {path}")
    if runs:
        compiled = what.run()
        text = viz.page(compiled, profile=make(lambda: compiled.profile(runs), what.name), title=what.name)
    else:
        text = viz.page(what.traced(), title=what.name)
    write_whole(path, text.encode("utf-8", "replace"))
    if show:
        import webbrowser

        webbrowser.open(path.resolve().as_uri())
    return path


def summary(what: Target, depth: int | None, as_json: bool) -> None:
    """Print the table of a model's modules."""
    found = make(lambda: tl.summary(what.module, *what.inputs), what.name)
    if as_json:
        print(json.dumps(found.to_dict()))
    else:
        found.print(depth)


def profile(what: Target, runs: int, trace: Path | None, as_json: bool) -> None:
    """Print where the time goes; write the Chrome trace to `trace`."""
    compiled = what.run()
    found = make(lambda: compiled.profile(runs), what.name)
    if trace is not None:
        try:
            found.save(trace)
        except OSError as error:
            raise UserError(f"cannot write {trace}: {error.strerror}") from error
    print(json.dumps(found.to_dict()) if as_json else found, end="\n" if as_json else "")


def explain(what: Target, as_json: bool) -> None:
    """Print what the compiler made of it and why."""
    found = what.run().explain()
    print(json.dumps(found.to_dict()) if as_json else found, end="\n" if as_json else "")


def diff(before: Target, after: Target, stages: tuple[str, str], as_json: bool) -> int:
    """Print what changed, in colour on a terminal; 1 where anything did."""
    found = viz.diff(_graph(before, stages[0]), _graph(after, stages[1]))
    if as_json:
        print(json.dumps(found.to_dict()))
    else:
        found.print(Console(highlight=False, soft_wrap=True))
    return int(bool(found))


def _graph(what: Target, stage: str) -> Graph:
    found = what.stage(stage)
    if stage in ("kernels", "tape"):
        raise UserError(f"diff compares graphs: traced, optimised or scheduled, not {stage}")
    return getattr(found, "graph", found)  # type: ignore[return-value]
