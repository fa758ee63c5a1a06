"""The compiler's later stages to look at: the schedule, the kernels, the tape. `compiled.graph(stage)` gives them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from tinygrad_lite.backends.numba.compiler import Kernels
from tinygrad_lite.errors import UserError
from tinygrad_lite.instructions import Listing, Step
from tinygrad_lite.ir.dot import grouped_dot, table_dot
from tinygrad_lite.ir.export import to_dict, to_networkx
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.present import Presentable
from tinygrad_lite.ir.reading import amount, cost_lines, one_line
from tinygrad_lite.ir.schedule.place import is_virtual, root_of
from tinygrad_lite.ir.text import location_text, name_text, node_text, return_line, update_lines
from tinygrad_lite.program import Program

STAGES = ("traced", "optimised", "scheduled", "kernels", "tape")


class UnknownStage(UserError):
    """A stage that there is not; lists those there are."""

    def __init__(self, stage: object) -> None:
        super().__init__(f"no stage {stage!r}; there are {', '.join(STAGES)}")


class Planned(Program):
    """A program laid out to be looked at, without native code."""

    def _load(self) -> None:
        self.kernels = Kernels({c.source: 0 for c in self.calls})


def stage_of(stage: str, traced: Graph, optimised: Graph, program: Program) -> Presentable:
    """The stage called `stage`; UnknownStage, a ValueError, if there is none."""
    if stage == "traced":
        return traced
    if stage == "optimised":
        return optimised
    if stage not in STAGES:
        raise UnknownStage(stage)
    return {"scheduled": Scheduled, "kernels": KernelList, "tape": TapeList}[stage](program)


class _Late(Presentable):
    """A view of a program after scheduling."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.listing = Listing(program)

    def __str__(self) -> str:
        return self.to_text()


class Scheduled(_Late):
    """The optimised graph in run order: groups of fused nodes, and where every value lies.

    The text and the dictionary read back as the graph (`parse`, `from_dict`); groups and places are comments, and the
    dictionary's entry "schedule".
    """

    @property
    def graph(self) -> Graph:
        """The graph with copies placed."""
        return self.program.schedule.graph

    def place_of(self, node: Node) -> str:
        """Where a value lies: arena+offset, a state, an argument, an output, a register, or nowhere."""
        if is_virtual(node):
            return "computed where it is read"
        at = self.program.schedule.placement[node]
        buffer = self.listing.buffers.get(id(at.owner))
        if buffer is None or id(root_of(node)) in self._unstored:
            return "register"
        offset = at.view.offset * at.owner.dtype.itemsize
        dense = "" if at.view.is_contiguous else f" strides {list(at.view.strides)}"
        if buffer.kind == "arena":
            return f"arena+{(buffer.offset or 0) + offset}{dense}"
        return f"{buffer.name}{f'+{offset}' if offset else ''}{dense}"

    @cached_property
    def _unstored(self) -> set[int]:
        groups = self.program.schedule.groups
        return {id(n) for g in groups for n in g.nodes} - {id(n) for g in groups for n in g.stored}

    def to_text(self, comments: bool = True, *, costs: bool = False) -> str:
        """Statements group by group. Each group's head says its kind, iteration domain, module and cost."""
        lines = [text for text, _ in self.entries(comments)]
        if costs:
            lines[-1:-1] = cost_lines(self.graph, None)
        return "\n".join([f"graph {name_text(self.graph.name)} {{", *lines, "}"]) + "\n"

    def entries(self, comments: bool = True) -> list[tuple[str, Node | None]]:
        """The text's statements and comments, each with its node, if it has one."""
        names: dict[int, str] = {}
        lines: list[tuple[str, Node | None]] = []
        for node in (*self.graph.args, *self.graph.states):
            names[id(node)] = f"%{len(names)}"
            lines.append((f"  {node_text(node, names)}", node))
        for head, nodes in self.chapters():
            if comments:
                lines += [("", None), (f"  # {one_line(head)}", None)]
            for node in nodes:
                lines += self._lines_with_operands(node, names, comments)
        lines += [entry for r in self.graph.results for entry in self._lines_with_operands(r, names, comments)]
        if comments:
            plan = self.program.plan
            note = f"  # arena {amount(plan.size, 'B')}, of which {amount(plan.live, 'B')} are alive at once"
            lines += [("", None), (note, None)]
        ends = [*update_lines(self.graph, names), return_line(self.graph, names)]
        return [*lines, *((text, None) for text in ends)]

    def chapters(self) -> Iterator[tuple[str, list[Node]]]:
        """Each group's head line and nodes, in run order."""
        steps: dict[int, list[Step]] = {}
        for step in self.listing.steps:
            steps.setdefault(step.group, []).append(step)
        numbers = {id(g): i for i, g in enumerate(self.listing.groups)}
        for group in self.program.schedule.groups:
            own = steps.get(numbers.get(id(group), -1), [])
            axes = f" sum over {sorted(group.axes)}" if group.axes else ""
            cost = (
                f", {amount(sum(s.flops for s in own), 'FLOP')}, {amount(sum(s.bytes for s in own), 'B')}"
                if own
                else ""
            )
            where = f"  {own[0].phase} {own[0].scope}".rstrip() if own else ""
            title = (
                f"group {numbers[id(group)]}" if id(group) in numbers else "loop, its body's kernels are on the tape"
            )
            yield f"{title}: {group.kind} over {list(group.shape)}{axes}{cost}{where}", group.nodes

    def _lines_with_operands(self, node: Node, names: dict[int, str], comments: bool) -> list[tuple[str, Node | None]]:
        """The node's line after those of operands that no group computes, views and constants."""
        lines: list[tuple[str, Node | None]] = []
        stack = [node]
        while stack:
            each = stack[-1]
            missing = [i for i in each.inputs if id(i) not in names]
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            if id(each) in names:
                continue
            names[id(each)] = f"%{len(names)}"
            note = f"  # → {one_line(self.place_of(each))}" if comments else ""
            where = f"; {location_text(each.location)}" if comments and each.location else ""
            lines.append((f"  {node_text(each, names)}{note}{where}", each))
        return lines

    def to_dict(self) -> dict[str, Any]:
        index = {id(n): i for i, n in enumerate(self.graph.nodes)}
        groups = [
            {
                "kind": g.kind,
                "shape": list(g.shape),
                "axes": sorted(g.axes),
                "nodes": [index[id(n)] for n in g.nodes if id(n) in index],
                "stored": [index[id(n)] for n in g.stored if id(n) in index],
            }
            for g in self.program.schedule.groups
        ]
        places = [self.place_of(n) if n.op.kind is not Kind.LEAF else "" for n in self.graph.nodes]
        plan = {"size": self.program.plan.size, "live": self.program.plan.live}
        buffers = [b.to_dict() for b in self.listing.buffers.values()]
        return to_dict(self.graph) | {
            "schedule": {"groups": groups, "places": places, "arena": plan, "buffers": buffers}
        }

    def to_dot(self, **options: Any) -> str:
        """DOT source: every group as a box with its nodes; with `depth=` modules, as `ir.dot.to_dot`."""
        groups = [(head.split("  ")[0], nodes) for head, nodes in self.chapters()]
        return grouped_dot(self.graph, groups, **options)

    def to_networkx(self) -> Any:
        """The graph's networkx.DiGraph, nodes with the attributes group and place too."""
        drawn = to_networkx(self.graph)
        group_of = {id(n): i for i, g in enumerate(self.program.schedule.groups) for n in g.nodes}
        for i, node in enumerate(self.graph.nodes):
            drawn.nodes[i].update(group=group_of.get(id(node), -1), place=self.place_of(node))
        return drawn


class KernelList(_Late):
    """The distinct kernels: loop nests as text, source, and which instructions run each."""

    def to_text(self, source: bool = False) -> str:
        """Each kernel's loop nest; with `source`, or where there is none, the Python source that is compiled."""
        return "\n".join(self._text(k, source) for k in self.listing.kernels)

    def _text(self, kernel: Any, source: bool) -> str:
        users = kernel.instructions
        scopes = list(dict.fromkeys(s.scope for i in users if (s := self.listing.steps[i]).scope))
        head = f"# kernel {kernel.number}, {kernel.label}: {len(users)} instruction{'s' * (len(users) > 1)}"
        head += f", {', '.join(scopes[:4])}" + (", …" if len(scopes) > 4 else "") if scopes else ""
        return f"{one_line(head)}\n{kernel.source if source or not kernel.nest else kernel.nest}"

    def to_dict(self) -> dict[str, Any]:
        return {"format": "tinygrad_lite.kernels/1", "kernels": [dict(k.__dict__) for k in self.listing.kernels]}

    def to_dot(self) -> str:
        """DOT source: a box a kernel, an edge where one's results are another's operands."""
        steps = self.listing.steps
        boxes = [f"{k.number} {k.label}\n× {len(k.instructions)}" for k in self.listing.kernels]
        edges = {(steps[a].kernel, steps[b].kernel) for a, b in _flows(steps)}
        return table_dot("kernels", boxes, [steps[k.instructions[0]].phase for k in self.listing.kernels], edges)

    def to_networkx(self) -> Any:
        import networkx as nx

        drawn = nx.DiGraph(name="kernels")
        for kernel in self.listing.kernels:
            drawn.add_node(kernel.number, label=kernel.label, instructions=kernel.instructions, source=kernel.source)
        steps = self.listing.steps
        drawn.add_edges_from((steps[a].kernel, steps[b].kernel) for a, b in _flows(steps))
        return drawn


class TapeList(_Late):
    """The instructions in order: kernel, shares of the workers, barriers, what each reads and writes."""

    def to_text(self) -> str:
        """A line an instruction; a line of dashes is a barrier."""
        steps = self.listing.steps
        width = max((len(s.label) for s in steps), default=0)
        program = self.program
        lines = [
            f"tape {name_text(program.schedule.graph.name)}: "
            f"{len(steps)} instructions, {len(program.tape.order[0])} rows, "
            f"{program.workers} worker{'s' * (program.workers > 1)}, {sum(s.barrier for s in steps)} barriers"
        ]
        for step in steps:
            lines.append(one_line(self._line(step, width)))
            if step.barrier:
                lines.append("  ---- barrier" + (", ends where a check has failed" if step.stop else ""))
        return "\n".join(lines) + "\n"

    def _line(self, step: Step, width: int) -> str:
        parts = " ".join("-" if low >= high else f"[{low},{high})" for low, high in step.parts)
        repeat = f" × {step.times}" if step.times > 1 else ""
        moved = f"{', '.join(map(self._named, step.writes))} ← {', '.join(map(self._named, step.reads))}"
        where = " ".join(filter(None, ["" if step.phase == "forward" else step.phase, step.scope]))
        return f"  {step.number:4d}  k{step.kernel:<3d} {step.label:{width}}{repeat}  {parts}  {moved}" + (
            f"  # {where}" if where else ""
        )

    def _named(self, name: str) -> str:
        offset = self._offsets.get(name)
        return name if offset is None else f"{name}@{offset}"

    @cached_property
    def _offsets(self) -> dict[str, int | None]:
        return {b.name: b.offset for b in self.listing.buffers.values()}

    def to_dict(self) -> dict[str, Any]:
        return {
            "format": "tinygrad_lite.tape/1",
            "workers": self.program.workers,
            "instructions": [s.to_dict() for s in self.listing.steps],
            "buffers": [b.to_dict() for b in self.listing.buffers.values()],
        }

    def to_dot(self, cap: int = 400) -> str:
        """DOT source: a box an instruction, an edge where one reads what another wrote; the first `cap` of them."""
        steps = self.listing.steps[:cap]
        boxes = [f"{s.number} {s.label}\n{s.scope}".strip() for s in steps]
        left = len(self.listing.steps) - len(steps)
        title = "tape" + (f"\n{left} more instructions left out" if left else "")
        return table_dot(title, boxes, [s.phase for s in steps], set(_flows(steps)))

    def to_networkx(self) -> Any:
        import networkx as nx

        drawn = nx.DiGraph(name="tape")
        for step in self.listing.steps:
            drawn.add_node(step.number, **step.to_dict())
        drawn.add_edges_from(_flows(self.listing.steps))
        return drawn


def _flows(steps: list[Step]) -> Iterator[tuple[int, int]]:
    """(writer, reader) pairs: the last that wrote a buffer before it is read."""
    wrote: dict[str, int] = {}
    for step in steps:
        yield from dict.fromkeys((wrote[name], step.number) for name in step.reads if name in wrote)
        wrote |= dict.fromkeys(step.writes, step.number)
