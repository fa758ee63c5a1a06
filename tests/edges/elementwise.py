"""Edges of elementwise functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.edges.edge import Edge

INF, NAN = math.inf, math.nan
EDGES: list[Edge] = []


def edge(family: str, case: str, outcome: str, run: Callable[..., Any], *args: Any, **expected: Any) -> None:
    EDGES.append(Edge(family, case, outcome, run, args, **expected))


def f32(*values: float) -> np.ndarray:
    return np.array(values, "float32")


# ---- ties ----------------------------------------------------------------------------------------------------------

TIES = "Ties"
edge(
    TIES,
    "`maximum`, `minimum` of equals",
    "each gets half of the gradient",
    lambda T, x, y: (T.maximum(x, y), T.minimum(x, y)),
    [2.0],
    [2.0],
    value=([2.0], [2.0]),
    grads=[[1.0], [1.0]],
)
edge(
    TIES,
    "`fmax`, `fmin` of equals",
    "the first gets the gradient",
    lambda T, x, y: (T.fmax(x, y), T.fmin(x, y)),
    [2.0],
    [2.0],
    grads=[[2.0], [0.0]],
)
edge(
    TIES,
    "`clamp` on a bound",
    "the gradient passes",
    lambda T, x: x.clamp(-1, 1),
    [-1.0, 1.0, 1.5],
    grads=[[1.0, 1.0, 0.0]],
)
edge(
    TIES,
    "`clamp` between tensors, on a bound",
    "the input gets the gradient, not the bound",
    lambda T, x, a: T.clamp(x, min=a),
    [1.0, 0.0],
    [1.0, 1.0],
    grads=[[1.0, 0.0], [0.0, 1.0]],
)
edge(
    TIES,
    "`clamp` with min > max",
    "max everywhere, no gradient",
    lambda T, x: x.clamp(1, -1),
    [-2.0, 0.0, 2.0],
    value=[-1.0, -1.0, -1.0],
    grads=[[0.0, 0.0, 0.0]],
)

# ---- at zero -------------------------------------------------------------------------------------------------------

ZERO = "Gradients at 0"
edge(ZERO, "`abs`", "0", lambda T, x: x.abs(), [0.0, -0.0], grads=[[0.0, 0.0]])
edge(
    ZERO,
    "`sign`, `floor`, `round`",
    "0 everywhere",
    lambda T, x: (x.sign(), x.floor(), x.round()),
    [0.0, 1.5],
    grads=[[0.0, 0.0]],
)
edge(ZERO, "`sqrt`", "inf", lambda T, x: x.sqrt(), [0.0], value=[0.0], grads=[[INF]])
edge(ZERO, "`rsqrt`", "-inf; the value is inf", lambda T, x: x.rsqrt(), [0.0], value=[INF], grads=[[-INF]])
edge(ZERO, "`log`", "inf; the value is -inf", lambda T, x: x.log(), [0.0], value=[-INF], grads=[[INF]])
edge(
    ZERO,
    "`x ** 2`, `x ** 1.5`, `x ** 0.5`",
    "0, 0, inf",
    lambda T, x: (x[:1] ** 2, x[1:2] ** 1.5, x[2:] ** 0.5),
    [0.0, 0.0, 0.0],
    grads=[[0.0, 0.0, INF]],
)
edge(
    ZERO,
    "`0 ** 0`",
    "1; no gradient to the base, none to the exponent",
    lambda T, x, y: x**y,
    [0.0],
    [0.0],
    value=[1.0],
    grads=[[0.0], [0.0]],
)
edge(
    ZERO,
    "`0 ** y` in y",
    "0 for y > 0",
    lambda T, y: T.tensor(0.0, dtype=y.dtype) ** y,
    [2.0, 0.5],
    value=[0.0, 0.0],
    grads=[[0.0, 0.0]],
)
edge(
    ZERO,
    "negative base, tensor exponent",
    "the exponent's gradient is NaN",
    lambda T, x, y: x**y,
    [-2.0],
    [2.0],
    value=[4.0],
    grads=[[-4.0], [NAN]],
)
edge(ZERO, "`sinc`", "1, with the gradient 0", lambda T, x: T.sinc(x), [0.0], value=[1.0], grads=[[0.0]])
edge(
    ZERO,
    "`xlogy(0, y)`",
    "0, also for y = 0",
    lambda T, x, y: T.xlogy(x, y),
    [0.0, 0.0],
    [0.0, 2.0],
    value=[0.0, 0.0],
    grads=[[0.0, math.log(2)], [0.0, 0.0]],
    torch=False,
    note="NaN as y's gradient at (0, 0)",
)

# ---- what where does not take --------------------------------------------------------------------------------------

BRANCH = "The branch that `where` does not take"
edge(
    BRANCH,
    "NaN there",
    "neither in the value nor in the gradient of the other branch",
    lambda T, x, y: T.where(x > 0, x, y),
    [1.0, 2.0],
    [NAN, INF],
    value=[1.0, 2.0],
    grads=[[1.0, 1.0], [0.0, 0.0]],
)
edge(
    BRANCH,
    "`where(x > 0, sqrt(x), 0)` at x <= 0",
    "NaN: the branch's own derivative is inf or NaN, times 0; mask x first",
    lambda T, x: T.where(x > 0, x.sqrt(), 0.0),
    [0.0, -1.0, 4.0],
    value=[0.0, 0.0, 2.0],
    grads=[[NAN, NAN, 0.25]],
)
edge(
    BRANCH,
    "`where(ok, sqrt(where(ok, x, 1)), 0)`",
    "0: masked before and after",
    lambda T, x: T.where(x > 0, T.where(x > 0, x, 1.0).sqrt(), 0.0),
    [0.0, -1.0, 4.0],
    value=[0.0, 0.0, 2.0],
    grads=[[0.0, 0.0, 0.25]],
)
edge(
    BRANCH,
    "`masked_fill` over NaN",
    "the fill, and no gradient",
    lambda T, x: x.masked_fill(T.isnan(x), 0),
    [NAN, 1.0],
    value=[0.0, 1.0],
    grads=[[0.0, 1.0]],
)

# ---- NaN -----------------------------------------------------------------------------------------------------------

NANS = "NaN"
edge(
    NANS,
    "`maximum`, `minimum`",
    "NaN wins",
    lambda T, x, y: (T.maximum(x, y), T.minimum(x, y)),
    [NAN, 1.0],
    [1.0, NAN],
    value=([NAN, NAN], [NAN, NAN]),
)
edge(
    NANS,
    "`fmax`, `fmin`",
    "the number wins",
    lambda T, x, y: (T.fmax(x, y), T.fmin(x, y)),
    [NAN, 1.0, NAN],
    [1.0, NAN, NAN],
    value=([1.0, 1.0, NAN], [1.0, 1.0, NAN]),
)
edge(NANS, "`clamp` of NaN", "NaN", lambda T, x: (x.clamp(-1, 1), x.clamp(min=0)), [NAN], value=([NAN], [NAN]))
edge(NANS, "`clamp` to a NaN bound", "NaN everywhere", lambda T, x: x.clamp(max=NAN), [0.0, 1.0], value=[NAN, NAN])
edge(
    NANS,
    "gradient of `clamp` at NaN",
    "1: it passes",
    lambda T, x: x.clamp(-1, 1),
    [NAN],
    grads=[[1.0]],
    torch=False,
    note="0",
)
edge(
    NANS,
    "comparisons",
    "all false but `!=`",
    lambda T, x: (x == x, x != x, x < 1, x >= 1),
    [NAN],
    value=([False], [True], [False], [False]),
)
edge(NANS, "`sign(nan)`", "0", lambda T, x: x.sign(), [NAN], value=[0.0])
edge(
    NANS,
    "`isclose(nan, nan)`",
    "False, unless `equal_nan`",
    lambda T, x: (T.isclose(x, x), T.isclose(x, x, equal_nan=True)),
    [NAN],
    value=([False], [True]),
)
edge(
    NANS,
    "`nan ** 0`, `1 ** nan`",
    "1",
    lambda T, x: (x**0, T.tensor(1.0, dtype=x.dtype) ** x),
    [NAN],
    value=([1.0], [1.0]),
)
edge(NANS, "`hypot(inf, nan)`", "inf", lambda T, x, y: T.hypot(x, y), [INF], [NAN], value=[INF])
edge(
    NANS,
    "NaN to bool",
    "True",
    lambda T, x: (x.bool(), T.logical_not(x)),
    [NAN, 0.0],
    value=([True, False], [False, True]),
)

# ---- minus zero ----------------------------------------------------------------------------------------------------

MINUS = "-0.0"
edge(MINUS, "`-0.0 == 0.0`", "True", lambda T, x: x == 0, [-0.0], value=[True])
edge(
    MINUS,
    "`sqrt`, `sin`, `tan`, `asin`, `atan`, `sinh`, `tanh`, `expm1`, `log1p`, `erf`",
    "-0.0",
    lambda T, x: tuple(
        getattr(T, n)(x) for n in ("sqrt", "sin", "tan", "asin", "atan", "sinh", "tanh", "expm1", "log1p", "erf")
    ),
    [-0.0],
    value=([-0.0],) * 10,
)
edge(
    MINUS,
    "the same in float32",
    "-0.0",
    lambda T, x: tuple(
        getattr(T, n)(x)
        for n in ("sqrt", "sin", "tan", "asin", "atan", "sinh", "tanh", "expm1", "log1p", "erf", "asinh", "atanh")
    ),
    f32(-0.0),
    value=([-0.0],) * 12,
)
edge(MINUS, "`abs`, `sign`", "0.0", lambda T, x: (x.abs(), x.sign()), [-0.0], value=([0.0], [0.0]))
edge(
    MINUS,
    "`ceil(-0.5)`, `trunc(-0.5)`, `round(-0.4)`",
    "-0.0",
    lambda T, x: (x.ceil(), x.trunc(), x.round()),
    [-0.4],
    value=([-0.0], [-0.0], [-0.0]),
)
edge(MINUS, "`1 / x`", "-inf", lambda T, x: 1 / x, [-0.0], value=[-INF])
edge(
    MINUS,
    "`signbit`, `copysign(1, x)`",
    "True, -1",
    lambda T, x: (T.signbit(x), T.copysign(T.ones_like(x), x)),
    [-0.0],
    value=([True], [-1.0]),
)
edge(
    MINUS, "`atan2(±0, -1)`", "±π", lambda T, y, x: T.atan2(y, x), [0.0, -0.0], [-1.0, -1.0], value=[math.pi, -math.pi]
)
edge(
    MINUS,
    "`fmod(-4, 2)`, `remainder(-4, 2)`",
    "-0.0 and 0.0",
    lambda T, x: (T.fmod(x, 2), T.remainder(x, 2)),
    [-4.0],
    value=([-0.0], [0.0]),
    torch=False,
    note="-0.0 of both",
)

edge(
    MINUS,
    "`maximum`, `minimum` of 0 and -0, in either order",
    "0.0 and -0.0",
    lambda T, x, y: (T.maximum(x, y), T.minimum(x, y)),
    [0.0, -0.0],
    [-0.0, 0.0],
    value=([0.0, 0.0], [-0.0, -0.0]),
    torch=False,
    note="either, by place and length",
)
edge(
    MINUS,
    "`amax`, `amin` of zeros",
    "0.0 if one is, -0.0 if one is",
    lambda T, x: (x.amax(1), x.amin(1)),
    [[0.0, -0.0], [-0.0, 0.0], [-0.0, -0.0]],
    value=([0.0, 0.0, -0.0], [-0.0, -0.0, -0.0]),
    torch=False,
    note="either, by place and length",
)

# ---- very large and very small arguments ---------------------------------------------------------------------------

FAR = "Large and small arguments of float32"
SINGLE = 3e-7


def far(name: str, arguments: list[float], expected: list[float], outcome: str, **more: Any) -> None:
    shown = ", ".join(f"{a:g}" for a in arguments)
    edge(
        FAR,
        f"`{name}` at {shown}",
        outcome,
        lambda T, x: getattr(T, name)(x),
        f32(*arguments),
        value=expected,
        rtol=SINGLE,
        **more,
    )


far("exp", [89.0, -104.0, 88.0, INF, -INF], [INF, 0.0, math.exp(88), INF, 0.0], "inf, 0, finite, inf, 0")
far("expm1", [1e-10, -1e-10, 89.0, -200.0], [1e-10, -1e-10, INF, -1.0], "x itself near 0; inf; -1")
far("exp2", [128.0, 127.0, -149.0, 1e-10], [INF, 2.0**127, 2.0**-149, 1.0], "inf; subnormal numbers are kept")
far(
    "log",
    [1e-45, 3e38, 0.0, -1.0, INF],
    [math.log(float(np.float32(1e-45))), math.log(3e38), -INF, NAN, INF],
    "right for subnormal numbers; -inf; NaN",
)
far("log1p", [1e-20, -1.0, 3e38, -2.0], [1e-20, -INF, math.log(3e38), NAN], "x itself near 0; -inf at -1")
far("log2", [8.0, 2.0**-149, 0.0], [3.0, -149.0, -INF], "exact at powers of 2")
far("log10", [1000.0, 1e-45, 1e30], [3.0, math.log10(float(np.float32(1e-45))), 30.0], "exact at powers of 10")
X = float(np.float32(1e30))
far("sin", [1e30, 1e-30, INF], [math.sin(X), 1e-30, NAN], "reduced exactly, however large; NaN at inf")
far("cos", [1e30, 1e-30, -INF], [math.cos(X), 1.0, NAN], "reduced exactly, however large; NaN at inf")
far("tan", [1e30, 1e-30, INF], [math.tan(X), 1e-30, NAN], "reduced exactly, however large; NaN at inf")
far("tanh", [100.0, -100.0, 1e-30, INF], [1.0, -1.0, 1e-30, 1.0], "±1; x itself near 0")
far("sigmoid", [200.0, -200.0, INF, -INF], [1.0, 0.0, 1.0, 0.0], "1 and 0")
far("sinh", [89.0, 90.0, 1e-30], [math.sinh(89.0), INF, 1e-30], "finite as long as the result is")
far("cosh", [89.0, 90.0, -INF], [math.cosh(89.0), INF, INF], "finite as long as the result is")
far("asinh", [3e38, 1e-30, -INF], [math.asinh(3e38), 1e-30, -INF], "no overflow of x²; x itself near 0")
far("acosh", [1.0, 3e38, 0.5, INF], [0.0, math.acosh(3e38), NAN, INF], "0 at 1; NaN below")
far("atanh", [1.0, -1.0, 1e-30, 2.0], [INF, -INF, 1e-30, NAN], "±inf at ±1; NaN beyond")
far("asin", [1.0, 1e-30, 1.0000001], [math.pi / 2, 1e-30, NAN], "NaN beyond 1")
far("acos", [1.0, -1.0, -1.0000001], [0.0, math.pi, NAN], "0 at 1, π at -1, NaN beyond")
far("atan", [3e38, 1e-30, -INF], [math.pi / 2, 1e-30, -math.pi / 2], "±π/2; x itself near 0")
far("erf", [6.0, -6.0, 1e-30], [1.0, -1.0, 1.1283791670955126e-30], "±1; linear near 0")
far("erfc", [9.0, -9.0, INF], [math.erfc(9.0), 2.0, 0.0], "small values keep their digits")
far("erfinv", [1.0, -1.0, 2.0, 1e-30], [INF, -INF, NAN, 8.862269254527579e-31], "±inf at ±1; NaN beyond")
far("lgamma", [1e30, 0.0, -1.0, 1.0], [math.lgamma(X), INF, INF, 0.0], "inf at 0 and negative integers")
far("digamma", [1e30, 0.0, -1.0], [math.log(X), -INF, NAN], "-inf at 0, NaN at negative integers")
far(
    "sqrt",
    [1e-45, 3e38, -1.0],
    [math.sqrt(float(np.float32(1e-45))), math.sqrt(3e38), NAN],
    "right for subnormal numbers; NaN",
)
far("rsqrt", [1e-38, 3e38, INF], [1 / math.sqrt(1e-38), 1 / math.sqrt(3e38), 0.0], "no overflow")
edge(
    FAR,
    "`hypot(3e30, 4e30)`",
    "5e30: no overflow of squares",
    lambda T, x, y: T.hypot(x, y),
    f32(3e30),
    f32(4e30),
    value=[5e30],
    rtol=SINGLE,
)
edge(
    FAR,
    "`logaddexp` at (1000, 1000), (-inf, -inf), (inf, inf)",
    "1000.69, -inf, inf",
    lambda T, x: T.logaddexp(x, x),
    f32(1000.0, -INF, INF),
    value=[1000 + math.log(2), -INF, INF],
    rtol=SINGLE,
)
edge(
    FAR,
    "`1e30 ** 2`, `1e-30 ** 2`, `(-8) ** (1/3)`",
    "inf, 0, NaN",
    lambda T, x, y: x**y,
    f32(1e30, 1e-30, -8.0),
    f32(2.0, 2.0, 1 / 3),
    value=[INF, 0.0, NAN],
)
edge(FAR, "`logit` at 0, 1, 2", "-inf, inf, NaN", lambda T, x: T.logit(x), f32(0.0, 1.0, 2.0), value=[-INF, INF, NAN])
