"""tl.compile: run a function once in trace mode, keep its Graph as a native Program, replay it while guards hold."""

from __future__ import annotations

import copy
import functools
import gc
import os
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, overload

from tinygrad_lite.budget import Policy
from tinygrad_lite.captured import Capture, Grad, GradRead
from tinygrad_lite.errors import CaptureError, CaptureWarning
from tinygrad_lite.guards import Variables, key_of, tensors_in, with_tensors
from tinygrad_lite.ir.graph import Graph, Update, topological
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.passes import pipeline
from tinygrad_lite.ir.record import leaf, mode
from tinygrad_lite.ops.promote import get_default_dtype
from tinygrad_lite.tensor import Tensor
from tinygrad_lite.tracing import HISTORY, Trace

# ---- making a capture ------------------------------------------------------------------------------------


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
    updates = [Update(_state_of(t, trace), t._node) for t in _rebound(trace, numbers)]
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


def _grads_read(trace: Trace, numbers: dict[int, int]) -> list[GradRead]:
    number = {id(t): i for i, (t, _) in enumerate(trace.states)}
    found = trace.grads_read.values()
    return [GradRead(*_owner(t, numbers), grad is None, number.get(id(grad), -1)) for t, grad in found]


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


def _state_of(tensor: Tensor, trace: Trace) -> Node:
    """The state that an update of `tensor` goes to."""
    node = trace.lift(tensor)
    if node.op is HISTORY:
        raise CaptureError(
            f"a compiled function changes in place a tensor of shape {list(tensor.shape)} that was computed outside "
            "and carries history: detach() it"
        )
    return node


def _rebound(trace: Trace, numbers: dict[int, int]) -> Iterator[Tensor]:
    """Root handles from outside whose value the function replaced. (Views follow their base.)"""
    for tensor, (node, base, *_) in list(trace.touched.values()):
        replaced = tensor._node.value is None and tensor._node is not trace.lifted.get(id(tensor))
        if replaced and base is None and node.value is not None and id(tensor) not in numbers:
            yield tensor


def _gradient(tensor: Tensor, before: Tensor | None, number: int, outputs: list[Node]) -> Grad | None:
    owner = None if number >= 0 else tensor
    after = tensor._grad
    if after is None:
        return Grad(owner, number, -1)
    if after is before:  # accumulated in place: an ordinary state update
        return None
    outputs.append(after._read())
    return Grad(owner, number, len(outputs) - 1)


# ---- the public object -----------------------------------------------------------------------------------


MANY = 16  # captures of one function, after which a warning says why
_lock = threading.RLock()  # a capture changes handles for a while, which no other thread may see: one call at a time


def _new_lock() -> None:
    """In a forked child the thread that held the lock is gone."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_new_lock)


@contextmanager
def _without_collection() -> Iterator[None]:
    """Graphs are many objects that stay: looking for garbage among them took a quarter of a capture's time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


class CompiledFunction:
    """A function that runs as native code; made by `compile`.

    Attributes of the wrapped function or module (parameters(), state_dict(), …) are reached through it.
    """

    def __init__(self, fn: Callable[..., Any], verify: bool = False, policy: Policy | None = None) -> None:
        self.fn, self._verify, self._policy = fn, verify, policy
        self._captures: dict[Any, list[Capture]] = {}
        self._last: Capture | None = None
        self._reasons: list[str] = []
        functools.update_wrapper(self, fn, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if mode.trace is not None:  # a compiled function inside another becomes part of it
            return self.fn(*args, **kwargs)
        return self._run(1, args, kwargs)[0]

    def repeat(self, times: int, *args: Any, **kwargs: Any) -> Any:
        """Call it `times` times with the same arguments; the last result. What happens between the calls is native.

        The second call and all after it run without Python in between: for steps that take microseconds, such as a
        token's, whose state is in tensors that the function updates in place.

        Raises:
            ValueError: times below 1.
            IndexError: what a call raises; the states are then as the calls before it left them.
        """
        if times < 1:
            raise ValueError(f"repeat needs at least 1 call, not {times}")
        if mode.trace is not None:
            return [self.fn(*args, **kwargs) for _ in range(times)][-1]
        result, done = self._run(1, args, kwargs)
        while done < times:
            result, more = self._run(times - done, args, kwargs)
            done += more
        return result

    def _run(self, turns: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, int]:
        """The result of as many calls as can be made at a time, at most `turns`, and their number."""
        tensors: list[Tensor] = []
        modes = mode.grad_enabled, mode.autocast, get_default_dtype()
        key: tuple[Any, ...] = (modes, *[key_of(a, tensors) for a in args])
        if kwargs:
            key += (key_of(kwargs, tensors),)
        with _lock:
            found = self._find(key, tensors)
            if found is None:
                found = self._capture(key, args, kwargs, tensors)
            self._last = found
            if self._verify:
                return self._verified(found, tensors), 1
            turns = turns if found.repeats else 1
            return found.run(tensors, turns), turns

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
        with _without_collection():
            found = capture(self._target(), args, kwargs, tensors)
            found.lower(policy=self._policy)
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
        return CompiledFunction(copy.deepcopy(self.fn, memo), self._verify, self._policy)

    def __reduce__(self) -> tuple[Any, ...]:
        return CompiledFunction, (self.fn, self._verify, self._policy)

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
def compile(
    fn: Callable[..., Any],
    *,
    verify: bool = False,
    checkpoint: str | None = None,
    memory_budget: float | int | None = None,
) -> CompiledFunction: ...
@overload
def compile(
    fn: None = None,
    *,
    verify: bool = False,
    checkpoint: str | None = None,
    memory_budget: float | int | None = None,
) -> Callable[[Callable[..., Any]], CompiledFunction]: ...
def compile(
    fn: Any = None,
    *,
    verify: bool = False,
    checkpoint: str | None = None,
    memory_budget: float | int | None = None,
) -> Any:
    """Compile `fn`, a function or a Module, into native code; also a decorator.

    All that fn does to tensors is captured at the first call: forward, backward(), gradient clipping, optimiser steps,
    in-place updates, random numbers. Later calls replay it, and capture anew where shapes, dtypes, static arguments,
    variables that fn reads, or its modules have changed.

    Args:
        verify: also run the reference interpreter at each call and raise where the two differ.
        checkpoint: "sqrt" cuts the forward pass into about √n segments, of which backward finds only the borders and
            computes the rest again; results keep their bits.
        memory_budget: what the arena may take, in bytes (an int) or as a share (a float up to 1.0) of what it takes
            where all that backward reads is kept. Backward computes again what is cheapest, until the rest fits. By
            default it does so only where that takes no time worth mentioning; 1.0 computes nothing twice.

    Raises:
        ValueError: another `checkpoint`, both of them, or a budget that is no share; at the first call, BudgetError, a
            ValueError, where no way is found to keep within the budget, naming the least.
        CaptureError: fn reads a tensor's value (item(), bool(), numpy()), naming the line.
        TypeError: fn is not callable.
    """
    if fn is None:
        return lambda f: compile(f, verify=verify, checkpoint=checkpoint, memory_budget=memory_budget)
    if not callable(fn):
        raise TypeError(f"compile takes a function or a Module, not {type(fn).__name__}")
    return CompiledFunction(fn, verify, Policy(checkpoint, memory_budget))


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
