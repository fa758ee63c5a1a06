"""Diagonals and triangles of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_lite.functional.common import as_dtype, fresh, node_of, wrap
from tinygrad_lite.functional.joining import cat
from tinygrad_lite.functional.movement import permute, reshape
from tinygrad_lite.functional.padding import padded
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import leaf
from tinygrad_lite.ir.types import DType, int64
from tinygrad_lite.ops import create, movement, reduce
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops.movement import RESHAPE, SLICE, normalize_axis

__all__ = [
    "block_diag",
    "diag",
    "diag_embed",
    "diagflat",
    "diagonal",
    "diagonal_scatter",
    "select_scatter",
    "slice_scatter",
    "trace",
    "tril",
    "tril_indices",
    "triu",
    "triu_indices",
]


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
    return wrap(ew.where(kept, node, _zero(node)))


def _zero(node: Node) -> Node:
    return ew.as_node(False if node.dtype.kind == "b" else 0, node.dtype)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """(2, n) positions of the lower triangle, row by row."""
    return _positions(np.tril_indices, row, col, offset, dtype)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: DType | None = None, device: Any = None) -> Tensor:
    """(2, n) positions of the upper triangle, row by row."""
    return _positions(np.triu_indices, row, col, offset, dtype)


def _positions(find: Any, row: int, col: int, offset: int, dtype: DType | None) -> Tensor:
    if row < 0 or col < 0:
        raise RuntimeError(f"row and col must be non-negative, got {row} and {col}")
    return wrap(leaf(np.stack(find(row, offset, col)).astype(as_dtype(dtype, int64).numpy)))


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two axes, as the last axis of a view."""
    a, b = normalize_axis(dim1, input.ndim), normalize_axis(dim2, input.ndim)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    moved = permute(input, [x for x in range(input.ndim) if x not in (a, b)] + [a, b])
    *batch, rows, columns = moved.shape
    size = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    first = max(-offset, 0) * columns + max(offset, 0) if size else 0
    flat = moved._as_view(RESHAPE, shape=(*batch, rows * columns))
    zeros, ones = (0,) * len(batch), (1,) * len(batch)
    stop = first + (size - 1) * (columns + 1) + 1 if size else 0
    return flat._as_view(SLICE, starts=(*zeros, first), stops=(*batch, stop), steps=(*ones, columns + 1))


_diagonal = diagonal


def trace(input: Tensor) -> Tensor:
    """The sum of a matrix's diagonal."""
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    return wrap(reduce.sum(diagonal(input)._read()))


def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A vector as the diagonal of a matrix, or a copy of the diagonal of a matrix."""
    if input.ndim == 2:
        return fresh(_diagonal(input, diagonal)._read(), input._read())
    if input.ndim != 1:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return diag_embed(input, diagonal)


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """All elements, in order, as the diagonal of a matrix."""
    return diag_embed(reshape(input, -1), offset)


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The last axis as the diagonal of two new ones, zeros elsewhere."""
    node = node_of(input, "input")
    if not node.type.ndim:
        node = movement.reshape(node, (1,))
    rank = node.type.ndim + 1
    a, b = normalize_axis(dim1, rank), normalize_axis(dim2, rank)
    if a == b:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    offset = offset if a < b else -offset
    size = node.shape[-1] + abs(offset)
    still = [0] * (rank - 2)
    along = padded(node, [*still, max(offset, 0)], [*still, max(-offset, 0)], 0)
    rows, columns = movement.unsqueeze(create.arange(size), 1), create.arange(size)
    matrix = ew.where(ew.eq(ew.sub(columns, rows), offset), movement.unsqueeze(along, -2), _zero(node))
    first, second = min(a, b), max(a, b)
    order = list(range(rank - 2))
    order.insert(first, rank - 2)
    order.insert(second, rank - 1)
    return wrap(movement.permute(matrix, order))


def block_diag(*tensors: Tensor) -> Tensor:
    """Matrices along the diagonal of one, zeros elsewhere; vectors are rows."""
    if any(x.ndim > 2 for x in tensors):
        raise RuntimeError(
            f"block_diag: Input tensors must have 2 or fewer dimensions, got {[x.ndim for x in tensors]}"
        )
    blocks = [reshape(x, (1, -1)) if x.ndim < 2 else x for x in tensors] or [wrap(create.zeros((1, 0)))]
    width, at, rows = sum(x.shape[1] for x in blocks), 0, []
    for x in blocks:
        rows.append(wrap(movement.pad(node_of(x), (0, at), (0, width - at - x.shape[1]))))
        at += x.shape[1]
    return cat(rows)


# ---- a view of a copy, assigned --------------------------------------------------------------------------


def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """`input` with its diagonal replaced by `src`."""
    out = input.clone()
    return _assigned(out, diagonal(out, offset, dim1, dim2), src, "diagonal_scatter")


def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """`input` with one position along a dim replaced by `src`."""
    out = input.clone()
    return _assigned(out, out.select(dim, index), src, "select_scatter")


def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """`input` with start:end:step along a dim replaced by `src`."""
    out = input.clone()
    axis = normalize_axis(dim, out.ndim)
    return _assigned(out, out[(slice(None),) * axis + (slice(start, end, step),)], src, "slice_scatter")


def _assigned(out: Tensor, place: Tensor, src: Tensor, name: str) -> Tensor:
    if tuple(src.shape) != tuple(place.shape):
        raise RuntimeError(f"{name}: expected src to have shape {list(place.shape)}, got {list(src.shape)}")
    place.copy_(src)
    return out
