"""Samples of ops/special.py. References are Python's math module, mpmath-like series of SciPy, and exact integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

from tests.ops.operands import Array, Sample, both, fixed, integers, reals
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ops import movement, special


def unary(
    build: Callable[..., Node], reference: Callable[[float], float], low: float = -2, high: float = 2, grad: bool = True
) -> list[Sample]:
    each = np.vectorize(reference, otypes=["float64"])

    def typed(x: Array) -> Array:
        return np.asarray(each(x) if x.size else x).astype(x.dtype)

    wrt = (0,) if grad else ()

    def of(*shape: int, dtype: str = "float64") -> Any:
        return reals(shape, low=low, high=high, dtype=dtype)

    return [
        Sample("matrix", of(3, 4), build, typed, wrt),
        Sample("scalar", of(), build, typed, wrt),
        Sample("empty", of(0, 3), build, typed, wrt),
        Sample("three axes", of(2, 1, 3), build, typed, wrt),
        Sample("f32", of(7, dtype="float32"), build, typed),
        Sample("long f32", of(67, dtype="float32"), build, typed),
        Sample("transposed", of(3, 4), lambda x: build(movement.transpose(x, 0, 1)), lambda x: typed(x.T), wrt),
        Sample(
            "every second", of(9), lambda x: build(movement.slice_axis(x, 0, 1, 9, 2)), lambda x: typed(x[1::2]), wrt
        ),
    ]


def binary(
    build: Callable[..., Node], reference: Callable[..., Any], low: float = -2, high: float = 2, grad: bool = True
) -> list[Sample]:
    wrt = (0, 1) if grad else ()

    def of(*shapes: tuple[int, ...], dtype: str = "float64") -> Any:
        return reals(*shapes, low=low, high=high, dtype=dtype)

    def wide(a: Array, b: Array) -> Array:
        return np.asarray(reference(a.astype("float64"), b.astype("float64"))).astype(np.result_type(a, b))

    return [
        Sample("matrices", of((3, 4), (3, 4)), build, wide, wrt),
        Sample("broadcast", of((3, 1), (4,)), build, wide, wrt),
        Sample("scalars", of((), ()), build, wide, wrt),
        Sample("empty", of((0, 3), (1, 3)), build, wide, wrt),
        Sample("f32", of((2, 3), (3,), dtype="float32"), build, wide),
        Sample("f32 and f64", both(of((5,), dtype="float32"), of((5,))), build, wide, (1,) if grad else ()),
        Sample(
            "a number", of((5,)), lambda x: build(x, 1.25), lambda x: wide(x, np.float64(1.25)), (0,) if grad else ()
        ),
        Sample(
            "a number first",
            of((5,)),
            lambda x: build(1.25, x),
            lambda x: wide(np.float64(1.25), x),
            (0,) if grad else (),
        ),
    ]


def special_points(build: Callable[..., Node], points: list[float], expected: list[float]) -> list[Sample]:
    """Edges in both widths."""
    return [
        Sample(f"edges {dtype}", fixed(np.array(points, dtype)), build, lambda x, d=dtype: np.array(expected, d))
        for dtype in ("float64", "float32")
    ]


def bits(build: Callable[..., Node], reference: Callable[[Any, Any], Any]) -> list[Sample]:
    def exact(a: Array, b: Array) -> Array:
        dtype = np.result_type(a, b)
        a, b = np.broadcast_arrays(a, b)
        return (
            np.array([reference(x, y) for x, y in zip(a.ravel().tolist(), b.ravel().tolist(), strict=True)])
            .astype(dtype)
            .reshape(a.shape)
        )

    samples = [
        Sample(f"{dtype}", integers((3, 4), (4,), low=0, high=7, dtype=dtype), build, exact)
        for dtype in ("int64", "int32", "int16", "int8", "uint8")
    ]
    return [
        *samples,
        Sample("negative", integers((3, 4), low=-9, high=9), lambda x: build(x, 3), lambda x: exact(x, np.int64(3))),
        Sample("scalars", fixed(12, 3), build, exact),
        Sample("empty", integers((0, 2), (2,)), build, exact),
    ]


def _digamma(x: float) -> float:
    """Recurrence to large x, then the series."""
    total = 0.0
    while x < 30:
        total -= 1 / x
        x += 1
    return total + math.log(x) - 1 / (2 * x) - 1 / (12 * x**2) + 1 / (120 * x**4) - 1 / (252 * x**6)


def _polygamma(order: int, x: float) -> float:
    """The defining series, its tail by an integral and its first corrections."""
    count = 2000
    s = order + 1
    total = math.fsum((x + k) ** -s for k in range(count))
    y = x + count
    total += y**-order / order + y**-s / 2 + s * y ** (-s - 1) / 12
    return (-1) ** (order + 1) * math.factorial(order) * total


def _erfinv(y: float) -> float:
    x = 0.0
    for _ in range(60):
        x -= (math.erf(x) - y) / (2 / math.sqrt(math.pi) * math.exp(-x * x))
    return x


def _off_multiples(*shapes: tuple[int, ...]) -> Any:
    def make(rng: np.random.Generator) -> list[Array]:
        quotient, b = (np.asarray(x) for x in reals(*shapes)(rng))
        b = np.sign(b) * (np.abs(b) + 0.5)
        whole = np.floor(quotient)
        return [(whole + 0.2 + 0.6 * (quotient - whole)) * b, b]

    return make


INF, NAN = math.inf, math.nan
each_fmod = np.vectorize(math.fmod, otypes=["float64"])
each_atan2 = np.vectorize(math.atan2, otypes=["float64"])
each_hypot = np.vectorize(math.hypot, otypes=["float64"])
each_sign = np.vectorize(math.copysign, otypes=["float64"])
each_next = np.vectorize(math.nextafter, otypes=["float64"])


def sized(each: Callable[..., Any]) -> Callable[..., Any]:
    return lambda a, b: each(a, b) if np.broadcast(a, b).size else np.zeros(np.broadcast(a, b).shape)


SPECIAL: dict[str, list[Sample]] = {
    "exp2": unary(special.exp2, lambda x: 2.0**x) + special_points(special.exp2, [3, -1, INF, -INF], [8, 0.5, INF, 0]),
    "expm1": unary(special.expm1, math.expm1) + special_points(special.expm1, [1e-20, -INF, INF], [1e-20, -1, INF]),
    "log1p": unary(special.log1p, math.log1p, -0.9, 5)
    + special_points(special.log1p, [1e-20, -1, -2], [1e-20, -INF, NAN]),
    "log2": unary(special.log2, math.log2, 0.2, 5) + special_points(special.log2, [8, 0, -1, INF], [3, -INF, NAN, INF]),
    "log10": unary(special.log10, math.log10, 0.2, 5) + special_points(special.log10, [1000, 0, -1], [3, -INF, NAN]),
    "logaddexp": [
        *binary(special.logaddexp, lambda a, b: np.log(np.exp(a) + np.exp(b))),
        Sample(
            "edges",
            fixed([INF, -INF, 1000.0, -1000.0], [INF, -INF, 1000.0, 0.0]),
            special.logaddexp,
            lambda a, b: np.array([INF, -INF, 1000 + math.log(2), 0.0]),
        ),
    ],
    "tan": unary(special.tan, math.tan, -1.2, 1.2) + special_points(special.tan, [0.0, INF, NAN], [0, NAN, NAN]),
    "asin": unary(special.asin, math.asin, -0.9, 0.9)
    + special_points(special.asin, [1, -1, 2], [math.pi / 2, -math.pi / 2, NAN]),
    "acos": unary(special.acos, math.acos, -0.9, 0.9) + special_points(special.acos, [1, -1, 2], [0, math.pi, NAN]),
    "atan": unary(special.atan, math.atan) + special_points(special.atan, [INF, -INF], [math.pi / 2, -math.pi / 2]),
    "sinh": unary(special.sinh, math.sinh) + special_points(special.sinh, [1e-20, INF, -INF], [1e-20, INF, -INF]),
    "cosh": unary(special.cosh, math.cosh) + special_points(special.cosh, [0, INF, -INF], [1, INF, INF]),
    "asinh": unary(special.asinh, math.asinh) + special_points(special.asinh, [1e-20, INF, -INF], [1e-20, INF, -INF]),
    "acosh": unary(special.acosh, math.acosh, 1.1, 5) + special_points(special.acosh, [1, 0, INF], [0, NAN, INF]),
    "atanh": unary(special.atanh, math.atanh, -0.9, 0.9) + special_points(special.atanh, [1, -1, 2], [INF, -INF, NAN]),
    "atan2": [
        *binary(special.atan2, sized(each_atan2)),
        Sample(
            "edges",
            fixed([0.0, -0.0, 0.0, 1.0, INF, -INF], [0.0, -1.0, -1.0, 0.0, INF, -INF]),
            special.atan2,
            each_atan2,
        ),
    ],
    "hypot": [
        *binary(special.hypot, sized(each_hypot)),
        Sample(
            "edges",
            fixed([3e200, INF, 0.0], [4e200, NAN, 0.0]),
            special.hypot,
            lambda a, b: np.array([5e200, INF, 0.0]),
        ),
    ],
    "erfc": unary(special.erfc, math.erfc) + special_points(special.erfc, [INF, -INF, 0], [0, 2, 1]),
    "erfinv": unary(special.erfinv, _erfinv, -0.9, 0.9)
    + special_points(special.erfinv, [1, -1, 2, 0], [INF, -INF, NAN, 0]),
    "lgamma": unary(special.lgamma, math.lgamma, 0.2, 6)
    + special_points(special.lgamma, [1, 2, 0, -1, INF, -1.5], [0, 0, INF, INF, INF, math.lgamma(-1.5)]),
    "digamma": unary(special.digamma, _digamma, 0.2, 6)
    + special_points(special.digamma, [INF, -1, -0.5], [INF, NAN, _digamma(1.5)]),
    "polygamma": [
        *unary(lambda x: special.polygamma(1, x), lambda x: _polygamma(1, x), 0.5, 6),
        Sample(
            "order 2",
            reals((5,), low=0.5, high=6),
            lambda x: special.polygamma(2, x),
            lambda x: scipy.special.polygamma(2, x),
            (0,),
        ),
        Sample(
            "order 3",
            reals((5,), low=0.5, high=6),
            lambda x: special.polygamma(3, x),
            lambda x: scipy.special.polygamma(3, x),
            (0,),
        ),
        Sample(
            "left of 0",
            fixed([-0.5, -3.25]),
            lambda x: special.polygamma(1, x),
            lambda x: (math.pi / np.sin(math.pi * x)) ** 2 - np.array([_polygamma(1, 1.5), _polygamma(1, 4.25)]),
            (0,),
        ),
    ],
    "ceil": unary(special.ceil, math.ceil) + special_points(special.ceil, [-0.5, INF, 2.0], [-0.0, INF, 2]),
    "trunc": unary(special.trunc, math.trunc) + special_points(special.trunc, [-0.5, INF, -2.7], [-0.0, INF, -2]),
    "round": unary(special.round, lambda x: float(round(x)), 2.6, 3.4)
    + special_points(special.round, [0.5, 1.5, -2.5], [0, 2, -2]),
    "fmod": [
        Sample("matrices", _off_multiples((3, 4), (3, 4)), special.fmod, each_fmod, (0, 1)),
        Sample("broadcast", _off_multiples((3, 1), (3, 4)), special.fmod, each_fmod, (0, 1)),
        Sample("scalars", _off_multiples((), ()), special.fmod, each_fmod, (0, 1)),
        Sample("empty", _off_multiples((0, 2), (0, 2)), special.fmod, lambda a, b: a, (0, 1)),
        Sample("f32", fixed(np.float32(-3.5), np.float32(2)), special.fmod, lambda a, b: np.float32(-1.5)),
        Sample("i64", fixed([-7, 7, -7, 7], [3, -3, -3, 3]), special.fmod, lambda a, b: np.array([-1, 1, -1, 1])),
        Sample(
            "i8",
            fixed(np.array([-128, 127], "int8"), np.array([-1, 2], "int8")),
            special.fmod,
            lambda a, b: np.array([0, 1], "int8"),
        ),
        Sample("u8", fixed(np.uint8(250), np.uint8(7)), special.fmod, lambda a, b: np.uint8(5)),
        Sample(
            "edges", fixed([INF, 1.0, -0.0], [1.0, INF, 2.0]), special.fmod, lambda a, b: np.array([NAN, 1.0, -0.0])
        ),
    ],
    "copysign": [
        *binary(special.copysign, sized(each_sign)),
        Sample("edges", fixed([1.0, INF, 2.0], [-0.0, -NAN, -INF]), special.copysign, each_sign),
    ],
    "nextafter": [
        Sample(n, make, special.nextafter, sized(each_next))
        for n, make in [
            ("matrices", reals((3, 4), (3, 4))),
            ("broadcast", reals((3, 1), (4,))),
            ("scalars", reals((), ())),
            ("empty", reals((0, 2), (2,))),
            ("edges", fixed([0.0, INF, 1.0, -0.0], [1.0, 0.0, INF, 0.0])),
            ("equal", fixed([1.0], [1.0])),
        ]
    ]
    + [
        Sample("f32", fixed(np.float32(1), np.float32(2)), special.nextafter, lambda a, b: np.float32(1 + 2**-23)),
        Sample("a number", reals((4,)), lambda x: special.nextafter(x, 0.0), lambda x: each_next(x, 0.0)),
    ],
    "bitwise_and": bits(special.bitwise_and, lambda a, b: a & b),
    "bitwise_or": bits(special.bitwise_or, lambda a, b: a | b),
    "bitwise_xor": bits(special.bitwise_xor, lambda a, b: a ^ b),
    "shift_left": bits(special.shift_left, lambda a, b: a << b),
    "shift_right": bits(special.shift_right, lambda a, b: a >> b),
    "bitwise_not": [
        Sample(
            f"{d} {s}",
            integers(s, low=0, high=9, dtype=d),
            special.bitwise_not,
            lambda x: (x.astype("int64") * -1 - 1).astype(x.dtype),
        )
        for d in ("int64", "int32", "int16", "int8", "uint8")
        for s in ((3, 4), (), (0,))
    ],
}
