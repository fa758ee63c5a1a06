"""A program as a list of native calls that every worker walks through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .arena import aligned
from .workers import ROW, pool

SHARE = 8  # int64 words of a worker's entry in the job


@dataclass(frozen=True)
class Instruction:
    """A call `kernel(args, lo, hi, worker)` on every worker, each with its own [lo, hi); empty ones are skipped.

    `address` is the kernel's, `args_address` that of its int64 words. After a `barrier` every worker sees what was
    written before it; a run ends with one anyway. After a `stop` (and its barrier) the run ends if the error cell is
    set. With a `grain` the parts say how many there are, and where they are cut changes from run to run, at multiples
    of it: each worker gets what it does in the time that the others take for theirs.
    """

    address: int
    args_address: int
    parts: tuple[tuple[int, int], ...]
    barrier: bool = True
    stop: bool = False
    grain: int = 0

    def words(self, worker: int) -> tuple[int, ...]:
        """A row of the tape."""
        low, high = self.parts[worker]
        if self.grain:
            high = self.parts[-1][1]
            low = -(-high // self.grain)
        return self.address, self.args_address, low, high, self.grain, self.barrier + 2 * self.stop


def even_parts(extent: int, workers: int, grain: int = 1) -> tuple[tuple[int, int], ...]:
    """Split [0, extent) into one share a worker, cut at multiples of `grain`."""
    cuts = [min(extent, (extent * i // workers + grain - 1) // grain * grain) for i in range(workers)] + [extent]
    return tuple((cuts[i], max(cuts[i], cuts[i + 1])) for i in range(workers))


class Tape:
    """Instructions packed for `workers` threads. The caller keeps alive what their addresses point at.

    `order` are the rows, where instructions repeat: the instruction's number, how many bytes further on its words are,
    and whether its `stop` counts. By default each instruction is one row.

    Cycle counters are always on: `ticks[w, i]` are the cycles that worker w spent in row i since they were last reset,
    `barrier_ticks[w, i]` those it waited after it. Runs are serialised over the process.
    """

    def __init__(
        self,
        instructions: Sequence[Instruction],
        workers: int = 1,
        error_cell: int = 0,
        order: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
    ) -> None:
        self.instructions, self.workers = tuple(instructions), workers
        every = np.arange(len(self.instructions))
        self.order = order or (every, 0 * every, 0 * every + 1)
        count = len(self.order[0])
        for instruction in self.instructions:
            if len(instruction.parts) != workers:
                raise ValueError(f"{len(instruction.parts)} parts for {workers} workers: {instruction}")
        self._rows = aligned(8 * ROW * workers * count).view(np.int64).reshape(workers, count, ROW)
        pitch = -(-2 * count // 8) * 8  # whole cache lines: each worker writes to its own
        counters = aligned(8 * pitch * workers).view(np.int64).reshape(workers, pitch)
        self.ticks, self.barrier_ticks = counters[:, :count], counters[:, count : 2 * count]
        self._job = aligned(8 * SHARE * workers).view(np.int64).reshape(workers, SHARE)
        numbers, further, stops = self.order
        for worker in range(workers):
            table = [i.words(worker) for i in self.instructions]
            rows = self._rows[worker]
            rows[...] = np.array(table, np.int64).reshape(-1, ROW)[numbers]
            rows[:, 1] += further
            rows[:, 5] &= 1 + 2 * stops
            rows[-1:, 5] &= 2  # a run ends with a barrier anyway
            self._job[worker, :5] = (self._rows[worker].ctypes.data, count, counters[worker].ctypes.data, error_cell, 1)
        self._job_address: int = self._job.ctypes.data

    def run(self, turns: int = 1) -> None:
        """Run to the end, `turns` times over or until a `stop`. An interrupt meanwhile is raised afterwards."""
        with pool().lock:
            self._job[:, 4] = turns
            pool().run(self._job_address, self.workers)

    def reset_ticks(self) -> None:
        self.ticks[...] = 0
        self.barrier_ticks[...] = 0
