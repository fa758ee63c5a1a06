"""What a Program consists of, as data for people: instructions, buffers, distinct kernels, with names and costs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tinygrad_lite.calls import costs_of
from tinygrad_lite.ir.kernels.text import kernel_text
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.reading import levels, phase_and_scope
from tinygrad_lite.program import Call, Program


@dataclass(frozen=True)
class Buffer:
    """Memory that instructions share, alive from `first` to `last`. kind: arena, state, input, output, constant."""

    name: str
    kind: str
    type: str
    nbytes: int
    scope: str
    offset: int | None = None  # in the arena
    first: int = 0
    last: int = 0

    def to_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)


@dataclass(frozen=True)
class KernelText:
    """A distinct kernel: its loop nest (where it has one), its source, and the instructions that run it."""

    number: int
    label: str
    nest: str
    source: str
    instructions: tuple[int, ...]


@dataclass(frozen=True)
class Step:
    """One instruction: what it computes, how often, on which shares; FLOPs and bytes are those of one whole run."""

    number: int
    label: str
    kernel: int
    group: int
    scope: str
    phase: str
    line: str
    ops: tuple[str, ...]
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    parts: tuple[tuple[int, int], ...]
    barrier: bool
    stop: bool
    times: int
    flops: int
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        return {k: list(v) if isinstance(v, tuple) else v for k, v in self.__dict__.items()}


@dataclass
class Listing:
    """A program's steps, buffers and kernels."""

    program: Program
    names: dict[int, str] = field(default_factory=dict)

    @cached_property
    def groups(self) -> list[Any]:
        """Groups in run order; the bodies of loops have their own."""
        return list({id(c.group): c.group for c in self.program.calls}.values())

    @cached_property
    def kernels(self) -> list[KernelText]:
        found: dict[str, list[int]] = {}
        for i, call in enumerate(self.program.calls):
            found.setdefault(call.source, []).append(i)
        return [self._kernel(number, source, users) for number, (source, users) in enumerate(found.items())]

    def _kernel(self, number: int, source: str, users: list[int]) -> KernelText:
        call = self.program.calls[users[0]]
        nest = kernel_text(call.kernel) if call.kernel is not None else ""
        return KernelText(number, call.label, nest, source, tuple(users))

    @cached_property
    def buffers(self) -> dict[int, Buffer]:
        """id(owner) → its memory, arena first, in order of first use."""
        program = self.program
        users: dict[int, list[int]] = {}
        owners: dict[int, Node] = {}
        for i, call in enumerate(program.calls):
            for owner in (*call.reads, *call.writes):
                users.setdefault(id(owner), []).append(i)
                owners[id(owner)] = owner
        taken: Counter[str] = Counter()
        made_by = self._writers()
        return {
            key: self._buffer(owners[key], made_by.get(key, owners[key]), at, program.life_of.get(key), taken)
            for key, at in users.items()
        }

    def _writers(self) -> dict[int, Node]:
        """id(owner) → the first computed node that lies in it: a storage may be named after a later view."""
        made_by: dict[int, Node] = {}
        places = self.program.schedule.placement.places
        for call in self.program.calls:
            for node in (*call.group.stored, *call.group.nodes):
                if id(node) in places:
                    made_by.setdefault(id(places[id(node)].owner), node)
        return made_by

    def _buffer(self, owner: Node, made_by: Node, users: list[int], life: Any, taken: Counter[str]) -> Buffer:
        program, key = self.program, id(owner)
        scope = made_by.location.scope if made_by.location else ""
        over = program.schedule.over
        alone = life and not any(o is owner for o in over.values())  # in its memory
        first, last = (life.lower, life.upper - 1) if alone else (min(users), max(users))
        if key in over:  # during the call that takes over, the memory is the operand's
            first = min(first + 1, last)
        offset = program.arena_range[key][0] if key in program.arena_range else None
        if key in program.state_index:
            state = program.schedule.graph.states[program.state_index[key]]
            kind, name = "state", str(state.attrs["name"])
        elif owner.op.name in ("input", "constant"):
            kind, name = owner.op.name, str(owner.attrs.get("name", "constant"))
        elif key in program.output_index:
            kind, name = "output", f"output {program.output_index[key]}"
        else:
            phase = made_by.location.phase if made_by.location else "forward"
            what = made_by.op.name if phase == "forward" else f"{phase}:{made_by.op.name}"
            kind, name = "arena", f"{scope}.{what}" if scope else what
        if kind in ("arena", "constant"):
            taken[name] += 1
            name = f"{name}#{taken[name] - 1}" if taken[name] > 1 else name
        return Buffer(name, kind, str(owner.type), owner.type.nbytes, scope, offset, first, last)

    @cached_property
    def steps(self) -> list[Step]:
        kernel_of = {i: k.number for k in self.kernels for i in k.instructions}
        group_of = {id(g): i for i, g in enumerate(self.groups)}
        shares = Counter(id(c.group) for c in self.program.calls)
        times = Counter(self.program.tape.order[0].tolist())
        return [
            self._step(i, call, kernel_of[i], group_of[id(call.group)], shares[id(call.group)], times[i])
            for i, call in enumerate(self.program.calls)
        ]

    def _step(self, i: int, call: Call, kernel: int, group: int, share: int, times: int) -> Step:
        phase, scope, line = home_of(call.group.nodes)
        flops, moved = costs_of(call)
        reads, writes = ([self.buffers[id(o)].name for o in owners] for owners in (call.reads, call.writes))
        return Step(
            i, call.label, kernel, group, scope, phase, line, tuple(n.op.name for n in call.group.nodes),
            tuple(dict.fromkeys(reads)), tuple(dict.fromkeys(writes)), call.parts, call.barrier, call.stop, times,
            flops * times // share, moved * times // share,
        )  # fmt: skip


def home_of(nodes: list[Node]) -> tuple[str, str, str]:
    """Phase, module and user line that most of a group's work belongs to."""
    weight: Counter[tuple[str, str, str]] = Counter()
    for node in nodes:
        phase, scope = phase_and_scope(node)
        line = f"{node.location.file}:{node.location.line}" if node.location else ""
        weight[phase, ".".join(scope), line] += 1 + node.op.cost(node).flops
    return weight.most_common(1)[0][0]


def module_of(scope: str, depth: int) -> str:
    """The module `depth` levels down that a scope lies in."""
    return ".".join(levels(scope)[:depth])
