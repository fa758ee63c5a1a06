"""How the step time grows with batch, length, depth and width, against the FLOPs of the program.

python benchmarks/scaling.py -o docs/images/scaling.svg

A GPT's training step, one size varied at a time from a common base. No term may grow faster than the FLOPs: the slope
of log time over log FLOPs between neighbours is printed, and is at most about 1 (less where small sizes leave the
machine idle). Exit code 1 where time grows by more than FLOPs to the power of --most over the upper half of a row.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from workload import gpt, make_step

BASE = {"batch": 4, "T": 64, "L": 2, "d": 128}
SIZES = {
    "batch": (1, 2, 4, 8, 16, 32, 64),
    "T": (16, 32, 64, 128, 256, 512, 1024),
    "L": (1, 2, 4, 8, 16),
    "d": (32, 64, 128, 256, 512),
}
HEAD = 32  # width of a head
MOST = 1.05  # of the exponent, measurement included


class Point(NamedTuple):
    """A step at one size."""

    size: int
    seconds: float
    flops: int


def measure(sizes: dict[str, int], least: float = 0.15) -> tuple[float, int]:
    """Median seconds of a step, and its program's FLOPs."""
    import tinygrad_lite as tl

    tl.manual_seed(0)
    workload = gpt(sizes["batch"], sizes["T"], sizes["L"], sizes["d"], max(1, sizes["d"] // HEAD))
    step = make_step(tl, workload.build(tl), compiled=True)
    x, y = map(tl.from_numpy, workload.batch(np.random.default_rng(0)))
    for _ in range(2):
        step(x, y)
    times: list[float] = []
    while sum(times) < least or len(times) < 5:
        start = time.perf_counter()
        step(x, y)
        times.append(time.perf_counter() - start)
    return statistics.median(times), step.explain().costs["flops"]


def exponents(points: list[Point]) -> list[float]:
    """d log time / d log FLOPs between neighbours."""
    return [math.log(b.seconds / a.seconds) / math.log(b.flops / a.flops) for a, b in pairwise(points)]


def overall(points: list[Point]) -> float:
    """The exponent over the upper half of the sizes, where the machine is busy."""
    first, last = points[len(points) // 2], points[-1]
    return math.log(last.seconds / first.seconds) / math.log(last.flops / first.flops)


def draw(rows: dict[str, list[Point]], path: Path) -> None:
    """A panel a size: measured time, and what it would be if it grew as the FLOPs from the largest size down."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.2), layout="constrained")
    panels = figure.subplots(1, len(rows), sharey=True)
    for axes, (name, points) in zip(panels, rows.items(), strict=True):
        last = points[-1]
        sizes = [p.size for p in points]
        axes.loglog(
            sizes, [last.seconds * p.flops / last.flops * 1e3 for p in points], "--", color="0.5", label="FLOPs"
        )
        axes.loglog(sizes, [p.seconds * 1e3 for p in points], "o-", markersize=4, label="step")
        axes.set(xlabel=name, title=f"time ~ FLOPs^{overall(points):.2f}")
        axes.set_xticks(sizes, [str(s) for s in sizes], fontsize=7)
        axes.minorticks_off()
    panels[0].set_ylabel("ms a step")
    panels[0].legend(fontsize=8)
    figure.suptitle("GPT training step; the others are " + ", ".join(f"{k} {v}" for k, v in BASE.items()), fontsize=10)
    figure.savefig(path)


def main() -> int:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, help="of the plot: .svg or .png")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the points there too")
    parser.add_argument("--most", type=float, default=MOST, help="greatest exponent that passes")
    options = parser.parse_args()
    rows: dict[str, list[Point]] = {}
    for name, sizes in SIZES.items():
        rows[name] = [Point(size, *measure(BASE | {name: size})) for size in sizes]
        steps = ", ".join(f"{p.size}: {p.seconds * 1e3:.2f} ms" for p in rows[name])
        slopes = " ".join(f"{e:.2f}" for e in exponents(rows[name]))
        print(f"{name}: {steps}; exponents {slopes}; upper half {overall(rows[name]):.2f}", flush=True)
    if options.output:
        draw(rows, options.output)
    if options.json:
        plain: dict[str, Any] = {name: [p._asdict() for p in points] for name, points in rows.items()}
        options.json.write_text(json.dumps(plain, indent=1) + "\n")
    return 1 if any(overall(points) > options.most for points in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
