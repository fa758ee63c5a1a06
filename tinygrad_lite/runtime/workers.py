"""The worker threads, one pool a process, and the native code that they run.

Between runs a worker sleeps in the operating system on a semaphore, inside native code: waking it needs no GIL, and no
exception can fall between waking the workers and joining them, for one native call does both. After a fork the child
makes a new pool when it first needs one.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_lite.backends.numba.compiler import load_kernels

from .arena import aligned

MAX_WORKERS = 256
SEMAPHORE_BYTES = 32  # sem_t; macOS has handles instead
# Bytes from the pool's start. Words that different threads write lie in different cache lines.
ARRIVED, GENERATION, JOB, WORKERS, SEMAPHORES = 0, 64, 128, 136, 256
YIELD, WAIT, POST = 24, 25, 26  # words that hold functions of the operating system
CUTS = SEMAPHORES + MAX_WORKERS * (8 + SEMAPHORE_BYTES)  # where shares begin and end, of WHOLE
SPEEDS = CUTS + 8 * (MAX_WORKERS + 8)  # each worker's share as a float64
SPENT = SPEEDS + 8 * MAX_WORKERS  # each worker's cycles in divisible rows since the last barrier, a cache line each
POOL_BYTES = SPENT + 64 * MAX_WORKERS
WHOLE = 1 << 16
ROW = 6  # words of a row of the tape
BRIEF, LONG = 20_000, 3_000_000  # cycles: less says nothing of a worker's speed, this much half of all
MOST, LEAST = 0.5, 0.25  # what of a delay counts; a worker's smallest share, of an even one
SPINS = 2000  # under 2 µs; then the core goes to whoever else needs it, perhaps a worker

# One worker's share of a tape. Job, 64 bytes a worker: rows, count, ticks, error cell, turns. Row: kernel, args, lo,
# hi, grain, and 1 for a barrier + 2 for an end of the run if the error cell is set: all see alike, for no later
# instruction sets it. With a grain, lo is how many grains there are and hi how many elements, to divide by the cuts.
SHARE = f"""\
share = i64_at(job + 64 * worker)
rows, count, turns = share[0], share[1], share[4]
spent = i64_at(share[2])
cuts = i64_at(pool + {CUTS})
divisible = i64(0)
now = ticks()
while turns > 0:
    turns -= 1
    for i in range(count):
        row = i64_at(rows + {8 * ROW} * i)
        low, high, grain = row[2], row[3], row[4]
        if grain > 0:
            low, extent = (low * cuts[worker] + {WHOLE // 2}) // {WHOLE} * grain, high
            high = minimum((row[2] * cuts[worker + 1] + {WHOLE // 2}) // {WHOLE} * grain, extent)
        if low < high:
            call_kernel(row[0], row[1], low, high, worker)
        start = now
        now = ticks()
        spent[i] += now - start
        if grain > 0:
            divisible += now - start
        if row[5] & 1 != 0 and workers > 1:
            BARRIER
            start = now
            now = ticks()
            spent[count + i] += now - start
        if row[5] & 2 != 0 and i64_at(share[3])[0] != 0:
            turns = 0
            break
    if turns > 0 and workers > 1:
        BARRIER
        now = ticks()
"""
# Cores are not equally fast: of two kinds, or busy with something else too. What a worker took longer than the others
# since the last barrier makes its share smaller, by a little where that was a short time. Done by one while all wait.
DIVIDE = f"""\
least, total = divisible, i64(0)
for v in range(workers):
    took = i64_at(pool + {SPENT} + 64 * v)[0]
    least, total = minimum(least, took), total + took
if least > {BRIEF}:
    trust = f64(least) / f64(least + {LONG})
    speeds, whole = f64_at(pool + {SPEEDS}), f64(0)
    for v in range(workers):
        late = f64(i64_at(pool + {SPENT} + 64 * v)[0] * workers) / f64(total) - f64(1)
        speeds[v] = maximum(speeds[v] * (f64(1) - trust * minimum(late, f64({MOST}))), f64({LEAST}) / f64(workers))
        whole += speeds[v]
    so_far, cuts = f64(0), i64_at(pool + {CUTS})
    for v in range(workers):
        speeds[v] /= whole
        so_far += speeds[v]
        cuts[v + 1] = minimum(i64(so_far * f64({WHOLE}) + f64(0.5)), {WHOLE})
    cuts[workers] = {WHOLE}
"""
# The last to arrive opens the barrier by a new generation. Pauses are rare: a hypervisor takes a loop of them for a
# lost lock and stops the virtual CPU, which made a barrier cost 6 µs instead of 0.3.
BARRIER = f"""\
generation = atomic_load(pool + {GENERATION})
i64_at(pool + {SPENT} + 64 * worker)[0] = divisible
if atomic_add(pool + {ARRIVED}, 1) == workers - 1:
    if divisible > {BRIEF}:
        DIVIDE
    atomic_store(pool + {ARRIVED}, 0)
    atomic_add(pool + {GENERATION}, 1)
else:
    spins = 0
    while atomic_load(pool + {GENERATION}) == generation:
        spins += 1
        if spins > {SPINS}:
            call_plain(w[{YIELD}])
        elif spins & 63 == 0:
            pause()
divisible = i64(0)
"""
# The caller's part, as worker 0: args is the pool, lo the job, hi the number of workers.
LAUNCH = f"""\
def kernel(args, lo, hi, worker):
    pool, job, workers = args, lo, hi
    w = i64_at(pool)
    if workers > 1:
        atomic_store(pool + {JOB}, job)
        atomic_store(pool + {WORKERS}, workers)
        for i in range(1, workers):
            call_two(w[{POST}], i64_at(pool + {SEMAPHORES})[i], 0)
    SHARE
    if workers > 1:
        BARRIER
"""
# A thread's life. Once a job's last barrier opens, only the pool is touched: the tape may be gone by then.
SERVE = f"""\
def kernel(args, lo, hi, worker):
    pool = args
    w = i64_at(pool)
    while True:
        while call_two(w[{WAIT}], i64_at(pool + {SEMAPHORES})[worker], -1) != 0:
            pause()
        job, workers = atomic_load(pool + {JOB}), atomic_load(pool + {WORKERS})
        SHARE
        BARRIER
"""
ENTRY = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)  # calls release the GIL


def expand(source: str) -> str:
    """Put the shared parts in place of the lines that name them."""
    for name, part in (("SHARE", SHARE), ("BARRIER", BARRIER), ("DIVIDE", DIVIDE)):
        lines = []
        for line in source.splitlines():
            indent = line[: len(line) - len(line.lstrip())]
            lines += [indent + inner for inner in part.splitlines()] if line.strip() == name else [line]
        source = "\n".join(lines)
    return source


# ---- the number of threads ----------------------------------------------------------------------------
def usable_cores() -> int:
    """CPUs this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _initial_threads() -> int:
    text = os.environ.get("TINYGRAD_LITE_NUM_THREADS")
    if not text:
        return min(usable_cores(), MAX_WORKERS)
    if not text.isdigit() or not 1 <= int(text) <= MAX_WORKERS:
        raise ValueError(f"TINYGRAD_LITE_NUM_THREADS must be from 1 to {MAX_WORKERS}, not {text!r}")
    return int(text)


_threads: int | None = None


def get_num_threads() -> int:
    """How many threads compiled programs use: `TINYGRAD_LITE_NUM_THREADS`, or every usable CPU."""
    global _threads
    if _threads is None:
        _threads = _initial_threads()
    return _threads


def set_num_threads(n: int) -> None:
    """Set the number of threads of programs compiled from now on; those compiled before keep theirs."""
    global _threads
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= MAX_WORKERS:
        raise ValueError(f"the number of threads must be an integer from 1 to {MAX_WORKERS}, not {n!r}")
    _threads = n


def entry_points() -> dict[str, str]:
    """The sources of the pool's own kernels."""
    return {"launch": expand(LAUNCH), "serve": expand(SERVE)}


# ---- the pool -------------------------------------------------------------------------------------------
class Pool:
    """Native entry points, barrier words and sleeping threads. `run` one job at a time, whichever thread asks."""

    def __init__(self) -> None:
        kernels = load_kernels(entry_points())
        self.launch, self._serve = ENTRY(kernels["launch"]), ENTRY(kernels["serve"])
        self.lock = threading.RLock()
        self._memory = aligned(POOL_BYTES)
        self.address: int = self._memory.ctypes.data
        self._started = 1  # worker 0 is the caller
        self._cuts, self._speeds = self._memory[CUTS:SPEEDS].view("int64"), self._memory[SPEEDS:SPENT].view("float64")
        self._divided = 0  # among so many workers
        self._words = self._memory[: SEMAPHORES + 8 * MAX_WORKERS].view("int64")
        self._system = ctypes.CDLL(None)
        wait, post = _SEMAPHORE_FUNCTIONS
        for word, name in ((YIELD, "sched_yield"), (WAIT, wait), (POST, post)):
            self._words[word] = ctypes.cast(getattr(self._system, name), ctypes.c_void_p).value

    def run(self, job: int, workers: int) -> None:
        """Run a job to its end on the caller's thread and `workers - 1` others."""
        with self.lock:
            if workers > self._started:
                self._start(workers)
            if workers > 1 and workers != self._divided:
                self.divide([1 / workers] * workers)
            self.launch(self.address, job, workers, 0)

    def divide(self, shares: Sequence[float]) -> None:
        """Let the workers begin with these shares of divisible instructions; they sum to 1."""
        with self.lock:
            self._divided = len(shares)
            self._speeds[: len(shares)] = shares
            self._cuts[0] = 0
            self._cuts[1 : len(shares) + 1] = np.rint(np.cumsum(shares) * WHOLE)

    def shares(self, workers: int) -> list[float]:
        """What part of divisible instructions each worker now gets."""
        return [float(s) for s in np.diff(self._cuts[: workers + 1]) / WHOLE]

    def _start(self, workers: int) -> None:
        """Interrupted half-way, this may start a worker twice, which is harmless: one post wakes one of the two."""
        if workers > MAX_WORKERS:
            raise ValueError(f"{workers} workers; at most {MAX_WORKERS}")
        for worker in range(self._started, workers):
            self._words[SEMAPHORES // 8 + worker] = self._semaphore(worker)
            threading.Thread(
                target=self._serve,
                args=(self.address, 0, 0, worker),
                daemon=True,
                name=f"tinygrad_lite worker {worker}",
            ).start()
            self._started = worker + 1

    def _semaphore(self, worker: int) -> int:
        if sys.platform == "darwin":
            create: Any = self._system.dispatch_semaphore_create
            create.restype, create.argtypes = ctypes.c_void_p, (ctypes.c_long,)
            return int(create(0))
        place = self.address + SEMAPHORES + 8 * MAX_WORKERS + SEMAPHORE_BYTES * worker
        if self._system.sem_init(ctypes.c_void_p(place), 0, 0):
            raise OSError("sem_init failed")
        return place


_SEMAPHORE_FUNCTIONS = (
    ("dispatch_semaphore_wait", "dispatch_semaphore_signal") if sys.platform == "darwin" else ("sem_wait", "sem_post")
)
_pool: Pool | None = None
_pool_lock = threading.Lock()


def pool() -> Pool:
    """This process's pool."""
    global _pool
    if _pool is None:
        with _pool_lock:
            _pool = _pool or Pool()
    return _pool


_abandoned: list[Pool | None] = []


def _after_fork() -> None:
    """The child has none of the threads, and the barrier may have been in use: begin anew, and free nothing."""
    global _pool, _pool_lock
    _abandoned.append(_pool)
    _pool, _pool_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
