"""Views as data: the movement steps from a base to a view, replayed forwards, pushed backwards, and measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Op
from tinygrad_lite.ir.record import record
from tinygrad_lite.ir.strides import Ints, contiguous_strides, view_strides
from tinygrad_lite.ir.types import TensorType, float32
from tinygrad_lite.ops import create, movement
from tinygrad_lite.ops.elementwise import DETACH, add, detach
from tinygrad_lite.ops.indexing import put, slice_update
from tinygrad_lite.ops.window import WINDOW


class Step(NamedTuple):
    """One movement op on the way from a base to its view."""

    op: Op
    attrs: Mapping[str, Any]


Steps = tuple[Step, ...]


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


def strides_of(shape: Ints, steps: Steps) -> Ints:
    """Strides of the view that `steps` make of a contiguous base of `shape`."""
    strides = contiguous_strides(shape)
    for op, attrs in steps:
        result = op.infer(TensorType(float32, shape), **attrs).shape
        strides = view_strides(op.name, attrs, shape, strides, result) or contiguous_strides(result)
        shape = result
    return strides
