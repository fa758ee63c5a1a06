"""What a compiled function consists of and where its time goes, as text and as data."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tinygrad_lite.program import Program

if TYPE_CHECKING:
    from tinygrad_lite.capture import Capture


def explain(capture: Capture, captures: int, reasons: list[str]) -> str:
    """The compile bill, the shape of the program, its memory, and why it was captured more than once."""
    program = capture.program
    passes = sum(p.seconds for p in capture.log.passes)
    compiled = [r for r in program.kernels.report if r.origin == "compiled"]
    lines = [
        f"{capture.graph.name}: {captures} capture(s)",
        f"  trace     {capture.seconds * 1e3:8.1f} ms  {len(capture.graph)} nodes",
        f"  passes    {passes * 1e3:8.1f} ms  {len(capture.optimised)} nodes left",
        f"  schedule  {program.seconds['schedule'] * 1e3:8.1f} ms  {len(program.tape.order[0])} instructions, "
        f"{sum(c.barrier for c in program.calls)} barriers, {program.workers} worker(s)",
        f"  kernels   {program.kernels.seconds * 1e3:8.1f} ms  {len(program.kernels)} distinct, {len(compiled)} compiled now",
        f"  memory    arena {_bytes(program.plan.size)}, greatest live {_bytes(program.plan.live)}",
    ]
    lines += [f"  captured again: {reason}" for reason in reasons]
    return "\n".join(lines)


def _bytes(n: float) -> str:
    for unit in ("B", "KB", "MB"):
        if n < 1024:
            return f"{n:.4g} {unit}"
        n /= 1024
    return f"{n:.4g} GB"


@dataclass(frozen=True)
class Row:
    """One kind of instruction: how many there are, and the share of the run's cycles, averaged over the workers."""

    label: str
    count: int
    share: float


class Profile:
    """Cycles by kind of instruction since the counters were last reset; printing shows the largest first."""

    def __init__(self, program: Program) -> None:
        ticks, waits = program.tape.ticks, program.tape.barrier_ticks
        total = max(1, int(ticks.sum() + waits.sum()))
        sums: dict[str, int] = defaultdict(int)
        counts: dict[str, int] = defaultdict(int)
        spent = ticks.sum(0)
        for i, call in enumerate(program.calls):
            runs = program.tape.order[0] == i
            sums[call.label] += int(spent[runs].sum())
            counts[call.label] += int(runs.sum())
        rows = [Row(label, counts[label], sums[label] / total) for label in sums]
        rows.append(Row("wait at barriers", sum(c.barrier for c in program.calls), int(waits.sum()) / total))
        self.rows = sorted(rows, key=lambda r: -r.share)

    def to_dict(self) -> list[dict[str, Any]]:
        """Rows as plain data."""
        return [{"label": r.label, "count": r.count, "share": r.share} for r in self.rows]

    def __str__(self) -> str:
        return "\n".join(f"{r.share * 100:6.2f} %  {r.count:4d} × {r.label}" for r in self.rows)
