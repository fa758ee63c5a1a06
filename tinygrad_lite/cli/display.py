"""What a run shows while it runs, on standard error: a bar on a terminal, and one line a validation anywhere."""

from __future__ import annotations

import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Display:
    """A progress bar over `total` steps, of which `done` are behind. Use as a context manager."""

    def __init__(self, total: int, done: int = 0, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False)
        self._bar = Progress(
            TextColumn("step"),
            MofNCompleteColumn(),
            BarColumn(),
            TextColumn("loss {task.fields[loss]:.3f}"),
            TextColumn("{task.fields[rate]:,.0f} tokens/s"),
            TimeRemainingColumn(),
            console=self.console,
            transient=True,
        )
        self._task = self._bar.add_task("", total=total, completed=done, loss=float("nan"), rate=0.0)
        self._start = self._last = time.perf_counter()
        self._steps = self._tokens = 0
        self._busy = 0.0  # seconds in steps after the first, which compiles

    def __enter__(self) -> Display:
        self._bar.start()
        self._start = self._last = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.perf_counter() - self._start

    @property
    def tokens_per_second(self) -> float:
        """Over all steps after the first, validation apart; 0 before there are any."""
        return self._tokens / self._busy if self._busy else 0.0

    def step(self, step: int, loss: float, tokens: int) -> None:
        """One step more is done."""
        now = time.perf_counter()
        self._steps += 1
        if self._steps == 1:
            self.console.print(f"first step after {now - self._last:.1f} s, compiling included")
        else:
            self._tokens += tokens
            self._busy += now - self._last
        self._last = now
        self._bar.update(self._task, completed=step, loss=loss, rate=self.tokens_per_second)

    def validation(self, step: int, train: float, validation: float) -> None:
        """The losses at `step`."""
        self._last = time.perf_counter()
        rate = f"{self.tokens_per_second:,.0f} tokens/s" if self._busy else ""
        line = f"step {step:5d}  train {train:.4f}  validation {validation:.4f}  {rate}"
        self.console.print(f"{line}  {self.seconds:.0f} s")
