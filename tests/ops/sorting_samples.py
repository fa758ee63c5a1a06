"""Samples of order and search."""

from __future__ import annotations

from collections.abc import Callable
from functools import cmp_to_key
from typing import Any

import numpy as np

from tests.ops.operands import Array, Make, Sample, bools, both, fixed, integers, reals
from tinygrad_lite.ops import sorting

NAN = float("nan")


def _compare(a: Any, b: Any) -> int:
    """NaN is the greatest, and equal to itself."""
    if a != a or b != b:
        return int(a != a) - int(b != b)
    return int(a > b) - int(a < b)


def order(x: Array, axis: int, descending: bool) -> Array:
    """By Python's sort, which is stable."""

    def row(values: Array) -> Array:
        sign = -1 if descending else 1
        key = cmp_to_key(lambda i, j: sign * _compare(values[i], values[j]))
        return np.array(sorted(range(len(values)), key=key), np.int64)

    return np.apply_along_axis(row, axis, x).astype(np.int64) if x.size else np.zeros(x.shape, np.int64)


def sorted_by(make: Make, axis: int, descending: bool, name: str) -> Sample:
    return Sample(name, make, lambda x: sorting.argsort(x, axis, descending), lambda x: order(x, axis, descending))


def place(right: bool) -> Callable[[Array, Array], Array]:
    """By counting."""

    def reference(edges: Array, values: Array) -> Array:
        out = np.zeros(values.shape, np.int64)
        for at in np.ndindex(values.shape):
            row = edges if edges.ndim == 1 else edges[at[:-1]]
            out[at] = sum(_compare(e, values[at]) < int(right) for e in row)
        return out

    return reference


def placed(make: Make, right: bool, name: str) -> Sample:
    return Sample(name, make, lambda e, v: sorting.searchsorted(e, v, right), place(right))


def rows(*shape: int, dtype: str = "float64") -> Make:
    """Sorted along the last axis, with equals."""
    return lambda rng: [np.sort(rng.integers(0, 6, shape), -1).astype(dtype)]


TIES = [[3.0, 1.0, 3.0, 1.0, 2.0], [0.0, -0.0, 0.0, -0.0, 0.0]]
WITH_NAN = [[NAN, 1.0, NAN, -np.inf, np.inf, 0.0]]

SORTING = {
    "argsort": [
        sorted_by(reals((4, 7)), 1, False, "rows"),
        sorted_by(reals((4, 7)), 0, False, "columns"),
        sorted_by(reals((2, 5, 3)), 1, True, "middle axis, descending"),
        sorted_by(fixed(TIES), 1, False, "ties"),
        sorted_by(fixed(TIES), 1, True, "ties, descending"),
        sorted_by(fixed(WITH_NAN), 1, False, "nan"),
        sorted_by(fixed(WITH_NAN), 1, True, "nan, descending"),
        sorted_by(integers((3, 40), low=0, high=9, dtype="int16"), -1, False, "i16"),
        sorted_by(integers((50,), dtype="uint8", low=0, high=200), 0, True, "u8"),
        sorted_by(bools((3, 9)), 1, False, "bool"),
        sorted_by(reals((33,), dtype="float32"), 0, False, "f32"),
        sorted_by(reals((0, 4)), 1, False, "no rows"),
        sorted_by(reals((3, 0)), 1, False, "empty rows"),
        Sample("values", reals((3, 6)), lambda x: sorting.sort(x, 1)[0], lambda x: np.sort(x, 1), (0,)),
        Sample(
            "values, descending", reals((5, 2)), lambda x: sorting.sort(x, 0, True)[0], lambda x: -np.sort(-x, 0), (0,)
        ),
    ],
    "searchsorted": [
        placed(both(rows(7), reals((4, 3))), False, "vector"),
        placed(both(rows(7), integers((4, 3), dtype="float64")), True, "vector, right"),
        placed(both(rows(4, 7), integers((4, 3), dtype="float64")), False, "rows"),
        placed(both(rows(2, 3, 5), integers((2, 3, 4), dtype="float64")), True, "batches, right"),
        placed(both(rows(6, dtype="int32"), integers((9,), dtype="int32")), False, "i32"),
        placed(both(rows(6, dtype="float32"), integers((2, 2), dtype="float32")), True, "f32"),
        placed(fixed([0.0, 1.0, 1.0, NAN], [NAN, np.inf, 1.0, -np.inf, 0.5]), False, "nan"),
        placed(fixed([0.0, 1.0, 1.0, NAN], [NAN, np.inf, 1.0, -np.inf, 0.5]), True, "nan, right"),
        placed(both(rows(0), reals((3,))), False, "no edges"),
        placed(both(rows(5), reals((0, 2))), False, "no values"),
        placed(both(rows(5), reals(())), False, "scalar"),
    ],
}
