"""The memory of a compiled program over its instructions: what is alive when, where it lies, the peak."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from tinygrad_lite.instructions import Buffer, Listing
from tinygrad_lite.ir.reading import amount
from tinygrad_lite.program import Program


class Memory:
    """Bytes by instruction. `arena` is what the plan takes, `live` the least that any plan could.

    Attributes:
        arena, live, inputs, outputs, states: bytes. Most outputs lie in the arena, where it has room.
        timeline: bytes alive in the arena during each instruction, kernels' scratch space included.
        peak: the number of the instruction at which most is alive.
    """

    def __init__(self, program: Program) -> None:
        self.listing = Listing(program)
        self.arena, self.live = program.plan.size, program.plan.live
        self.inputs = sum(a.nbytes for a in program.inputs)
        self.outputs = sum(a.nbytes for a in program.outputs)
        self.states = sum(s.type.nbytes for s in program.schedule.graph.states)
        self._lives = list(zip(program.lives, program.plan.offsets, strict=True))
        self.timeline = [0] * len(program.calls)
        for life, _ in self._lives:
            for i in range(life.lower, min(life.upper, len(self.timeline))):
                self.timeline[i] += life.size
        self.peak = max(range(len(self.timeline)), key=self.timeline.__getitem__, default=0)

    @cached_property
    def buffers(self) -> list[Buffer]:
        """The values in the arena, in order of first use."""
        return [b for b in self.listing.buffers.values() if b.kind == "arena"]

    def alive(self, instruction: int) -> list[Buffer]:
        """The values alive during an instruction, the largest first."""
        return sorted((b for b in self.buffers if b.first <= instruction <= b.last), key=lambda b: -b.nbytes)

    def at_peak(self) -> list[Buffer]:
        """The values alive at the peak, the largest first."""
        return self.alive(self.peak)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        totals = {k: getattr(self, k) for k in ("arena", "live", "inputs", "outputs", "states", "peak")}
        buffers = [b.to_dict() for b in self.buffers]
        return totals | {"timeline": self.timeline, "buffers": buffers, "at_peak": [b.name for b in self.at_peak()]}

    def __str__(self) -> str:
        peak = self.timeline[self.peak] if self.timeline else 0
        lines = [
            f"arena {amount(self.arena, 'B')}, greatest live {amount(self.live, 'B')}; "
            f"states {amount(self.states, 'B')}, inputs {amount(self.inputs, 'B')}, "
            f"outputs {amount(self.outputs, 'B')}",
            f"peak {amount(peak, 'B')} at instruction {self.peak} of {len(self.timeline)}, alive then:",
        ]
        shown = self.at_peak()
        lines += [
            f"  {amount(b.nbytes, 'B'):>9}  {b.name} {b.type}, instructions {b.first}–{b.last}, arena+{b.offset}"
            for b in shown[:20]
        ]
        if len(shown) > 20:
            lines.append(f"  and {len(shown) - 20} smaller, {amount(sum(b.nbytes for b in shown[20:]), 'B')}")
        return "\n".join(lines) + "\n"

    def plot(self, path: str | Path | None = None) -> Any:
        """A matplotlib Figure: each buffer's life and place in the arena, and the bytes alive; saved to `path`."""
        from matplotlib.figure import Figure

        figure = Figure(figsize=(9, 6), layout="constrained")
        top, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
        for number, (life, offset) in enumerate(self._lives):
            box = [(life.lower, life.upper - life.lower)]
            top.broken_barh(box, (offset / 1e6, life.size / 1e6), facecolor=f"C{number % 10}", alpha=0.75)
        top.set(ylabel="place in the arena, MB", title=f"arena {amount(self.arena, 'B')}")
        below.step(range(len(self.timeline)), [n / 1e6 for n in self.timeline], where="post")
        below.axvline(self.peak, color="0.6", linewidth=0.8)
        below.set(xlabel="instruction", ylabel="alive, MB", ylim=(0, None))
        return _saved(figure, path)


def _saved(figure: Any, path: str | Path | None) -> Any:
    if path is not None:
        figure.savefig(path, dpi=120)
    return figure
