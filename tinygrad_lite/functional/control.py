"""Loops over the steps of a sequence, recorded once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import numpy as np

from tinygrad_lite.handle import Tensor, wrap
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import GradMeta, Node, next_serial
from tinygrad_lite.ir.record import leaf, mode, record
from tinygrad_lite.ops import adjoint, control
from tinygrad_lite.ops.elementwise import CAST, DETACH, detach
from tinygrad_lite.ops.leaf import input

__all__ = ["scan"]


def scan(
    fn: Callable[[Any, Any], tuple[Any, Any]],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """carry, y_t = fn(carry, x_t) for each step t, the carry handed on; gives the last carry and the ys, stacked.

    fn is called to record what a step does, not once a step; the step is compiled once, however long the sequence is.
    Gradients flow to `init`, to `xs` and to every tensor that fn reads.

    Args:
        fn: a function of tensors. Tensors from outside that it changes (buffers, a generator's state) are handed on
            from step to step. That of the generator is an int64 carry, which beside float32 ones costs conversions:
            where speed counts, draw for all steps before the loop and pass the numbers in `xs`.
        init: the carry before the first step: a tensor, or a tuple, list or dict of such structures. fn returns one of
            the same structure, shapes and dtypes.
        xs: a tensor or structure of tensors whose leading axis counts the steps. None: fn gets None.
        length: the number of steps; by default that of `xs`.
        reverse: begin at the last step. The ys stay in the order of `xs`.

    Raises:
        TypeError: a carry that changes its structure, shape or dtype; something that is no tensor.
        ValueError: xs of different lengths, or neither xs nor length.
        RuntimeError: fn changes a tensor from outside that requires grad, or sets .grad.
    """
    carries, rows = _leaves(init, "init"), _leaves(xs, "xs")
    steps = _length(rows, length)
    kept: list[Tensor] = []
    while True:  # once more where fn changes tensors from outside, now handed on in the carry
        step = _Step(fn, init, xs, kept)
        if not step.changed:
            break
        kept += step.changed
    start = [t._read() for t in (*(t for _, t in carries), *kept)]
    operands = [*start, *(t._read() for _, t in rows), *step.consts]
    found = control.scan(step.body, start, operands[len(start) : len(start) + len(rows)], step.consts, steps, reverse)
    wanted = {i for i, n in enumerate(operands) if n.grad is not None} if mode.grad_enabled else set()
    _, followed = adjoint.active(step.body, len(start), wanted)
    finals = [_fresh(found.final(k), k in followed) for k in range(len(start))]
    for tensor, final in zip(kept, finals[len(carries) :], strict=True):
        tensor._rebind(final._node, keep_history=not mode.grad_enabled)
    ys = (_fresh(found.y(i - len(start)), i in followed) for i in range(len(start), len(step.body.outputs)))
    return _rebuilt(init, iter(finals)), _rebuilt(step.y, ys)


class _Step:
    """fn recorded once: the body, its consts, the structure of y, and the tensors from outside that fn changes.

    Those of them that are `kept` stand for carries of the body, after the ones of `init`.
    """

    def __init__(self, fn: Callable[[Any, Any], Any], init: Any, xs: Any, kept: list[Tensor]) -> None:
        carries, rows = _leaves(init, "init"), [t for _, t in _leaves(xs, "xs")]
        types = [t._current().type for t in (*(t for _, t in carries), *kept)]
        args = [_argument("carry", i, t.dtype, t.shape, t.dtype.kind == "f") for i, t in enumerate(types)]
        args += [_argument("x", i, t.dtype, t.shape[1:], t.requires_grad) for i, t in enumerate(rows)]
        trace = _StepTrace(mode.trace)
        parts = iter(map(wrap, (*args[: len(carries)], *args[len(types) :])))
        try:
            with mode.set(trace=trace):
                trace.keep(kept, args[len(carries) : len(types)])
                carry, self.y = _pair(fn(_rebuilt(init, parts), _rebuilt(xs, parts)))
                after = [t for _, t in _same_carry(carry, carries)]
                results = [t._read() for t in (*after, *kept, *(t for _, t in _leaves(self.y, "y")))]
        finally:
            self.changed = trace.restore(kept)
        self.body, self.consts = trace.freeze(args, results)


# ---- structures of tensors --------------------------------------------------------------------------------


def _leaves(tree: Any, name: str) -> list[tuple[str, Tensor]]:
    """(path, tensor) in order. TypeError for anything that is neither a tensor nor a structure of them."""
    if isinstance(tree, Tensor):
        return [(name, tree)]
    if tree is None:
        return []
    if isinstance(tree, tuple | list):
        return [found for i, part in enumerate(tree) for found in _leaves(part, f"{name}[{i}]")]
    if isinstance(tree, dict):
        return [found for key, part in tree.items() for found in _leaves(part, f"{name}[{key!r}]")]
    raise TypeError(f"scan: {name} must be a Tensor, or a tuple, list or dict of them, not {type(tree).__name__}")


def _rebuilt(tree: Any, tensors: Iterator[Tensor]) -> Any:
    """The structure of `tree` around the next of `tensors`."""
    if isinstance(tree, Tensor):
        return next(tensors)
    if isinstance(tree, dict):
        return {key: _rebuilt(part, tensors) for key, part in tree.items()}
    if isinstance(tree, tuple | list):
        parts = [_rebuilt(part, tensors) for part in tree]
        return type(tree)(*parts) if hasattr(tree, "_fields") else type(tree)(parts)
    return tree


def _length(rows: Sequence[tuple[str, Tensor]], length: int | None) -> int:
    """The number of steps that all of `rows` and `length` agree on."""
    known = [("length", length)] if length is not None else []
    for name, tensor in rows:
        if not tensor._current().shape:
            raise ValueError(f"scan: {name} is a scalar; its leading axis must count the steps")
        known.append((name, tensor._current().shape[0]))
    if not known:
        raise ValueError("scan: give xs or length")
    for name, n in known:
        if isinstance(n, bool) or not isinstance(n, int) or n < 0:
            raise ValueError(f"scan: length must be an integer from 0 on, got {n!r}")
        if n != known[0][1]:
            raise ValueError(f"scan: {known[0][0]} has {known[0][1]} steps, {name} has {n}")
    return known[0][1]  # type: ignore[return-value]


def _pair(result: Any) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(f"scan: fn must return (carry, y), got {type(result).__name__}")
    return result


def _same_carry(carry: Any, before: Sequence[tuple[str, Tensor]]) -> list[tuple[str, Tensor]]:
    """The leaves of the carry that fn returned, which must be like those it was given."""
    after = _leaves(carry, "carry")
    paths = [name.replace("init", "carry", 1) for name, _ in before]
    if [name for name, _ in after] != paths:
        raise TypeError(f"scan: fn was given a carry of {paths} and returned one of {[name for name, _ in after]}")
    for (name, new), (_, old) in zip(after, before, strict=True):
        if new._current().type != old._current().type:
            raise TypeError(
                f"scan: {name} is {old._current().type} before a step and {new._current().type} after it; "
                "a carry keeps its shape and dtype"
            )
    return after


def _argument(role: str, index: int, dtype: Any, shape: tuple[int, ...], follow: bool) -> Node:
    node = input(f"{role}{index}", dtype, shape)
    if follow and mode.grad_enabled:
        node.grad = GradMeta()
    return node


def _fresh(node: Node, followed: bool) -> Tensor:
    """A tensor with memory of its own: the results of a loop are windows of one buffer, followed or not as one."""
    return wrap(record(CAST, node if followed else detach(node), dtype=node.dtype))


# ---- the step's trace ---------------------------------------------------------------------------------------


class _StepTrace:
    """What recording consults while a step is recorded: tensors from outside become consts of the loop."""

    def __init__(self, outer: Any) -> None:
        self.outer = outer
        self.start = next_serial()
        self.inside: dict[int, tuple[Node, Node]] = {}  # id(outer node) → (it, the argument that stands for it)
        self.touched: dict[int, tuple[Tensor, tuple[Any, ...]]] = {}

    def lift(self, tensor: Tensor) -> Node:
        return self._const(tensor._node if self.outer is None else self.outer.lift(tensor))

    def _const(self, node: Node) -> Node:
        if id(node) not in self.inside:
            arg = _argument("const", len(self.inside), node.dtype, node.shape, node.grad is not None)
            self.inside[id(node)] = (node, arg)
        return self.inside[id(node)][1]

    def touch(self, tensor: Tensor) -> None:
        self.touched.setdefault(id(tensor), (tensor, tensor._state()))

    def keep(self, tensors: list[Tensor], args: list[Node]) -> None:
        """Let arguments stand for tensors from outside, which fn may then change."""
        for tensor, arg in zip(tensors, args, strict=True):
            self.touch(tensor)
            tensor._node = arg

    def restore(self, kept: list[Tensor]) -> list[Tensor]:
        """Put handles from outside back as they were; gives those, other than `kept`, that were changed."""
        changed = []
        for tensor, state in self.touched.values():
            if state[0].serial < self.start:
                if state[1] is None and tensor._node is not state[0] and not any(tensor is k for k in kept):
                    changed.append(tensor)
                tensor._restore(state)
        for tensor in changed:
            if tensor.requires_grad:
                raise RuntimeError(
                    f"scan: fn changes a tensor of {tensor._node.type} from outside the loop that requires grad. "
                    "Hand it on in the carry instead"
                )
        return changed

    def freeze(self, args: list[Node], results: list[Node]) -> tuple[Graph, list[Node]]:
        """The body as a graph, and what its consts are outside."""
        new: dict[int, Node] = {id(a): a for a in (*args, *(arg for _, arg in self.inside.values()))}
        for node in _below(results, new, self.start):
            if node.serial < self.start:
                new[id(node)] = self._const(node)
                continue
            again = node.with_inputs(tuple(new[id(i)] for i in node.inputs))
            new[id(node)] = again if not _stops_gradient(node) else Node(DETACH, (again,), {}, node.type, node.location)
        outer = [node for node, _ in self.inside.values()]
        inside = [arg for _, arg in self.inside.values()]
        return Graph("body", (*args, *inside), (), tuple(new[id(r)] for r in results)), outer

    # What a capture does besides, the one around does where there is one.

    def read_grad(self, tensor: Tensor) -> None:
        if self.outer is not None:
            self.outer.read_grad(tensor)

    def is_from_outside(self, tensor: Tensor) -> bool:
        _, (node, *_) = self.touched.get(id(tensor), (tensor, (tensor._node,)))
        return node.serial < self.start

    def wrote_grad(self, tensor: Tensor) -> None:
        raise RuntimeError("scan: fn sets .grad of a tensor; use autograd.grad, and hand gradients on in the carry")

    def saw_module(self, module: Any) -> None:
        if self.outer is not None:
            self.outer.saw_module(module)

    def static_value(self, label: str, read: Callable[[], Hashable]) -> Any:
        return read() if self.outer is None else self.outer.static_value(label, read)

    def runtime_scalar(self, label: str, read: Callable[[], float]) -> Tensor:
        if self.outer is None:
            return wrap(self._const(leaf(np.float32(read()).reshape(()))))
        return wrap(self._const(self.outer.runtime_scalar(label, read)._node))

    def draws(self, count: int) -> int:
        return count if self.outer is None else self.outer.draws(count)

    def name(self, tensor: Tensor, of: Tensor, suffix: str) -> None:
        if self.outer is not None:
            self.outer.name(tensor, of, suffix)


def _below(results: Sequence[Node], known: dict[int, Node], start: int) -> list[Node]:
    """The nodes of the step that `results` depend on, inputs first, down to those recorded before it."""
    found: dict[int, Node] = {}
    pending = [r for r in results if id(r) not in known]
    while pending:
        node = pending.pop()
        if id(node) not in found:
            found[id(node)] = node
            if node.serial >= start:
                pending.extend(i for i in node.inputs if id(i) not in known)
    return sorted(found.values(), key=lambda n: n.serial)


def _stops_gradient(node: Node) -> bool:
    """Was it recorded under no_grad? A graph forgets the mode; a detach says it."""
    follows = node.op.vjp is not None and node.dtype.kind == "f" and any(i.grad is not None for i in node.inputs)
    return follows and node.grad is None and mode.grad_enabled
