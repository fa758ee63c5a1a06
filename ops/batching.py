"""Rules of vmap: an op over operands that have one more axis in front, for a batch of what it was recorded for.

`batched(node, inputs, flags, batch)` records the op of `node`, recorded for one example, once for all of them: flags
tell which of `inputs` have the batch axis, and the result always has it. Nothing loops over examples.

Most ops are aligned: with the axis in front of all operands they are the same op, of which the attributes that name
axes move on by one (`_MOVED`). Where one example's op is no batch of itself, a rule of its own says what it becomes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node, next_serial
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.record import mode, record
from tinygrad_lite.ir.types import TensorType
from tinygrad_lite.ops import control, conv, create, elementwise, movement
from tinygrad_lite.ops.contract import MATMUL
from tinygrad_lite.ops.leaf import input


@dataclass(frozen=True)
class Batch:
    """How many examples there are, and whether each draws random numbers of its own.

    Attributes:
        shared: id(a scan recorded for one example) → it, and the parts of its packed result that no example decides.
    """

    size: int
    different: bool = False
    shared: dict[int, tuple[Node, list[_Part]]] = field(default_factory=dict)


class _Part(NamedTuple):
    """Elements start … stop of a loop's packed result, as a vector without the batch axis."""

    start: int
    stop: int
    vector: Node


Nodes = Sequence[Node]
Flags = Sequence[bool]
Rule = Callable[[Node, Nodes, Flags, Batch], Node]
Attrs = Mapping[str, Any]
Known = dict[int, tuple[Node, bool]]


def batched(node: Node, inputs: Nodes, flags: Flags, batch: Batch) -> Node:
    """The op of `node`, recorded for all examples at once.

    Raises:
        NotImplementedError: an op without a rule.
    """
    rule = RULES.get(node.op.name, _aligned if node.op.kind in ALIGNED else None)
    if rule is None:
        raise NotImplementedError(
            f"vmap: {node.op.name}, recorded at {node.location}, has no batching rule: "
            "loop over the examples and stack the results"
        )
    result = rule(node, inputs, flags, batch)
    if result.type != TensorType(node.dtype, (batch.size, *node.shape)):
        raise RuntimeError(f"vmap: the rule of {node.op.name} made {result.type} of {batch.size} times {node.type}")
    return result


def spread(x: Node, size: int) -> Node:
    """x once for each example, without copying it."""
    return movement.expand(movement.unsqueeze(x, 0), (size, *x.shape))


def _each(inputs: Nodes, flags: Flags, batch: Batch) -> list[Node]:
    return [wholly(x, flag, batch) for x, flag in zip(inputs, flags, strict=True)]


# ---- the same op, one axis further ---------------------------------------------------------------------------


def _next(axes: Any) -> Any:
    return tuple(a + 1 for a in axes) if isinstance(axes, tuple) else axes + 1


_MOVED: dict[str, Callable[[Any, int], Any]] = {
    "axis": lambda axis, size: _next(axis),
    "axes": lambda axes, size: _next(axes),
    "shape": lambda shape, size: (size, *shape),
    "starts": lambda starts, size: (0, *starts),
    "stops": lambda stops, size: (size, *stops),
    "steps": lambda steps, size: (1, *steps),
    "low": lambda low, size: (0, *low),
    "high": lambda high, size: (0, *high),
}


def _aligned(node: Node, inputs: Nodes, flags: Flags, batch: Batch) -> Node:
    attrs = {k: _MOVED[k](v, batch.size) if k in _MOVED else v for k, v in node.attrs.items()}
    return record(node.op, *_each(inputs, flags, batch), **attrs)


def _in_rows(node: Node, inputs: Nodes, flags: Flags, batch: Batch) -> Node:
    """Ops over the last axes: those in front are a batch already."""
    return record(node.op, *_each(inputs, flags, batch), **node.attrs)


def _permute(node: Node, inputs: Nodes, flags: Flags, batch: Batch) -> Node:
    return record(node.op, inputs[0], axes=(0, *_next(node.attrs["axes"])))


def _windows(node: Node, inputs: Nodes, flags: Flags, batch: Batch) -> Node:
    """Here `steps` are those of the windows."""
    return record(node.op, *_each(inputs, flags, batch), **{**node.attrs, "axes": _next(node.attrs["axes"])})


# ---- products ----------------------------------------------------------------------------------------------------


def _matmul(node: Node, inputs: Nodes, flags: Flags, batch: Batch) -> Node:
    """One matrix for all examples: the rows, or columns, of all of them in one product with it."""
    a, b = inputs
    if node.type.ndim > 2 or all(flags):
        return record(node.op, *_each(inputs, flags, batch))
    if flags[0]:
        return _by_rows(a, b)
    return movement.transpose(_by_rows(movement.transpose(b, 1, 2), movement.transpose(a, 0, 1)), 1, 2)


def _by_rows(a: Node, b: Node) -> Node:
    return movement.reshape(record(MATMUL, _merged(a), b), (*a.shape[:2], b.shape[1]))


def _attention(node: Node, inputs: Nodes, flags: Flags, batch: Batch) -> Node:
    """Its kernels know two axes of batch and heads: examples join the first."""
    rows = _each(inputs, flags, batch)
    merged = [_merged(x) if x.type.ndim > 4 else x for x in rows]
    return movement.reshape(record(node.op, *merged, **node.attrs), (batch.size, *node.shape))


def _merged(x: Node) -> Node:
    return movement.reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))


def _convolution(node: Node, inputs: Nodes, flags: Flags, batch: Batch) -> Node:
    """Images of all examples by one weight are more images; all else is written out in windows and products."""
    if flags[0] and not flags[1] and node.op.name != "convolution_by_weight":
        done = record(node.op, _merged(inputs[0]), inputs[1], **node.attrs)
        return movement.reshape(done, (batch.size, *node.shape))
    return _written_out(_CONVOLUTIONS[node.op.name], node, inputs, flags, batch)


def _geometry(node: Node) -> conv.Geometry:
    return conv.Geometry(*(node.attrs[name] for name in ("stride", "padding", "dilation")))


def _forward(node: Node, x: Node, w: Node) -> Node:
    return conv.by_windows(x, w, _geometry(node))


def _by_input(node: Node, g: Node, w: Node) -> Node:
    return conv.gradient(g, input("x", node.dtype, node.shape), w, _geometry(node), 0)


def _by_weight(node: Node, g: Node, x: Node) -> Node:
    return conv.gradient(g, x, input("w", node.dtype, node.shape), _geometry(node), 1)


_CONVOLUTIONS = {"convolution": _forward, "convolution_by_input": _by_input, "convolution_by_weight": _by_weight}


def _written_out(build: Callable[..., Node], node: Node, inputs: Nodes, flags: Flags, batch: Batch) -> Node:
    """A batch of `build(node, *inputs)`, which says in other ops what `node` does."""
    args = [input(f"x{i}", x.dtype, x.shape[int(f) :]) for i, (x, f) in enumerate(zip(inputs, flags, strict=True))]
    with control.symbolic(grad=False):
        one = build(node, *args)
    values = {id(a): (x, f) for a, x, f in zip(args, inputs, flags, strict=True)}
    return wholly(*through([one], values, batch)[0], batch)


# ---- indices -------------------------------------------------------------------------------------------------------


def _gather(node: Node, inputs: Nodes, flags: Flags, batch: Batch) -> Node:
    (table, index), axis = inputs, node.attrs["axis"]
    if not flags[1]:
        return record(node.op, table, index, axis=axis + 1)
    if not flags[0]:
        return movement.move_axis(record(node.op, table, index, axis=axis), axis, 0)
    places = _own_rows(index, table.shape[axis + 1])
    return _unjoined(record(node.op, _joined(table, axis), places, axis=0), index.type.ndim, axis)


def _joined(x: Node, axis: int) -> Node:
    """(B, *before, n, *after) as (B n, *before, *after)."""
    return _merged(movement.move_axis(x, axis + 1, 1))


def _unjoined(x: Node, lead: int, axis: int) -> Node:
    """(B, *places, *before, *after) as (B, *before, *places, *after), `lead` counting B and places."""
    before = range(lead, lead + axis)
    return movement.permute(x, (0, *before, *range(1, lead), *range(lead + axis, x.type.ndim)))


def _own_rows(index: Node, rows: int) -> Node:
    """Each example's indices into its own rows of the joined ones."""
    first = movement.reshape(create.arange(index.shape[0]), (index.shape[0], *(1,) * (index.type.ndim - 1)))
    return elementwise.add(index, elementwise.mul(first, rows))


def _put(node: Node, inputs: Nodes, flags: Flags, batch: Batch) -> Node:
    """base with slices of source put, or added, at the index."""
    axis = node.attrs["axis"]
    if not flags[1]:
        base, _, source = _each(inputs, flags, batch)
        return record(node.op, base, inputs[1], source, axis=axis + 1)
    base, index, source = _each(inputs, flags, batch)
    lead, n = index.type.ndim, base.shape[axis + 1]
    places = range(axis + 1, axis + lead)
    after = range(axis + lead, source.type.ndim)
    rows = movement.permute(source, (0, *places, *range(1, axis + 1), *after))
    done = record(node.op, _joined(base, axis), _own_rows(index, n), rows, axis=0)
    split = movement.reshape(done, (batch.size, n, *done.shape[1:]))
    return movement.move_axis(split, 1, axis + 1)


# ---- loops ---------------------------------------------------------------------------------------------------------


def _scan(node: Node, inputs: Nodes, flags: Flags, batch: Batch) -> Node:
    """The loop of a batched body; what no example decides goes without the axis, up to the packed result."""
    attrs = node.attrs
    carries, ends = attrs["carries"], attrs["carries"] + attrs["xs"]
    body, made = _batched_body(attrs["body"], carries, flags, batch)
    operands = [wholly(inputs[k], flags[k], batch) if made[k] else inputs[k] for k in range(carries)]
    operands += [movement.move_axis(inputs[i], 0, 1) if flags[i] else inputs[i] for i in range(carries, ends)]
    loop = control.record_scan([*operands, *inputs[ends:]], {**attrs, "body": body})
    packed: list[Node] = []
    shared: list[_Part] = []
    at = 0
    for slots, flag in zip(_slots(loop, attrs), made, strict=True):
        vector = _one_after_another(slots) if flag else movement.reshape(slots, (slots.type.size,))
        start, at = at, at + vector.shape[-1]
        packed.append(wholly(vector, flag, batch))
        shared += [] if flag else [_Part(start, at, vector)]
    batch.shared[id(node)] = (node, shared)
    return movement.concat(packed, 1) if len(packed) > 1 else packed[0]


def _batched_body(body: Graph, carries: int, flags: Flags, batch: Batch) -> tuple[Graph, list[bool]]:
    """The body for all examples, and which of its results have the batch axis.

    A carry has it from the start where a step gives it that.
    """
    given = list(flags)
    while True:
        with control.symbolic(grad=False):
            args = [
                input(a.attrs["name"], a.dtype, (batch.size, *a.shape) if flag else a.shape)
                for a, flag in zip(body.args, given, strict=True)
            ]
            known = {id(a): (n, flag) for a, n, flag in zip(body.args, args, given, strict=True)}
            results = through(body.outputs, known, batch)
            more = [k for k in range(carries) if results[k][1] and not given[k]]
            if not more:
                made = [*given[:carries], *(flag for _, flag in results[carries:])]
                outputs = [wholly(n, f, batch) if m else n for (n, f), m in zip(results, made, strict=True)]
                return Graph(body.name, tuple(args), (), tuple(outputs)), made
        for k in more:
            given[k] = True


def _shared_part(node: Node, batch: Batch) -> Node | None:
    """What a slice takes of a loop's results, where no example decides it."""
    if node.op is not movement.SLICE or id(node.inputs[0]) not in batch.shared:
        return None
    (first,), (last,), (step,) = node.attrs["starts"], node.attrs["stops"], node.attrs["steps"]
    for start, stop, vector in batch.shared[id(node.inputs[0])][1]:
        if start <= first and last <= stop:
            return movement.slice_(vector, (first - start,), (last - start,), (step,))
    return None


def _slots(loop: control.Loop, attrs: Attrs) -> Iterator[Node]:
    """(slots, …) of each result that one example's loop has; this one may hand out more, and keep histories."""
    types = [o.type for o in attrs["body"].outputs]
    for i, segment in enumerate(control.segments(types, attrs["length"], attrs["history"])):
        if i >= attrs["carries"] or loop.attrs["history"][i] == attrs["history"][i]:
            yield loop.slots(i, 0, segment.slots)
            continue
        turns = sorted(range(attrs["length"] + 1)[-segment.slots :], key=lambda turn: turn % 2)
        yield movement.concat([loop.slots(i, loop.order.slot(turn, True), 1) for turn in turns], 0)


def _one_after_another(slots: Node) -> Node:
    """(slots, B, *shape) as (B, slots · size)."""
    rows = movement.move_axis(slots, 0, 1)
    return movement.reshape(rows, (rows.shape[0], math.prod(rows.shape[1:])))


# ---- random numbers ------------------------------------------------------------------------------------------------


def _draws(node: Node) -> bool:
    """Does the op make random numbers?"""
    if node.op.kind is Kind.LOOP:
        return any(map(_draws, node.attrs["body"].nodes))
    return node.op.kind is Kind.RANDOM


def _random(node: Node, inputs: Nodes, flags: Flags, batch: Batch) -> Node:
    """Numbers of their own for every example, one example after the other in the generator's stream."""
    if any(flags):
        raise RuntimeError(f"vmap: {node.op.name} at {node.location} has a seed or offset of each example's own")
    return record(node.op, *inputs, **{**node.attrs, "shape": (batch.size, *node.attrs["shape"])})


# ---- a whole recording ---------------------------------------------------------------------------------------------


def through(
    results: Nodes, known: Known, batch: Batch, outside: Callable[[Node], bool] = lambda node: False
) -> list[tuple[Node, bool]]:
    """What was recorded for one example, recorded again for all: each of `results`, and whether it has the batch axis.

    What does not depend on the example is recorded once, without the axis.

    Args:
        known: id(node) → what stands for it, and whether that has the axis; added to.
        outside: which nodes were there before, and stand for themselves.
    """
    for node in _below(results, known, outside):
        mark = next_serial()
        with mode.set(grad_enabled=mode.grad_enabled and not _stops_gradient(node)):
            known[id(node)] = _recorded(node, known, batch)
        _relocate(known[id(node)][0], node, mark)
    return [known[id(r)] for r in results]


def _recorded(node: Node, known: Known, batch: Batch) -> tuple[Node, bool]:
    shared = _shared_part(node, batch)
    if shared is not None:
        return shared, False
    inputs = [known[id(i)][0] for i in node.inputs]
    flags = [known[id(i)][1] for i in node.inputs]
    if any(flags) or (batch.different and _draws(node)):
        return batched(node, inputs, flags, batch), True
    return control.again(node, inputs), False


def wholly(x: Node, flag: bool, batch: Batch) -> Node:
    """x with the batch axis."""
    return x if flag else spread(x, batch.size)


def _below(results: Nodes, known: Known, outside: Callable[[Node], bool]) -> list[Node]:
    """The nodes to record again, inputs first."""
    found: dict[int, Node] = {}
    pending = list(results)
    while pending:
        node = pending.pop()
        if id(node) in known or id(node) in found:
            continue
        if outside(node):
            known[id(node)] = (node, False)
            continue
        found[id(node)] = node
        pending += node.inputs
    return sorted(found.values(), key=lambda n: n.serial)


def _stops_gradient(node: Node) -> bool:
    """Was it recorded under no_grad?"""
    return node.grad is None and any(i.grad is not None for i in node.inputs)


def _relocate(result: Node, node: Node, mark: int) -> None:
    """What is recorded for all examples points to the line that was run for one."""
    pending = [result]
    while pending:
        each = pending.pop()
        if each.serial > mark and each.value is None and each.location is not node.location:
            each.location = node.location
            pending.extend(each.inputs)


# ---- the table -----------------------------------------------------------------------------------------------------

ALIGNED = frozenset({Kind.ELEMENTWISE, Kind.REDUCE, Kind.MOVEMENT})
_ALONG = ("take_along", "put_along", "put_along_add", "put_along_mul", "put_along_max", "put_along_min")
_CUMULATING = ("cumsum", "linear_scan", "logcumsumexp", "cumargmax", "cumargmin")
_MATRICES = ("cholesky", "solve", "solve_triangular", "det", "cofactor", "slogdet", "pinv", "matrix_exp")
_FACTORS = ("svd", "svdvals", "eigh", "eigvalsh", "qr")
_ATTENTION = ("attention", "attention_lse", "attention_dq", "attention_dk", "attention_dv")

RULES: dict[str, Rule] = {
    "permute": _permute,
    "window": _windows,
    "unwindow": _windows,
    "matmul": _matmul,
    "gather": _gather,
    "scatter_add": _put,
    "put": _put,
    "scan": _scan,
    "uniform": _random,
    "normal": _random,
    **dict.fromkeys(("slice_update", *_ALONG, *_CUMULATING), _aligned),
    **dict.fromkeys((*_MATRICES, *_FACTORS, "argsort", "searchsorted"), _in_rows),
    **dict.fromkeys(_ATTENTION, _attention),
    **dict.fromkeys(_CONVOLUTIONS, _convolution),
}
