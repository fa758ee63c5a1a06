"""Capture: a captured call, when it holds, and how to run it on Python's objects."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tinygrad_lite import budget
from tinygrad_lite.errors import CaptureError
from tinygrad_lite.guards import Is, Variables, history_key, module_versions, with_tensors
from tinygrad_lite.handle import Unread
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import GradMeta, Node, next_serial
from tinygrad_lite.ir.op import Kind, Op, register
from tinygrad_lite.ir.passes import pipeline
from tinygrad_lite.ir.record import leaf, mode
from tinygrad_lite.ir.schedule.rematerialise import fresh, has_segments, recompute_segments, settle
from tinygrad_lite.ir.schedule.schedule import schedule
from tinygrad_lite.program import Program
from tinygrad_lite.tensor import Tensor
from tinygrad_lite.tracing import Scalar

Array = np.ndarray[Any, Any]


def _refuse(g: Node, node: Node, i: int) -> Node:
    raise RuntimeError(
        "backward() was called on the result of a compiled function. Call it inside the function, so that it is "
        "captured with the rest, or detach() the result"
    )


BOUNDARY = register(Op("compiled_output", Kind.OPAQUE, lambda x: x, lambda x: x, _refuse))


@dataclass
class GradRead:
    """A `.grad`, of a handle or of argument number `arg`, that was looked at; if there was one, it is a state."""

    owner: Tensor | None
    arg: int
    absent: bool
    state: int  # number, -1 where only its presence mattered

    def broken(self, tensors: list[Tensor], handles: list[Tensor]) -> str | None:
        """Why the capture does not hold; a `.grad` that is another tensor now takes the former one's place as state."""
        owner = self.owner if self.owner is not None else tensors[self.arg]
        if (owner._grad is None) != self.absent:
            return "a .grad that was None is set" if self.absent else "a .grad that was set is None"
        grad = owner._own_grad() if self.state >= 0 else None
        if grad is not None and grad is not handles[self.state]:
            if grad._base is not None:
                return "a .grad is a view now"
            handles[self.state] = grad
        return None


@dataclass
class Grad:
    """`.grad` of a handle after a run: an output of the program, or None."""

    tensor: Tensor | None  # None: argument number `arg`
    arg: int
    output: int  # -1: None

    def of(self, tensors: list[Tensor]) -> Tensor:
        """The handle, in a call with these arguments."""
        return self.tensor if self.tensor is not None else tensors[self.arg]


@dataclass
class Capture:
    """A captured call: the graph as traced, the program, and how to bind one to Python's objects."""

    graph: Graph
    result: Any
    result_tensors: int
    requires_grad: tuple[bool, ...]
    states: list[tuple[Tensor, bool]]  # handle, is it updated
    metas: list[GradMeta | None]
    args_updated: list[tuple[int, int]]  # argument number, output number
    grads: list[Grad]
    scalars: list[Scalar]
    modules: list[tuple[Any, Any]]
    statics: dict[str, tuple[Callable[[], Hashable], Hashable]]
    grads_read: list[GradRead]
    pinned: list[tuple[int, Tensor]]  # arguments that are also known outside: only these very handles may be passed
    variables: Variables
    seconds: float
    program: Program = field(init=False)
    optimised: Graph = field(init=False)
    log: pipeline.PassLog = field(default_factory=pipeline.PassLog)
    choice: budget.Choice | None = None  # what a Policy led to
    changes: int = -1
    nodes: list[Node] = field(default_factory=list)
    state_ids: frozenset[int] = frozenset()
    numbers: list[float] = field(default_factory=list)  # the scalars' values in the last run

    def lower(self, workers: int | None = None, policy: budget.Policy | None = None) -> None:
        """Optimise, schedule and compile. BudgetError where the policy's memory budget cannot be kept."""
        self.optimised = pipeline.run(self.graph, observers=[self.log])
        if has_segments(self.optimised):
            plan = schedule(fresh(self.optimised))
            settle(plan.graph, plan.groups)
            self.optimised = recompute_segments(plan.graph)
        if policy:
            self.choice = budget.apply(self.optimised, policy, workers)
            self.optimised = self.choice.graph
        self.program = Program(self.optimised, workers)
        self.unread = [Unread(array) for array in self.program.outputs]
        self.nodes = [None] * len(self.states)  # type: ignore[list-item]
        self.state_ids = frozenset(id(t) for t, _ in self.states)
        self.handles = [t for t, _ in self.states]
        self.histories = [history_key(meta) for meta in self.metas]
        self.written = [i for i, (_, updated) in enumerate(self.states) if updated]

    # ---- guards ----

    def broken(self, tensors: list[Tensor]) -> str | None:
        """Why this capture does not hold for a call now; None if it does."""
        reason = self.variables.changed() or self._module_changed()
        if reason:
            return reason
        for label, (read, known) in self.statics.items():
            if read() != known:
                return f"{label} was {known!r}, is {read()!r}"
        for each in self.grads_read:
            if (reason := each.broken(tensors, self.handles)) is not None:
                return reason
        nodes = [t._node for t in self.handles]
        if nodes != self.nodes or [n.grad for n in nodes] != self.metas:
            for node, meta, state in zip(nodes, self.metas, self.graph.states, strict=True):
                if (reason := self._state_changed(node, meta, state)) is not None:
                    return reason
        for tensor in tensors:
            if id(tensor) in self.state_ids:
                return "an argument is also read from outside"
        for i, tensor in self.pinned:
            if tensors[i] is not tensor:
                return "an argument that is also read from outside is another tensor now"
        return None

    def _state_changed(self, now: Node, meta: GradMeta | None, state: Node) -> str | None:
        if (now.grad is None) != (meta is None):
            return f"requires_grad of {state.attrs['name']} changed"
        return None if now.type == state.type else f"{state.attrs['name']} was {state.type}, is {now.type}"

    def _module_changed(self) -> str | None:
        if self.changes == module_versions.changes:
            return None
        for module, key in self.modules:
            if module.guard_key() != key:
                was, now = dict(key), dict(module.guard_key())
                names = [k for k in {**was, **now} if was.get(k, Is) != now.get(k, Is)]
                return f"{type(module).__name__} {module._name}: {', '.join(names)} changed"
        for tensor, known, state in zip(self.handles, self.histories, self.graph.states, strict=True):
            if history_key(tensor._node.grad) != known:
                return f"requires_grad or the hooks of {state.attrs['name']} changed"
        self.changes = module_versions.changes
        return None

    # ---- running ----

    @property
    def repeats(self) -> bool:
        """May the program run several times with no Python between? Not where a run changes what the next one reads."""
        return not (self.args_updated or self.grads_read)

    def run(self, tensors: list[Tensor], turns: int = 1) -> Any:
        """The results of the last of `turns` runs; more than one only where it `repeats`."""
        program = self.program
        count = len(tensors)
        for buffer, tensor in zip(program.inputs, tensors, strict=False):
            np.copyto(buffer, tensor._read().value)
        numbers = [scalar.read() for scalar in self.scalars]
        if numbers != self.numbers:
            self.numbers = numbers
            for buffer, number in zip(program.inputs[count:], numbers, strict=True):
                buffer[...] = number
        for tensor in tensors:
            if tensor._base is not None or self.args_updated:
                self._refuse_overlap(tensor, tensors)
        self._bind_states()
        self._lose_gradients(tensors)
        program.execute(turns)
        serial = next_serial()
        for i in self.written:
            self.nodes[i].storage.written = serial
        self._set_gradients(tensors)
        for number, output in self.args_updated:
            with mode.set(grad_enabled=False):
                tensors[number]._write(leaf(program.outputs[output].copy()))
        return self._results()

    def _refuse_overlap(self, tensor: Tensor, tensors: list[Tensor]) -> None:
        """Arguments are copied before the run: one that shares memory with what the run changes would not follow."""
        written = [tensors[i] for i, _ in self.args_updated]
        changed = [self.handles[i] for i in self.written] + [_root(t) for t in written if t is not tensor]
        if any(t is tensor for t in written):
            changed += self.handles
        if any(t is _root(tensor) for t in changed):
            raise CaptureError(
                "an argument shares memory with another tensor, and the compiled function changes one of the two: "
                "pass a clone()"
            )

    def _bind_states(self) -> None:
        nodes = self.nodes
        if [t._node for t in self.handles] == nodes:
            return
        for i, tensor in enumerate(self.handles):
            node = tensor._node
            if node is not nodes[i]:
                array = node.value
                updated = self.states[i][1]
                if not array.flags.c_contiguous or (updated and not array.flags.writeable):
                    node = tensor._node = leaf(np.array(array, order="C"), node.grad)
                    array = node.value
                self.program.bind_state(i, array)
                nodes[i] = node

    def _lose_gradients(self, tensors: list[Tensor]) -> None:
        """What nobody has looked at since the last run lies where this one writes, and goes even if it fails."""
        for grad in self.grads:
            if isinstance((target := grad.of(tensors))._grad, Unread):
                target._grad = None

    def _set_gradients(self, tensors: list[Tensor]) -> None:
        """Leave gradients where they are until they are looked at; but arguments differ from call to call."""
        for grad in self.grads:
            target = grad.of(tensors)
            target._grad = self.unread[grad.output] if grad.output >= 0 else None
            if grad.tensor is None:
                target._own_grad()

    def _results(self) -> Any:
        outputs = self.program.outputs
        if isinstance(self.result, Tensor):
            return _result(outputs[0].copy(), self.requires_grad[0])
        fresh = (_result(outputs[i].copy(), g) for i, g in enumerate(self.requires_grad))
        return with_tensors(self.result, fresh)


def _root(tensor: Tensor) -> Tensor:
    return tensor if tensor._base is None else tensor._base


def _result(array: Array, requires_grad: bool) -> Tensor:
    node = leaf(array)
    if requires_grad:
        node = Node(BOUNDARY, (leaf(array, GradMeta()),), {}, node.type, None, array, GradMeta())
    return Tensor._from_node(node)
