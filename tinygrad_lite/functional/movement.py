"""Shapes: views where PyTorch gives views. What joins or copies is in joining.py, padding.py and diagonals.py."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinygrad_lite.described import Size
from tinygrad_lite.functional.common import fresh, node_of, sizes, wrap
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.record import record
from tinygrad_lite.ir.strides import reshaped_strides
from tinygrad_lite.ops import create, movement, reduce
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops.elementwise import CAST
from tinygrad_lite.ops.movement import EXPAND, PERMUTE, RESHAPE, SLICE, normalize_axes, normalize_axis
from tinygrad_lite.ops.window import WINDOW

__all__ = [
    "adjoint",
    "broadcast_shapes",
    "broadcast_tensors",
    "broadcast_to",
    "clone",
    "contiguous",
    "expand",
    "expand_as",
    "flatten",
    "moveaxis",
    "movedim",
    "narrow",
    "narrow_copy",
    "numel",
    "permute",
    "ravel",
    "reshape",
    "reshape_as",
    "select",
    "squeeze",
    "swapaxes",
    "swapdims",
    "t",
    "transpose",
    "unflatten",
    "unsqueeze",
    "view",
    "view_as",
]

# ---- views --------------------------------------------------------------------------------------------------


def _sizes(args: tuple[Any, ...], named: Any, name: str) -> tuple[int, ...]:
    """Sizes or dims given one by one, as a sequence, or by name; TypeError unless it is one of these."""
    if (named is not None) == bool(args):
        raise TypeError(f"expected {name}, one by one, as one sequence or by name, got {args or named}")
    return sizes(args if named is None else (named,), name)


def _inferred(input: Tensor, shape: tuple[int, ...]) -> tuple[int, ...]:
    """`shape` with -1 filled in, checked against the number of elements."""
    node_of(input, "input")
    size = input.numel()
    if -1 in shape:
        rest = -math.prod(shape)
        if shape.count(-1) > 1:
            raise RuntimeError("only one dimension can be inferred")
        if rest == 0:
            raise RuntimeError(f"cannot reshape tensor of 0 elements into shape {list(shape)}: -1 could be any value")
        shape = tuple(size // rest if s == -1 else s for s in shape) if rest > 0 else shape
    if math.prod(shape) != size or any(s < 0 for s in shape):
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {size}")
    return shape


def _viewable(input: Tensor, shape: tuple[int, ...]) -> bool:
    if input._base is None:
        return True
    return reshaped_strides(input._node.type.shape, input.stride(), shape) is not None


def view(input: Tensor, *args: Any, size: Any = None) -> Tensor:
    """The same memory under another shape, one entry of which may be -1.

    Raises:
        RuntimeError: the layout (after transpose, expand, …) does not allow it; use reshape.
    """
    shape = _inferred(input, _sizes(args, size, "size"))
    if not _viewable(input, shape):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return input._as_view(RESHAPE, shape=shape)


def reshape(input: Tensor, *args: Any, shape: Any = None) -> Tensor:
    """The same elements in row-major order under another shape: a view where the layout allows it, else a copy."""
    new = _inferred(input, _sizes(args, shape, "shape"))
    if _viewable(input, new):
        return input._as_view(RESHAPE, shape=new)
    return wrap(movement.reshape(input._read(), new))


def view_as(input: Tensor, other: Tensor) -> Tensor:
    """view(other.shape)."""
    return view(input, other.shape)


def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """reshape(other.shape)."""
    return reshape(input, other.shape)


def permute(input: Tensor, *args: Any, dims: Any = None) -> Tensor:
    """Axis k of the result is axis dims[k]."""
    axes = tuple(normalize_axis(a, input.ndim) for a in _sizes(args, dims, "dims"))
    return input._as_view(PERMUTE, axes=axes)


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two axes exchanged."""
    a, b = normalize_axis(dim0, input.ndim), normalize_axis(dim1, input.ndim)
    axes = list(range(input.ndim))
    if axes:
        axes[a], axes[b] = b, a
    return input._as_view(PERMUTE, axes=tuple(axes))


swapaxes = swapdims = transpose


def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; vectors stay as they are."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return transpose(input, 0, -1) if input.ndim else input._as_view(PERMUTE, axes=())


def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Axes moved to other positions, the rest in order."""
    froms = [normalize_axis(a, input.ndim) for a in ([source] if isinstance(source, int) else source)]
    tos = [normalize_axis(a, input.ndim) for a in ([destination] if isinstance(destination, int) else destination)]
    if len(froms) != len(tos) or len(set(froms)) != len(froms) or len(set(tos)) != len(tos):
        raise RuntimeError(f"movedim: source {source} and destination {destination} must be as many distinct dims")
    rest = iter(a for a in range(input.ndim) if a not in froms)
    place = dict(zip(tos, froms, strict=True))
    return permute(input, [place[a] if a in place else next(rest) for a in range(input.ndim)])


moveaxis = movedim


def expand(input: Tensor, *args: Any, size: Any = None, implicit: bool = False) -> Tensor:
    """Axes of size 1 stretched without a copy; -1 keeps a size, extra leading entries add axes."""
    shape = _sizes(args, size, "size")
    extra = len(shape) - input.ndim
    if extra < 0 or -1 in shape[:extra]:
        raise RuntimeError(f"expand({list(shape)}) does not fit a tensor of shape {list(input.shape)}")
    old = (1,) * extra + tuple(input.shape)
    shape = tuple(o if s == -1 else s for s, o in zip(shape, old, strict=True))
    ranked = input._as_view(RESHAPE, shape=old) if extra else input
    return ranked._as_view(EXPAND, shape=shape)


def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """expand(other.shape)."""
    return expand(input, other.shape)


def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """expand(size)."""
    return expand(input, size)


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """All expanded to their common shape."""
    shape = ew.broadcast_shapes("broadcast_tensors", [tuple(x.shape) for x in tensors])
    return tuple(expand(x, shape) for x in tensors)


def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Axes of size 1 dropped: all, or those named."""
    drop = normalize_axes(tuple(dim) if isinstance(dim, Sequence) else dim, input.ndim)
    return view_shape(input, [s for a, s in enumerate(input.shape) if not (s == 1 and a in drop)])


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A new axis of size 1 at `dim` of the result."""
    axis = normalize_axis(dim, input.ndim + 1)
    return view_shape(input, [*input.shape[:axis], 1, *input.shape[axis:]])


def view_shape(input: Tensor, shape: Sequence[int]) -> Tensor:
    """A view under a shape that differs by axes of size 1 only."""
    return input._as_view(RESHAPE, shape=tuple(shape))


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Axes start_dim … end_dim merged into one."""
    if not input.ndim:
        return reshape(input, 1)
    start, end = normalize_axis(start_dim, input.ndim), normalize_axis(end_dim, input.ndim)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if start == end:
        return input
    return reshape(input, (*input.shape[:start], math.prod(input.shape[start : end + 1]), *input.shape[end + 1 :]))


def ravel(input: Tensor) -> Tensor:
    """reshape(-1)."""
    return reshape(input, (input.numel(),))


def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Axis `dim` split into `sizes`, one of which may be -1."""
    axis, parts = normalize_axis(dim, input.ndim), tuple(sizes)
    if -1 in parts:
        rest = -math.prod(parts)
        parts = tuple(input.shape[axis] // rest if s == -1 and rest > 0 else s for s in parts)
    if math.prod(parts) != input.shape[axis]:
        raise RuntimeError(
            f"unflatten: sizes {list(sizes)} don't multiply up to {input.shape[axis]}, the size of dim {dim}"
        )
    return reshape(input, (*input.shape[:axis], *parts, *input.shape[axis + 1 :]))


def slice_view(input: Tensor, starts: Sequence[int], stops: Sequence[int], steps: Sequence[int]) -> Tensor:
    """input[starts:stops:steps], one entry an axis, in range."""
    return input._as_view(SLICE, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps))


def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """`length` elements of an axis from `start` on."""
    if not input.ndim:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if isinstance(start, Tensor) and (start.ndim or start.dtype.kind not in "iu"):
        raise RuntimeError(f"narrow(): start must be an integer or a 0-d tensor of one, got {start._current().type}")
    axis = normalize_axis(dim, input.ndim)
    size = input.shape[axis]
    if not -size <= start <= size:
        raise IndexError(f"narrow(): start is out of range (expected to be in range of [{-size}, {size}], got {start})")
    first = int(start) + size if start < 0 else int(start)
    if not 0 <= first <= first + length <= size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    starts, stops = [0] * input.ndim, list(input.shape)
    starts[axis], stops[axis] = first, first + int(length)
    return slice_view(input, starts, stops, [1] * input.ndim)


def select(input: Tensor, dim: int, index: int) -> Tensor:
    """One position along an axis, which is dropped."""
    axis = normalize_axis(dim, input.ndim)
    size = input.shape[axis] if input.ndim else 0
    if not -size <= index < size:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(input.shape)} at dimension {dim}"
        )
    part = narrow(input, axis, index % size, 1)
    return view_shape(part, [s for a, s in enumerate(input.shape) if a != axis])


def windows(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """Tensor.unfold: slices of `size` elements of a dim, `step` apart, as a view whose last axis runs through a slice.

    Raises:
        RuntimeError: a size that is negative or exceeds the dim; a step of 0 or less.
    """
    if not input.ndim:
        return windows(reshape(input, 1), dimension, size, step)
    axis = normalize_axis(dimension, input.ndim)
    if not 0 <= size <= input.shape[axis]:
        raise RuntimeError(
            f"unfold: size {size} must lie between 0 and {input.shape[axis]}, the size of dimension {dimension}"
        )
    if step <= 0:
        raise RuntimeError(f"unfold: step is {step} but must be > 0")
    if size == 0:
        count = input.shape[axis] // step + 1
        return wrap(create.zeros((*input.shape[:axis], count, *input.shape[axis + 1 :], 0), input.dtype))
    return input._as_view(WINDOW, axes=(axis,), sizes=(size,), steps=(step,), dilations=(1,))


def contiguous(input: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor itself where its layout is row-major without gaps, else a copy. `memory_format` changes nothing."""
    return input if input.is_contiguous() else input.clone()


def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy that gradients flow through. `memory_format` changes nothing."""
    return wrap(record(CAST, node_of(input, "input"), dtype=input.dtype))


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that shapes (or sizes) broadcast to."""
    given = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    return Size(ew.broadcast_shapes("broadcast_shapes", given) if given else ())


def sum_to_size(input: Tensor, *args: Any) -> Tensor:
    """The sums over the dims along which `size` broadcasts to this shape. RuntimeError where it does not."""
    shape = sizes(args)
    node = node_of(input, "input")
    extra = node.type.ndim - len(shape)
    if extra < 0 or any(n not in (1, old) for n, old in zip(shape, node.shape[extra:], strict=True)):
        raise RuntimeError(f"size {list(shape)} is not expandable to size {list(node.shape)}.")
    axes = [a for a, old in enumerate(node.shape) if a < extra or shape[a - extra] != old]
    total = reduce.sum(node, axes, keepdim=True) if axes or not shape else node
    return fresh(movement.reshape(total, shape), node)


def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A copy of `narrow`."""
    return clone(narrow(input, dim, start, length))


def adjoint(input: Tensor) -> Tensor:
    """The last two axes exchanged. RuntimeError for fewer than two."""
    if input.ndim < 2:
        raise RuntimeError(f"tensor.adjoint() is only supported on matrices or batches of matrices. Got {input.ndim}-D")
    return transpose(input, -2, -1)


def numel(input: Tensor) -> int:
    """The number of elements."""
    return input.numel()
