"""Shapes: views where PyTorch gives views, copies where it copies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tinygrad_lite import views
from tinygrad_lite.functional.common import Scalar, fresh, node_of, sizes, unwrap, wrap
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ops import create, movement
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops.movement import EXPAND, PERMUTE, RESHAPE, SLICE, normalize_axes, normalize_axis

__all__ = [
    "broadcast_tensors",
    "broadcast_to",
    "cat",
    "chunk",
    "clone",
    "concat",
    "concatenate",
    "contiguous",
    "diag",
    "diagonal",
    "expand",
    "expand_as",
    "flatten",
    "flip",
    "hstack",
    "meshgrid",
    "moveaxis",
    "movedim",
    "narrow",
    "numel",
    "pad",
    "permute",
    "ravel",
    "repeat",
    "repeat_interleave",
    "reshape",
    "reshape_as",
    "roll",
    "select",
    "split",
    "squeeze",
    "stack",
    "swapaxes",
    "swapdims",
    "t",
    "tile",
    "transpose",
    "tril",
    "triu",
    "unbind",
    "unflatten",
    "unsqueeze",
    "view",
    "view_as",
    "vstack",
]

# ---- views --------------------------------------------------------------------------------------------------


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
    return views.reshaped_strides(input._node.type.shape, input.stride(), shape) is not None


def view(input: Tensor, *size: Any) -> Tensor:
    """The same memory under another shape, one entry of which may be -1.

    Raises:
        RuntimeError: the layout (after transpose, expand, …) does not allow it; use reshape.
    """
    shape = _inferred(input, sizes(size))
    if not _viewable(input, shape):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
            "contiguous subspaces). Use .reshape(...) instead."
        )
    return input._as_view(RESHAPE, shape=shape)


def reshape(input: Tensor, *shape: Any) -> Tensor:
    """The same elements in row-major order under another shape: a view where the layout allows it, else a copy."""
    new = _inferred(input, sizes(shape, "shape"))
    if _viewable(input, new):
        return input._as_view(RESHAPE, shape=new)
    return wrap(movement.reshape(input._read(), new))


def view_as(input: Tensor, other: Tensor) -> Tensor:
    """view(other.shape)."""
    return view(input, other.shape)


def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """reshape(other.shape)."""
    return reshape(input, other.shape)


def permute(input: Tensor, *dims: Any) -> Tensor:
    """Axis k of the result is axis dims[k]."""
    axes = tuple(normalize_axis(a, input.ndim) for a in sizes(dims, "dims"))
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


def expand(input: Tensor, *size: Any) -> Tensor:
    """Axes of size 1 stretched without a copy; -1 keeps a size, extra leading entries add axes."""
    shape = sizes(size)
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
    axis = normalize_axis(dim, input.ndim)
    size = input.shape[axis]
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


def split(tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of the given size (the last may be smaller), or of the given sizes."""
    axis = normalize_axis(dim, tensor.ndim)
    size = tensor.shape[axis]
    if isinstance(split_size_or_sections, int):
        each = split_size_or_sections
        if each < 0 or (each == 0 and size):
            raise RuntimeError(f"split expects split_size be non-negative, but got split_size={each}")
        sections = [min(each, size - a) for a in range(0, size, each)] if size else [0]
    else:
        sections = list(split_size_or_sections)
        if sum(sections) != size or any(s < 0 for s in sections):
            raise RuntimeError(f"split_with_sizes expects split_sizes to sum exactly to {size}, but got {sections}")
    starts = [sum(sections[:i]) for i in range(len(sections))]
    return tuple(narrow(tensor, axis, a, n) for a, n in zip(starts, sections, strict=True))


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` views of equal size, the last smaller."""
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    size = input.shape[normalize_axis(dim, input.ndim)]
    return split(input, max(-(-size // chunks), 1), dim)


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """All positions along an axis."""
    return tuple(select(input, dim, i) for i in range(input.shape[normalize_axis(dim, input.ndim)]))


# ---- copies ---------------------------------------------------------------------------------------------------


def _nodes(tensors: Any, name: str) -> list[Node]:
    if isinstance(tensors, Tensor) or not isinstance(tensors, Sequence):
        raise TypeError(f"{name}: expected a tuple or list of Tensors, got {type(tensors).__name__}")
    return [node_of(x, f"{name}: each element") for x in tensors]


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors joined along an axis; promotes."""
    nodes = _nodes(tensors, "cat")
    if not nodes:
        raise ValueError("cat(): expected a non-empty list of Tensors")
    return wrap(movement.concat(nodes, dim))


concat = concatenate = cat


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape joined along a new axis."""
    return wrap(movement.stack(_nodes(tensors, "stack"), dim))


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along axis 1, vectors along axis 0."""
    rows = [x if x.ndim else reshape(x, 1) for x in tensors]
    return cat(rows, 0 if rows[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along axis 0, vectors as rows."""
    return cat([x if x.ndim > 1 else reshape(x, 1, -1) for x in tensors], 0)


def flip(input: Tensor, *dims: Any) -> Tensor:
    """The order along `dims` reversed: a copy."""
    node = node_of(input, "input")
    return fresh(movement.flip(node, sizes(dims, "dims")), node)


def roll(input: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """Elements moved along axes, those that fall off coming back at the other end."""
    if dims is None:
        return reshape(roll(reshape(input, -1), shifts, 0), input.shape)
    node = node_of(input, "input")
    amounts = [shifts] if isinstance(shifts, int) else shifts
    for shift, dim in zip(amounts, [dims] if isinstance(dims, int) else dims, strict=True):
        axis = normalize_axis(dim, node.type.ndim)
        size = node.shape[axis]
        cut = size - shift % size if size else 0
        parts = [movement.narrow(node, axis, cut, size - cut), movement.narrow(node, axis, 0, cut)]
        node = movement.concat(parts, axis)
    return fresh(node, input._node)


def repeat(input: Tensor, *repeats: Any) -> Tensor:
    """Copies side by side along each axis; extra leading entries add axes."""
    times = sizes(repeats, "repeats")
    extra = len(times) - input.ndim
    if extra < 0:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    shape = (1,) * extra + tuple(input.shape)
    node = movement.reshape(node_of(input, "input"), [n for s in shape for n in (1, s)])
    node = movement.expand(node, [n for k, s in zip(times, shape, strict=True) for n in (k, s)])
    return fresh(movement.reshape(node, [k * s for k, s in zip(times, shape, strict=True)]), input._node)


def tile(input: Tensor, *dims: Any) -> Tensor:
    """As `repeat`, missing leading entries being 1."""
    times = sizes(dims, "dims")
    return repeat(input, (1,) * (input.ndim - len(times)) + times)


def repeat_interleave(input: Tensor, repeats: int, dim: int | None = None) -> Tensor:
    """Each element `repeats` times in a row, along `dim` or flattened."""
    if not isinstance(repeats, int):
        raise TypeError("repeat_interleave: repeats must be an int")
    if dim is None:
        return repeat_interleave(reshape(input, -1), repeats, 0)
    axis = normalize_axis(dim, input.ndim)
    shape = tuple(input.shape)
    node = movement.unsqueeze(node_of(input, "input"), axis + 1)
    node = movement.expand(node, (*shape[: axis + 1], repeats, *shape[axis + 1 :]))
    return fresh(movement.reshape(node, (*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :])), input._node)


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: Scalar | None = None) -> Tensor:
    """Add (before, after) pairs of elements, the last axis first; negative amounts cut. Mode "constant" only.

    Raises:
        NotImplementedError: another mode.
    """
    if mode != "constant":
        raise NotImplementedError(f"pad: mode {mode!r} is not supported, 'constant' is")
    amounts = sizes((pad,), "pad")
    node = node_of(input, "input")
    if len(amounts) % 2 or len(amounts) // 2 > node.type.ndim:
        raise RuntimeError(f"pad: {list(amounts)} must be (before, after) pairs for at most {node.type.ndim} dims")
    before, after = [0] * node.type.ndim, [0] * node.type.ndim
    for i in range(len(amounts) // 2):
        before[-1 - i], after[-1 - i] = amounts[2 * i], amounts[2 * i + 1]
    return fresh(_padded(node, before, after, value or 0), node)


def _padded(x: Node, before: Sequence[int], after: Sequence[int], value: Scalar) -> Node:
    stops = [s + min(b, 0) for s, b in zip(x.shape, after, strict=True)]
    x = movement.slice_(x, [max(-a, 0) for a in before], stops)
    low, high = [max(a, 0) for a in before], [max(b, 0) for b in after]
    padded = movement.pad(x, low, high)
    if not value or padded is x:
        return padded
    inside = movement.pad(create.full(x.shape, True), low, high)
    return ew.where(inside, padded, ew.as_node(value, x.dtype))


def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of the last two axes, zeros elsewhere."""
    return _triangle(input, diagonal, ew.le)


def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of the last two axes, zeros elsewhere."""
    return _triangle(input, diagonal, ew.ge)


def _triangle(input: Tensor, diagonal: int, keep: Any) -> Tensor:
    node = node_of(input, "input")
    if node.type.ndim < 2:
        raise RuntimeError(f"tril and triu: input must have at least 2 dimensions, got {node.type}")
    rows = movement.unsqueeze(create.arange(node.shape[-2]), 1)
    kept = keep(create.arange(node.shape[-1]), ew.add(rows, diagonal))
    return wrap(ew.where(kept, node, ew.as_node(False if node.dtype.kind == "b" else 0, node.dtype)))


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two axes, as the last axis of a copy."""
    a, b = normalize_axis(dim1, input.ndim), normalize_axis(dim2, input.ndim)
    moved = permute(input, [x for x in range(input.ndim) if x not in (a, b)] + [a, b])
    rows, columns = moved.shape[-2:]
    size = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    first = max(-offset, 0) * columns + max(offset, 0)
    flat = reshape(moved, (*moved.shape[:-2], rows * columns))
    index = wrap(create.arange(first, first + size * (columns + 1), columns + 1) if size else create.arange(0))
    from tinygrad_lite.functional.indexing import index_select

    return index_select(flat, -1, index)


_diagonal = diagonal


def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A vector as the diagonal of a matrix, or the diagonal of a matrix."""
    if input.ndim == 2:
        return _diagonal(input, diagonal)
    if input.ndim != 1:
        raise RuntimeError("diag(): Supports 1D or 2D tensors")
    size = input.numel() + abs(diagonal)
    column = pad(input, (max(diagonal, 0), max(-diagonal, 0)))
    rows, columns = create.arange(size), create.arange(size)
    on = ew.eq(ew.sub(columns, movement.unsqueeze(rows, 1)), diagonal)
    zero = ew.as_node(False if input.dtype.kind == "b" else 0, input.dtype)
    return wrap(ew.where(on, column._read(), zero))


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinates of the grid that vectors span."""
    vectors = list(tensors[0]) if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else list(tensors)
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if indexing == "xy":
        vectors[:2] = vectors[1::-1]
    shape = [v.numel() for v in vectors]
    grids = [expand(reshape(v, [-1 if a == i else 1 for a in range(len(shape))]), shape) for i, v in enumerate(vectors)]
    if indexing == "xy" and len(grids) > 1:
        grids = [transpose(g, 0, 1) for g in grids]
        grids[:2] = grids[1::-1]
    return tuple(grids)


def contiguous(input: Tensor, memory_format: Any = None) -> Tensor:
    """The tensor itself where its layout is row-major without gaps, else a copy."""
    return input if input.is_contiguous() else input.clone()


def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy that gradients flow through."""
    return input.clone()


def numel(input: Tensor) -> int:
    """The number of elements."""
    return input.numel()


def full_like_value(input: Tensor, value: Any) -> Node:
    """`value` as a node of the tensor's dtype and shape."""
    node = unwrap(value)
    return movement.broadcast_to(ew.as_node(node, input.dtype), tuple(input.shape))
