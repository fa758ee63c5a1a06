"""Step times of tinygrad_lite against PyTorch: alternating child processes on one machine, ratios of medians.

make bench BENCH_ARGS="moons gpt-nano --rounds 3 --min moons=10 --min gpt-nano=1"

The ratio is the best of PyTorch eager and torch.compile over ours, so above 1 is faster. Both sides start from empty
caches in the first round ("cold" first step) and find their own in the later ones ("warm"). Exit code 1 where a ratio
falls short of its --min.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from report import DETAILS, SHARES
from rich.console import Console
from rich.table import Table
from workload import WORKLOADS

HERE = Path(__file__).parent
SIDES = {"eager": ("torch", "eager"), "compile": ("torch", "compile"), "ours": ("tinygrad_lite", "compile")}
NAMES = (*WORKLOADS, "decode")  # the last is not a training step
CAPTION = """ratio: best of torch eager and torch.compile over ours
first: seconds of the first step, compiling included, with empty caches / with warm ones
MB: growth of memory, torch's being the smaller of eager and compiled
decode: a token"""
Result = dict[str, Any]


def run_once(python: str, name: str, side: str, seconds: float, caches: Path) -> Result:
    """The JSON of one child process, or {"error": its last line}."""
    library, mode = SIDES[side]
    script = ["decode.py"] if name == "decode" else ["workload.py", name]
    options = ["--library", library, "--mode", mode, "--seconds", str(seconds)]
    command = [python, str(HERE / script[0]), *script[1:], *options]
    own = {"TINYGRAD_LITE_CACHE_DIR": str(caches / "ours"), "TORCHINDUCTOR_CACHE_DIR": str(caches / "torch")}
    own |= {"PYTHONDONTWRITEBYTECODE": ""}  # as installed: modules are compiled once
    child = subprocess.run(command, capture_output=True, text=True, env=os.environ | own, cwd=caches)
    lines = (child.stderr if child.returncode else child.stdout).strip().splitlines()
    return {"error": (lines or ["no output"])[-1]} if child.returncode else json.loads(lines[-1])


def compare(name: str, rounds: int, seconds: float, pythons: dict[str, str]) -> dict[str, list[Result]]:
    """The results of each side, a round each in turn."""
    results: dict[str, list[Result]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as caches:
        for _ in range(rounds):
            for side, (library, _) in SIDES.items():
                results[side].append(run_once(pythons[library], name, side, seconds, Path(caches)))
    return results


def summarise(name: str, results: dict[str, list[Result]]) -> Result:
    """Medians over the rounds, and the ratio (None where a side failed)."""
    errors = {side: run["error"] for side, runs in results.items() for run in runs if "error" in run}
    row: Result = {"name": name, "errors": errors, "ratio": None}
    for side, runs in results.items():
        if side in errors:
            continue
        row[side] = {"ms": statistics.median(run["ms"] for run in runs), "growth_mb": runs[-1]["growth_mb"]}
        row[side] |= {"cold_s": runs[0]["first_s"], "losses": runs[-1]["losses"], "import_s": runs[-1]["import_s"]}
        row[side]["warm_s"] = runs[-1]["first_s"] if len(runs) > 1 else None
        row[side] |= {key: runs[-1][key] for key in DETAILS if key in runs[-1]}
    others = [row[side]["ms"] for side in ("eager", "compile") if side in row]
    if others and "ours" in row:
        row["ratio"] = min(others) / row["ours"]["ms"]
    return row


def tabulate(rows: list[Result]) -> Table:
    """One line a workload."""
    table = Table("workload", title="One training step", caption=CAPTION)
    for heading in ("torch ms", "compile ms", "ours ms", "ratio", "first torch", "first ours", "MB torch", "MB ours"):
        table.add_column(heading, justify="right")
    for row in rows:
        eager, compiled, ours = (row.get(side, {}) for side in SIDES)
        memory = [side["growth_mb"] for side in (eager, compiled) if side]
        table.add_row(
            row["name"],
            *(_figure(side.get("ms"), ".2f") for side in (eager, compiled, ours)),
            _figure(row["ratio"], ".2f"),
            *(
                f"{_figure(side.get('cold_s'), '.1f')} / {_figure(side.get('warm_s'), '.1f')}"
                for side in (compiled, ours)
            ),
            _figure(min(memory, default=None), ".0f"),
            _figure(ours.get("growth_mb"), ".0f"),
        )
    return table


def tabulate_shares(rows: list[Result]) -> Table:
    """Where our step's time goes, one line a workload."""
    table = Table("workload", title="Our step", caption="python: all that is not on the tape. MB: the planned arena.")
    for heading in ("ms", *(f"{name} %" for name in SHARES), "arena MB", "kernels", "import s"):
        table.add_column(heading, justify="right")
    for row in rows:
        ours = row.get("ours", {})
        if "shares" in ours:
            parts = [format(100 * ours["shares"][name], ".1f") for name in SHARES]
            figures = [format(ours["arena_mb"], ".1f"), str(ours["kernels"]), format(ours["import_s"], ".2f")]
            table.add_row(row["name"], _figure(ours["ms"], ".3f"), *parts, *figures)
    return table


def _figure(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


def main() -> int:
    """Compare the workloads that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"by default moons mlp gpt-nano; of {' '.join(NAMES)}; or all")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=4.0, help="timed steps a process")
    parser.add_argument("--torch-python", default=sys.executable, help="interpreter that has torch")
    parser.add_argument("--python", default=sys.executable, help="interpreter that has tinygrad_lite")
    parser.add_argument("--min", action="append", default=[], metavar="NAME=RATIO", help="least ratio of a workload")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    names = NAMES if options.names == ["all"] else options.names or ["moons", "mlp", "gpt-nano"]
    if unknown := set(names) - set(NAMES):
        parser.error(f"no workload is called {', '.join(sorted(unknown))}")
    least = {name: float(ratio) for name, _, ratio in (item.partition("=") for item in options.min)}
    console = Console(width=None if sys.stdout.isatty() else 120)
    rows = []
    for name in names:
        pythons = {"torch": options.torch_python, "tinygrad_lite": options.python}
        rows.append(summarise(name, compare(name, options.rounds, options.seconds, pythons)))
        for side, error in rows[-1]["errors"].items():
            console.print(f"{name}, {side}: {error}", style="red", markup=False)
    console.print(tabulate(rows))
    console.print(tabulate_shares(rows))
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    short = [row["name"] for row in rows if (row["ratio"] or 0.0) < least.get(row["name"], 0.0)]
    if short:
        console.print(f"below the least ratio: {', '.join(short)}")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
