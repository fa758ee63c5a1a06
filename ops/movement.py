"""Movement ops: the same elements elsewhere. NumPy's rules give views where they can; `flip`, `pad`, `concat` copy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind, Op, only_bytes, register
from tinygrad_lite.ir.record import record
from tinygrad_lite.ir.types import TensorType

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]

# ---- inference ------------------------------------------------------------------------------------


def _infer_reshape(x: TensorType, *, shape: Ints) -> TensorType:
    if math.prod(shape) != x.size or any(s < 0 for s in shape):
        raise RuntimeError(f"reshape: shape '{list(shape)}' is invalid for input of size {x.size}")
    return TensorType(x.dtype, shape)


def _infer_permute(x: TensorType, *, axes: Ints) -> TensorType:
    if sorted(axes) != list(range(x.ndim)):
        raise RuntimeError(f"permute: {axes} is not an order of the {x.ndim} axes of {x}")
    return TensorType(x.dtype, tuple(x.shape[a] for a in axes))


def _infer_expand(x: TensorType, *, shape: Ints) -> TensorType:
    if len(shape) != x.ndim or any(s < 0 or (s != old and old != 1) for s, old in zip(shape, x.shape, strict=False)):
        raise RuntimeError(f"expand: {x} cannot be expanded to shape {list(shape)}; only axes of size 1 stretch")
    return TensorType(x.dtype, shape)


def _infer_slice(x: TensorType, *, starts: Ints, stops: Ints, steps: Ints) -> TensorType:
    if not len(starts) == len(stops) == len(steps) == x.ndim:
        raise ValueError(f"slice: starts, stops and steps need {x.ndim} entries for {x}")
    for axis, (start, stop, step, size) in enumerate(zip(starts, stops, steps, x.shape, strict=True)):
        if not 0 <= start <= stop <= size or step < 1:
            raise IndexError(f"slice: {start}:{stop}:{step} does not lie in axis {axis} of {x}")
    return TensorType(x.dtype, sliced_shape(starts, stops, steps))


def _infer_pad(x: TensorType, *, low: Ints, high: Ints) -> TensorType:
    if not len(low) == len(high) == x.ndim or any(p < 0 for p in low + high):
        raise ValueError(f"pad: needs {x.ndim} non-negative amounts on each side of {x}, got {low} and {high}")
    return TensorType(x.dtype, tuple(a + s + b for a, s, b in zip(low, x.shape, high, strict=True)))


def _infer_concat(*types: TensorType, axis: int) -> TensorType:
    if not types:
        raise ValueError("concat: expected a non-empty list of tensors")
    first = types[0]
    check_axis("concat", axis, first)
    for t in types[1:]:
        if t.dtype is not first.dtype or _without(t.shape, axis) != _without(first.shape, axis) or t.ndim != first.ndim:
            shown = ", ".join(map(str, types))
            raise RuntimeError(f"concat: sizes must match except along axis {axis}, and dtypes altogether, got {shown}")
    total = sum(t.shape[axis] for t in types)
    return TensorType(first.dtype, (*first.shape[:axis], total, *first.shape[axis + 1 :]))


def _infer_flip(x: TensorType, *, axes: Ints) -> TensorType:
    for axis in axes:
        check_axis("flip", axis, x)
    return x


def _without(shape: Ints, axis: int) -> Ints:
    return shape[:axis] + shape[axis + 1 :]


def check_axis(name: str, axis: int, x: TensorType) -> None:
    """Ops take axes counted from the front; IndexError for others."""
    if not 0 <= axis < x.ndim:
        raise IndexError(f"{name}: axis {axis} is out of range for {x}")


def sliced_shape(starts: Ints, stops: Ints, steps: Ints) -> Ints:
    """The shape that starts:stops:steps selects."""
    return tuple(len(range(a, b, s)) for a, b, s in zip(starts, stops, steps, strict=True))


# ---- NumPy rules ------------------------------------------------------------------------------------


def as_slices(starts: Ints, stops: Ints, steps: Ints) -> tuple[slice, ...]:
    """NumPy's index for the attributes of `slice` and `slice_update`."""
    return tuple(map(slice, starts, stops, steps))


def _pad(x: Array, *, low: Ints, high: Ints) -> Array:
    out = np.zeros([a + s + b for a, s, b in zip(low, x.shape, high, strict=True)], x.dtype)
    out[tuple(slice(a, a + s) for a, s in zip(low, x.shape, strict=True))] = x
    return out


# ---- VJPs -------------------------------------------------------------------------------------------


def _vjp_expand(g: Node, node: Node, i: int) -> Node:
    from tinygrad_lite.ops import reduce  # reduce is written in terms of movement

    old = node.inputs[0].shape
    return reduce.sum(g, tuple(a for a, s in enumerate(old) if s != node.shape[a]), keepdim=True)


def _vjp_slice(g: Node, node: Node, i: int) -> Node:
    """Zeros around, and between where a step left elements out."""
    starts, steps, shape = node.attrs["starts"], node.attrs["steps"], node.inputs[0].shape
    room = tuple(size - start for size, start in zip(shape, starts, strict=True))
    for axis, step in enumerate(steps):
        if step > 1:
            g = _dilate(g, axis, step, room[axis])
    return pad(g, starts, tuple(r - n for r, n in zip(room, g.shape, strict=True)))


def _dilate(g: Node, axis: int, step: int, room: int) -> Node:
    """step - 1 zeros after every element along `axis`, cut to at most `room` elements."""
    high = tuple(step - 1 if a == axis + 1 else 0 for a in range(g.type.ndim + 1))
    apart = pad(unsqueeze(g, axis + 1), (0,) * len(high), high)
    flat = reshape(apart, (*g.shape[:axis], g.shape[axis] * step, *g.shape[axis + 1 :]))
    return narrow(flat, axis, 0, min(room, flat.shape[axis]))


def _vjp_pad(g: Node, node: Node, i: int) -> Node:
    low, shape = node.attrs["low"], node.inputs[0].shape
    return slice_(g, low, tuple(a + s for a, s in zip(low, shape, strict=True)))


def _vjp_concat(g: Node, node: Node, i: int) -> Node:
    axis = node.attrs["axis"]
    start = sum(x.shape[axis] for x in node.inputs[:i])
    return narrow(g, axis, start, node.inputs[i].shape[axis])


def _inverse(axes: Ints) -> Ints:
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


def _op(name: str, infer: Any, rule: Any, vjp: Any) -> Op:
    return register(Op(name, Kind.MOVEMENT, infer, rule, vjp, None, only_bytes))


RESHAPE = _op(
    "reshape",
    _infer_reshape,
    lambda x, *, shape: x.reshape(shape),
    lambda g, n, i: reshape(g, n.inputs[0].shape),
)
PERMUTE = _op(
    "permute",
    _infer_permute,
    lambda x, *, axes: x.transpose(axes),
    lambda g, n, i: permute(g, _inverse(n.attrs["axes"])),
)
EXPAND = _op("expand", _infer_expand, lambda x, *, shape: np.broadcast_to(x, shape), _vjp_expand)
SLICE = _op("slice", _infer_slice, lambda x, **attrs: x[as_slices(**attrs)], _vjp_slice)
PAD = _op("pad", _infer_pad, _pad, _vjp_pad)
CONCAT = _op("concat", _infer_concat, lambda *xs, axis: np.concatenate(xs, axis), _vjp_concat)
FLIP = _op(
    "flip",
    _infer_flip,
    lambda x, *, axes: np.flip(x, axes).copy(),
    lambda g, n, i: flip(g, n.attrs["axes"]),
)


# ---- builders: they return x itself when nothing changes --------------------------------------------


def normalize_axis(axis: int, ndim: int) -> int:
    """`axis` counted from the front; IndexError outside [-ndim, ndim). A scalar counts as having one axis."""
    span = max(ndim, 1)
    if not -span <= axis < span:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-span}, {span - 1}], but got {axis})")
    return int(axis) % span


def normalize_axes(axes: int | Sequence[int] | None, ndim: int) -> Ints:
    """Sorted axes counted from the front; None is all of them. RuntimeError where one is named twice."""
    if axes is None:
        return tuple(range(ndim))
    found = sorted(normalize_axis(a, ndim) for a in ([axes] if isinstance(axes, int) else axes))
    if len(set(found)) != len(found):
        raise RuntimeError(f"an axis appears twice in {axes}")
    return tuple(found) if ndim else ()


def reshape(x: Node, shape: Sequence[int]) -> Node:
    """The same elements in row-major order under another shape; one entry may be -1."""
    shape = tuple(map(int, shape))
    if -1 in shape:
        shape = _fill_minus_one(x.type, shape)
    return x if shape == x.shape else record(RESHAPE, x, shape=shape)


def _fill_minus_one(x: TensorType, shape: Ints) -> Ints:
    rest = -math.prod(shape)
    if shape.count(-1) > 1:
        raise RuntimeError("reshape: only one dimension can be inferred")
    if rest == 0:
        raise RuntimeError(f"reshape: cannot infer -1 in {list(shape)}: with a size of 0 any value would fit")
    if x.size % rest or rest < 0:
        raise RuntimeError(f"reshape: shape '{list(shape)}' is invalid for input of size {x.size}")
    return tuple(x.size // rest if s == -1 else s for s in shape)


def permute(x: Node, axes: Sequence[int]) -> Node:
    """Axis k of the result is axis axes[k] of x."""
    axes = tuple(normalize_axis(a, x.type.ndim) for a in axes)
    return x if axes == tuple(range(x.type.ndim)) else record(PERMUTE, x, axes=axes)


def transpose(x: Node, a: int, b: int) -> Node:
    """x with two axes exchanged."""
    a, b = normalize_axis(a, x.type.ndim), normalize_axis(b, x.type.ndim)
    axes = list(range(x.type.ndim))
    if axes:
        axes[a], axes[b] = axes[b], axes[a]
    return permute(x, axes)


def move_axis(x: Node, source: int, target: int) -> Node:
    """x with axis `source` at position `target`, the others in order."""
    source, target = normalize_axis(source, x.type.ndim), normalize_axis(target, x.type.ndim)
    axes = [a for a in range(x.type.ndim) if a != source]
    axes.insert(target, source)
    return permute(x, axes)


def expand(x: Node, shape: Sequence[int]) -> Node:
    """Stretch axes of size 1; -1 keeps a size, extra leading entries add axes."""
    extra = len(shape) - x.type.ndim
    if extra < 0:
        raise RuntimeError(f"expand: {list(shape)} has fewer axes than {x.type}")
    old = (1,) * extra + x.shape
    if -1 in shape[:extra]:
        raise RuntimeError(f"expand: -1 is not allowed for a new leading axis in {list(shape)}")
    shape = tuple(o if s == -1 else int(s) for s, o in zip(shape, old, strict=True))
    return x if shape == x.shape else _stretch(reshape(x, old), shape)


def broadcast_to(x: Node, shape: Ints) -> Node:
    """x under NumPy's broadcasting to `shape`; x itself when it has it."""
    return x if shape == x.shape else _stretch(reshape(x, (1,) * (len(shape) - x.type.ndim) + x.shape), shape)


def _stretch(x: Node, shape: Ints) -> Node:
    return x if shape == x.shape else record(EXPAND, x, shape=shape)


def squeeze(x: Node, axes: int | Sequence[int] | None = None) -> Node:
    """Drop the axes of size 1, of all or of those named."""
    drop = normalize_axes(axes, x.type.ndim)
    return reshape(x, [s for a, s in enumerate(x.shape) if not (s == 1 and a in drop)])


def unsqueeze(x: Node, axis: int) -> Node:
    """A new axis of size 1 at `axis` of the result."""
    axis = normalize_axis(axis, x.type.ndim + 1)
    return reshape(x, (*x.shape[:axis], 1, *x.shape[axis:]))


def flatten(x: Node, start: int = 0, end: int = -1) -> Node:
    """Axes start … end (inclusive) merged into one; a scalar becomes a vector of one."""
    if not x.type.ndim:
        return reshape(x, (1,))
    start, end = normalize_axis(start, x.type.ndim), normalize_axis(end, x.type.ndim)
    if start > end:
        raise RuntimeError(f"flatten: start {start} comes after end {end}")
    return reshape(x, (*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))


def slice_(x: Node, starts: Sequence[int], stops: Sequence[int], steps: Sequence[int] | None = None) -> Node:
    """x[starts:stops:steps], one entry an axis; 0 <= start <= stop <= size and step >= 1."""
    starts, stops = tuple(map(int, starts)), tuple(map(int, stops))
    steps = (1,) * len(starts) if steps is None else tuple(map(int, steps))
    whole = not any(starts) and stops == x.shape and all(s == 1 for s in steps)
    return x if whole else record(SLICE, x, starts=starts, stops=stops, steps=steps)


def slice_axis(x: Node, axis: int, start: int, stop: int, step: int = 1) -> Node:
    """x[start:stop:step] along one axis; a negative step counts down from `start` to before `stop`, as in Python."""
    axis = normalize_axis(axis, x.type.ndim)
    start, stop, step = slice(start, stop, step).indices(x.shape[axis])
    picked = range(start, stop, step)
    if not picked:
        return narrow(x, axis, 0, 0)
    if step < 0:
        return flip(slice_axis(x, axis, picked[-1], picked[0] + 1, -step), (axis,))
    starts, stops, steps = [0] * x.type.ndim, list(x.shape), [1] * x.type.ndim
    starts[axis], stops[axis], steps[axis] = start, stop, step
    return slice_(x, starts, stops, steps)


def narrow(x: Node, axis: int, start: int, length: int) -> Node:
    """`length` elements of an axis from `start` on."""
    axis = normalize_axis(axis, x.type.ndim)
    starts, stops = [0] * x.type.ndim, list(x.shape)
    start = start + x.shape[axis] if start < 0 else start
    if not 0 <= start <= start + length <= x.shape[axis]:
        raise RuntimeError(f"narrow: start ({start}) + length ({length}) exceeds axis {axis} of {x.type}")
    starts[axis], stops[axis] = start, start + length
    return slice_(x, starts, stops)


def pad(x: Node, low: Sequence[int], high: Sequence[int]) -> Node:
    """Zeros before and after, one non-negative amount an axis."""
    low, high = tuple(map(int, low)), tuple(map(int, high))
    return x if not any(low + high) else record(PAD, x, low=low, high=high)


def concat(xs: Sequence[Node], axis: int = 0) -> Node:
    """Join along an axis, promoting to one dtype. Vectors of size 0 fit any shape, as in PyTorch."""
    from tinygrad_lite.ops.elementwise import cast
    from tinygrad_lite.ops.promote import result_type

    if not xs:
        raise RuntimeError("concat: expected a non-empty list of tensors")
    dtype = result_type(xs)
    kept = [x for x in xs if x.shape != (0,)] or list(xs[:1])
    if any(x.type.ndim == 0 for x in kept):
        raise RuntimeError("concat: zero-dimensional tensors cannot be concatenated")
    return record(CONCAT, *[cast(x, dtype) for x in kept], axis=normalize_axis(axis, kept[0].type.ndim))


def stack(xs: Sequence[Node], axis: int = 0) -> Node:
    """Join equal shapes along a new axis."""
    if not xs:
        raise RuntimeError("stack: expected a non-empty list of tensors")
    if any(x.shape != xs[0].shape for x in xs):
        raise RuntimeError(f"stack: expects equal shapes, got {', '.join(str(x.type) for x in xs)}")
    axis = normalize_axis(axis, xs[0].type.ndim + 1)
    return concat([unsqueeze(x, axis) for x in xs], axis)


def flip(x: Node, axes: int | Sequence[int]) -> Node:
    """Reverse the order along `axes`."""
    axes = normalize_axes(axes, x.type.ndim)
    return record(FLIP, x, axes=axes) if axes else x
