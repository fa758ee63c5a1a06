"""tl.compile: run a function once in trace mode, keep its Graph as a native Program, replay it while guards hold."""

from __future__ import annotations

import copy
import functools
import os
import sys
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, overload

import numpy as np

from tinygrad_lite.errors import CaptureError, CaptureWarning
from tinygrad_lite.guards import Is, Variables, key_of, module_versions, tensors_in, with_tensors
from tinygrad_lite.ir.graph import Graph, Update, topological
from tinygrad_lite.ir.node import GradMeta, Node, next_serial
from tinygrad_lite.ir.op import Kind, Op, register
from tinygrad_lite.ir.passes import pipeline
from tinygrad_lite.ir.record import here, leaf, mode
from tinygrad_lite.ir.types import float32
from tinygrad_lite.ops import leaf as leaves
from tinygrad_lite.ops.promote import get_default_dtype
from tinygrad_lite.program import Program
from tinygrad_lite.tensor import Tensor

Array = np.ndarray[Any, Any]


def _refuse(g: Node, node: Node, i: int) -> Node:
    raise RuntimeError(
        "backward() was called on the result of a compiled function. Call it inside the function, so that it is "
        "captured with the rest, or detach() the result"
    )


BOUNDARY = register(Op("compiled_output", Kind.OPAQUE, lambda x: x, lambda x: x, _refuse))


# ---- the trace ----------------------------------------------------------------------------------------


@dataclass
class _Scalar:
    """A number read again before each run, such as a learning rate."""

    label: str
    read: Callable[[], float]
    node: Node


class Trace:
    """What recording consults during a capture: which handles were read, changed, asked for their gradients."""

    def __init__(self, tensors: list[Tensor], variables: Variables) -> None:
        self.args = tensors
        self.variables = variables
        self.inputs = [_input(i, t) for i, t in enumerate(tensors)]
        self.lifted: dict[int, Node] = {id(t): n for t, n in zip(tensors, self.inputs, strict=True)}
        self.states: list[tuple[Tensor, Node]] = []
        self.touched: dict[int, tuple[Tensor, tuple[Any, ...]]] = {}
        self.grads_written: set[int] = set()
        self.grads_read: dict[int, tuple[Tensor, Tensor | None]] = {}
        self.scalars: dict[str, _Scalar] = {}
        self.statics: dict[str, tuple[Callable[[], Hashable], Hashable]] = {}
        self.modules: dict[int, tuple[Any, Any]] = {}
        self.names: dict[int, str] = {}
        self.taken: dict[str, int] = {}

    def lift(self, tensor: Tensor) -> Node:
        """The symbolic node that stands for a handle from outside."""
        node = self.lifted.get(id(tensor))
        if node is None:
            meta = tensor._node.grad
            if meta is not None and not meta.leaf:
                raise CaptureError(
                    f"a tensor computed outside the compiled function carries history into it, at {_line()}: "
                    "detach() it, or compute it inside"
                )
            node = leaves.state(self._unique(self.names.get(id(tensor), "")), tensor._node.dtype, tensor._node.shape)
            node.grad, node.holder = meta, weakref.ref(tensor)
            self.lifted[id(tensor)] = node
            self.states.append((tensor, node))
        return node

    def touch(self, tensor: Tensor) -> None:
        """Remember a handle as it was before its first change."""
        if id(tensor) not in self.touched:
            self.touched[id(tensor)] = (tensor, tensor._state())

    def wrote_grad(self, tensor: Tensor) -> None:
        """`.grad` is set: from here on its value is the capture's own."""
        self.touch(tensor)
        self.grads_written.add(id(tensor))

    def read_grad(self, tensor: Tensor) -> None:
        """`.grad` is looked at: a capture holds only while it is as present, or as absent, as it was."""
        if id(tensor) not in self.grads_written and id(tensor) not in self.grads_read:
            self.grads_read[id(tensor)] = (tensor, tensor._grad)

    def runtime_scalar(self, label: str, read: Callable[[], float]) -> Tensor:
        """A 0-d float32 tensor whose value is read anew before each run."""
        if label not in self.scalars:
            self.scalars[label] = _Scalar(label, read, leaves.input(self._unique(label), float32, ()))
        return Tensor._from_node(self.scalars[label].node)

    def static_value(self, label: str, read: Callable[[], Hashable]) -> Any:
        """A value that shapes the graph; another value means another capture."""
        if label not in self.statics:
            self.statics[label] = (read, read())
        return self.statics[label][1]

    def saw_module(self, module: Any) -> None:
        """A module was called: its attributes become part of what the capture depends on."""
        if id(module) in self.modules:
            return
        for each in module.modules():  # those below may be read without being called
            if id(each) not in self.modules:
                self.modules[id(each)] = (each, each.guard_key())
                self.variables.follow_forward(each)
        for name, tensor in (*module.named_parameters(module._name), *module.named_buffers(module._name)):
            self.names.setdefault(id(tensor), name)

    def name(self, tensor: Tensor, of: Tensor, suffix: str) -> None:
        """Call `tensor` after another one, such as an optimiser's moments after the parameter."""
        self.names.setdefault(id(tensor), f"{self.names.get(id(of), 'state')}.{suffix}")

    def _unique(self, name: str) -> str:
        name = name or "state"
        count = self.taken.get(name, 0)
        self.taken[name] = count + 1
        return f"{name}.{count}" if count else name

    def restore(self) -> None:
        """Put every changed handle back as it was."""
        for tensor, state in self.touched.values():
            tensor._restore(state)


def _input(index: int, tensor: Tensor) -> Node:
    node = leaves.input(f"arg{index}", tensor._node.dtype, tensor._node.shape)
    node.grad, node.holder = tensor._node.grad, weakref.ref(tensor)
    return node


def _line() -> str:
    at = here()
    return f"{at.file}:{at.line}"


# ---- what a capture leaves ------------------------------------------------------------------------------


@dataclass
class _GradRead:
    """A `.grad`, of a handle or of argument number `arg`, that was looked at; if there was one, it is a state."""

    owner: Tensor | None
    arg: int
    absent: bool
    state: int  # number, -1 where only its presence mattered

    def broken(self, tensors: list[Tensor], handles: list[Tensor]) -> str | None:
        """Why the capture does not hold; a `.grad` that is another tensor now takes the former one's place as state."""
        grad = (self.owner if self.owner is not None else tensors[self.arg])._grad
        if (grad is None) != self.absent:
            return "a .grad that was None is set" if self.absent else "a .grad that was set is None"
        if grad is not None and self.state >= 0 and grad is not handles[self.state]:
            if grad._base is not None:
                return "a .grad is a view now"
            handles[self.state] = grad
        return None


@dataclass
class _Grad:
    """`.grad` of a handle after a run: an output of the program, or None."""

    tensor: Tensor | None  # None: argument number `arg`
    arg: int
    output: int  # -1: None
    handle: Tensor | None = None
    memory: Any = None


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
    grads: list[_Grad]
    scalars: list[_Scalar]
    modules: list[tuple[Any, Any]]
    statics: dict[str, tuple[Callable[[], Hashable], Hashable]]
    grads_read: list[_GradRead]
    pinned: list[tuple[int, Tensor]]  # arguments that are also known outside: only these very handles may be passed
    variables: Variables
    seconds: float
    program: Program = field(init=False)
    optimised: Graph = field(init=False)
    log: pipeline.PassLog = field(default_factory=pipeline.PassLog)
    changes: int = -1
    nodes: list[Node] = field(default_factory=list)
    state_ids: frozenset[int] = frozenset()
    numbers: list[float] = field(default_factory=list)  # the scalars' values in the last run

    def lower(self, workers: int | None = None) -> None:
        """Optimise, schedule and compile."""
        self.optimised = pipeline.run(self.graph, observers=[self.log])
        self.program = Program(self.optimised, workers)
        self.nodes = [None] * len(self.states)  # type: ignore[list-item]
        self.state_ids = frozenset(id(t) for t, _ in self.states)
        self.handles = [t for t, _ in self.states]
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
        self.changes = module_versions.changes
        return None

    # ---- running ----

    def run(self, tensors: list[Tensor]) -> Any:
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
        self._free_gradients(tensors)
        program.execute()
        serial = next_serial()
        for i in self.written:
            self.nodes[i].written = serial
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

    def _free_gradients(self, tensors: list[Tensor]) -> None:
        """Gradients somebody still holds from an earlier run keep their memory; this run writes elsewhere."""
        for grad in self.grads:
            if grad.handle is None:
                continue
            owner = grad.tensor if grad.tensor is not None else tensors[grad.arg]
            held = owner._grad is grad.handle
            # each count: the references we know of, plus getrefcount's own
            if (
                sys.getrefcount(grad.handle) > 2 + held
                or sys.getrefcount(grad.handle._node) > 2
                or sys.getrefcount(grad.handle._node.value) > 3
                or sys.getrefcount(grad.memory) > 3
            ):
                self.program.renew_output(grad.output)
                grad.handle = grad.memory = None

    def _set_gradients(self, tensors: list[Tensor]) -> None:
        for grad in self.grads:
            target = grad.tensor if grad.tensor is not None else tensors[grad.arg]
            if grad.output < 0:
                target._grad = None
                continue
            if grad.handle is None:
                array = self.program.outputs[grad.output]
                grad.handle, grad.memory = Tensor._from_node(leaf(array)), array.base
            if target._grad is not grad.handle:
                target._grad = grad.handle

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


def capture(fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[Tensor]) -> Capture:
    """Run `fn` symbolically. Whatever it changed is put back, also where it raises."""
    start = time.perf_counter()
    stand_ins = [_stand_in(t) for t in tensors]
    variables = Variables(fn)
    trace = Trace(stand_ins, variables)
    args, kwargs = with_tensors((args, kwargs), iter(stand_ins))
    try:
        with mode.set(trace=trace):
            result = fn(*args, **kwargs)
            return _collect(fn, trace, result, tensors, variables, start)
    finally:
        trace.restore()


def _stand_in(tensor: Tensor) -> Tensor:
    """The handle that fn gets for an argument: a root of its own where the argument is a view."""
    if tensor._base is None:
        if tensor._node.grad is not None and not tensor._node.grad.leaf:
            raise CaptureError("an argument of a compiled function carries history: detach() it first")
        return tensor
    node = tensor._read()
    if node.grad is not None:
        raise CaptureError("an argument of a compiled function is a view that requires grad: detach() it first")
    return Tensor._from_node(leaf(node.value))


def _collect(
    fn: Callable[..., Any], trace: Trace, result: Any, tensors: list[Tensor], variables: Variables, start: float
) -> Capture:
    """The finished trace as a Graph: results first, then gradients and changed arguments; state updates."""
    found = tensors_in(result)
    outputs = [t._read() for t in found]
    requires_grad = tuple(n.grad is not None and not n.grad.leaf and not n.grad.consumed for n in outputs)
    grads, args_updated = [], []
    numbers = {id(t): i for i, t in enumerate(trace.args)}
    for tensor, state in list(trace.touched.values()):
        if state[0].value is None:  # made in this capture
            continue
        if id(tensor) in trace.grads_written:
            grads.append(_gradient(tensor, state[4], numbers.get(id(tensor), -1), outputs))
        if id(tensor) in numbers and tensor._node is not state[0]:
            args_updated.append((numbers[id(tensor)], len(outputs)))
            outputs.append(tensor._read())
    updates = [Update(trace.lift(t), t._node) for t in _rebound(trace, numbers)]
    inputs = (*trace.inputs, *(s.node for s in trace.scalars.values()))
    states = tuple(n for _, n in trace.states)
    _refuse_strangers((*outputs, *(u.value for u in updates)), {id(n) for n in (*inputs, *states)})
    graph = Graph(getattr(fn, "__name__", type(fn).__name__), inputs, states, tuple(outputs), tuple(updates))
    changed = {id(u.state) for u in updates}
    return Capture(
        graph,
        result,
        len(found),
        requires_grad,
        [(t, id(n) in changed) for t, n in trace.states],
        [n.grad for _, n in trace.states],
        args_updated,
        [g for g in grads if g is not None],
        list(trace.scalars.values()),
        list(trace.modules.values()),
        trace.statics,
        _grads_read(trace, numbers),
        _pinned(trace, variables, tensors),
        variables,
        time.perf_counter() - start,
    )


def _owner(tensor: Tensor, numbers: dict[int, int]) -> tuple[Tensor | None, int]:
    """A handle from outside, or the number of the argument that it is."""
    number = numbers.get(id(tensor), -1)
    return (tensor if number < 0 else None), number


def _grads_read(trace: Trace, numbers: dict[int, int]) -> list[_GradRead]:
    number = {id(t): i for i, (t, _) in enumerate(trace.states)}
    found = trace.grads_read.values()
    return [_GradRead(*_owner(t, numbers), grad is None, number.get(id(grad), -1)) for t, grad in found]


def _pinned(trace: Trace, variables: Variables, tensors: list[Tensor]) -> list[tuple[int, Tensor]]:
    """Arguments that fn can reach in another way too: what stands for the one stands for the other."""
    outside = variables.tensors()
    for module, _ in trace.modules.values():
        outside.update(id(t) for t in (*module.parameters(recurse=False), *module.buffers(recurse=False)))
    return [(i, t) for i, t in enumerate(tensors) if id(t) in outside]


def _refuse_strangers(results: Iterable[Node], known: set[int]) -> None:
    """CaptureError where a result depends on a tensor that an earlier capture left behind."""
    for node in topological(results):
        for each in node.inputs:
            if each.op.name in ("input", "state") and id(each) not in known:
                raise CaptureError(
                    f"at {node.location}, a tensor is used that an earlier capture made and that has no value outside "
                    "it: return it from the compiled function instead of storing it"
                )


def _rebound(trace: Trace, numbers: dict[int, int]) -> Iterator[Tensor]:
    """Root handles from outside whose value the function replaced. (Views follow their base.)"""
    for tensor, (node, base, *_) in list(trace.touched.values()):
        replaced = tensor._node.value is None and tensor._node is not trace.lifted.get(id(tensor))
        if replaced and base is None and node.value is not None and id(tensor) not in numbers:
            yield tensor


def _gradient(tensor: Tensor, before: Tensor | None, number: int, outputs: list[Node]) -> _Grad | None:
    owner = None if number >= 0 else tensor
    after = tensor._grad
    if after is None:
        return _Grad(owner, number, -1)
    if after is before:  # accumulated in place: an ordinary state update
        return None
    outputs.append(after._read())
    return _Grad(owner, number, len(outputs) - 1)


# ---- the public object -----------------------------------------------------------------------------------


MANY = 16  # captures of one function, after which a warning says why
_lock = threading.RLock()  # a capture changes handles for a while, which no other thread may see: one call at a time


def _new_lock() -> None:
    """In a forked child the thread that held the lock is gone."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_new_lock)


class CompiledFunction:
    """A function that runs as native code; made by `compile`.

    Attributes of the wrapped function or module (parameters(), state_dict(), …) are reached through it.
    """

    def __init__(self, fn: Callable[..., Any], verify: bool = False) -> None:
        self.fn, self._verify = fn, verify
        self._captures: dict[Any, list[Capture]] = {}
        self._last: Capture | None = None
        self._reasons: list[str] = []
        functools.update_wrapper(self, fn, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if mode.trace is not None:  # a compiled function inside another becomes part of it
            return self.fn(*args, **kwargs)
        tensors: list[Tensor] = []
        key: tuple[Any, ...] = ((mode.grad_enabled, get_default_dtype()), *[key_of(a, tensors) for a in args])
        if kwargs:
            key += (key_of(kwargs, tensors),)
        with _lock:
            found = self._find(key, tensors)
            if found is None:
                found = self._capture(key, args, kwargs, tensors)
            self._last = found
            if self._verify:
                return self._verified(found, tensors)
            return found.run(tensors)

    def _find(self, key: Any, tensors: list[Tensor]) -> Capture | None:
        reasons = []
        known = self._captures.get(key, ())
        for each in known:
            reason = each.broken(tensors)
            if reason is None:
                return each
            reasons.append(reason)
        if self._captures:
            self._reasons.append("; ".join(reasons) or f"new arguments {key[1:]}")
            if len(self._reasons) == MANY:
                name = getattr(self.fn, "__name__", type(self.fn).__name__)
                warnings.warn(
                    f"{name} was captured and compiled {MANY} times, the last time because: {self._reasons[-1]}. Pass "
                    "what changes from call to call as tensors of one shape, or keep it out of the compiled function",
                    CaptureWarning,
                    stacklevel=3,
                )
        return None

    def _capture(self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: list[Tensor]) -> Capture:
        found = capture(self._target(), args, kwargs, tensors)
        found.lower()
        self._captures.setdefault(key, []).append(found)
        return found

    def _target(self) -> Callable[..., Any]:
        return self.fn

    def _verified(self, found: Capture, tensors: list[Tensor]) -> Any:
        from tinygrad_lite.verification import check

        return check(found, tensors)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        """A compiled function in a class is a method."""
        return self if instance is None else types.MethodType(self, instance)

    def __deepcopy__(self, memo: dict[int, Any]) -> CompiledFunction:
        return CompiledFunction(copy.deepcopy(self.fn, memo), self._verify)

    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledFunction, (self.fn, self._verify)

    def __repr__(self) -> str:
        return f"compiled({self.fn!r})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.__dict__["fn"], name)

    # ---- to look at ----

    def _latest(self) -> Capture:
        if self._last is None:
            raise RuntimeError("nothing has been captured yet: call the compiled function first")
        return self._last

    def graph(self, stage: str = "optimised") -> Any:
        """The latest capture at a stage: `traced` and `optimised` are Graphs; `scheduled`, `kernels`, `tape` show it.

        Each prints, and has to_text(), to_dot(), to_svg(), to_png(), to_json(), to_networkx() and save(path).
        """
        from tinygrad_lite.stages import stage_of

        last = self._latest()
        return stage_of(stage, last.graph, last.optimised, last.program)

    @property
    def pass_log(self) -> pipeline.PassLog:
        """The passes over the latest capture: sizes, seconds, rule hits, and `.diff()` of each."""
        return self._latest().log

    @property
    def kernels(self) -> dict[str, str]:
        """Label → source of each distinct kernel of the latest capture."""
        found: dict[str, str] = {}
        for call in self._latest().program.calls:
            if call.source not in found.values():
                found[f"{call.label}#{len(found)}"] = call.source
        return found

    def explain(self) -> Any:
        """What fused and why not, what was captured again and why, the compile bill, memory, costs: an Explanation."""
        from tinygrad_lite.explain import Explanation

        return Explanation(self._latest(), sum(map(len, self._captures.values())), self._reasons)

    def profile(self, runs: int = 10) -> Any:
        """Run the latest capture `runs` times on its last arguments, and put everything back: a Profile of its time."""
        from tinygrad_lite.profiling import Profile

        with _lock:
            return Profile(self._latest(), runs)

    def memory(self) -> Any:
        """The memory of the latest capture over its instructions: a Memory, with timeline, peak, what is alive then."""
        from tinygrad_lite.memory import Memory

        return Memory(self._latest().program)


@overload
def compile(fn: Callable[..., Any], *, verify: bool = False) -> CompiledFunction: ...
@overload
def compile(fn: None = None, *, verify: bool = False) -> Callable[[Callable[..., Any]], CompiledFunction]: ...
def compile(fn: Any = None, *, verify: bool = False) -> Any:
    """Compile `fn`, a function or a Module, into native code; also a decorator.

    All that fn does to tensors is captured at the first call: forward, backward(), gradient clipping, optimiser steps,
    in-place updates, random numbers. Later calls replay it, and capture anew where shapes, dtypes, static arguments,
    variables that fn reads, or its modules have changed.

    Args:
        verify: also run the reference interpreter at each call and raise where the two differ.

    Raises:
        CaptureError: fn reads a tensor's value (item(), bool(), numpy()), naming the line.
        TypeError: fn is not callable.
    """
    if fn is None:
        return lambda f: compile(f, verify=verify)
    if not callable(fn):
        raise TypeError(f"compile takes a function or a Module, not {type(fn).__name__}")
    return CompiledFunction(fn, verify)


def trace(fn: Callable[..., Any], *args: Any, train: bool = False) -> Graph:
    """The Graph of one call of a function or Module on example arguments, without running it.

    Args:
        train: with a Module, trace it in training mode and under autograd; by default in evaluation mode without.
    """
    training = getattr(fn, "training", None)
    if training is not None:
        fn.train(train)  # type: ignore[attr-defined]
    tensors: list[Tensor] = []
    key_of(args, tensors)
    try:
        with mode.set(grad_enabled=train):
            return capture(fn, args, {}, tensors).graph
    finally:
        if training is not None:
            fn.train(training)  # type: ignore[attr-defined]
