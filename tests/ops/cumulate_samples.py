"""Samples of ops/cumulate.py, against plain Python loops over each row."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.operands import Array, Sample, bools, fixed, integers, reals
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ops import cumulate, movement

INF, NAN = math.inf, math.nan


def along(fold: Callable[[list[Any]], list[Any]], dtype: Any = None) -> Callable[[Array, int], Array]:
    """`fold` of every row along an axis."""

    def rows(x: Array, axis: int) -> Array:
        moved = np.moveaxis(x, axis, -1)
        flat = moved.reshape(-1, moved.shape[-1]) if x.size else np.zeros((0, 1))
        out = np.array([fold(row.tolist()) for row in flat]).reshape(moved.shape)
        return np.moveaxis(out, -1, axis).astype(dtype or x.dtype)

    return rows


def sums(row: list[Any]) -> list[Any]:
    exact = math.fsum if any(isinstance(v, float) for v in row) else sum
    return [exact(row[: i + 1]) for i in range(len(row))]


def products(row: list[Any]) -> list[Any]:
    return [math.prod(row[: i + 1]) for i in range(len(row))]


def log_sums(row: list[float]) -> list[float]:
    return [math.log(math.fsum(map(math.exp, row[: i + 1]))) for i in range(len(row))]


def last_best(best: Callable[[list[Any]], Any]) -> Callable[[list[Any]], list[int]]:
    return lambda row: [max(j for j in range(i + 1) if row[j] == best(row[: i + 1])) for i in range(len(row))]


def recurrence(a: list[float], b: list[float]) -> list[float]:
    out: list[float] = []
    for factor, term in zip(a, b, strict=True):
        out.append(term + (factor * out[-1] if out else 0.0))
    return out


def cumulated(build: Callable[..., Node], fold: Callable[[list[Any]], list[Any]], dtype: Any = None) -> list[Sample]:
    rows = along(fold, dtype)
    wrt = () if dtype else (0,)
    return [
        Sample("rows", reals((3, 4)), lambda x: build(x, 1), lambda x: rows(x, 1), wrt),
        Sample("columns", reals((3, 4)), lambda x: build(x, -2), lambda x: rows(x, 0), wrt),
        Sample("middle", reals((2, 3, 4)), lambda x: build(x, 1), lambda x: rows(x, 1), wrt),
        Sample("vector", reals((7,)), lambda x: build(x, 0), lambda x: rows(x, 0), wrt),
        Sample("one", reals((3, 1)), lambda x: build(x, 1), lambda x: rows(x, 1), wrt),
        Sample("no rows", reals((0, 3)), lambda x: build(x, 1), lambda x: x.astype(dtype or x.dtype), wrt),
        Sample("of nothing", reals((2, 0)), lambda x: build(x, 1), lambda x: x.astype(dtype or x.dtype), wrt),
        Sample(
            "f32",
            reals((5, 6), dtype="float32"),
            lambda x: build(x, 0),
            lambda x: rows(x.astype("float64"), 0).astype(dtype or "float32"),
        ),
        Sample(
            "transposed", reals((3, 4)), lambda x: build(movement.transpose(x, 0, 1), 1), lambda x: rows(x.T, 1), wrt
        ),
    ]


def positions(build: Callable[..., Node], best: Callable[[list[Any]], Any]) -> list[Sample]:
    samples = cumulated(lambda x, axis: build(x, axis)[1], last_best(best), "int64")
    rows = along(last_best(best), "int64")
    return [
        *samples,
        Sample("ties", integers((4, 9), low=0, high=3), lambda x: build(x, 1)[1], lambda x: rows(x, 1)),
        Sample("u8", integers((4, 9), low=0, high=9, dtype="uint8"), lambda x: build(x, 0)[1], lambda x: rows(x, 0)),
        Sample("nan", fixed([1.0, NAN, 5.0, NAN, 0.0]), lambda x: build(x, 0)[1], lambda x: np.array([0, 1, 1, 3, 3])),
    ]


def scan(reverse: bool) -> Callable[[Array, Array, int], Array]:
    def rows(a: Array, b: Array, axis: int) -> Array:
        a, b = np.moveaxis(a, axis, -1), np.moveaxis(b, axis, -1)
        step = -1 if reverse else 1
        out = [
            recurrence(p[::step].tolist(), q[::step].tolist())[::step]
            for p, q in zip(a.reshape(-1, a.shape[-1]), b.reshape(-1, b.shape[-1]), strict=True)
        ]
        return np.moveaxis(np.array(out).reshape(b.shape), -1, axis)

    return rows


def linear(axis: int, reverse: bool = False) -> Any:
    return lambda a, b: cumulate.linear_scan(a, b, axis, reverse)


CUMULATE: dict[str, list[Sample]] = {
    "cumsum": [
        *cumulated(cumulate.cumsum, sums),
        Sample("i64", integers((3, 4)), lambda x: cumulate.cumsum(x, 1), lambda x: along(sums)(x, 1)),
        Sample("bool", bools((2, 5)), lambda x: cumulate.cumsum(x, 1), lambda x: along(sums)(x.astype("int64"), 1)),
        Sample(
            "u8",
            lambda rng: [np.full(5, 200, "uint8")],
            lambda x: cumulate.cumsum(x, 0),
            lambda x: 200 * np.arange(1, 6),
        ),
        Sample(
            "reversed",
            reals((3, 4)),
            lambda x: cumulate.cumsum(x, 1, True),
            lambda x: along(sums)(x[:, ::-1], 1)[:, ::-1],
            (0,),
        ),
        Sample(
            "long f32",
            reals((2, 5000), dtype="float32"),
            lambda x: cumulate.cumsum(x, 1),
            lambda x: np.cumsum(x.astype("longdouble"), 1).astype("float32"),
        ),
    ],
    "linear_scan": [
        Sample("rows", reals((3, 4), (3, 4)), linear(1), lambda a, b: scan(False)(a, b, 1), (0, 1)),
        Sample("columns", reals((3, 4), (3, 4)), linear(0), lambda a, b: scan(False)(a, b, 0), (0, 1)),
        Sample("middle", reals((2, 3, 2), (2, 3, 2)), linear(1), lambda a, b: scan(False)(a, b, 1), (0, 1)),
        Sample("reversed", reals((3, 4), (3, 4)), linear(1, True), lambda a, b: scan(True)(a, b, 1), (0, 1)),
        Sample("vector", reals((5,), (5,)), linear(-1), lambda a, b: scan(False)(a, b, 0), (0, 1)),
        Sample("one", reals((3, 1), (3, 1)), linear(1), lambda a, b: b, (0, 1)),
        Sample("of nothing", reals((3, 0), (3, 0)), linear(1), lambda a, b: b, (0, 1)),
        Sample(
            "f32",
            reals((4, 3), (4, 3), dtype="float32"),
            linear(0),
            lambda a, b: scan(False)(a, b, 0).astype("float32"),
        ),
        Sample("i64", integers((2, 4), (2, 4)), linear(1), lambda a, b: scan(False)(a, b, 1).astype("int64")),
        Sample("products", reals((3, 4)), lambda x: cumulate.cumprod(x, 1), lambda x: along(products)(x, 1), (0,)),
        Sample(
            "products with zeros",
            fixed([[2.0, 0.0, 3.0, 4.0], [0.0, 0.0, 5.0, 2.0]]),
            lambda x: cumulate.cumprod(x, 1),
            lambda x: np.array([[2.0, 0, 0, 0], [0, 0, 0, 0]]),
            (0,),
        ),
        Sample(
            "products of i64",
            integers((3, 4), low=1),
            lambda x: cumulate.cumprod(x, 0),
            lambda x: along(products)(x, 0),
        ),
    ],
    "logcumsumexp": [
        *cumulated(cumulate.logcumsumexp, log_sums),
        Sample(
            "edges",
            fixed([-INF, -INF, 0.0, 1000.0, -1000.0]),
            lambda x: cumulate.logcumsumexp(x, 0),
            lambda x: np.array([-INF, -INF, 0.0, 1000.0, 1000.0]),
        ),
        Sample(
            "far apart",
            fixed([-500.0, 0.0, -500.0]),
            lambda x: cumulate.logcumsumexp(x, 0),
            lambda x: np.array([-500.0, 0.0, 0.0]),
            (0,),
        ),
    ],
    "cumargmax": positions(cumulate.cummax, max),
    "cumargmin": positions(cumulate.cummin, min),
}
