"""Samples of the elementwise ops."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.ops.operands import Array, Make, Sample, bools, both, fixed, integers, reals
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.types import DTYPES, bool_, float32, int32, uint8
from tinygrad_lite.ops import composite, elementwise, graft, movement


def unary(
    build: Callable[..., Node], reference: Callable[[float], float], low: float = -2, high: float = 2
) -> list[Sample]:
    each = np.vectorize(reference, otypes=["float64"])

    def typed(x: Array) -> Array:
        return np.asarray(each(x) if x.size else x).astype(x.dtype)

    return [
        Sample("matrix", reals((3, 4), low=low, high=high), build, typed, (0,)),
        Sample("scalar", reals((), low=low, high=high), build, typed, (0,)),
        Sample("empty", reals((0, 3), low=low, high=high), build, typed, (0,)),
        Sample("f32", reals((7,), low=low, high=high, dtype="float32"), build, typed),
        Sample("three axes", reals((2, 1, 3), low=low, high=high), build, typed, (0,)),
        Sample("long f32", reals((67,), low=low, high=high, dtype="float32"), build, typed),
        Sample(
            "transposed", reals((3, 4), low=low, high=high), lambda x: build(swapped(x)), lambda x: typed(x.T), (0,)
        ),
        Sample(
            "every second", reals((9,), low=low, high=high), lambda x: build(odd(x)), lambda x: typed(x[1::2]), (0,)
        ),
    ]


def swapped(x: Node) -> Node:
    return movement.transpose(x, 0, 1)


def odd(x: Node) -> Node:
    return movement.slice_axis(x, 0, 1, 9, 2)


def binary(build: Callable[..., Node], reference: Callable[..., Any], low: float = -2, high: float = 2) -> list[Sample]:
    def of(*shapes: Sequence[int], dtype: str = "float64") -> Make:
        return reals(*shapes, low=low, high=high, dtype=dtype)

    return [
        Sample("matrices", of((3, 4), (3, 4)), build, reference, (0, 1)),
        Sample("broadcast", of((3, 1), (4,)), build, reference, (0, 1)),
        Sample("scalars", of((), ()), build, reference, (0, 1)),
        Sample("empty", of((0, 3), (1, 3)), build, reference, (0, 1)),
        Sample("f32", of((2, 3), (3,), dtype="float32"), build, reference),
        Sample("f32 and f64", both(of((5,), dtype="float32"), of((5,))), build, reference, (1,)),
        Sample(
            "transposed", of((3, 4), (4, 3)), lambda a, b: build(a, swapped(b)), lambda a, b: reference(a, b.T), (0, 1)
        ),
        Sample(
            "every second", of((9,), (4,)), lambda a, b: build(odd(a), b), lambda a, b: reference(a[1::2], b), (0, 1)
        ),
    ]


def on_integers(build: Callable[..., Node], reference: Callable[..., Any], low: int = -5) -> list[Sample]:
    return [
        Sample("i64", integers((3, 4), (4,), low=low), build, reference),
        Sample("i32", integers((5,), (5,), low=low, dtype="int32"), build, reference),
    ]


def positive_second(rng: np.random.Generator) -> list[Array]:
    return [rng.integers(-9, 10, (4, 5)), rng.integers(1, 5, (5,))]


def off_multiples(*shapes: Sequence[int]) -> Make:
    """a and b with a / b away from integers, where the remainder jumps."""

    def make(rng: np.random.Generator) -> list[Array]:
        quotient, b = (np.asarray(x) for x in reals(*shapes)(rng))
        b = np.sign(b) * (np.abs(b) + 0.5)
        whole = np.floor(quotient)
        return [(whole + 0.2 + 0.6 * (quotient - whole)) * b, b]

    return make


def compare(build: Callable[..., Node], reference: Callable[[Any, Any], bool]) -> list[Sample]:
    each = np.vectorize(reference, otypes=["bool"])

    def safe(a: Array, b: Array) -> Array:
        a, b = np.broadcast_arrays(a, b)
        with np.errstate(invalid="ignore"):  # NaN among them
            return np.asarray(each(a, b)) if a.size else np.zeros(a.shape, bool)

    special = fixed([np.nan, 1.0, -0.0, np.inf], [np.nan, np.nan, 0.0, np.inf])
    return [
        Sample("i64", integers((3, 4), (3, 4), low=0, high=3), build, safe),
        Sample("special", special, build, safe),
        Sample("scalars", integers((), (), low=0, high=2, dtype="int32"), build, safe),
        Sample("empty", reals((0,), (1,)), build, safe),
        Sample("mixed", both(integers((4, 1), low=0, high=2), reals((3,), dtype="float32")), build, safe),
        Sample("u8", integers((5,), (5,), low=0, high=3, dtype="uint8"), build, safe),
        Sample("bools", bools((4,), (3, 4)), build, safe),
        Sample(
            "transposed",
            integers((3, 2), (2, 3), low=0, high=2),
            lambda a, b: build(a, swapped(b)),
            lambda a, b: safe(a, b.T),
        ),
    ]


def logic(build: Callable[..., Node], reference: Callable[..., Any], operands: int = 2) -> list[Sample]:
    shapes = [[(3, 4)] * operands, [()] * operands, [(0, 2)] * operands]
    named = zip(("matrix", "scalar", "empty"), shapes, strict=True)
    samples = [Sample(name, bools(*s), build, reference) for name, s in named]
    return [
        *samples,
        Sample("i64", integers(*[(5,)] * operands, low=-1, high=2), build, reference),
        Sample("f32", integers(*[(5,)] * operands, low=0, high=2, dtype="float32"), build, reference),
        Sample("u8", integers(*[(2, 3)] * operands, low=0, high=2, dtype="uint8"), build, reference),
        Sample("nan", lambda rng: [np.array([np.nan, 0.0])] * operands, build, reference),
        Sample(
            "odd",
            bools(*[(9,)] * operands),
            lambda *x: build(*map(odd, x)),
            lambda *x: reference(*(a[1::2] for a in x)),
        ),
    ]


ELEMENTWISE = {
    "add": binary(elementwise.add, lambda a, b: a + b) + on_integers(elementwise.add, lambda a, b: a + b),
    "sub": binary(elementwise.sub, lambda a, b: a - b) + on_integers(elementwise.sub, lambda a, b: a - b),
    "mul": binary(elementwise.mul, lambda a, b: a * b) + on_integers(elementwise.mul, lambda a, b: a * b),
    "div": [
        *binary(elementwise.div, lambda a, b: a / b, 0.5, 3),
        Sample("i64", positive_second, elementwise.div, lambda a, b: (a / b).astype("float32")),
    ],
    "floor_divide": [
        Sample("f64", reals((3, 4), (4,)), elementwise.floor_divide, lambda a, b: np.floor(a / b)),
        Sample("f32", reals((3,), (3,), dtype="float32"), elementwise.floor_divide, lambda a, b: np.floor(a / b)),
        Sample("i64", positive_second, elementwise.floor_divide, lambda a, b: np.floor(a / b).astype("int64")),
        Sample("scalars", fixed(-7, 2), elementwise.floor_divide, lambda a, b: np.int64(-4)),
        Sample("empty", reals((0, 3), (3,)), elementwise.floor_divide, lambda a, b: a),
        Sample("steps", off_multiples((3, 4), (3, 4)), elementwise.floor_divide, lambda a, b: np.floor(a / b), (0, 1)),
        Sample(
            "u8", fixed(np.uint8([250, 7]), np.uint8([3, 8])), elementwise.floor_divide, lambda a, b: np.uint8([83, 0])
        ),
        Sample(
            "i8", fixed(np.int8([-7, 7]), np.int8([2, -2])), elementwise.floor_divide, lambda a, b: np.int8([-4, -4])
        ),
    ],
    "remainder": [
        Sample("i8", fixed(np.int8([-7, 7]), np.int8([2, -2])), elementwise.remainder, lambda a, b: np.int8([1, -1])),
        Sample("u8", fixed(np.uint8(250), np.uint8(7)), elementwise.remainder, lambda a, b: np.uint8(5)),
        Sample("a number", reals((5,)), lambda x: elementwise.remainder(x, 1.0), lambda x: x - np.floor(x), (0,)),
        Sample(
            "matrices",
            off_multiples((3, 4), (3, 4)),
            elementwise.remainder,
            lambda a, b: a - b * np.floor(a / b),
            (0, 1),
        ),
        Sample("scalars", off_multiples((), ()), elementwise.remainder, lambda a, b: a - b * np.floor(a / b), (0, 1)),
        Sample("empty", off_multiples((0, 2), (0, 2)), elementwise.remainder, lambda a, b: a, (0, 1)),
        Sample("f32", fixed(np.float32(-3.5), np.float32(2)), elementwise.remainder, lambda a, b: np.float32(0.5)),
        Sample("i64", positive_second, elementwise.remainder, lambda a, b: a - b * np.floor(a / b).astype("int64")),
    ],
    "pow": binary(elementwise.power, lambda a, b: a**b, 0.3, 2)
    + on_integers(elementwise.power, lambda a, b: a**b, 0)
    + [
        Sample("negative base", reals((5,)), lambda x: elementwise.power(x, 4.0), lambda x: x * x * x * x, (0,)),
        Sample("zero to the zero", fixed([0.0, 2.0]), lambda x: elementwise.power(x, 0.0), np.ones_like, (0,)),
    ],
    "maximum": binary(elementwise.maximum, lambda a, b: a * (a >= b) + b * (a < b))
    + on_integers(elementwise.maximum, lambda a, b: a * (a >= b) + b * (a < b))
    + [Sample("nan", fixed([np.nan, 1.0], [0.0, np.nan]), elementwise.maximum, lambda a, b: a + b)],
    "minimum": binary(elementwise.minimum, lambda a, b: a * (a <= b) + b * (a > b))
    + on_integers(elementwise.minimum, lambda a, b: a * (a <= b) + b * (a > b))
    + [Sample("nan", fixed([np.nan, 1.0], [0.0, np.nan]), elementwise.minimum, lambda a, b: a + b)],
    "neg": [
        *unary(elementwise.neg, lambda x: -x),
        Sample("i32", integers((3,), dtype="int32"), elementwise.neg, lambda x: -x),
    ],
    "abs": [
        *unary(elementwise.abs, math.fabs),
        Sample("i64", integers((3, 2)), elementwise.abs, lambda x: x * (2 * (x > 0) - 1)),
    ],
    "sign": [
        *unary(elementwise.sign, lambda x: math.copysign(1, x)),
        Sample("zero", fixed([-0.0, 0.0, 3.0]), elementwise.sign, lambda x: np.array([0.0, 0.0, 1.0])),
    ],
    "floor": unary(elementwise.floor, math.floor),
    "exp": [
        *unary(elementwise.exp, math.exp),
        Sample("special", fixed([-np.inf, np.inf, 0.0]), elementwise.exp, lambda x: np.array([0.0, np.inf, 1.0])),
    ],
    "log": [
        *unary(elementwise.log, math.log, 0.2, 5),
        Sample("special", fixed([0.0, np.inf, 1.0]), elementwise.log, lambda x: np.array([-np.inf, np.inf, 0.0])),
    ],
    "sqrt": unary(elementwise.sqrt, math.sqrt, 0.2, 5),
    "rsqrt": unary(elementwise.rsqrt, lambda x: x**-0.5, 0.2, 5),
    "tanh": unary(elementwise.tanh, math.tanh),
    "sin": unary(elementwise.sin, math.sin),
    "cos": unary(elementwise.cos, math.cos),
    "erf": unary(elementwise.erf, math.erf),
    "sigmoid": [
        *unary(elementwise.sigmoid, lambda x: 1 / (1 + math.exp(-x))),
        Sample("far", fixed([-800.0, 800.0]), elementwise.sigmoid, lambda x: np.array([0.0, 1.0])),
    ],
    "eq": compare(elementwise.eq, lambda a, b: a == b),
    "ne": compare(elementwise.ne, lambda a, b: a != b),
    "lt": compare(elementwise.lt, lambda a, b: a < b),
    "le": compare(elementwise.le, lambda a, b: a <= b),
    "gt": compare(elementwise.gt, lambda a, b: a > b),
    "ge": compare(elementwise.ge, lambda a, b: a >= b),
    "logical_and": logic(elementwise.logical_and, lambda a, b: (a != 0) * (b != 0)),
    "logical_or": logic(elementwise.logical_or, lambda a, b: (a != 0) + (b != 0)),
    "logical_not": logic(elementwise.logical_not, lambda a: a == 0, 1),
    "where": [
        Sample(
            "matrices",
            both(bools((3, 4)), reals((3, 4), (3, 4))),
            elementwise.where,
            lambda c, a, b: c * a + ~c * b,
            (1, 2),
        ),
        Sample(
            "broadcast", both(bools((3, 1)), reals((4,), ())), elementwise.where, lambda c, a, b: c * a + ~c * b, (1, 2)
        ),
        Sample("scalars", both(bools(()), reals((), ())), elementwise.where, lambda c, a, b: a if c else b, (1, 2)),
        Sample(
            "empty",
            both(bools((0, 2)), reals((2,), (1, 2))),
            elementwise.where,
            lambda c, a, b: np.zeros((0, 2)),
            (1, 2),
        ),
        Sample(
            "nan is not chosen",
            fixed([True, False], [1.0, np.nan]),
            lambda c, a: elementwise.where(c, a, 0.0),
            lambda c, a: np.array([1.0, 0.0]),
        ),
        Sample(
            "i32",
            both(bools((5,)), integers((5,), (5,), dtype="int32")),
            elementwise.where,
            lambda c, a, b: c * a + ~c * b,
        ),
        Sample(
            "f32",
            both(bools((9,)), reals((9,), (1,), dtype="float32")),
            elementwise.where,
            lambda c, a, b: c * a + ~c * b,
        ),
        Sample(
            "transposed",
            both(bools((4, 3)), reals((3, 4), (3, 4))),
            lambda c, a, b: elementwise.where(swapped(c), a, b),
            lambda c, a, b: c.T * a + ~c.T * b,
            (1, 2),
        ),
    ],
    "cast": [
        Sample(
            f"{a.short} to {b.short}",
            integers((3, 2), low=0, high=3, dtype=a.name),
            lambda x, b=b: elementwise.cast(x, b),
            lambda x, b=b: np.array(x.tolist(), b.name),
        )
        for a, b in itertools.permutations(DTYPES, 2)
    ]
    + [
        Sample(
            "truncates",
            fixed([-1.7, 1.7, 2.5]),
            lambda x: elementwise.cast(x, int32),
            lambda x: np.array([-1, 1, 2], "int32"),
        ),
        Sample("scalar", fixed(2.5), lambda x: elementwise.cast(x, float32), lambda x: np.float32(2.5)),
        Sample("empty", reals((0, 3)), lambda x: elementwise.cast(x, uint8), lambda x: np.zeros((0, 3), "uint8")),
        Sample(
            "nan is true", fixed([np.nan, 0.0]), lambda x: elementwise.cast(x, bool_), lambda x: np.array([True, False])
        ),
    ],
    "check_index": [
        Sample("i64", integers((3, 4), low=0, high=7), lambda i: elementwise.check_index(i, 7), lambda i: i),
        Sample(
            "wrap",
            fixed([-3, -1, 0, 2]),
            lambda i: elementwise.check_index(i, 3, True),
            lambda i: np.array([0, 2, 0, 2]),
        ),
        Sample("u8", fixed(np.uint8(200)), lambda i: elementwise.check_index(i, 201), lambda i: np.int64(200)),
        Sample(
            "i8 wrap",
            fixed(np.array([-1, 3], "int8")),
            lambda i: elementwise.check_index(i, 300, True),
            lambda i: np.array([299, 3]),
        ),
        Sample("empty", integers((0, 2)), lambda i: elementwise.check_index(i, 0), lambda i: i),
        Sample("scalar", fixed(3), lambda i: elementwise.check_index(i, 4), lambda i: i),
        Sample("i32", integers((5,), low=0, high=4, dtype="int32"), lambda i: elementwise.check_index(i, 4), np.int64),
        Sample("odd", integers((9,), low=0, high=4), lambda i: elementwise.check_index(odd(i), 4), lambda i: i[1::2]),
    ],
    "detach": [
        Sample(name, reals(shape, dtype=dtype), elementwise.detach, lambda x: x)
        for name, shape, dtype in [
            ("matrix", (2, 3), "float64"),
            ("scalar", (), "float64"),
            ("empty", (0,), "float32"),
            ("f32", (4,), "float32"),
            ("three axes", (2, 1, 3), "float64"),
            ("row", (1, 5), "float64"),
            ("long f32", (67,), "float32"),
            ("one", (1,), "float32"),
        ]
    ],
    "sloped": [
        *unary(composite.silu, lambda v: v / (1 + math.exp(-v)), -4, 4),
        *unary(composite.gelu, lambda v: v * (1 + math.erf(v / math.sqrt(2))) / 2, -4, 4)[:3],
    ],
    "graft": [
        Sample(name, reals(shape, shape, dtype=dtype), graft.graft, lambda value, history: value)
        for name, shape, dtype in [
            ("matrix", (2, 3), "float64"),
            ("scalar", (), "float64"),
            ("empty", (0,), "float32"),
            ("f32", (4,), "float32"),
            ("three axes", (2, 1, 3), "float64"),
            ("row", (1, 5), "float64"),
            ("long f32", (67,), "float32"),
            ("one", (1,), "float32"),
        ]
    ],
}
