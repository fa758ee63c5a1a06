"""A compiled step against its own linear layers' products at NumPy's speed, in turns in one process.

python benchmarks/yardstick.py gpt-nano gpt-small gpt-mid [--seconds 20] [--limit 1.25]

The products are those of each `nn.Linear`, forward and both gradients, with `out=`, on as many threads as the step has
workers. Exit code 1 where the step takes more than `--limit` times as long.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import threadpoolctl
from workload import WORKLOADS, make_step

import tinygrad_lite as tl
import tinygrad_lite.nn
import tinygrad_lite.optim


def shapes(model: Any, batch: tuple[Any, Any]) -> list[tuple[int, int, int]]:
    """(rows, inputs, outputs) of every linear layer that the model calls."""
    found: list[tuple[int, int, int]] = []

    def note(module: Any, args: tuple[Any, ...]) -> None:
        found.append((args[0].numel() // module.in_features, module.in_features, module.out_features))

    hooks = [m.register_forward_pre_hook(note) for m in model.modules() if isinstance(m, tl.nn.Linear)]
    with tl.no_grad():
        model(batch[0])
    for hook in hooks:
        hook.remove()
    return found


def products(layers: list[tuple[int, int, int]]) -> Callable[[], None]:
    """A function that computes y = x Wᵀ, dx = dy W and dW = dyᵀ x of every layer, each in memory of its own."""
    rng = np.random.default_rng(0)
    calls: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for rows, inputs, outputs in layers:
        x, w, dy = (rng.standard_normal(s, np.float32) for s in ((rows, inputs), (outputs, inputs), (rows, outputs)))
        y, dx, dw = np.empty_like(dy), np.empty_like(x), np.empty_like(w)
        calls += [(x, w.T, y), (dy, w, dx), (dy.T, x, dw)]

    def run() -> None:
        for a, b, out in calls:
            np.matmul(a, b, out=out)

    return run


def turns(step: Callable[[], Any], peer: Callable[[], Any], seconds: float) -> Iterator[tuple[float, float]]:
    """Median seconds of the two in blocks that take turns.

    Between blocks OpenBLAS's threads, which go on spinning for a while, fall asleep; the first quarter of a block finds
    caches and clocks cold and does not count.
    """
    end = time.perf_counter() + seconds
    count = max(4, int(0.4 / _once(step)))
    while time.perf_counter() < end:
        medians = []
        for each in (step, peer):
            time.sleep(0.1)
            times = [_once(each) for _ in range(count)]
            medians.append(statistics.median(times[count // 4 :]))
        yield medians[0], medians[1]


def _once(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure(name: str, seconds: float) -> dict[str, Any]:
    """Medians in milliseconds, and the median of the turns' ratios."""
    tl.manual_seed(0)
    workload = WORKLOADS[name]
    model = workload.build(tl)
    batch = tuple(map(tl.from_numpy, workload.batch(np.random.default_rng(0))))
    peer, step = products(shapes(model, batch)), make_step(tl, model, True)
    for _ in range(3):
        step(*batch)
        peer()
    with threadpoolctl.threadpool_limits(tl.get_num_threads(), "blas"):
        times = list(turns(lambda: step(*batch), peer, seconds))
    ours, theirs = (statistics.median(each) * 1e3 for each in zip(*times, strict=True))
    ratio = statistics.median(a / b for a, b in times)
    return {"name": name, "step_ms": ours, "products_ms": theirs, "ratio": ratio, "turns": len(times)}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="+", choices=WORKLOADS)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--limit", type=float, help="exit code 1 above it")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [measure(name, options.seconds) for name in options.names]
    if options.json:
        print(json.dumps(rows))
    for row in () if options.json else rows:
        print("{name:10} step {step_ms:8.2f} ms, products {products_ms:8.2f} ms: {ratio:.2f}".format(**row))
    return int(options.limit is not None and any(row["ratio"] > options.limit for row in rows))


if __name__ == "__main__":
    sys.exit(main())
