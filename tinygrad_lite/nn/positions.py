"""Positions for layers that see a set: fixed sines, a trained table, rotations, and biases by distance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_lite import creation, functional
from tinygrad_lite.nn import functional as F
from tinygrad_lite.nn import init
from tinygrad_lite.nn.module import Module
from tinygrad_lite.nn.parameter import Parameter
from tinygrad_lite.tensor import Tensor, empty, from_numpy


def check_length(layer: str, length: int, limit: int) -> None:
    """Raise ValueError where a sequence has more positions than there are."""
    if length > limit:
        raise ValueError(f"{layer}: a sequence of {length} positions exceeds the {limit} there are")


def sinusoids(length: int, dim: int, base: float = 10_000.0) -> np.ndarray[Any, Any]:
    """(length, dim): sin(p / base^(2i/dim)) in even columns, the cosine in odd ones. Vaswani et al. 2017, §3.5."""
    rates = np.exp(np.arange(0, dim, 2) * (-math.log(base) / dim))
    angles = np.arange(length)[:, None] * rates
    table = np.empty((length, dim), np.float32)
    table[:, 0::2] = np.sin(angles)
    table[:, 1::2] = np.cos(angles[:, : dim // 2])
    return table


class SinusoidalPositions(Module):
    """x + sinusoids. Shapes: x (*, T, dim) to the same; T at most max_len.

    Raises:
        ValueError: a longer sequence.
    """

    def __init__(self, dim: int, max_len: int = 5000, base: float = 10_000.0) -> None:
        super().__init__()
        self.dim, self.max_len = dim, max_len
        self.register_buffer("table", from_numpy(sinusoids(max_len, dim, base)), persistent=False)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        if positions is not None:
            return x + F.embedding(positions, self.table)
        check_length("SinusoidalPositions", x.shape[-2], self.max_len)
        return x + self.table[: x.shape[-2]]

    def extra_repr(self) -> str:
        return f"{self.dim}, max_len={self.max_len}"


class LearnedPositions(Module):
    """x + a trained row for each position. Shapes: x (*, T, dim) to the same; weight (max_len, dim).

    Raises:
        ValueError: a sequence longer than max_len.
    """

    def __init__(self, dim: int, max_len: int, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.dim, self.max_len = dim, max_len
        self.weight = Parameter(empty(max_len, dim, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal with standard deviation 0.02."""
        init.normal_(self.weight, std=0.02)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        if positions is not None:
            return x + F.embedding(positions, self.weight)
        check_length("LearnedPositions", x.shape[-2], self.max_len)
        return x + self.weight[: x.shape[-2]]

    def extra_repr(self) -> str:
        return f"{self.dim}, max_len={self.max_len}"


def rotate_half(x: Tensor) -> Tensor:
    """(a, b) to (-b, a), the halves of the last axis."""
    half = x.shape[-1] // 2
    return functional.cat([-x[..., half:], x[..., :half]], dim=-1)


class RotaryPositions(Module):
    """Turns queries or keys by angles proportional to their position. Su et al. 2021, arXiv:2104.09864.

    Pair i is (x[i], x[i + dim/2]), the layout of Llama's weights, turned by position / base^(2i/dim): scores then
    depend on the difference of two positions only. Shapes: x (*, T, dim) to the same.

    Raises:
        ValueError: an odd dim; a sequence longer than max_len.
    """

    def __init__(self, dim: int, max_len: int = 2048, base: float = 10_000.0) -> None:
        super().__init__()
        if dim % 2:
            raise ValueError(f"RotaryPositions: dim must be even, not {dim}")
        self.dim, self.max_len, self.base = dim, max_len, base
        angles = np.arange(max_len)[:, None] / base ** (np.arange(0, dim, 2) / dim)
        angles = np.concatenate([angles, angles], axis=1)
        self.register_buffer("cos", from_numpy(np.cos(angles).astype(np.float32)), persistent=False)
        self.register_buffer("sin", from_numpy(np.sin(angles).astype(np.float32)), persistent=False)

    def forward(self, x: Tensor, positions: Tensor | None = None) -> Tensor:
        if x.shape[-1] != self.dim:
            raise ValueError(f"RotaryPositions: turns heads of width {self.dim}, not {x.shape[-1]}")
        if positions is None:
            check_length("RotaryPositions", x.shape[-2], self.max_len)
            cos, sin = self.cos[: x.shape[-2]], self.sin[: x.shape[-2]]
        else:
            cos, sin = (F.embedding(positions, table) for table in (self.cos, self.sin))
        return x * cos + rotate_half(x) * sin

    def extra_repr(self) -> str:
        return f"{self.dim}, max_len={self.max_len}, base={self.base:g}"


def distance_buckets(distance: np.ndarray[Any, Any], buckets: int, furthest: int, two_sided: bool) -> Any:
    """T5's bucket of a distance key - query: exact near by, logarithmic up to `furthest`. Raffel et al. 2020."""
    start = np.zeros_like(distance)
    if two_sided:
        buckets //= 2
        start = np.where(distance > 0, buckets, 0)
        distance = np.abs(distance)
    else:
        distance = np.maximum(-distance, 0)
    exact = buckets // 2
    with np.errstate(divide="ignore"):
        far = exact + (np.log(distance / exact) / math.log(furthest / exact) * (buckets - exact))
    far = np.minimum(np.where(distance > 0, far, 0).astype(np.int64), buckets - 1)
    return start + np.where(distance < exact, distance, far)


class RelativePositionBias(Module):
    """What T5 adds to the scores: a trained number a head and bucket of distances. Raffel et al. 2020, §2.1.

    `bias(queries, keys)` has shape (heads, queries, keys); with `positions`, those of the queries, as a mask for keys
    0 … keys - 1 of a cache.
    """

    def __init__(self, heads: int, buckets: int = 32, furthest: int = 128, two_sided: bool = True) -> None:
        super().__init__()
        self.heads, self.buckets, self.furthest, self.two_sided = heads, buckets, furthest, two_sided
        self.weight = Parameter(empty(buckets, heads))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Normal with standard deviation 0.02."""
        init.normal_(self.weight, std=0.02)

    def forward(self, queries: int, keys: int, positions: Tensor | None = None) -> Tensor:
        # every distance that can occur, -(keys - 1) … queries - 1, has its bucket computed here, once
        reach = max(queries, keys)
        table = distance_buckets(np.arange(1 - reach, reach), self.buckets, self.furthest, self.two_sided)
        by_distance = F.embedding(from_numpy(table), self.weight)  # (2 reach - 1, heads)
        at = creation.arange(queries) if positions is None else positions
        index = creation.arange(keys) - at.unsqueeze(1) + (reach - 1)
        return F.embedding(index, by_distance).permute(2, 0, 1)

    def extra_repr(self) -> str:
        return f"{self.heads}, buckets={self.buckets}, furthest={self.furthest}, two_sided={self.two_sided}"
