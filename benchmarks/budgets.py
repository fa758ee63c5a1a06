"""Step time against memory over budgets, for gpt-mid and resnet8: docs/images/budgets.svg, and a table.

python benchmarks/budgets.py [--workloads gpt-mid resnet8] [--budgets 1.0 0.7 0.5 0.3] [--rows rows.json]

Every point is a run of its own: the compiled step as it is ("default"), with `memory_budget=`, or with
`checkpoint="sqrt"`. Gradients are compared with the default's before anything is timed: bit by bit, but for the budget
of 1.0, which computes nothing twice and may thus add sums up in other kernels. Shares are of what that takes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path
from typing import Any

import numpy as np
from workload import WORKLOADS, make_step

import tinygrad_lite as tl
import tinygrad_lite.nn
import tinygrad_lite.optim
from tinygrad_lite.budget import BudgetError


def make(name: str, **options: Any) -> tuple[Any, Any, tuple[Any, Any]]:
    """The compiled step of a workload, its model, and a batch."""
    tl.manual_seed(0)
    workload = WORKLOADS[name]
    model = workload.build(tl)
    x, y = map(tl.from_numpy, workload.batch(np.random.default_rng(0)))
    return tl.compile(make_step(tl, model, compiled=False), **options), model, (x, y)


def gradients(model: Any) -> list[np.ndarray]:
    """Copies of all gradients and buffers."""
    return [p.grad.numpy().copy() for p in model.parameters()] + [b.numpy().copy() for b in model.buffers()]


def points(name: str, budgets: list[float], seconds: float) -> list[dict[str, Any]]:
    """A row a budget: bytes of the arena, milliseconds a step, work. All steps take turns while they are timed."""
    rows, runs = [], []
    reference: list[np.ndarray] = []
    for budget in ("default", *dict.fromkeys([1.0, *budgets]), "sqrt"):
        options = {"default": {}, "sqrt": {"checkpoint": "sqrt"}}.get(budget, {"memory_budget": budget})
        step, model, batch = make(name, **options)
        try:
            step(*batch)
        except BudgetError as error:
            rows.append({"name": name, "budget": budget, "error": str(error)})
            continue
        found = gradients(model)
        reference = reference or found
        near = {"rtol": 1e-3, "atol": 1e-5} if budget == 1.0 else {"rtol": 0, "atol": 0}
        equal = all(np.allclose(a, b, **near) for a, b in zip(found, reference, strict=True))
        choice = step._latest().choice
        work = choice.work if choice else None
        rows.append({"name": name, "budget": budget, "bytes": step.memory().arena, "work": work, "equal": equal})
        runs.append((rows[-1], step, batch, []))
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds * len(runs):
        for _, step, batch, times in runs:
            start = time.perf_counter()
            step(*batch)
            times.append(time.perf_counter() - start)
    for row, _, _, times in runs:
        row["ms"] = statistics.median(times) * 1e3
    return rows


def chart(rows: list[dict[str, Any]], path: str) -> None:
    """Time against memory, both as multiples of the plain step; a line a workload."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for number, name in enumerate(dict.fromkeys(r["name"] for r in rows)):
        mine = [r for r in rows if r["name"] == name and "ms" in r]
        plain = next(r for r in mine if r["budget"] == 1.0)
        default = next(r for r in mine if r["budget"] == "default")
        xs, ys = [r["bytes"] / plain["bytes"] for r in mine], [r["ms"] / plain["ms"] for r in mine]
        label = f"{name}: {plain['bytes'] / 1e6:.0f} MB, {plain['ms']:.0f} ms"
        line = sorted(zip(xs[1:-1], ys[1:-1], strict=True))
        axes.plot(*zip(*line, strict=True), "o-", color=f"C{number}", label=label)
        at = default["bytes"] / plain["bytes"], default["ms"] / plain["ms"]
        axes.plot(*at, "D", color=f"C{number}", markersize=9, fillstyle="none")
        axes.annotate("default", at, textcoords="offset points", xytext=(8, 4))
        axes.plot(xs[-1], ys[-1], "s", color=f"C{number}", markersize=9, fillstyle="none")
        axes.annotate('"sqrt"', (xs[-1], ys[-1]), textcoords="offset points", xytext=(8, 4))
    axes.set(xlabel="arena, share of that at memory_budget=1.0", ylabel="step time, multiple of that at 1.0")
    axes.set(title="memory_budget= and checkpoint= on a training step", xlim=(0, 1.05))
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path)


def main() -> None:
    """Measure, print the table, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", nargs="+", default=["gpt-mid", "resnet8"], choices=WORKLOADS)
    parser.add_argument("--budgets", nargs="+", type=float, default=[1.0, 0.8, 0.7, 0.6, 0.5, 0.4, 0.35, 0.3])
    parser.add_argument("--seconds", type=float, default=3.0, help="of timing for each point")
    parser.add_argument("--rows", help="JSON: rows of earlier runs are drawn too; all are kept there")
    parser.add_argument("--out", default="docs/images/budgets.svg")
    options = parser.parse_args()
    kept = Path(options.rows) if options.rows else None
    rows = json.loads(kept.read_text()) if kept and kept.exists() else []
    rows = [row for row in rows if row["name"] not in options.workloads]
    rows += [row for name in options.workloads for row in points(name, options.budgets, options.seconds)]
    if kept:
        kept.write_text(json.dumps(rows, indent=1))
    for row in rows:
        if "error" in row:
            print(f"{row['name']:10} {row['budget']!s:>7}  {row['error']}")
            continue
        work = f"{row['work']:.3f} × work" if row["work"] else " " * 12
        print(
            f"{row['name']:10} {row['budget']!s:>7}  {row['bytes'] / 1e6:8.2f} MB  {row['ms']:8.2f} ms  "
            f"{work}  gradients {'equal' if row['equal'] else 'DIFFER'}"
        )
    Path(options.out).parent.mkdir(parents=True, exist_ok=True)
    chart(rows, options.out)


if __name__ == "__main__":
    main()
