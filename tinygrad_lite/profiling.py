"""Where the time of a compiled function goes: by instruction, by kernel, by module of the user's model, by worker.

Each worker's cycle counter is always on, so a profile costs nothing while nobody asks for it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tinygrad_lite.backends.numba import blas
from tinygrad_lite.instructions import Listing, Step, module_of
from tinygrad_lite.ir.reading import amount
from tinygrad_lite.program import Program
from tinygrad_lite.runtime.clock import Peaks, peaks, ticks_per_second
from tinygrad_lite.runtime.workers import pool

if TYPE_CHECKING:
    from tinygrad_lite.captured import Capture

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Row:
    """Time of one instruction, or of several of one name, in one run.

    Attributes:
        seconds: busy time, averaged over the workers; `wait` is what they then wait at the barrier.
        longest: busy time of the slowest worker, by which the rates are reckoned.
        flops, bytes: of one run, by the ops' cost rules and the sizes that cross the kernel's border.
        roofline: the least time that the measured peaks allow, as a share of `longest`; above 1 where caches are faster
            than memory.
    """

    name: str
    count: int
    seconds: float
    wait: float
    longest: float
    flops: int
    bytes: int
    roofline: float

    @property
    def gflops(self) -> float:
        """GFLOP/s."""
        return self.flops / self.longest / 1e9 if self.longest else 0.0

    @property
    def gbytes(self) -> float:
        """GB/s."""
        return self.bytes / self.longest / 1e9 if self.longest else 0.0

    def to_dict(self) -> dict[str, Any]:
        return self.__dict__ | {"gflops": self.gflops, "gbytes": self.gbytes}


class Profile:
    """`runs` runs of a program's tape. Printing shows the kernels by time, then the modules.

    Attributes:
        step: measured seconds of one run, by the wall clock.
        rows: one Row an instruction, in order. Their `seconds` and `wait` add up to `step`, but for `rest`.
        kernels: by kernel name, the longest first.
        modules: by module, two levels deep, the longest first; see `by_module`.
        peaks: the FLOP/s and bytes/s measured on this machine.
    """

    def __init__(self, capture: Capture, runs: int = 10) -> None:
        if runs < 1:
            raise ValueError(f"profile needs at least 1 run, not {runs}")
        program = capture.program
        self.listing, self.runs, self.workers = Listing(program), runs, program.workers
        self.name = program.schedule.graph.name
        self.peaks: Peaks = peaks(program.workers)
        self.step, ticks, waits = _measure(capture, runs)
        self._order = program.tape.order[0]
        scale = 1 / (ticks_per_second() * runs)
        self._ticks, self._waits = ticks * scale, waits * scale  # (workers, rows), seconds a run
        self.rows = [self._row(step) for step in self.listing.steps]
        self.rest = self.step - sum(r.seconds + r.wait for r in self.rows)

    def _row(self, step: Step) -> Row:
        mine = self._order == step.number
        busy, wait = self._ticks[:, mine].sum(1), self._waits[:, mine].sum(1)
        longest = float(busy.max(initial=0.0))
        least = max(step.flops / self.peaks.flops, step.bytes / self.peaks.bytes)
        share = least / longest if longest else 0.0
        return Row(
            step.label, step.times, float(busy.mean()), float(wait.mean()), longest, step.flops, step.bytes, share
        )

    @cached_property
    def kernels(self) -> list[Row]:
        return self._grouped(lambda step: f"k{step.kernel} {step.label}")

    @cached_property
    def modules(self) -> list[Row]:
        return self.by_module(2)

    def by_module(self, depth: int) -> list[Row]:
        """Rows by phase and module, `depth` levels deep; fused kernels count for the module of most of their work."""
        return self._grouped(lambda step: f"{step.phase} {module_of(step.scope, depth) or '(top)'}")

    def _grouped(self, key: Callable[[Step], str]) -> list[Row]:
        groups: dict[str, list[Row]] = {}
        for step, row in zip(self.listing.steps, self.rows, strict=True):
            groups.setdefault(key(step), []).append(row)
        return sorted((_sum(name, rows) for name, rows in groups.items()), key=lambda r: -r.seconds)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        tables = {name: [r.to_dict() for r in getattr(self, name)] for name in ("rows", "kernels", "modules")}
        figures = {"step": self.step, "rest": self.rest, "runs": self.runs, "workers": self.workers}
        return {"name": self.name} | figures | {"peaks": self.peaks._asdict()} | tables

    def __str__(self) -> str:
        waits = sum(r.wait for r in self.rows)
        flops, moved = sum(r.flops for r in self.rows), sum(r.bytes for r in self.rows)
        lines = [
            f"{self.name}: {_time(self.step).strip()} a run over {self.runs}, {self.workers} worker(s), "
            f"{amount(flops / self.step, 'FLOP/s')} of {amount(self.peaks.flops, 'FLOP/s')}, "
            f"{amount(moved / self.step, 'B/s')} of {amount(self.peaks.bytes, 'B/s')}",
            *_table("kernel", self.kernels, self.step),
            f"{waits / self.step:7.1%}  {_time(waits)}  waiting at barriers",
            f"{self.rest / self.step:7.1%}  {_time(self.rest)}  starting and ending the workers",
            *_table("module", self.modules, self.step),
        ]
        return "\n".join(lines) + "\n"

    def events(self) -> Iterator[dict[str, Any]]:
        """Events of the Chrome trace format: one row a worker, times of the average run."""
        yield {"name": "process_name", "ph": "M", "pid": 1, "args": {"name": self.name}}
        for worker in range(self.workers):
            yield {"name": "thread_name", "ph": "M", "pid": 1, "tid": worker, "args": {"name": f"worker {worker}"}}
            now = 0.0
            for row, number in enumerate(self._order.tolist()):
                step = self.listing.steps[number]
                busy, wait = float(self._ticks[worker, row]), float(self._waits[worker, row])
                facts = {"instruction": number, "module": step.scope, "line": step.line, "flops": step.flops}
                facts |= {"bytes": step.bytes, "reads": list(step.reads), "writes": list(step.writes)}
                yield _event(step.label, step.phase, now, busy, worker, facts)
                if wait:
                    yield _event("barrier", "wait", now + busy, wait, worker, {})
                now += busy + wait

    def save(self, path: str | Path) -> Path:
        """Write the Chrome trace (for Perfetto or chrome://tracing) to `path`, as JSON."""
        path = Path(path)
        path.write_text(json.dumps({"traceEvents": list(self.events()), "displayTimeUnit": "ns"}), encoding="utf-8")
        return path

    def plot(self, path: str | Path | None = None, top: int = 20) -> Any:
        """A matplotlib Figure: the kernels by time, and how near the roofline each is; saved to `path` if given."""
        from matplotlib.figure import Figure

        rows = self.kernels[:top][::-1]
        figure = Figure(figsize=(9, 1.5 + 0.28 * len(rows)), layout="constrained")
        axes = figure.add_subplot(xlabel="ms a run", title=f"{self.name}: {self.step * 1e3:.2f} ms a run")
        axes.barh([r.name for r in rows], [1e3 * r.seconds for r in rows], color="0.8", label="measured")
        least = [1e3 * r.seconds * min(1.0, r.roofline) for r in rows]
        axes.barh([r.name for r in rows], least, label="at the measured peaks")
        axes.legend(loc="lower right")
        if path is not None:
            figure.savefig(path, dpi=120)
        return figure


def _event(name: str, kind: str, start: float, seconds: float, worker: int, facts: dict[str, Any]) -> dict[str, Any]:
    times = {"ts": round(start * 1e6, 3), "dur": round(seconds * 1e6, 3)}
    return {"name": name, "cat": kind, "ph": "X", "pid": 1, "tid": worker, **times, "args": facts}


def _sum(name: str, rows: list[Row]) -> Row:
    longest = sum(r.longest for r in rows)
    share = sum(r.roofline * r.longest for r in rows) / longest if longest else 0.0
    totals = [sum(getattr(r, k) for r in rows) for k in ("count", "seconds", "wait")]
    return Row(name, *totals, longest, sum(r.flops for r in rows), sum(r.bytes for r in rows), share)


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:9.3f} ms" if abs(seconds) >= 1e-3 else f"{seconds * 1e6:9.3f} µs"


def _table(what: str, rows: list[Row], step: float, top: int = 15) -> list[str]:
    lines = [f"{'share':>7}  {'time':>12}  {'count':>5}  {'GFLOP/s':>8}  {'GB/s':>7}  {'roofline':>8}  {what}"]
    for r in rows[:top]:
        lines.append(
            f"{r.seconds / step:7.1%}  {_time(r.seconds)}  {r.count:5d}  {r.gflops:8.2f}  {r.gbytes:7.2f}  "
            f"{r.roofline:8.0%}  {r.name}"
        )
    if len(rows) > top:
        rest = sum(r.seconds for r in rows[top:])
        lines.append(f"{rest / step:7.1%}  {_time(rest)}  {len(rows) - top} more")
    return lines


@contextmanager
def _ready(program: Program) -> Iterator[None]:
    """As Program.execute runs its tape, but once for many runs."""
    with pool().lock:
        if program.uses_blas:
            with blas.single_threaded():
                yield
        else:
            yield


def _measure(capture: Capture, runs: int) -> tuple[float, Array, Array]:
    """Seconds a run, and the cycles by worker and row over all runs. States and results are put back afterwards."""
    program = capture.program
    capture._bind_states()
    kept = [*(a for a in program.state_arrays if a is not None), *program.outputs]
    before = [a.copy() for a in kept]
    try:
        program.execute()  # caches warm, and failures come up here
        with _ready(program):
            program.tape.reset_ticks()
            start = time.perf_counter()
            program.tape.run(runs)  # in one native call: Python is not part of a run
            seconds = (time.perf_counter() - start) / runs
        return seconds, program.tape.ticks.copy(), program.tape.barrier_ticks.copy()
    finally:
        for array, value in zip(kept, before, strict=True):
            np.copyto(array, value)
