"""Views as data: the movement steps from a base to a view, replayed forwards, pushed backwards, and measured."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Op
from tinygrad_lite.ir.record import record
from tinygrad_lite.ops import create, movement
from tinygrad_lite.ops.elementwise import DETACH, add, detach
from tinygrad_lite.ops.indexing import put, slice_update
from tinygrad_lite.ops.window import WINDOW


class Step(NamedTuple):
    """One movement op on the way from a base to its view."""

    op: Op
    attrs: Mapping[str, Any]


Steps = tuple[Step, ...]
Ints = tuple[int, ...]


def replay(base: Node, steps: Steps) -> Node:
    """The view's node, from the base's."""
    for step in steps:
        base = record(step.op, base, **step.attrs)
    return base


def push(base: Node, steps: Steps, value: Node) -> Node:
    """The base's new node once its view is overwritten with `value`.

    Raises:
        RuntimeError: the view repeats elements (expand), so that a write is ambiguous.
    """
    stages = [base]
    for step in steps[:-1]:
        stages.append(record(step.op, stages[-1], **step.attrs))
    for step, stage in zip(reversed(steps), reversed(stages), strict=True):
        value = _push_step(step, stage, value)
    return value


def _push_step(step: Step, source: Node, value: Node) -> Node:
    if step.op is movement.RESHAPE:
        return movement.reshape(value, source.shape)
    if step.op is movement.PERMUTE:
        axes = step.attrs["axes"]
        return movement.permute(value, sorted(range(len(axes)), key=axes.__getitem__))
    if step.op is movement.SLICE:
        return slice_update(source, value, **step.attrs)
    if step.op is movement.EXPAND and source.shape == value.shape:
        return value
    if step.op is DETACH:
        return detach(value)
    if step.op is WINDOW and step.attrs["steps"] >= step.attrs["sizes"]:
        return _push_window(source, value, **step.attrs)
    raise RuntimeError(
        "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
        "Please clone() the tensor before performing the operation."
    )


def _push_window(source: Node, value: Node, axes: Ints, sizes: Ints, steps: Ints, dilations: Ints) -> Node:
    """Windows of one axis that do not overlap: every element has one place."""
    (axis,), (size,), (step,) = axes, sizes, steps
    first = create.arange(0, value.shape[axis] * step, step)
    places = add(movement.unsqueeze(first, 1), create.arange(size))
    return put(source, places, movement.move_axis(value, value.type.ndim - 1, axis + 1), axis)


def is_detached(steps: Steps) -> bool:
    return any(step.op is DETACH for step in steps)


# ---- strides: what memory layout the steps stand for -----------------------------------------------------


def contiguous_strides(shape: Sequence[int]) -> Ints:
    """Row-major strides, in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def strides_of(shape: Ints, steps: Steps) -> Ints:
    """Strides of the view that `steps` make of a contiguous base of `shape`."""
    strides = contiguous_strides(shape)
    for step in steps:
        if step.op is WINDOW:
            (axis,), (size,), (apart,) = (step.attrs[name] for name in ("axes", "sizes", "steps"))
            count = (shape[axis] - size) // apart + 1
            strides = (*strides[:axis], strides[axis] * apart, *strides[axis + 1 :], strides[axis])
            shape = (*shape[:axis], count, *shape[axis + 1 :], size)
        elif step.op is movement.PERMUTE:
            strides = tuple(strides[a] for a in step.attrs["axes"])
            shape = tuple(shape[a] for a in step.attrs["axes"])
        elif step.op is movement.EXPAND:
            new = step.attrs["shape"]
            strides = tuple(0 if n != o else s for n, o, s in zip(new, shape, strides, strict=True))
            shape = new
        elif step.op is movement.SLICE:
            strides = tuple(s * k for s, k in zip(strides, step.attrs["steps"], strict=True))
            shape = movement.sliced_shape(**step.attrs)
        elif step.op is movement.RESHAPE:
            strides = reshaped_strides(shape, strides, step.attrs["shape"]) or contiguous_strides(step.attrs["shape"])
            shape = step.attrs["shape"]
    return strides


def is_contiguous(shape: Ints, strides: Ints) -> bool:
    """Row-major without gaps; axes of size 1 do not matter."""
    wanted = contiguous_strides(shape)
    return math.prod(shape) == 0 or all(n == 1 or s == w for n, s, w in zip(shape, strides, wanted, strict=True))


def reshaped_strides(shape: Ints, strides: Ints, new: Ints) -> Ints | None:
    """Strides under which the same memory has shape `new`; None where only a copy can have it."""
    if math.prod(shape) == 0:
        return contiguous_strides(new)
    blocks = _dense_blocks(shape, strides)
    result: list[int] = []
    size, step = blocks.pop() if blocks else (1, 1)
    left = size
    for wanted in reversed(new):
        if wanted == 1:
            result.append(step * (size // left) if left else step)
            continue
        if left == 1:
            if not blocks:
                return None
            size, step = blocks.pop()
            left = size
        if left % wanted:
            return None
        result.append(step * (size // left))
        left //= wanted
    return tuple(reversed(result))


def _dense_blocks(shape: Ints, strides: Ints) -> list[tuple[int, int]]:
    """(size, innermost stride) of the runs of axes that can be merged, outermost first."""
    blocks: list[tuple[int, int]] = []
    for n, s in zip(shape, strides, strict=True):
        if n == 1:
            continue
        if blocks and blocks[-1][1] == n * s:
            blocks[-1] = (blocks[-1][0] * n, s)
        else:
            blocks.append((n, s))
    return blocks
