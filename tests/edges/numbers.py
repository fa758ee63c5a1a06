"""Edges of number formats: integers, division, 16-bit floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes  # noqa: F401  (lets NumPy know bfloat16)
import numpy as np

from tests.edges.edge import Edge

INF, NAN = math.inf, math.nan
EDGES: list[Edge] = []


def edge(family: str, case: str, outcome: str, run: Callable[..., Any], *args: Any, **expected: Any) -> None:
    EDGES.append(Edge(family, case, outcome, run, args, **expected))


def of(dtype: str, *values: int) -> np.ndarray:
    return np.array(values, dtype)


INTEGERS = "Integers"
edge(
    INTEGERS,
    "int8 `100 + 100`, `100 * 2`, `-(-128)`, `abs(-128)`",
    "wraps around: -56, -56, -128, -128",
    lambda T, x, y: (x + x, x * 2, -y, y.abs()),
    of("int8", 100),
    of("int8", -128),
    value=([-56], [-56], [-128], [-128]),
)
edge(
    INTEGERS,
    "uint8 `200 + 100`, `0 - 1`",
    "wraps around: 44, 255",
    lambda T, x: (x + 100, x - 201),
    of("uint8", 200),
    value=([44], [255]),
)
edge(
    INTEGERS,
    "a Python number beyond the dtype: uint8 `x == -1`, `x + 300`, `where(c, x, -1)`",
    "wraps around first: 255 is equal to -1",
    lambda T, x: (x == -1, x + 300, T.where(x > 300, x, -1)),
    of("uint8", 255, 1),
    value=([True, False], [43, 45], [255, 255]),
)
edge(
    INTEGERS,
    "`fill_`, `full`, `masked_fill`, `clamp` with a number beyond the dtype",
    "RuntimeError; small negative numbers in uint8 wrap around",
    lambda T, x: x.clone().fill_(300),
    of("int8", 1),
    raises=(RuntimeError, "300 cannot be converted to type int8"),
)
edge(INTEGERS, "int64 `max + 1`", "wraps around", lambda T, x: x + 1, of("int64", 2**63 - 1), value=[-(2**63)])
edge(
    INTEGERS,
    "`sum`, `prod` of int8 and bool",
    "in int64",
    lambda T, x, b: (x.sum(), x.prod(), b.sum()),
    of("int8", 100, 100, 100),
    np.array([True, True]),
    value=(300, 1000000, 2),
)
edge(INTEGERS, "`cumsum` of uint8", "in int64", lambda T, x: x.cumsum(0), of("uint8", 200, 200), value=[200, 400])
edge(
    INTEGERS,
    "`sum(dtype=int8)`",
    "wraps around: 44",
    lambda T, x: x.sum(dtype=T.int8),
    of("int8", 100, 100, 100),
    value=44,
)
edge(
    INTEGERS,
    "`mean`",
    "RuntimeError",
    lambda T, x: x.mean(),
    of("int64", 1, 2),
    raises=(RuntimeError, "floating point"),
)
edge(
    INTEGERS,
    "`7 / 2`, `exp(1)`",
    "float32",
    lambda T, x: ((x / 2).dtype == T.float32) * x / 2,
    of("int64", 7),
    value=[3.5],
)
edge(
    INTEGERS,
    "`2 ** -1`",
    "RuntimeError",
    lambda T, x, y: x**y,
    of("int64", 2),
    of("int64", -1),
    raises=(RuntimeError, "negative"),
    torch=False,
    note="raises for a number as exponent; of tensors 0",
)
edge(
    INTEGERS,
    "`0 ** 0`, `(-2) ** 3`",
    "1, -8",
    lambda T, x, y: x**y,
    of("int64", 0, -2),
    of("int64", 0, 3),
    value=[1, -8],
)
edge(
    INTEGERS,
    "shifts by less than 0 or by all bits",
    "`<<` gives 0, `>>` the sign",
    lambda T, x, n: (x << n, x >> n),
    of("int64", -5, -5, 5),
    of("int64", 64, 100, 70),
    value=([0, 0, 0], [-1, -1, 0]),
)
edge(
    INTEGERS,
    "float to integer",
    "cut towards 0",
    lambda T, x: (x.int(), x.long()),
    [-1.7, 1.7],
    value=([-1, 1], [-1, 1]),
)
edge(
    INTEGERS,
    "`bool + bool`, `bool * bool`",
    "or, and: still bool",
    lambda T, x: (x + x, x * x),
    np.array([True, False]),
    value=([True, False], [True, False]),
)
edge(
    INTEGERS,
    "`bool - bool`, `-bool`",
    "RuntimeError",
    lambda T, x: x - x,
    np.array([True]),
    raises=(RuntimeError, "bool"),
)

DIVISION = "Division and remainder"
edge(
    DIVISION,
    "`//` of ±7 and ±2",
    "towards -inf: 3, -4, -4, 3",
    lambda T, x, y: x // y,
    of("int64", 7, -7, 7, -7),
    of("int64", 2, 2, -2, -2),
    value=[3, -4, -4, 3],
)
edge(
    DIVISION,
    "`%`",
    "has the divisor's sign: 1, 1, -1, -1",
    lambda T, x, y: x % y,
    of("int64", 7, -7, 7, -7),
    of("int64", 2, 2, -2, -2),
    value=[1, 1, -1, -1],
)
edge(
    DIVISION,
    "`fmod`",
    "has the dividend's sign: 1, -1, 1, -1",
    lambda T, x, y: T.fmod(x, y),
    of("int64", 7, -7, 7, -7),
    of("int64", 2, 2, -2, -2),
    value=[1, -1, 1, -1],
)
edge(
    DIVISION,
    "`div(rounding_mode='trunc')`",
    "towards 0: 3, -3, -3, 3",
    lambda T, x, y: T.div(x, y, rounding_mode="trunc"),
    of("int64", 7, -7, 7, -7),
    of("int64", 2, 2, -2, -2),
    value=[3, -3, -3, 3],
)
edge(
    DIVISION,
    "`//`, `%` of floats",
    "as integers do",
    lambda T, x: (x // 2, x % 2, T.fmod(x, 2)),
    [7.5, -7.5],
    value=([3.0, -4.0], [1.5, 0.5], [1.5, -1.5]),
)
edge(DIVISION, "float `x / 0`, `0 / 0`", "±inf, NaN", lambda T, x: x / 0, [1.0, -1.0, 0.0], value=[INF, -INF, NAN])
edge(
    DIVISION,
    "float `x // 0`, `x % 0`",
    "±inf, NaN",
    lambda T, x: (x // 0, x % 0),
    [1.0, -1.0],
    value=([INF, -INF], [NAN, NAN]),
)
edge(
    DIVISION,
    "`1 % inf`, `-1 % inf`, `fmod(-1, inf)`",
    "1, inf, -1",
    lambda T, x: (x % INF, T.fmod(x, INF)),
    [1.0, -1.0],
    value=([1.0, INF], [1.0, -1.0]),
)
for name in ("floor_divide", "remainder", "fmod"):
    edge(
        DIVISION,
        f"integer `{name}` by 0",
        "RuntimeError",
        lambda T, x, y, n=name: getattr(T, n)(x, y),
        of("int64", 1, 2),
        of("int64", 1, 0),
        raises=(RuntimeError, "ZeroDivisionError"),
    )

HALF = "float16 and bfloat16"
edge(
    HALF,
    "sum of 4096 ones",
    "4096: added up in float32",
    lambda T, x: (x.sum(), x.bfloat16().sum()),
    np.ones(4096, "float16"),
    value=(4096.0, 4096.0),
)
edge(
    HALF,
    "mean of 1000 times 200",
    "200: the sum does not overflow",
    lambda T, x: x.mean(),
    np.full(1000, 200, "float16"),
    value=200.0,
)
edge(
    HALF,
    "`cumsum` of 4096 ones",
    "the last is 4096",
    lambda T, x: x.cumsum(0)[-1],
    np.ones(4096, "float16"),
    value=4096.0,
)
edge(
    HALF,
    "`norm` of 1000 times 200",
    "6324: squares do not overflow",
    lambda T, x: x.norm(),
    np.full(1000, 200, "float16"),
    value=float(np.float16(200 * 1000**0.5)),
)
edge(HALF, "`60000 + 6000`", "inf", lambda T, x: x + 6000, np.array([60000], "float16"), value=[INF])
edge(
    HALF,
    "`2048 + 1`, bfloat16 `256 + 1`",
    "2048, 256: halves to even",
    lambda T, x: (x + 1, (x / 8).bfloat16() + 1),
    np.array([2048], "float16"),
    value=([2048.0], [256.0]),
)
edge(
    HALF,
    "`x * 1.1`",
    "the number is not rounded to 16 bits first",
    lambda T, x: x * 1.1,
    np.array([0.9053], "float16"),
    value=[float(np.float16(np.float32(np.float16(0.9053)) * np.float32(1.1)))],
)
edge(
    HALF,
    "float16 + bfloat16",
    "float32",
    lambda T, x: ((x + x.bfloat16()).dtype == T.float32) * x.float(),
    np.array([1.0], "float16"),
    value=[1.0],
)
edge(
    HALF,
    "1e-8 in float16",
    "0; subnormal numbers down to 6e-8 are kept",
    lambda T, x: x.half(),
    [1e-8, 6e-8],
    value=[0.0, float(np.float16(6e-8))],
)
