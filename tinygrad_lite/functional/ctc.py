"""Connectionist temporal classification: Graves, Fernández, Gomez, Schmidhuber, ICML 2006.

The labels of a target, with a blank before, between and after them, are the states of a chain: a frame keeps its state,
goes on by one, or skips a blank between two different labels. The forward algorithm is a `scan` over the frames.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tinygrad_lite.functional.common import node_of, wrap
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import mode
from tinygrad_lite.ir.types import TensorType, int64
from tinygrad_lite.ops import composite, control, create, indexing, movement, reduce
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops.leaf import constant, input

__all__ = ["ctc_loss"]

Lengths = Tensor | Sequence[int]


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Lengths,
    target_lengths: Lengths,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """-log of the probability that frames spell a target, over all their alignments.

    Shapes: log_probs (T, N, C) or (T, C), log-probabilities by frame; targets (N, S), or all targets joined (ΣS,);
    lengths (N,). "mean" divides each loss by its target's length first; a target that no alignment spells costs inf, or
    with `zero_infinity` 0, gradient included.

    Raises:
        RuntimeError: shapes, dtypes, blank or lengths that do not fit (lengths are read outside a capture only).
        IndexError: a label out of range.
    """
    logp, labels = node_of(log_probs, "log_probs"), node_of(targets, "targets")
    single = logp.type.ndim == 2
    logp = movement.unsqueeze(logp, 1) if single else logp
    if logp.type.ndim != 3 or logp.dtype.kind != "f" or labels.dtype.kind not in "iu":
        raise RuntimeError(
            f"ctc_loss: expected floating log_probs (T, N, C) and integer targets, got {logp.type} and {labels.type}"
        )
    frames, batch, classes = logp.shape
    if not 0 <= blank < classes:
        raise RuntimeError(f"ctc_loss: blank must be in label range [0, {classes}), got {blank}")
    durations = _lengths(input_lengths, batch, "input_lengths", frames)
    sizes = _lengths(target_lengths, batch, "target_lengths", None)
    rows = _rows(labels, sizes, target_lengths, batch, single)
    states, may_skip = _chain(rows, sizes, blank, classes)
    total = _forward(logp, states, may_skip, durations)
    losses = ew.neg(_at_end(total, sizes))
    if zero_infinity:
        losses = ew.where(ew.eq(losses, math.inf), 0.0, losses)
    if reduction == "mean":
        losses = ew.div(losses, ew.cast(ew.maximum(sizes, 1), logp.dtype))
    losses = movement.squeeze(losses, 0) if single and reduction == "none" else losses
    return wrap(composite._reduced(losses, reduction))


def _lengths(given: Lengths, batch: int, name: str, limit: int | None) -> Node:
    node = node_of(given, name) if isinstance(given, Tensor) else constant([int(n) for n in given], int64)
    node = movement.reshape(node, (1,)) if not node.type.ndim else node
    if node.shape != (batch,) or node.dtype.kind not in "iu":
        raise RuntimeError(f"ctc_loss: {name} must be of size {batch} and integral, got {node.type}")
    values = _known(given, node)
    if values is not None and any(v < 0 or (limit is not None and v > limit) for v in values):
        raise RuntimeError(f"ctc_loss: expected {name} between 0 and {limit}, got {values}")
    return ew.cast(node, int64)


def _known(given: Lengths, node: Node) -> list[int] | None:
    """The lengths as numbers, or None where a capture does not know them."""
    if not isinstance(given, Tensor):
        return [int(n) for n in given]
    return None if node.value is None or mode.trace is not None else [int(v) for v in np.ravel(node.value)]


def _rows(labels: Node, sizes: Node, given: Lengths, batch: int, single: bool) -> Node:
    """(N, S): each sample's labels, with something or other after its last."""
    if single and labels.type.ndim == 1:
        labels = movement.unsqueeze(labels, 0)
    values = _known(given, sizes)
    if labels.type.ndim == 2:
        if labels.shape[0] != batch or (values and max(values) > labels.shape[1]):
            raise RuntimeError(f"ctc_loss: targets {labels.type} do not hold {batch} targets of lengths {values}")
        return labels
    count = labels.type.size
    if labels.type.ndim != 1 or (values is not None and sum(values) != count):
        raise RuntimeError(f"ctc_loss: targets {labels.type} are not {batch} joined targets of lengths {values}")
    longest = count if values is None else max(values, default=0)
    if not longest:
        return create.zeros((batch, 0), int64)
    before = ew.lt(create.arange(batch), movement.unsqueeze(create.arange(batch), 1))  # (n, m): m < n
    starts = reduce.sum(ew.where(before, sizes, 0), 1)
    at = ew.add(movement.unsqueeze(starts, 1), create.arange(longest))
    return indexing.gather(labels, ew.minimum(at, count - 1))


def _chain(rows: Node, sizes: Node, blank: int, classes: int) -> tuple[Node, Node]:
    """(N, 2 S + 1) the label of each state, and whether it may be entered from two states before."""
    batch, longest = rows.shape
    exists = ew.lt(create.arange(longest), movement.unsqueeze(sizes, 1))
    labels = ew.check_index(ew.where(exists, ew.cast(rows, int64), blank), classes)
    blanks = create.full((batch, longest), blank)
    pairs = movement.reshape(movement.stack([blanks, labels], 2), (batch, 2 * longest))
    states = movement.concat([pairs, create.full((batch, 1), blank)], 1)
    if not longest:
        return states, create.full(states.shape, False)
    earlier = movement.concat([create.full((batch, 2), blank), movement.narrow(states, 1, 0, 2 * longest - 1)], 1)
    return states, ew.logical_and(ew.ne(states, blank), ew.ne(states, earlier))


def _forward(logp: Node, states: Node, may_skip: Node, durations: Node) -> Node:
    """(N, states): the log-probability of all ways into each state, after each sample's last frame."""
    frames, batch, _ = logp.shape
    count = states.shape[1]
    numbers = create.arange(count)
    outset = ew.where(ew.eq(numbers, 0), create.zeros((batch, count), logp.dtype), -math.inf)  # of no frames
    if not frames:
        return outset
    shape = (frames, batch, count)
    emitted = indexing.take_along(logp, movement.broadcast_to(states, shape), 2)
    running = ew.lt(movement.unsqueeze(create.arange(frames), 1), durations)  # (T, N)
    running = movement.broadcast_to(movement.unsqueeze(running, 2), shape)
    first, runs = (movement.squeeze(movement.narrow(x, 0, 0, 1), 0) for x in (emitted, running))
    ways = ew.where(runs, ew.where(ew.lt(numbers, 2), first, -math.inf), outset)
    if frames == 1:
        return ways
    emitted, running = (movement.narrow(x, 0, 1, frames - 1) for x in (emitted, running))
    body = _body(ways, emitted, running, may_skip)
    return control.scan(body, [ways], [emitted, running], [may_skip], frames - 1).final(0)


def _body(carry: Node, emitted: Node, running: Node, may_skip: Node) -> Graph:
    with control.symbolic(grad=False):
        types = [carry.type, *(TensorType(x.dtype, x.shape[1:]) for x in (emitted, running)), may_skip.type]
        args = tuple(input(f"v{i}", t.dtype, t.shape) for i, t in enumerate(types))
        ways, frame, runs, skip = args
        one = _later(ways, 1)
        two = ew.where(skip, _later(ways, 2), -math.inf)
        moved = ew.add(_log_of_sum(ways, one, two), frame)
        return Graph("ctc_step", args, (), (ew.where(runs, moved, ways),))


def _later(x: Node, by: int) -> Node:
    """Each state takes the value of the state `by` before it; -inf enters."""
    entering = create.full((x.shape[0], min(by, x.shape[1])), -math.inf, x.dtype)
    return movement.concat([entering, movement.narrow(x, 1, 0, max(x.shape[1] - by, 0))], 1)


def _log_of_sum(*parts: Node) -> Node:
    """log Σ exp, -inf of nothing but -inf, with gradients that stay finite."""
    top = parts[0]
    for part in parts[1:]:
        top = ew.maximum(top, part)
    top = ew.detach(top)
    nothing = ew.eq(top, -math.inf)
    level = ew.where(nothing, 0.0, top)
    total: Node | None = None
    for part in parts:
        raised = ew.exp(ew.sub(part, level))
        total = raised if total is None else ew.add(total, raised)
    assert total is not None
    return ew.where(nothing, -math.inf, ew.add(ew.log(ew.where(nothing, 1.0, total)), level))


def _at_end(total: Node, sizes: Node) -> Node:
    """All ways that end in the last label or in the blank after it."""
    last = movement.unsqueeze(ew.mul(sizes, 2), 1)
    numbers = create.arange(total.shape[1])
    ends = ew.logical_or(ew.eq(numbers, last), ew.eq(numbers, ew.sub(last, 1)))
    chosen = ew.where(ends, total, -math.inf)
    top = ew.detach(reduce.max(chosen, 1, keepdim=True))
    nothing = ew.eq(top, -math.inf)
    level = ew.where(nothing, 0.0, top)
    summed = reduce.sum(ew.exp(ew.sub(chosen, level)), 1, keepdim=True)
    result = ew.where(nothing, -math.inf, ew.add(ew.log(ew.where(nothing, 1.0, summed)), level))
    return movement.squeeze(result, 1)
