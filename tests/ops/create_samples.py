"""Samples of creation and random ops."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tests.ops.operands import Array, Sample, fixed
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.types import bool_, float16, float32, float64, int32, int64, uint8
from tinygrad_lite.ops import create, leaf, random

CREATE = {
    "full": [
        Sample("f64", fixed(), lambda: create.full((2, 3), 1.5, float64), lambda: np.array([[1.5] * 3] * 2)),
        Sample("i64", fixed(), lambda: create.full((4,), 7), lambda: np.array([7] * 4)),
        Sample("bool", fixed(), lambda: create.full((2,), True), lambda: np.array([True] * 2)),
        Sample("scalar", fixed(), lambda: create.zeros(()), lambda: np.float32(0)),
        Sample("empty", fixed(), lambda: create.ones((0, 2), int32), lambda: np.zeros((0, 2), "int32")),
        Sample("f16", fixed(), lambda: create.full((2,), 0.1, float16), lambda: np.array([0.1] * 2, "float16")),
        Sample("inf", fixed(), lambda: create.full((2,), -math.inf), lambda: np.array([-np.inf] * 2, "float32")),
        Sample("u8", fixed(), lambda: create.full((2, 1), 200, uint8), lambda: np.array([[200], [200]], "uint8")),
    ],
    "arange": [
        Sample("count", fixed(), lambda: create.arange(5), lambda: np.array([0, 1, 2, 3, 4])),
        Sample("down", fixed(), lambda: create.arange(5, -2, -3), lambda: np.array([5, 2, -1])),
        Sample("f32", fixed(), lambda: create.arange(0, 1, 0.25), lambda: np.array([0, 0.25, 0.5, 0.75], "float32")),
        Sample("f64", fixed(), lambda: create.arange(3, dtype=float64), lambda: np.array([0.0, 1.0, 2.0])),
        Sample("empty", fixed(), lambda: create.arange(0), lambda: np.zeros(0, "int64")),
        Sample("i32", fixed(), lambda: create.arange(2, 5, dtype=int32), lambda: np.array([2, 3, 4], "int32")),
        Sample(
            "f16",
            fixed(),
            lambda: create.arange(0, 1, 0.25, float16),
            lambda: np.array([0, 0.25, 0.5, 0.75], "float16"),
        ),
        Sample("uneven", fixed(), lambda: create.arange(1, 8, 3), lambda: np.array([1, 4, 7])),
    ],
    "constant": [
        Sample("scalar", fixed(), lambda: leaf.constant(1.5, float32), lambda: np.float32(1.5)),
        Sample("vector", fixed(), lambda: leaf.constant([1, 2], int64), lambda: np.array([1, 2])),
        Sample("bool", fixed(), lambda: leaf.constant([[True, False]], bool_), lambda: np.array([[True, False]])),
        Sample(
            "inf",
            fixed(),
            lambda: leaf.constant([math.inf, -math.inf, math.nan], float64),
            lambda: np.array([np.inf, -np.inf, np.nan]),
        ),
        Sample("empty", fixed(), lambda: leaf.constant([], float64), lambda: np.zeros(0)),
        Sample("u8", fixed(), lambda: leaf.constant(255, uint8), lambda: np.uint8(255)),
        Sample("matrix", fixed(), lambda: leaf.constant([[1.0, 2.0]], float32), lambda: np.float32([[1, 2]])),
        Sample("f16", fixed(), lambda: leaf.constant([0.5, 2.0], float16), lambda: np.float16([0.5, 2])),
    ],
}


def words(seed: int, counter: int) -> tuple[int, int]:
    """Threefry-2x32-20 on Python integers."""
    mask = 2**32 - 1
    key = [seed & mask, seed >> 32 & mask]
    key.append(key[0] ^ key[1] ^ 0x1BD11BDA)
    x, y = (counter + key[0]) & mask, ((counter >> 32) + key[1]) & mask
    for group in range(5):
        for r in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = (x + y) & mask
            y = ((y << r) & mask | y >> (32 - r)) ^ x
        x, y = (x + key[(group + 1) % 3]) & mask, (y + key[(group + 2) % 3] + group + 1) & mask
    return x, y


def uniform_of(wide: bool, w0: int, w1: int) -> float:
    return ((w0 << 21) + (w1 >> 11)) / 2**53 if wide else (w0 >> 8) / 2**24


def normal_of(wide: bool, w0: int, w1: int) -> float:
    u1, u2 = ((w0 + 1) / 2**32, w1 / 2**32) if wide else (((w0 >> 8) + 1) / 2**24, (w1 >> 8) / 2**24)
    return math.sqrt(-2 * math.log(u1)) * math.cos(2 * math.pi * u2)


def draws(build: Callable[..., Node], of: Callable[[bool, int, int], float]) -> list[Sample]:
    def sample(name: str, seed: int, offset: int, *shape: int, wide: bool = False) -> Sample:
        def reference(s: Array, o: Array) -> Array:
            numbers = [of(wide, *words(seed % 2**64, (offset + i) % 2**64)) for i in range(math.prod(shape))]
            return np.array(numbers, "float64" if wide else "float32").reshape(shape)

        return Sample(
            name, fixed(seed, offset), lambda s, o: build(s, o, shape, float64 if wide else float32), reference
        )

    return [
        sample("f32", 1, 0, 5, 7),
        sample("f64", 1, 0, 5, 7, wide=True),
        sample("negative seed", -3, 12, 6),
        sample("carry", 2**40 + 5, 2**32 - 3, 6, wide=True),
        sample("scalar", 2**63 - 1, 9),
        sample("empty", 4, 0, 0, 3),
        sample("three axes", 9, 100, 2, 1, 3),
        sample("long", 11, 7, 67),
    ]


RANDOM = {"uniform": draws(random.uniform, uniform_of), "normal": draws(random.normal, normal_of)}
