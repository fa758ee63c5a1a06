"""Lengths and distances along an axis."""

from __future__ import annotations

import itertools
import math

from tinygrad_lite.functional.common import node_of, wrap
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.types import int64
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops import indexing, movement, reduce
from tinygrad_lite.ops.leaf import constant

__all__ = ["cosine_similarity", "normalize", "pairwise_distance", "pdist"]


def maybe(x: Tensor | None, name: str) -> Node | None:
    """An optional argument's node."""
    return None if x is None else node_of(x, name)


def length_of(x: Node, p: float, axis: int, keepdim: bool) -> Node:
    """(Σ |x|^p)^(1/p) along an axis; its gradient is 0 at the origin."""
    if x.dtype.kind != "f":
        raise RuntimeError(f"norm: expected a floating point tensor, got {x.type}")
    if p == 0:
        return reduce.sum(ew.cast(ew.ne(x, 0.0), x.dtype), axis, keepdim)
    if p == 1:
        return reduce.sum(ew.abs(x), axis, keepdim)
    if math.isinf(p):
        return (reduce.max if p > 0 else reduce.min)(ew.abs(x), axis, keepdim)
    total = reduce.sum(ew.mul(x, x) if p == 2 else ew.pow(ew.abs(x), float(p)), axis, keepdim)
    zero = ew.eq(total, 0.0)
    safe = ew.where(zero, 1.0, total)  # 0^(1/p) has no slope that a gradient of 0 could be multiplied with
    return ew.where(zero, 0.0, ew.sqrt(safe) if p == 2 else ew.pow(safe, 1 / p))


def distance_between(a: Node, b: Node, p: float, eps: float, keepdim: bool = False) -> Node:
    """‖a - b + eps‖ of order p along the last axis; scalars are vectors of one."""
    gap = ew.add(ew.sub(a, b), eps)
    return length_of(gap, p, -1, keepdim) if gap.type.ndim else ew.abs(gap)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """‖x1 - x2 + eps‖ of order p along the last axis."""
    return wrap(distance_between(node_of(x1, "x1"), node_of(x2, "x2"), p, eps, keepdim))


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """Distances of order p between the rows of a matrix (N, M): (N (N - 1) / 2,), row 0 to 1, 0 to 2, … first.

    Raises:
        RuntimeError: not a matrix, or a negative p.
    """
    x = node_of(input, "input")
    if x.type.ndim != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {x.type.ndim}D")
    if p < 0:
        raise RuntimeError(f"pdist only supports non-negative p values, got {p}")
    pairs = list(itertools.combinations(range(x.shape[0]), 2))
    first, second = (constant([pair[i] for pair in pairs], int64) for i in (0, 1))
    gap = ew.sub(indexing.gather(x, first), indexing.gather(x, second))
    return wrap(length_of(gap, float(p), -1, False))


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: None = None) -> Tensor:
    """x / max(‖x‖, eps) along `dim`."""
    return wrap(_unit(node_of(input, "input"), float(p), dim, eps))


def _unit(x: Node, p: float, dim: int, eps: float) -> Node:
    size = length_of(x, p, dim, keepdim=True)
    return ew.div(x, ew.where(ew.lt(size, eps), eps, size))


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 · x2 / (max(‖x1‖, eps) max(‖x2‖, eps)) along `dim`."""
    a, b = node_of(x1, "x1"), node_of(x2, "x2")
    shape = ew.broadcast_shapes("cosine_similarity", [a.shape, b.shape])
    units = [_unit(movement.broadcast_to(x, shape), 2.0, dim, eps) for x in (a, b)]
    return wrap(reduce.sum(ew.mul(*units), dim))
