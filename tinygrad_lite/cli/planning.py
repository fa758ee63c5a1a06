"""The command plan-memory: offsets for the buffers of a CSV file in the MiniMalloc format."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from tinygrad_lite.errors import UserError
from tinygrad_lite.ir.reading import amount
from tinygrad_lite.ir.schedule.memory import Life, Plan, greatest_live, plan
from tinygrad_lite.viz.renderer import write_whole

COLUMNS = ("id", "lower", "upper", "size")
PICTURES = (".svg", ".png", ".pdf")
LIMIT = 1 << 60  # of times, and of all sizes together


class Buffers(NamedTuple):
    """The rows of a file, in its order."""

    names: list[str]
    lives: list[Life]


def read(path: Path) -> Buffers:
    """Buffers of a CSV file with the columns id, lower, upper, size; an offset, from an earlier plan, is left out.

    Raises:
        UserError: with the number of the line that is wrong.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not a CSV file: it is not UTF-8 text") from error
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    found = Buffers([], [])
    try:
        header = [name.strip() for name in next(rows, [])]
        _check_header(path, header)
        lines: dict[str, int] = {}
        for row in rows:
            if row:
                _add(found, lines, header, row, path, rows.line_num)
    except csv.Error as error:
        raise UserError(f"{path}, line {rows.line_num}: not CSV: {error}") from error
    if sum(life.size for life in found.lives) > LIMIT:
        raise UserError(f"{path}: the sizes add up to more than 2^60")
    return found


def _check_header(path: Path, header: list[str]) -> None:
    missing = [name for name in COLUMNS if name not in header]
    if missing:
        raise UserError(f"{path}, line 1: no column {', '.join(missing)}; the first line names id, lower, upper, size")
    other = [name for name in header if name not in (*COLUMNS, "offset")]
    if other or len(set(header)) < len(header):
        wrong = f"unknown column {other[0]!r}" if other else "a column occurs twice"
        raise UserError(f"{path}, line 1: {wrong}; the columns are id, lower, upper, size")


def _add(found: Buffers, lines: dict[str, int], header: list[str], row: list[str], path: Path, line: int) -> None:
    where = f"{path}, line {line}"
    if len(row) != len(header):
        raise UserError(f"{where}: {len(row)} fields, where the first line has {len(header)}")
    fields = dict(zip(header, row, strict=True))
    name = fields["id"].strip()
    lower, upper, size = (_number(fields[column], column, where) for column in COLUMNS[1:])
    if not name:
        raise UserError(f"{where}: the id is empty")
    if name in lines:
        raise UserError(f"{where}: id {name!r} occurred before, on line {lines[name]}")
    if upper <= lower:
        raise UserError(f"{where}: upper {upper} is not above lower {lower}")
    if not size:
        raise UserError(f"{where}: size is 0")
    lines[name] = line
    found.names.append(name)
    found.lives.append(Life(lower, upper, size))


def _number(text: str, column: str, where: str) -> int:
    match = re.fullmatch(r"\s*([+-]?)0*([0-9]+)\s*", text, re.ASCII)
    if match is None:
        raise UserError(f"{where}: {column} {text.strip()!r} is not an integer")
    sign, digits = match.groups()
    if sign == "-" and digits != "0":
        raise UserError(f"{where}: {column} -{digits} is negative")
    if len(digits) > 19 or int(digits) > LIMIT:
        raise UserError(f"{where}: {column} {digits} is above 2^60")
    return int(digits)


def run(source: Path, output: Path, capacity: int | None, steps: int, plot: Path | None) -> dict[str, Any]:
    """Plan the buffers of `source`, write them with offsets to `output`, and say what came of it.

    Raises:
        UserError: bad input; or the plan exceeds `capacity`, and nothing is written.
    """
    if plot is not None and plot.suffix.lower() not in PICTURES:
        raise UserError(f"cannot draw {plot.name}: the extension must be one of {', '.join(PICTURES)}")
    buffers = read(source)
    live = greatest_live(buffers.lives)
    if capacity is not None and live > capacity:
        raise UserError(f"{source}: {live} bytes are alive at once, which --capacity {capacity} cannot hold")
    found = _planned(buffers.lives, capacity, steps)
    if capacity is not None and found.size > capacity:
        raise UserError(
            f"{source}: no plan within --capacity {capacity} after {steps} steps; the best takes {found.size}, and "
            f"{live} are alive at once. Try more --steps"
        )
    write_whole(output, _table(buffers, found))
    if plot is not None:
        write_whole(plot, picture(buffers.lives, found, plot.suffix.lower()))
    ratio = found.size / live if live else 1.0
    return {"buffers": len(buffers.lives), "size": found.size, "live": live, "ratio": round(ratio, 6)}


def _planned(lives: Sequence[Life], capacity: int | None, steps: int) -> Plan:
    """The plan, with a bar while it is searched for."""
    console = Console(stderr=True, highlight=False)
    parts = TextColumn("searching"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn()
    with Progress(*parts, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=steps)
        return plan(lives, 1, steps, capacity, lambda done: bar.update(task, completed=done))


def _table(buffers: Buffers, found: Plan) -> bytes:
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow((*COLUMNS, "offset"))
    for name, life, offset in zip(buffers.names, buffers.lives, found.offsets, strict=True):
        table.writerow((name, *life, offset))
    return text.getvalue().encode()


def picture(lives: Sequence[Life], found: Plan, extension: str) -> bytes:
    """Every buffer's life and place, in the form of an extension in PICTURES."""
    from matplotlib.figure import Figure  # without pyplot: no window system, no global state

    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.add_subplot(xlabel="time", ylabel="place, bytes", title=f"{found.size} bytes, {found.live} alive")
    for number, (life, offset) in enumerate(zip(lives, found.offsets, strict=True)):
        box = [(life.lower, life.upper - life.lower)]
        axes.broken_barh(box, (offset, life.size), facecolor=f"C{number % 10}", alpha=0.75)
    drawn = io.BytesIO()
    figure.savefig(drawn, format=extension[1:], dpi=120)
    return drawn.getvalue()


def lines(summary: dict[str, Any]) -> Iterator[str]:
    """The summary for people."""
    yield f"{summary['buffers']} buffers in {amount(summary['size'], 'B')} ({summary['size']} bytes)"
    yield f"{summary['live']} bytes alive at once: {summary['ratio']:.4f} of them"
