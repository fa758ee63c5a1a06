"""Counter-based random numbers: element i is a function of (seed, offset + i), so order and threads do not matter.

Threefry-2x32 with 20 rounds: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
key = (seed low word, seed high word), counter = (offset + i low word, high word); w0, w1 are the result's words.

    uniform f32   (w0 >> 8) 2⁻²⁴                    uniform f64   (w0 2²¹ + (w1 >> 11)) 2⁻⁵³
    normal        √(-2 ln u1) cos(2π u2)            (Box-Muller, evaluated in float64 and rounded once)
    normal f32    u1 = ((w0 >> 8) + 1) 2⁻²⁴,        u2 = (w1 >> 8) 2⁻²⁴
    normal f64    u1 = (w0 + 1) 2⁻³²,               u2 = w1 2⁻³²
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Cost, Kind, Op, register
from tinygrad_lite.ir.record import record
from tinygrad_lite.ir.types import DType, TensorType, float16, float32, int64
from tinygrad_lite.ops import elementwise

Array = np.ndarray[Any, Any]

ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
PARITY = 0x1BD11BDA
_MASK = np.uint64(0xFFFFFFFF)


def threefry2x32(key: tuple[Array, Array], counter: tuple[Array, Array]) -> tuple[Array, Array]:
    """Two uint32 words for each uint32 counter; all arithmetic is modulo 2³²."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(PARITY))
    x0, x1 = counter[0] + keys[0], counter[1] + keys[1]
    for round_ in range(20):
        x0 = x0 + x1
        turn = np.uint32(ROTATIONS[round_ % 8])
        x1 = ((x1 << turn) | (x1 >> (np.uint32(32) - turn))) ^ x0
        if round_ % 4 == 3:
            step = round_ // 4 + 1
            x0 = x0 + keys[step % 3]
            x1 = x1 + keys[(step + 1) % 3] + np.uint32(step)
    return x0, x1


def _split(x: Array) -> tuple[Array, Array]:
    return (x & _MASK).astype(np.uint32), (x >> np.uint64(32)).astype(np.uint32)


def _words(seed: Array, offset: Array, size: int) -> tuple[Array, Array]:
    counters = offset.astype(np.uint64).reshape(1) + np.arange(size, dtype=np.uint64)
    return threefry2x32(_split(seed.astype(np.uint64).reshape(1)), _split(counters))


def _uniform(seed: Array, offset: Array, *, shape: tuple[int, ...], dtype: DType) -> Array:
    w0, w1 = _words(seed, offset, math.prod(shape))
    if dtype is float32:
        return np.asarray((w0 >> 8) * np.float32(2.0**-24), np.float32).reshape(shape)
    return np.asarray((w0 * 2.0**21 + (w1 >> 11)) * 2.0**-53).reshape(shape)


def _normal(seed: Array, offset: Array, *, shape: tuple[int, ...], dtype: DType) -> Array:
    w0, w1 = _words(seed, offset, math.prod(shape))
    if dtype is float32:
        u1, u2 = ((w0 >> 8) + 1) * 2.0**-24, (w1 >> 8) * 2.0**-24
    else:
        u1, u2 = (w0 + 1.0) * 2.0**-32, w1 * 2.0**-32
    return np.asarray(np.sqrt(-2 * np.log(u1)) * np.cos(2 * np.pi * u2), dtype.numpy).reshape(shape)


def _infer(name: str) -> Callable[..., TensorType]:
    scalar = TensorType(int64, ())

    def infer(seed: TensorType, offset: TensorType, *, shape: tuple[int, ...], dtype: DType) -> TensorType:
        if seed != scalar or offset != scalar:
            raise TypeError(f"{name}: seed and offset must be i64[], got {seed} and {offset}")
        if dtype.kind != "f" or any(s < 0 for s in shape):
            raise RuntimeError(f"{name}: makes floating tensors, not {dtype!r} of shape {list(shape)}")
        return TensorType(dtype, shape)

    return infer


def _op(name: str, rule: Callable[..., Any], flops: int) -> Op:
    def cost(node: Node) -> Cost:
        return Cost(flops * node.type.size, node.type.nbytes)

    return register(Op(name, Kind.RANDOM, _infer(name), rule, cost=cost, traits=frozenset({"expensive"})))


UNIFORM = _op("uniform", _uniform, 110)
NORMAL = _op("normal", _normal, 150)


def uniform(seed: Node, offset: Node, shape: Sequence[int], dtype: DType = float32) -> Node:
    """Uniform in [0, 1); uses up as many counters as there are elements."""
    if dtype.is_half:  # cut off, for rounding could give 1
        steps = 2.0 ** (11 if dtype is float16 else 8)
        share = elementwise.mul(uniform(seed, offset, shape), steps)
        return elementwise.cast(elementwise.mul(elementwise.floor(share), 1 / steps), dtype)
    return record(UNIFORM, seed, offset, shape=tuple(map(int, shape)), dtype=dtype)


def normal(seed: Node, offset: Node, shape: Sequence[int], dtype: DType = float32) -> Node:
    """Standard normal; uses up as many counters as there are elements."""
    if dtype.is_half:
        return elementwise.cast(normal(seed, offset, shape), dtype)
    return record(NORMAL, seed, offset, shape=tuple(map(int, shape)), dtype=dtype)
