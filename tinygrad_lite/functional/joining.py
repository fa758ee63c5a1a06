"""Tensors joined, cut into pieces, and repeated. Pieces are views; the rest are copies."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_lite.functional.common import fresh, node_of, wrap
from tinygrad_lite.functional.movement import _sizes, expand, flatten, narrow, reshape, select
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import leaf
from tinygrad_lite.ir.types import int64
from tinygrad_lite.ops import create, cumulate, indexing, movement, sorting
from tinygrad_lite.ops.elementwise import cast
from tinygrad_lite.ops.movement import normalize_axis

__all__ = [
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "cartesian_prod",
    "cat",
    "chunk",
    "column_stack",
    "combinations",
    "concat",
    "concatenate",
    "dsplit",
    "dstack",
    "flip",
    "fliplr",
    "flipud",
    "hsplit",
    "hstack",
    "meshgrid",
    "repeat",
    "repeat_interleave",
    "roll",
    "rot90",
    "row_stack",
    "split",
    "split_with_sizes",
    "stack",
    "tensor_split",
    "tile",
    "unbind",
    "unsafe_chunk",
    "unsafe_split",
    "vsplit",
    "vstack",
]

# ---- pieces: views ------------------------------------------------------------------------------------------


def split(
    tensor: Tensor,
    split_size_or_sections: int | Sequence[int] | None = None,
    dim: int = 0,
    *,
    split_size: int | Sequence[int] | None = None,
) -> tuple[Tensor, ...]:
    """Views of the given size (the last may be smaller), or of the given sizes; methods call it `split_size`."""
    split_size_or_sections = split_size if split_size_or_sections is None else split_size_or_sections
    if split_size_or_sections is None:
        raise TypeError("split(): needs split_size_or_sections")
    if not isinstance(split_size_or_sections, int):
        return split_with_sizes(tensor, split_size_or_sections, dim)
    each, size = split_size_or_sections, _size(tensor, dim, "split")
    if each < 0 or (each == 0 and size):
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={each}")
    return split_with_sizes(tensor, [min(each, size - a) for a in range(0, size, each)] if size else [0], dim)


def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of the given sizes, which add up to the dim's."""
    size, lengths = _size(input, dim, "split"), list(split_sizes)
    if sum(lengths) != size or any(n < 0 for n in lengths):
        raise RuntimeError(f"split_with_sizes expects split_sizes to sum exactly to {size}, but got {lengths}")
    return _cut(input, dim, [0, *itertools.accumulate(lengths)])


def _size(input: Tensor, dim: int, name: str) -> int:
    axis = normalize_axis(dim, input.ndim)
    if not input.ndim:
        raise RuntimeError(f"{name} expects at least a 1-dimensional tensor")
    return int(input.shape[axis])


def _cut(input: Tensor, dim: int, edges: Sequence[int]) -> tuple[Tensor, ...]:
    return tuple(narrow(input, dim, a, max(b - a, 0)) for a, b in itertools.pairwise(edges))


def unsafe_split(tensor: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`split`"""
    return split(tensor, split_size, dim)


def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`chunk`"""
    return chunk(input, chunks, dim)


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` views of equal size, the last smaller."""
    size = _size(input, dim, "chunk")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    if not size:
        return tuple(narrow(input, dim, 0, 0) for _ in range(chunks))
    return split(input, max(-(-size // chunks), 1), dim)


def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views between the given indices, or `sections` of them as equal as can be, the first ones larger.

    A tensor of indices or sections is read: CaptureError for one that a capture computed.
    """
    size, given = _size(input, dim, "tensor_split"), indices_or_sections
    if isinstance(given, Tensor):
        values = given._values("tensor_split()")
        given = int(values) if values.ndim == 0 else [int(i) for i in values]
    if isinstance(given, int):
        if given <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {given}")
        return _cut(input, dim, [i * (size // given) + min(i, size % given) for i in range(given + 1)])
    places = [slice(None, i).indices(size)[1] for i in given]
    return _cut(input, dim, [0, *places, size])


def _aligned_split(name: str, rank: int, axis: int, input: Tensor, given: int | Sequence[int]) -> tuple[Tensor, ...]:
    if input.ndim < rank:
        raise RuntimeError(f"{name} requires a tensor with at least {rank} dimension, but got {input.ndim} dimensions")
    if isinstance(given, int) and (given <= 0 or input.shape[axis] % given):
        raise RuntimeError(
            f"{name}: dimension {axis} of size {input.shape[axis]} is not divisible into {given} sections"
        )
    return tensor_split(input, given, axis)


def hsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """`tensor_split` by columns, of vectors by elements, into equal sections."""
    return _aligned_split("hsplit", 1, 0 if input.ndim == 1 else 1, input, indices_or_sections)


def vsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """`tensor_split` by rows, into equal sections."""
    return _aligned_split("vsplit", 2, 0, input, indices_or_sections)


def dsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """`tensor_split` along axis 2, into equal sections."""
    return _aligned_split("dsplit", 3, 2, input, indices_or_sections)


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """All positions along an axis."""
    if not input.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    return tuple(select(input, dim, i) for i in range(input.shape[normalize_axis(dim, input.ndim)]))


# ---- joins --------------------------------------------------------------------------------------------------


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


def _of_rank(tensors: Any, rank: Any, name: str) -> list[Tensor]:
    if not _nodes(tensors, name):
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return [rank(x) for x in tensors]


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along axis 1, vectors along axis 0."""
    rows = _of_rank(tensors, atleast_1d, "hstack")
    return cat(rows, 0 if rows[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along axis 0, vectors as rows."""
    return cat(_of_rank(tensors, atleast_2d, "vstack"), 0)


row_stack = vstack


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along axis 2, after `atleast_3d`."""
    return cat(_of_rank(tensors, atleast_3d, "dstack"), 2)


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Joined along axis 1, vectors as columns."""
    return hstack(_of_rank(tensors, lambda x: x if x.ndim > 1 else reshape(x, -1, 1), "column_stack"))


def _atleast(tensors: tuple[Any, ...], shape: Any, rank: int) -> Any:
    """Each tensor, under `shape(old shape)` where its rank is lower; one tensor alone comes back alone."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else tensors
    made = tuple(x if x.ndim >= rank else reshape(x, shape(tuple(x.shape))) for x in given)
    return made[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else made


def atleast_1d(*tensors: Any) -> Any:
    """Scalars as vectors of one; a tensor, or a tuple for several."""
    return _atleast(tensors, lambda s: (1,), 1)


def atleast_2d(*tensors: Any) -> Any:
    """Scalars and vectors as rows; a tensor, or a tuple for several."""
    return _atleast(tensors, lambda s: (1, *s) if s else (1, 1), 2)


def atleast_3d(*tensors: Any) -> Any:
    """Vectors as (1, n, 1), matrices as (m, n, 1); a tensor, or a tuple for several."""
    return _atleast(tensors, lambda s: (*s, 1) if len(s) == 2 else (1, *s, 1) if s else (1, 1, 1), 3)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinates of the grid that vectors span."""
    vectors = list(tensors[0]) if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else list(tensors)
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    if not vectors or any(v.ndim > 1 for v in vectors):
        shown = [tuple(v.shape) for v in vectors]
        raise RuntimeError(f"meshgrid: expects one or more scalars and 1D tensors, got shapes {shown}")
    if indexing == "xy":
        vectors[:2] = vectors[1::-1]
    shape = [v.numel() for v in vectors]
    grids = [expand(reshape(v, [-1 if a == i else 1 for a in range(len(shape))]), shape) for i, v in enumerate(vectors)]
    if indexing == "xy" and len(grids) > 1:
        grids[:2] = grids[1::-1]
    return tuple(grids)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All ways of taking one element of each vector, a row each; one vector alone stays as it is."""
    if any(x.ndim != 1 for x in tensors):
        raise RuntimeError(f"cartesian_prod: expects 1D vectors, got {[tuple(x.shape) for x in tensors]}")
    if len(tensors) == 1:
        return tensors[0]
    return stack([flatten(g) for g in meshgrid(*tensors)], 1)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of r elements of a vector, a row each."""
    node = node_of(input, "input")
    if node.type.ndim != 1 or r < 0:
        raise RuntimeError(f"combinations: expects a 1D vector and r >= 0, got {node.type} and r={r}")
    if r == 0:
        return wrap(create.zeros((0,), node.dtype))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(choose(range(node.shape[0]), r)), np.int64).reshape(-1, r)
    return wrap(indexing.gather(node, wrap(leaf(rows))._read(), 0))


# ---- copies -------------------------------------------------------------------------------------------------


def flip(input: Tensor, *args: Any, dims: Any = None) -> Tensor:
    """The order along `dims` reversed: a copy."""
    node = node_of(input, "input")
    return fresh(movement.flip(node, _sizes(args, dims, "dims")), node)


def fliplr(input: Tensor) -> Tensor:
    """Columns in reverse order: a copy."""
    if input.ndim < 2:
        raise RuntimeError(f"fliplr: input must be >= 2-d, got shape {list(input.shape)}")
    return flip(input, 1)


def flipud(input: Tensor) -> Tensor:
    """Rows in reverse order: a copy."""
    if input.ndim < 1:
        raise RuntimeError("flipud: input must be >= 1-d, got a scalar")
    return flip(input, 0)


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """k quarter turns in the plane of two dims, from the first towards the second: a copy."""
    if len(dims) != 2 or input.ndim < 2:
        raise RuntimeError(f"rot90: expects two dims of a tensor of 2 or more, got {list(dims)} of {list(input.shape)}")
    a, b = (normalize_axis(d, input.ndim) for d in dims)
    if a == b:
        raise RuntimeError(f"rot90: expects dims to be different, got {list(dims)}")
    node = node_of(input, "input")
    turned = {
        0: lambda: node,
        1: lambda: movement.flip(movement.transpose(node, a, b), a),
        2: lambda: movement.flip(node, (a, b)),
        3: lambda: movement.flip(movement.transpose(node, a, b), b),
    }[k % 4]()
    return fresh(turned, node)


def roll(input: Tensor, shifts: int | Sequence[int], dims: int | Sequence[int] | None = None) -> Tensor:
    """Elements moved along axes, those that fall off coming back at the other end."""
    amounts = [shifts] if isinstance(shifts, int) else list(shifts)
    axes = [] if dims is None else [dims] if isinstance(dims, int) else list(dims)
    if not axes and len(amounts) == 1:
        return reshape(roll(reshape(input, -1), shifts, 0), input.shape) if input.ndim else input.clone()
    if len(amounts) != len(axes) or not axes:
        raise RuntimeError(f"roll: shifts and dimensions must align. shifts: {len(amounts)}, dims: {len(axes)}")
    node = source = node_of(input, "input")
    for shift, dim in zip(amounts, axes, strict=True):
        axis = normalize_axis(dim, node.type.ndim)
        size = node.shape[axis]
        cut = size - shift % size if size else 0
        parts = [movement.narrow(node, axis, cut, size - cut), movement.narrow(node, axis, 0, cut)]
        node = movement.concat(parts, axis)
    return fresh(node, source)


def repeat(input: Tensor, *args: Any, repeats: Any = None) -> Tensor:
    """Copies side by side along each axis; extra leading entries add axes."""
    times = _sizes(args, repeats, "repeats")
    extra = len(times) - input.ndim
    if extra < 0:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    if any(k < 0 for k in times):
        raise RuntimeError(f"repeat: negative count in {list(times)}")
    source = node_of(input, "input")
    shape = (1,) * extra + source.shape
    node = movement.reshape(source, [n for s in shape for n in (1, s)])
    node = movement.expand(node, [n for k, s in zip(times, shape, strict=True) for n in (k, s)])
    return fresh(movement.reshape(node, [k * s for k, s in zip(times, shape, strict=True)]), source)


def tile(input: Tensor, *args: Any, dims: Any = None) -> Tensor:
    """As `repeat`, missing leading entries being 1."""
    times = _sizes(args, dims, "dims")
    return repeat(input, (1,) * (input.ndim - len(times)) + times)


def repeat_interleave(
    input: Tensor, repeats: int | Tensor | None = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element `repeats` times in a row, along `dim` or flattened; a vector says how often each.

    repeat_interleave(counts) alone repeats the positions. The counts of a vector are read unless `output_size` tells
    their sum.

    Raises:
        CaptureError: a vector of counts without output_size in a capture. RuntimeError: negative counts, wrong sizes.
    """
    if repeats is None:
        if input.ndim != 1:
            raise RuntimeError(f"repeat_interleave: repeats must be a vector, got shape {list(input.shape)}")
        return repeat_interleave(wrap(create.arange(input.shape[0])), input, 0, output_size=output_size)
    if dim is None:
        return repeat_interleave(reshape(input, -1), repeats, 0, output_size=output_size)
    axis = normalize_axis(dim, input.ndim)
    if isinstance(repeats, Tensor):
        return _by_counts(input if input.ndim else reshape(input, 1), repeats, axis, output_size)
    if isinstance(repeats, bool) or not hasattr(repeats, "__index__"):
        raise TypeError(f"repeat_interleave: repeats must be an int or a Tensor, got {type(repeats).__name__}")
    if repeats < 0:
        raise RuntimeError(f"repeats can not be negative, got {repeats}")
    source = node_of(input, "input")
    node = source if source.type.ndim else movement.reshape(source, (1,))
    shape = node.shape
    node = movement.expand(movement.unsqueeze(node, axis + 1), (*shape[: axis + 1], repeats, *shape[axis + 1 :]))
    return fresh(movement.reshape(node, (*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :])), source)


def _by_counts(input: Tensor, repeats: Tensor, axis: int, total: int | None) -> Tensor:
    counts, size = node_of(repeats, "repeats"), input.shape[axis]
    if counts.dtype.kind not in "iu" or counts.type.ndim > 1:
        raise RuntimeError(f"repeat_interleave: repeats must be a scalar or a vector of integers, got {counts.type}")
    if counts.type.size != 1 and counts.shape != (size,):
        raise RuntimeError(f"repeats must have the same size as input along dim, got {counts.type} for {size}")
    counts = movement.broadcast_to(movement.reshape(counts, (-1,)) if counts.type.size == 1 else counts, (size,))
    if total is None:
        values = wrap(counts)._values("repeat_interleave() by a tensor of counts")
        if (values < 0).any():
            raise RuntimeError(f"repeats can not be negative, got {values.tolist()}")
        total = int(values.sum())
    ends = cumulate.cumsum(cast(counts, int64), 0)
    index = sorting.searchsorted(ends, create.arange(total), right=True)
    return wrap(indexing.gather(node_of(input, "input"), index, axis))
