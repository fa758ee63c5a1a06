"""Where the time and memory of a compiled step go, as plain numbers for the benchmark's tables."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from workload import WORKLOADS, make_step

PRODUCTS = frozenset({"matmul", "convolution"})  # kinds of groups
DETAILS = ("shares", "arena_mb", "live_mb", "bill", "kernels")
SHARES = ("products", "attention", "kernels", "barriers", "python")


def shares(step: Any, seconds: float, runs: int = 20) -> dict[str, float]:
    """What part of a step of `seconds` is spent on what; the parts add up to 1.

    products: matrix products and convolutions; attention; kernels: all others; barriers: waiting for other workers, and
    waking them; python: all that is not on the tape.
    """
    profile = step.profile(runs)
    found = dict.fromkeys(SHARES, 0.0)
    for call, row in zip(profile.listing.program.calls, profile.rows, strict=True):
        kind = "products" if call.group.kind in PRODUCTS else call.group.kind
        found[kind if kind in found else "kernels"] += row.seconds
        found["barriers"] += row.wait
    found["barriers"] += profile.rest
    scale = min(1.0, seconds / profile.step)  # a profile in a slower moment: the tape cannot take more than the step
    found = {name: value * scale / seconds for name, value in found.items()}
    return found | {"python": max(0.0, 1 - sum(found.values()))}


def details(step: Any, seconds: float) -> dict[str, Any]:
    """What compare.py prints about our side."""
    memory = step.memory()
    bill = step.explain().bill
    return {
        "shares": {name: round(value, 4) for name, value in shares(step, seconds).items()},
        "arena_mb": round(memory.arena / 2**20, 2),
        "live_mb": round(memory.live / 2**20, 2),
        "bill": {name: round(value, 3) for name, value in bill.items() if isinstance(value, float)},
        "kernels": bill["distinct_kernels"],
    }


# ---- the roofline ------------------------------------------------------------------------------------------


def roofline(profile: Any, path: Path) -> None:
    """FLOP/s of each kernel over FLOPs a byte, under what the machine can do; circles are as large as their time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot(xscale="log", yscale="log", xlabel="FLOPs a byte", ylabel="GFLOP/s")
    peaks, kernels = profile.peaks, [k for k in profile.kernels if k.flops and k.bytes and k.seconds]
    reach = np.geomspace(1 / 32, max(1024.0, *(k.flops / k.bytes for k in kernels)), 200)
    axes.plot(reach, np.minimum(peaks.flops, reach * peaks.bytes) / 1e9, color="black", linewidth=1)
    for number, kernel in enumerate(kernels):
        at = kernel.flops / kernel.bytes, kernel.gflops
        axes.scatter(*at, s=3000 * kernel.seconds / profile.step + 4, alpha=0.5, linewidth=0)
        if number < 8:
            axes.annotate(kernel.name, at, fontsize=7)
    axes.set_title(
        f"{profile.name}: kernels against {peaks.flops / 1e9:.0f} GFLOP/s and {peaks.bytes / 1e9:.1f} GB/s, "
        f"{profile.workers} worker(s)"
    )
    figure.savefig(path, dpi=110)


def main() -> int:
    """Profile a workload: the table of kernels with GFLOP/s and GB/s, and the roofline as a picture."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("name", choices=WORKLOADS)
    parser.add_argument("-o", "--output", type=Path, help="of the picture: .png or .svg")
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    import tinygrad_lite as tl

    tl.manual_seed(0)
    workload = WORKLOADS[options.name]
    step = make_step(tl, workload.build(tl), compiled=True)
    step(*map(tl.from_numpy, workload.batch(np.random.default_rng(0))))
    profile = step.profile(options.runs)
    print(profile)
    if options.output:
        roofline(profile, options.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
