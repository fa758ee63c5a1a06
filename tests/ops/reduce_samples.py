"""Samples of the reductions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.ops.operands import Array, Sample, bools, fixed, integers, reals
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ops import reduce


def folded(fold: Callable[[list[Any]], Any]) -> Callable[[Array, Sequence[int]], Array]:
    """A reduction of each list of elements over `axes`, kept as size 1."""

    def reduced(x: Array, axes: Sequence[int]) -> Array:
        kept = [a for a in range(x.ndim) if a not in axes]
        shape = [x.shape[a] for a in kept]
        rows = x.transpose(*kept, *axes).reshape(math.prod(shape), math.prod(x.shape[a] for a in axes))
        return np.array([fold(row.tolist()) for row in rows]).reshape(
            [1 if a in axes else s for a, s in enumerate(x.shape)]
        )

    return reduced


def total(row: list[Any]) -> Any:
    """Exact for integers, rounded once for reals."""
    return math.fsum(row) if any(isinstance(x, float) for x in row) else sum(row)


def reduction(
    build: Callable[..., Node], fold: Callable[[list[Any]], Any], grad: bool = True, empty: bool = True
) -> list[Sample]:
    wrt = (0,) if grad else ()
    over = folded(fold)
    samples = [
        Sample("rows", reals((3, 4)), lambda x: build(x, 1, True), lambda x: over(x, (1,)), wrt),
        Sample("columns", reals((3, 4)), lambda x: build(x, -2), lambda x: over(x, (0,))[0], wrt),
        Sample("all", reals((2, 3, 2)), build, lambda x: over(x, (0, 1, 2)).reshape(()), wrt),
        Sample("outer axes", reals((2, 3, 4)), lambda x: build(x, (2, 0)), lambda x: over(x, (0, 2)).reshape(3), wrt),
        Sample("scalar", reals(()), build, lambda x: np.asarray(fold([x.item()])), wrt),
        Sample("no rows", reals((0, 3)), lambda x: build(x, 1), lambda x: np.zeros(0), wrt),
        Sample(
            "f32",
            reals((5, 6), dtype="float32"),
            lambda x: build(x, 0),
            lambda x: over(x.astype("float64"), (0,))[0].astype("float32"),
        ),
        Sample("i64", integers((3, 4)), lambda x: build(x, 1), lambda x: over(x, (1,))[:, 0]),
    ]
    if empty:
        samples.append(
            Sample(
                "of nothing", reals((2, 0)), lambda x: build(x, 1), lambda x: over(x, (1,))[:, 0].astype("float64"), wrt
            )
        )
        samples.append(
            Sample("bool", bools((3, 5)), lambda x: build(x, 1), lambda x: over(x, (1,))[:, 0].astype("int64"))
        )
    return samples


def position(build: Callable[..., Node], best: Callable[[list[Any]], Any]) -> list[Sample]:
    over = folded(lambda row: row.index(best(row)))
    return [
        Sample("rows", reals((3, 4)), lambda x: build(x, 1), lambda x: over(x, (1,))[:, 0]),
        Sample("ties", integers((4, 9), low=0, high=3), lambda x: build(x, -1, True), lambda x: over(x, (1,))),
        Sample("flat", reals((3, 2)), build, lambda x: over(x, (0, 1)).reshape(())),
        Sample("scalar", reals(()), build, lambda x: np.int64(0)),
        Sample("no rows", reals((3, 0)), lambda x: build(x, 0), lambda x: np.zeros(0, "int64")),
        Sample("nan", fixed([1.0, np.nan, 5.0, np.nan]), build, lambda x: np.int64(1)),
        Sample("f32", reals((5, 2), dtype="float32"), lambda x: build(x, 0), lambda x: over(x, (0,))[0]),
        Sample("u8", integers((5, 3), low=0, high=9, dtype="uint8"), lambda x: build(x, 0), lambda x: over(x, (0,))[0]),
        Sample("middle", reals((2, 3, 4)), lambda x: build(x, 1, True), lambda x: over(x, (1,))),
    ]


def truths(build: Callable[..., Node], fold: Callable[[list[Any]], bool]) -> list[Sample]:
    over = folded(fold)
    return [
        Sample("rows", bools((6, 2)), lambda x: build(x, 1), lambda x: over(x, (1,))[:, 0]),
        Sample("all", bools((2, 2)), build, lambda x: over(x, (0, 1)).reshape(())),
        Sample("scalar", bools(()), build, lambda x: x),
        Sample("of nothing", bools((2, 0)), lambda x: build(x, 1, True), lambda x: over(x, (1,))),
        Sample("i64", integers((5, 2), low=0, high=2), lambda x: build(x, 0), lambda x: over(x, (0,))[0]),
        Sample("outer axes", bools((2, 3, 4)), lambda x: build(x, (0, 2)), lambda x: over(x, (0, 2)).reshape(3)),
        Sample(
            "f32",
            integers((3, 4), low=0, high=2, dtype="float32"),
            lambda x: build(x, 1),
            lambda x: over(x, (1,))[:, 0],
        ),
        Sample("nan is true", fixed([[np.nan, 0.0], [0.0, 0.0]]), lambda x: build(x, 1), lambda x: over(x, (1,))[:, 0]),
    ]


with_zeros = [
    Sample(
        "zeros",
        fixed([[1.5, 0.0, 2.0, 3.0], [0.0, 2.0, 0.0, 1.0], [1.0, 2.0, 3.0, 4.0]]),
        lambda x: reduce.prod(x, 1),
        lambda x: np.array([0.0, 0.0, 24.0]),
        (0,),
    ),
    Sample(
        "zeros, two axes",
        fixed(np.arange(8.0).reshape(2, 2, 2)),
        lambda x: reduce.prod(x, (0, 2)),
        lambda x: np.array([0.0, 2 * 3 * 6 * 7.0]),
        (0,),
    ),
]

REDUCE = {
    "sum": [
        *reduction(reduce.sum, total),
        Sample(
            "long f32",
            reals((4096, 3), dtype="float32"),
            lambda x: reduce.sum(x, 0),
            lambda x: np.array([math.fsum(c) for c in x.T.tolist()], "float32"),
        ),
        Sample("u8", lambda rng: [np.full(300, 200, "uint8")], reduce.sum, lambda x: np.int64(60000)),
    ],
    "prod": reduction(reduce.prod, math.prod) + with_zeros,
    "max": [
        *reduction(reduce.max, max, empty=False),
        Sample(
            "nan", fixed([[1.0, np.nan], [2.0, 3.0]]), lambda x: reduce.max(x, 1), lambda x: np.array([np.nan, 3.0])
        ),
        Sample("-inf", fixed([-np.inf, -np.inf]), reduce.max, lambda x: np.asarray(-np.inf)),
    ],
    "min": [
        *reduction(reduce.min, min, empty=False),
        Sample(
            "nan", fixed([[1.0, np.nan], [2.0, 3.0]]), lambda x: reduce.min(x, 1), lambda x: np.array([np.nan, 2.0])
        ),
    ],
    "argmax": position(reduce.argmax, max),
    "argmin": position(reduce.argmin, min),
    "any": truths(reduce.any, any),
    "all": truths(reduce.all, all),
}
