"""What a compiled function consists of and why: compile bill, fusion, recomputation, recompilation, memory, costs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tinygrad_lite.instructions import Listing
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.reading import amount
from tinygrad_lite.ir.schedule.place import is_computed, is_virtual, root_of
from tinygrad_lite.ir.schedule.rematerialise import is_recomputed
from tinygrad_lite.ir.schedule.why import borders
from tinygrad_lite.memory import Memory

if TYPE_CHECKING:
    from tinygrad_lite.captured import Capture

_POLICIES = ("checkpoint=", "memory_budget=")  # how a budget.Policy prints
TOP = 12  # rows of each list that are printed


class Explanation:
    """Prints as sections; `to_dict()` has all of it as plain data.

    Attributes:
        bill: seconds of trace, passes, schedule, kernels; how many kernels are new to this process.
        fused: op names of each fused group, how many such groups there are.
        borders: reason → how many values are stored because of it, and their bytes.
        recomputed: what is computed more than once rather than stored → reason, values, their bytes, names.
        reasons: why the function was captured again, oldest first.
        costs: FLOPs and bytes of one run: by the ops alone, and as fused.
    """

    def __init__(self, capture: Capture, captures: int, reasons: list[str]) -> None:
        self.capture, self.captures, self.reasons = capture, captures, list(reasons)
        self.listing = Listing(capture.program)

    @cached_property
    def bill(self) -> dict[str, Any]:
        kernels = self.capture.program.kernels
        origins = Counter(r.origin for r in kernels.report)
        seconds = {
            "trace": self.capture.seconds,
            "passes": sum(p.seconds for p in self.capture.log.passes),
            "schedule": self.capture.program.seconds["schedule"],
            "kernels": kernels.seconds,
        }
        return seconds | {"distinct_kernels": len(kernels), "origins": dict(origins)}

    @cached_property
    def fused(self) -> dict[str, int]:
        groups = [g for g in self.capture.program.schedule.groups if len(g.nodes) > 1]
        return dict(Counter(" ".join(n.op.name for n in g.nodes) for g in groups).most_common())

    @cached_property
    def borders(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for border in borders(self.capture.program.schedule.groups):
            row = found.setdefault(border.reason, {"values": 0, "bytes": 0})
            row["values"] += 1
            row["bytes"] += border.nbytes
        return dict(sorted(found.items(), key=lambda kv: -kv[1]["bytes"]))

    @cached_property
    def recomputed(self) -> dict[str, dict[str, Any]]:
        graph = self.capture.program.schedule.graph
        readers = self._reading_groups()
        cheap = [n for n in graph.nodes if is_virtual(n) and n.type.size > 1 and len(readers.get(id(n), ())) > 1]
        again: dict[str, list[Node]] = {}
        for node in graph.nodes:
            if node.location is not None and is_recomputed(node) and is_computed(node):
                chosen = node.location.segment.startswith(_POLICIES)
                again.setdefault(node.location.segment if chosen else "checkpoint()", []).append(node)
        found = {what: (nodes, self._why(what)) for what, nodes in again.items()}
        late = [n for n in graph.nodes if n.late and is_computed(n)]
        found["in passing"] = (late, "follow from one array, which is kept in their place, in kernels that run anyway")
        found["made from an element's number"] = (cheap, "cheaper to compute wherever it is read than to load")
        return {
            what: {
                "values": len(nodes),
                "bytes": sum(n.type.nbytes for n in nodes),
                "reason": reason,
                "names": dict(Counter(map(_kind_of_place, nodes)).most_common()),
            }
            for what, (nodes, reason) in found.items()
            if nodes
        }

    def _why(self, what: str) -> str:
        choice = self.capture.choice
        if what == "checkpoint()" or choice is None:
            return "backward runs this part of forward again, as the call of checkpoint() says"
        how = "all but the borders of the segments" if "sqrt" in what else "the cheapest for the bytes that it frees"
        return (
            f"{how}: arena {amount(choice.planned, 'B')} instead of {amount(choice.plain, 'B')}, "
            f"{choice.work:.2f} × the work"
        )

    def _reading_groups(self) -> dict[int, set[int]]:
        """id(value) → the groups that read it, through views or not."""
        readers: dict[int, set[int]] = {}
        for number, group in enumerate(self.capture.program.schedule.groups):
            for node in group.nodes:
                for operand in node.inputs:
                    readers.setdefault(id(root_of(operand)), set()).add(number)
        return readers

    @cached_property
    def costs(self) -> dict[str, int]:
        steps = self.listing.steps
        return {
            "flops": sum(s.flops for s in steps),
            "bytes_unfused": sum(n.op.cost(n).bytes for n in _work(self.capture.optimised)),
            "bytes_fused": sum(s.bytes for s in steps),
        }

    @cached_property
    def memory(self) -> Memory:
        """The memory plan."""
        return Memory(self.capture.program)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        names = ("captures", "bill", "fused", "borders", "recomputed", "reasons", "costs")
        passes = self.capture.log.to_dict()
        return {name: getattr(self, name) for name in names} | {"passes": passes, "memory": self.memory.to_dict()}

    def __str__(self) -> str:
        parts = [self._bill_lines(), self._fusion_lines(), self._border_lines(), self._recompute_lines()]
        parts += [self._capture_lines(), self._memory_lines(), self._cost_lines()]
        return "\n".join(line for part in parts for line in part) + "\n"

    def __contains__(self, text: str) -> bool:
        return text in str(self)

    def _bill_lines(self) -> list[str]:
        bill, program = self.bill, self.capture.program
        origins = ", ".join(
            f"{n} from {o}" if o != "compiled" else f"{n} compiled now" for o, n in bill["origins"].items()
        )
        shares = f"{len(program.calls)} instructions, {sum(c.barrier for c in program.calls)} barriers"
        return [
            f"{self.capture.graph.name}: {self.captures} capture(s)",
            f"  trace     {bill['trace'] * 1e3:8.1f} ms  {len(self.capture.graph)} nodes",
            f"  passes    {bill['passes'] * 1e3:8.1f} ms  {len(self.capture.optimised)} nodes left",
            f"  schedule  {bill['schedule'] * 1e3:8.1f} ms  {shares}, {program.workers} worker(s)",
            f"  kernels   {bill['kernels'] * 1e3:8.1f} ms  {bill['distinct_kernels']} distinct, {origins or 'none'}",
        ]

    def _fusion_lines(self) -> list[str]:
        groups = self.capture.program.schedule.groups
        nodes = sum(len(g.nodes) for g in groups)
        lines = [f"fused: {nodes} computed nodes run as {len(groups)} groups"]
        return lines + _limited([f"  {count:4d} × {_short(ops)}" for ops, count in self.fused.items()])

    def _border_lines(self) -> list[str]:
        rows = [f"  {r['values']:4d} values, {amount(r['bytes'], 'B'):>8}: {why}" for why, r in self.borders.items()]
        return ["not fused, so stored between kernels:", *(_limited(rows) or ["  nothing"])]

    def _recompute_lines(self) -> list[str]:
        rows = []
        for what, r in self.recomputed.items():
            rows.append(f"  {r['values']:4d} values, {amount(r['bytes'], 'B'):>8} {what}: {r['reason']}")
            if what != "made from an element's number":
                rows += _limited([f"       {count:4d} × {name}" for name, count in r["names"].items()])
        return ["recomputed instead of stored:", *(rows or ["  nothing"])]

    def _capture_lines(self) -> list[str]:
        return [f"captured again: {reason}" for reason in self.reasons] or ["captured once: no guard has failed"]

    def _memory_lines(self) -> list[str]:
        memory = self.memory
        at_peak = ", ".join(f"{b.name} {amount(b.nbytes, 'B')}" for b in memory.at_peak()[:4])
        return [
            f"memory: arena {amount(memory.arena, 'B')}, greatest live {amount(memory.live, 'B')}, "
            f"states {amount(memory.states, 'B')}",
            f"  peak at instruction {memory.peak}: {at_peak or 'nothing'}",
        ]

    def _cost_lines(self) -> list[str]:
        costs = self.costs
        return [
            f"a run: {amount(costs['flops'], 'FLOP')}; {amount(costs['bytes_fused'], 'B')} cross the kernels' borders, "
            f"{amount(costs['bytes_unfused'], 'B')} would without fusion"
        ]


def _work(graph: Graph) -> Iterable[Any]:
    return (n for n in graph.nodes if n.op.kind not in (Kind.LEAF, Kind.MOVEMENT) and not is_virtual(n))


def _kind_of_place(node: Node) -> str:
    """blocks.*.mlp gelu: op and module, whatever its number."""
    scope = node.location.scope if node.location else ""
    return " ".join(filter(None, (re.sub(r"\d+", "*", scope), node.op.name)))


def _short(ops: str, most: int = 14) -> str:
    words = ops.split()
    return " ".join(words[:most]) + (f" … ({len(words)} ops)" if len(words) > most else "")


def _limited(rows: list[str]) -> list[str]:
    return rows if len(rows) <= TOP else [*rows[:TOP], f"  and {len(rows) - TOP} more kinds"]
