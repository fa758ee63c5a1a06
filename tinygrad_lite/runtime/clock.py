"""Cycle counters in seconds, and what this machine can do at best."""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from tinygrad_lite.backends.numba.compiler import load_kernels

from .arena import aligned

READ = "def kernel(args, lo, hi, worker):\n    i64_at(args)[0] = ticks()\n"
WAIT = 0.05  # seconds to compare the two clocks over
SPAN = 0.12  # seconds of each measurement
SIDE = 512  # of the square matrices that measure FLOP/s
STREAM = 1 << 26  # bytes that measure bandwidth: beyond the caches


@functools.cache
def ticks_per_second() -> float:
    """The rate of the counter that `Tape.ticks` holds differences of."""
    address = load_kernels({"read": READ})["read"]
    read: Any = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)(address)
    word = aligned(8).view(np.int64)

    def now() -> tuple[int, float]:
        read(word.ctypes.data, 0, 0, 0)
        return int(word[0]), time.perf_counter()

    now()
    first, start = now()
    time.sleep(WAIT)
    last, end = now()
    return (last - first) / (end - start)


class Peaks(NamedTuple):
    """FLOP/s of a float32 matrix product, and bytes a second read or written when copying memory."""

    flops: float
    bytes: float


@functools.cache
def peaks(workers: int) -> Peaks:
    """Measured once a process, all workers at once, each at its best: about 0.3 s."""
    a = np.ones((SIDE, SIDE), np.float32)
    outs = [np.empty_like(a) for _ in range(workers)]
    with threadpool_limits(1, "blas"):
        products = _best(workers, lambda i: np.matmul(a, a, out=outs[i]))
    share = STREAM // 8 // workers
    source, target = np.ones((workers, share)), np.ones((workers, share))
    copies = _best(workers, lambda i: np.copyto(target[i], source[i]))
    return Peaks(sum(2 * SIDE**3 / t for t in products), sum(16 * share / t for t in copies))


def _best(workers: int, work: Callable[[int], Any]) -> list[float]:
    """The shortest time that each worker took for `work(i)`, while the others did theirs."""
    best = [float("inf")] * workers

    def repeat(i: int) -> None:
        gate.wait()
        end = time.perf_counter() + SPAN
        while (start := time.perf_counter()) < end:
            work(i)
            best[i] = min(best[i], time.perf_counter() - start)

    gate = threading.Barrier(workers)
    threads = [threading.Thread(target=repeat, args=(i,)) for i in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return best
