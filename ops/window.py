"""Sliding windows, and their adjoint: what convolution, pooling, unfold and fold are made of.

`window` is a view: an axis becomes one of positions, and a new last axis holds the elements of the window there.
`unwindow` adds windows back to where they were taken from; the two are each other's gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Cost, Kind, Op, moved_bytes, only_bytes, register
from tinygrad_lite.ir.record import record
from tinygrad_lite.ir.types import TensorType
from tinygrad_lite.ops import create, movement

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]


def positions(length: int, size: int, step: int, dilation: int) -> int:
    """How many windows fit into `length` elements; 0 or less where none does."""
    return (length - dilation * (size - 1) - 1) // step + 1


def _infer_window(x: TensorType, *, axes: Ints, sizes: Ints, steps: Ints, dilations: Ints) -> TensorType:
    if not len(axes) == len(sizes) == len(steps) == len(dilations) or len(set(axes)) != len(axes):
        raise ValueError(f"window: axes {axes} must differ, with a size, a step and a dilation each")
    shape = list(x.shape)
    for axis, size, step, dilation in zip(axes, sizes, steps, dilations, strict=True):
        movement.check_axis("window", axis, x)
        if min(size, step, dilation) < 1:
            raise ValueError(f"window: sizes {sizes}, steps {steps} and dilations {dilations} must be positive")
        shape[axis] = positions(x.shape[axis], size, step, dilation)
        if shape[axis] < 1:
            raise RuntimeError(f"window: {size} elements {dilation} apart do not fit into axis {axis} of {x}")
    return TensorType(x.dtype, (*shape, *sizes))


def _window(x: Array, *, axes: Ints, sizes: Ints, steps: Ints, dilations: Ints) -> Array:
    shape, strides = list(x.shape), list(x.strides)
    for axis, size, step, dilation in zip(axes, sizes, steps, dilations, strict=True):
        shape[axis] = positions(x.shape[axis], size, step, dilation)
        strides[axis] *= step
        shape.append(size)
        strides.append(x.strides[axis] * dilation)
    return np.lib.stride_tricks.as_strided(x, shape, strides, writeable=False)


def _infer_unwindow(base: TensorType, source: TensorType, **attrs: Ints) -> TensorType:
    windows = _infer_window(base, **attrs)
    if source != windows:
        raise RuntimeError(f"unwindow: source {source} does not fit the windows {windows} of {base}")
    return base


def _unwindow(base: Array, source: Array, *, axes: Ints, sizes: Ints, steps: Ints, dilations: Ints) -> Array:
    """One slice of the base for each place within the window."""
    out = base.copy()
    for place in np.ndindex(*sizes):
        at = [slice(None)] * base.ndim
        for axis, k, step, dilation in zip(axes, place, steps, dilations, strict=True):
            start = k * dilation
            at[axis] = slice(start, start + (source.shape[axis] - 1) * step + 1, step)
        out[tuple(at)] += source[(..., *place)]
    return out


def _vjp_unwindow(g: Node, node: Node, i: int) -> Node:
    return record(WINDOW, g, **node.attrs) if i == 1 else g


def _adds(node: Node) -> Cost:
    return Cost(node.inputs[1].type.size, moved_bytes(node))


WINDOW: Op = register(
    Op(
        "window",
        Kind.MOVEMENT,
        _infer_window,
        _window,
        lambda g, n, i: record(UNWINDOW, create.zeros_like(n.inputs[0]), g, **n.attrs),
        None,
        only_bytes,
    )
)
UNWINDOW: Op = register(Op("unwindow", Kind.SCATTER, _infer_unwindow, _unwindow, _vjp_unwindow, None, _adds))


def window(
    x: Node,
    axes: Sequence[int],
    sizes: Sequence[int],
    steps: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
) -> Node:
    """Windows along `axes`: each becomes an axis of positions, `step` apart; the windows' own axes come last, in order.

    A window holds `size` elements, `dilation` apart. Windows side by side are a reshape, whose gradient is free.
    RuntimeError where no window fits.
    """
    axes = tuple(movement.normalize_axis(a, x.type.ndim) for a in axes)
    steps, dilations = tuple(steps or (1,) * len(axes)), tuple(dilations or (1,) * len(axes))
    attrs = {"axes": axes, "sizes": tuple(sizes), "steps": steps, "dilations": dilations}
    _infer_window(x.type, **attrs)
    return _blocks(x, attrs) if steps == tuple(sizes) and set(dilations) <= {1} else record(WINDOW, x, **attrs)


def _blocks(x: Node, attrs: dict[str, Ints]) -> Node:
    """Windows that touch and do not overlap."""
    axes, sizes = attrs["axes"], attrs["sizes"]
    shape, stops = list(x.shape), list(x.shape)
    for axis, size in zip(axes, sizes, strict=True):
        shape[axis] //= size
        stops[axis] = shape[axis] * size
    whole = movement.slice_(x, (0,) * x.type.ndim, stops)
    size_of = dict(zip(axes, sizes, strict=True))
    parts = [(s, size_of[a]) if a in size_of else (s,) for a, s in enumerate(shape)]
    split = movement.reshape(whole, [n for part in parts for n in part])
    at = list(_places(x.type.ndim, size_of))
    return movement.permute(split, [first for first, _ in at] + [at[a][1] for a in axes])


def _places(ndim: int, split: dict[int, int]) -> Iterator[tuple[int, int]]:
    """Where each axis stands once those of `split` have become two."""
    at = 0
    for axis in range(ndim):
        yield at, at + 1
        at += 2 if axis in split else 1


def unwindow(
    base: Node,
    source: Node,
    axes: Sequence[int],
    sizes: Sequence[int],
    steps: Sequence[int] | None = None,
    dilations: Sequence[int] | None = None,
) -> Node:
    """`base` plus every element of `source` where `window` of the same arguments takes it from."""
    axes = tuple(movement.normalize_axis(a, base.type.ndim) for a in axes)
    steps, dilations = tuple(steps or (1,) * len(axes)), tuple(dilations or (1,) * len(axes))
    return record(UNWINDOW, base, source, axes=axes, sizes=tuple(sizes), steps=steps, dilations=dilations)
