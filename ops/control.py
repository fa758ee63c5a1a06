"""The structured loop: `scan` runs a body, a Graph of its own, step by step, and hands carries from each to the next.

The body takes (carries…, x_t…, consts…) and gives (new carries…, y_t…). A node has one value, so all results lie in one
packed vector of one dtype: for each carry its slots, then for each y one slot a step. A carry with history has
length + 1 slots in the order of time: stacked, its values before and after each step are windows of them. Without
history there are two, used in turn. `Loop` names the parts. The derivative is in ops/adjoint.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Cost, Kind, Op, register
from tinygrad_lite.ir.record import mode, record
from tinygrad_lite.ir.types import DType, TensorType, float32, float64, int64
from tinygrad_lite.ops import elementwise, movement
from tinygrad_lite.ops.leaf import input

Array = np.ndarray[Any, Any]

# ---- layout -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Segment:
    """The part of the packed vector that holds one result: `slots` values of `shape` from element `start` on."""

    start: int
    slots: int
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def stop(self) -> int:
        return self.start + self.slots * self.size


@dataclass(frozen=True)
class Order:
    """Which slots a step reads and writes. Step `turn` (0, 1, …) works at time `turn`, or from the end if reversed."""

    length: int
    reverse: bool

    def time(self, turn: int) -> int:
        return self.length - 1 - turn if self.reverse else turn

    def slot(self, turn: int, history: bool) -> int:
        """Where a carry lies before step `turn`; after the last step it lies before step `length`."""
        if not history:
            return turn % 2
        return self.length - turn if self.reverse else turn

    @property
    def before(self) -> int:
        """The first slot of the values before each step, in the order of time, of a carry with history."""
        return int(self.reverse)


def slots_of(length: int, history: bool) -> int:
    return length + 1 if history else min(2, length + 1)


def segments(types: Sequence[TensorType], length: int, history: Sequence[bool]) -> tuple[Segment, ...]:
    """Where the results of a body lie: of its carries, one for each of `history`, then of its ys."""
    found, start = [], 0
    for i, type in enumerate(types):
        slots = slots_of(length, history[i]) if i < len(history) else length
        found.append(Segment(start, slots, type.shape))
        start = found[-1].stop
    return tuple(found)


# ---- inference --------------------------------------------------------------------------------------


def _infer(
    *types: TensorType, body: Graph, carries: int, xs: int, length: int, reverse: bool, history: tuple[bool, ...]
) -> TensorType:
    if body.states or body.updates or len(body.args) != len(types):
        raise TypeError(f"scan: the body takes {len(body.args)} arguments and no states, given are {len(types)}")
    if not 0 <= carries <= len(body.outputs) or carries + xs > len(types) or len(history) != carries:
        raise TypeError(f"scan: {carries} carries and {xs} xs do not fit a body of {len(body.outputs)} results")
    if length < 0 or not body.outputs:
        raise ValueError(f"scan: a loop of length {length} whose body gives {len(body.outputs)} results")
    for i, (given, arg) in enumerate(zip(types, body.args, strict=True)):
        stacked = carries <= i < carries + xs
        wanted = TensorType(arg.dtype, (length, *arg.shape)) if stacked else arg.type
        if given != wanted:
            raise TypeError(f"scan: argument {i} must be {wanted}, got {given}")
    for i, (arg, result) in enumerate(zip(body.args[:carries], body.outputs, strict=False)):
        if arg.type != result.type:
            raise TypeError(f"scan: carry {i} is {arg.type} before a step and {result.type} after it")
    if len({o.dtype for o in body.outputs}) != 1:
        raise TypeError(f"scan: the results must have one dtype, got {', '.join(str(o.type) for o in body.outputs)}")
    size = segments([o.type for o in body.outputs], length, history)[-1].stop
    return TensorType(body.outputs[0].dtype, (size,))


# ---- NumPy rule: the body's own rules, step by step ------------------------------------------------------


def _run(
    *arrays: Array, body: Graph, carries: int, xs: int, length: int, reverse: bool, history: tuple[bool, ...]
) -> Array:
    found = segments([o.type for o in body.outputs], length, history)
    packed = np.zeros(found[-1].stop, body.outputs[0].dtype.numpy)
    parts = [packed[s.start : s.stop].reshape(s.slots, *s.shape) for s in found]
    order = Order(length, reverse)
    for k in range(carries):
        parts[k][order.slot(0, history[k])] = arrays[k]
    once, each, places = _plan(body, carries + xs)
    values: list[Any] = [None] * len(body.nodes)
    values[carries + xs : len(arrays)] = arrays[carries + xs :]
    _evaluate(once, values)
    for turn in range(length):
        t = order.time(turn)
        values[:carries] = [parts[k][order.slot(turn, history[k])] for k in range(carries)]
        values[carries : carries + xs] = [x[t] for x in arrays[carries : carries + xs]]
        _evaluate(each, values)
        for i, (part, place) in enumerate(zip(parts, places, strict=True)):
            part[order.slot(turn + 1, history[i]) if i < carries else t] = values[place]
    return packed


_Step = tuple[Callable[..., Any], tuple[int, ...], dict[str, Any], int]


@lru_cache(maxsize=64)
def _plan(body: Graph, changing: int) -> tuple[list[_Step], list[_Step], list[int]]:
    """The body's work as (rule, operands, attributes, target): what is done once, what at each step; the results."""
    number = {id(n): i for i, n in enumerate(body.nodes)}
    varies = set(range(changing))
    once: list[_Step] = []
    each: list[_Step] = []
    for i, node in enumerate(body.nodes[len(body.args) :], len(body.args)):
        operands = tuple(number[id(x)] for x in node.inputs)
        step = (node.op.numpy, operands, dict(node.attrs), i)
        if varies.isdisjoint(operands):
            once.append(step)
        else:
            varies.add(i)
            each.append(step)
    return once, each, [number[id(o)] for o in body.outputs]


def _evaluate(steps: list[_Step], values: list[Any]) -> None:
    for rule, operands, attrs, target in steps:
        values[target] = np.asarray(rule(*[values[i] for i in operands], **attrs))


# ---- the op ---------------------------------------------------------------------------------------------


def _vjp(g: Node, node: Node, i: int) -> Node | None:
    return _joint_vjp(g, node, [i])[0]


def _joint_vjp(g: Node, node: Node, wanted: Sequence[int]) -> list[Node | None]:
    from tinygrad_lite.ops import adjoint  # written in terms of loops

    return adjoint.pull_back_loop(g, node, wanted)


def _cost(node: Node) -> Cost:
    costs = [n.op.cost(n) for n in node.attrs["body"].nodes]
    length = node.attrs["length"]
    return Cost(length * sum(c.flops for c in costs), length * sum(c.bytes for c in costs))


SCAN = register(Op("scan", Kind.LOOP, _infer, _run, _vjp, None, _cost, joint_vjp=_joint_vjp))


# ---- recording --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loop:
    """A recorded scan and the parts of its result."""

    packed: Node
    attrs: Mapping[str, Any]

    @property
    def order(self) -> Order:
        return Order(self.attrs["length"], self.attrs["reverse"])

    @property
    def segments(self) -> tuple[Segment, ...]:
        attrs = self.attrs
        return segments([o.type for o in attrs["body"].outputs], attrs["length"], attrs["history"])

    def slots(self, i: int, first: int, count: int) -> Node:
        """Slots of result i, stacked."""
        return window(self.packed, self.segments[i], first, count)

    def before(self, k: int) -> Node:
        """(length, …): carry k before each step, in the order of time. It must have its history."""
        return self.slots(k, self.order.before, self.order.length)

    def after(self, k: int) -> Node:
        """(length, …): carry k after each step, in the order of time. It must have its history."""
        return self.slots(k, 1 - self.order.before, self.order.length)

    def final(self, k: int) -> Node:
        """Carry k after the last step."""
        slot = self.order.slot(self.order.length, self.attrs["history"][k])
        return movement.reshape(self.slots(k, slot, 1), self.segments[k].shape)

    def y(self, j: int) -> Node:
        """(length, …): the y number j."""
        return self.slots(self.attrs["carries"] + j, 0, self.order.length)


def window(packed: Node, segment: Segment, first: int, count: int) -> Node:
    """`count` slots of a segment from `first` on, stacked."""
    start = segment.start + first * segment.size
    part = movement.slice_(packed, (start,), (start + count * segment.size,))
    return movement.reshape(part, (count, *segment.shape))


def record_scan(inputs: Sequence[Node], attrs: Mapping[str, Any]) -> Loop:
    """Record a scan; where a gradient is followed, its body also hands out what the derivative needs."""
    if mode.grad_enabled and any(i.grad is not None for i in inputs):
        from tinygrad_lite.ops import adjoint

        attrs = adjoint.with_residuals(inputs, attrs)
    packed = record(SCAN, *inputs, **attrs)
    return Loop(packed, attrs)


def inline(body: Graph, args: Sequence[Node]) -> dict[int, Node]:
    """Record the body's nodes on other arguments: id(node of the body) → the new node."""
    new = {id(a): n for a, n in zip(body.args, args, strict=True)}
    for node in body.nodes:
        if id(node) not in new:
            new[id(node)] = again(node, [new[id(i)] for i in node.inputs])
    return new


def again(node: Node, inputs: Sequence[Node]) -> Node:
    """Record the op of `node` on other inputs of the same types."""
    if node.op is SCAN:
        packed = record_scan(inputs, dict(node.attrs)).packed  # perhaps with more at its end
        new = movement.slice_(packed, (0,), node.shape)
    else:
        new = record(node.op, *inputs, **node.attrs)
    if new.value is None:
        new.location = node.location
    return new


# ---- the builder: any dtypes -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Results:
    """Parts of a scan whose carries and ys have dtypes of their own."""

    loop: Loop
    dtypes: tuple[DType, ...]  # of the carries, then of the ys

    def final(self, k: int) -> Node:
        return _unpacked(self.loop.final(k), self.dtypes[k])

    def before(self, k: int) -> Node:
        return _unpacked(self.loop.before(k), self.dtypes[k], 1)

    def after(self, k: int) -> Node:
        return _unpacked(self.loop.after(k), self.dtypes[k], 1)

    def y(self, j: int) -> Node:
        return _unpacked(self.loop.y(j), self.dtypes[self.loop.attrs["carries"] + j], 1)


def scan(
    body: Graph,
    init: Sequence[Node],
    xs: Sequence[Node],
    consts: Sequence[Node],
    length: int,
    reverse: bool = False,
    history: Sequence[bool] | None = None,
) -> Results:
    """Run `body` (carries…, x_t…, consts…) → (carries…, y_t…) over the leading axis of `xs`.

    By default every carry keeps its history; what nobody reads of it goes when a graph is compiled.
    """
    dtypes = tuple(o.dtype for o in body.outputs)
    packed = packing_dtype(dtypes)
    history = [True] * len(init) if history is None else history
    if any(d is not packed for d in dtypes):
        body = _repacked(body, len(init), packed)
        init = [_packed(c, packed) for c in init]
    attrs = {
        "body": body,
        "carries": len(init),
        "xs": len(xs),
        "length": length,
        "reverse": reverse,
        "history": tuple(history),
    }
    return Results(record_scan([*init, *xs, *consts], attrs), dtypes)


def packing_dtype(dtypes: Sequence[DType]) -> DType:
    """The dtype that holds values of all these exactly; int64 beside floats takes two float64 each."""
    found = set(dtypes)
    if len(found) == 1:
        return dtypes[0]
    if not any(d.kind == "f" for d in found):
        return int64
    exact = all(d.itemsize <= (4 if d.kind == "f" else 2) for d in found)
    return float32 if exact else float64


_HALF = 2**32


def _packed(x: Node, dtype: DType) -> Node:
    if x.dtype is not int64 or dtype.kind != "f":
        return elementwise.cast(x, dtype)
    halves = [elementwise.floor_divide(x, _HALF), elementwise.remainder(x, _HALF)]
    return movement.stack([elementwise.cast(h, dtype) for h in halves])


def _unpacked(x: Node, dtype: DType, axis: int = 0) -> Node:
    """`axis` is where the two halves of int64 stand."""
    if dtype is not int64 or x.dtype.kind != "f":
        return elementwise.cast(x, dtype)
    high, low = (movement.squeeze(elementwise.cast(movement.narrow(x, axis, i, 1), int64), axis) for i in range(2))
    return elementwise.add(elementwise.mul(high, _HALF), low)


def _repacked(body: Graph, carries: int, dtype: DType) -> Graph:
    """`body` with its carries and ys in one dtype."""
    with symbolic(grad=False):
        packed = [_packed(a, dtype).type for a in body.args[:carries]]
        args = [input(a.attrs["name"], t.dtype, t.shape) for a, t in zip(body.args, packed, strict=False)]
        plain = [_unpacked(a, old.dtype) for a, old in zip(args, body.args, strict=False)]
        new = inline(body, [*plain, *body.args[carries:]])
        outputs = [_packed(new[id(o)], dtype) for o in body.outputs]
    return Graph(body.name, (*args, *body.args[carries:]), (), tuple(outputs))


class _Symbolic:
    """Stands for a capture where nodes are recorded for a body: nothing is computed."""

    def touch(self, tensor: Any) -> None:
        """Tensors that the backward of a Function makes are its own to change."""

    def is_from_outside(self, tensor: Any) -> bool:
        return False

    def lift(self, tensor: Any) -> Node:
        raise RuntimeError(
            "the backward of an autograd.Function in a loop reads a tensor from outside: save it in forward, by "
            "ctx.save_for_backward or as an attribute of ctx"
        )


def symbolic(grad: bool) -> Any:
    """Record without values within a with-block; `grad`: mark what depends on differentiable arguments."""
    return mode.set(trace=_Symbolic(), grad_enabled=grad)
