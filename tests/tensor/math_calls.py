"""Calls of elementwise functions, reductions and creation, the same for tinygrad_lite and torch: T is either module.

One table drives "compiled = eager" everywhere, and "as PyTorch" (value, shape, dtype, gradient) where torch is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

INF, NAN = math.inf, math.nan


@dataclass(frozen=True)
class Call:
    """`run(T, *tensors)`; floating arrays require gradients unless `grad` is off. `captures`: can be compiled."""

    id: str
    run: Callable[..., Any]
    arrays: tuple[np.ndarray, ...]
    grad: bool = True
    captures: bool = True
    rtol: float | None = None


def reals(*shape: int, low: float = -2.0, high: float = 2.0, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(low, high, shape).astype(dtype)


def ints(*shape: int, low: int = -5, high: int = 6, dtype: str = "int64", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


CALLS: list[Call] = []


def call(id: str, run: Callable[..., Any], *arrays: Any, **options: Any) -> None:
    CALLS.append(Call(id, run, tuple(np.asarray(a) for a in arrays), **options))


# ---- one operand ------------------------------------------------------------------------------------------------

UNARY = {
    "abs": (-2, 2), "absolute": (-2, 2), "acos": (-0.9, 0.9), "acosh": (1.1, 5), "arccos": (-0.9, 0.9),
    "arccosh": (1.1, 5), "arcsin": (-0.9, 0.9), "arcsinh": (-3, 3), "arctan": (-3, 3), "arctanh": (-0.9, 0.9),
    "asin": (-0.9, 0.9), "asinh": (-3, 3), "atan": (-3, 3), "atanh": (-0.9, 0.9), "ceil": (-3, 3), "cos": (-9, 9),
    "cosh": (-3, 3), "deg2rad": (-90, 90), "digamma": (0.2, 5), "erf": (-2, 2), "erfc": (-2, 2), "erfinv": (-0.9, 0.9),
    "exp": (-3, 3), "exp2": (-3, 3), "expm1": (-1, 1), "fix": (-3, 3), "floor": (-3, 3), "frac": (-3, 3),
    "lgamma": (0.2, 5), "log": (0.1, 5), "log10": (0.1, 5), "log1p": (-0.9, 3), "log2": (0.1, 5), "logit": (0.1, 0.9),
    "neg": (-2, 2), "negative": (-2, 2), "positive": (-2, 2), "rad2deg": (-2, 2), "reciprocal": (0.3, 3),
    "round": (-3, 3), "rsqrt": (0.2, 4), "sgn": (-2, 2), "sigmoid": (-4, 4), "sign": (-2, 2), "sin": (-9, 9),
    "sinc": (-3, 3), "sinh": (-3, 3), "sqrt": (0.1, 4), "square": (-2, 2), "tan": (-1, 1), "tanh": (-2, 2),
    "trunc": (-3, 3), "nan_to_num": (-2, 2),
}  # fmt: skip
TESTS = ["isnan", "isinf", "isposinf", "isneginf", "isfinite", "isreal", "signbit", "logical_not"]
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, -1e30, INF, -INF, NAN])
#: A gradient at some of SPECIAL that differs from PyTorch's; see docs/edge_cases.md.
NO_EDGE_GRADIENT = {"sinc", "logit", "erfinv", "digamma", "lgamma", "tan", "sin", "cos"}

#: PyTorch has no derivative of these in-place forms, and a gradient of sgn that NumPy cannot see.
NO_IN_PLACE_GRADIENT = {"acosh", "arccosh", "asinh", "arcsinh", "atanh", "arctanh", "sgn"}


def unary(name: str) -> Callable[..., Any]:
    return lambda T, x: getattr(T, name)(x)


for name, (low, high) in UNARY.items():
    if name == "sgn":
        call("sgn f64", unary(name), reals(3, 4), grad=False)
        continue
    call(f"{name} f64", unary(name), reals(3, 4, low=low, high=high))
    call(f"{name} f32", unary(name), reals(5, low=low, high=high, dtype="float32"))
    call(f"{name} 0-d", unary(name), reals(low=low, high=high))
    call(f"{name} empty", unary(name), reals(0, 2))
    call(f"{name} method", lambda T, x, name=name: getattr(x * 1.0, name)(), reals(4, low=low, high=high))
    call(f"{name} edges", unary(name), SPECIAL, grad=name not in NO_EDGE_GRADIENT)
    if name not in ("frac", "deg2rad", "rad2deg", "nan_to_num"):
        call(f"{name} int", unary(name), ints(4, low=1, high=2, dtype="int32"))
    if name not in ("positive", "nan_to_num"):
        on = {"grad": name not in NO_IN_PLACE_GRADIENT}
        shifted = reals(4, low=low, high=high)
        call(f"{name} in place", lambda T, x, name=name: getattr(x.clone(), f"{name}_")(), shifted, **on)
for name in TESTS:
    call(f"{name} edges", unary(name), SPECIAL)
    call(f"{name} int", unary(name), ints(4))
for order in (1, 2, 3):
    call(f"polygamma {order}", lambda T, x, n=order: T.polygamma(n, x), reals(5, low=0.3, high=5))
call("round decimals", lambda T, x: T.round(x, decimals=2), reals(6))
call("round tens", lambda T, x: T.round(x, decimals=-1), reals(6, low=-90, high=90))
call("logit eps", lambda T, x: T.logit(x, 0.2), reals(9, low=0, high=1))
call("nan_to_num edges", lambda T, x: T.nan_to_num(x, 1.0, 2.0, -3.0), SPECIAL)
call("bitwise_not", lambda T, x: T.bitwise_not(x), ints(5))
call("bitwise_not bool", lambda T, x: ~x, ints(5) > 0)

# ---- two operands -------------------------------------------------------------------------------------------------

BINARY = {
    "add": (-2, 2), "atan2": (-2, 2), "arctan2": (-2, 2), "copysign": (-2, 2), "div": (0.5, 2), "divide": (0.5, 2),
    "eq": (-2, 2), "float_power": (0.2, 2), "floor_divide": (0.5, 9), "fmax": (-2, 2), "fmin": (-2, 2),
    "fmod": (0.5, 9), "ge": (-2, 2), "gt": (-2, 2), "hypot": (-2, 2), "ldexp": (-2, 2), "le": (-2, 2),
    "logaddexp": (-2, 2), "logaddexp2": (-2, 2), "lt": (-2, 2), "maximum": (-2, 2), "minimum": (-2, 2), "mul": (-2, 2),
    "multiply": (-2, 2), "ne": (-2, 2), "nextafter": (-2, 2), "pow": (0.2, 2), "remainder": (0.5, 9), "sub": (-2, 2),
    "true_divide": (0.5, 2), "xlogy": (0.2, 2), "logical_and": (-2, 2), "logical_or": (-2, 2), "logical_xor": (-2, 2),
}  # fmt: skip
WITHOUT_GRADIENT = {"floor_divide", "nextafter"}
NO_IN_PLACE = {"maximum", "minimum", "fmax", "fmin", "logaddexp", "logaddexp2", "float_power", "eq", "ne", "lt", "le",
               "gt", "ge", "logical_and", "logical_or", "logical_xor"}  # fmt: skip
POINTS = np.array([0.0, -0.0, 1.0, -2.0, 2.5, INF, -INF, NAN])
GRID = [a.ravel().copy() for a in np.meshgrid(POINTS, POINTS)]
#: Gradients at some of GRID differ from PyTorch's, which gives NaN for 0 · inf where we do, or the other way.
NO_GRID_GRADIENT = {"atan2", "arctan2", "hypot", "pow", "float_power", "xlogy", "logaddexp", "logaddexp2", "remainder",
                    "fmod", "div", "divide", "true_divide", "copysign", "ldexp"}  # fmt: skip
NO_INTEGERS = {"hypot", "logaddexp", "logaddexp2", "nextafter"}


def binary(name: str) -> Callable[..., Any]:
    return lambda T, x, y: getattr(T, name)(x, y)


for name, (low, high) in BINARY.items():
    a, b = (reals(3, 4, low=low, high=high, seed=s) for s in (1, 2))
    on = {"grad": name not in WITHOUT_GRADIENT}
    call(f"{name} f64", binary(name), a, b, **on)
    call(f"{name} broadcast", binary(name), a[:, :1], b[0], **on)
    call(f"{name} f32", binary(name), a.astype("float32"), b.astype("float32"), **on)
    call(f"{name} 0-d", binary(name), a[0, 0], b[0, 0], **on)
    call(f"{name} empty", binary(name), a[:0], b[:1], **on)
    call(f"{name} grid", binary(name), *GRID, grad=name not in NO_GRID_GRADIENT | WITHOUT_GRADIENT)
    if name not in NO_INTEGERS:
        call(f"{name} int", binary(name), ints(4, low=1), ints(4, low=1, seed=3))
        call(f"{name} u8 i16", binary(name), ints(4, low=1, dtype="uint8"), ints(4, low=1, dtype="int16", seed=3))
        call(f"{name} int f32", binary(name), ints(4, low=1), reals(4, low=low, high=high, dtype="float32"), **on)
    if name not in (
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "logaddexp",
        "logaddexp2",
        "nextafter",
        "hypot",
        "atan2",
        "arctan2",
    ):
        if name != "ldexp" and not name.startswith("logical"):
            call(f"{name} number", lambda T, x, name=name: getattr(T, name)(x, 2), a, **on)
        call(f"{name} method", lambda T, x, y, name=name: getattr(x, name)(y), a, b, **on)
    if name not in NO_IN_PLACE:
        call(f"{name} in place", lambda T, x, y, name=name: getattr(x.clone(), f"{name}_")(y), a, b, **on)

call("ties maximum", lambda T, x, y: T.maximum(x, y), [1.0, 2.0, 3.0], [1.0, 3.0, 2.0])
call("ties fmax", lambda T, x, y: T.fmax(x, y), [1.0, NAN, 3.0], [1.0, 3.0, NAN])
call("ties fmin", lambda T, x, y: T.fmin(x, y), [1.0, NAN, 3.0], [1.0, 3.0, NAN])
call("pow grid gradient", lambda T, x, y: T.pow(x, y), [0.0, 0.0, 2.0, 0.0, -2.0], [0.0, 2.0, 0.0, 1.0, 2.0])
call("pow of number", lambda T, x: T.pow(2.0, x), [0.0, 1.5, -2.0])
call("pow of zero", lambda T, x: T.pow(0.0, x), [0.0, 1.5, 2.0])
call("pow 0", lambda T, x: x**0, [0.0, 1.5, -2.0])
call("pow 1.5", lambda T, x: x**1.5, [0.0, 1.5, 2.0])
call("pow ints", lambda T, x: x**3, ints(5))
for mode in (None, "floor", "trunc"):
    signs = [7, -7, 7, -7], [2, 2, -2, -2]
    call(f"div {mode} int", lambda T, x, y, m=mode: T.div(x, y, rounding_mode=m), *signs)
    call(f"div {mode} f64", lambda T, x, y, m=mode: T.div(x, y, rounding_mode=m), *(np.array(s) * 1.0 for s in signs))
for name in ("floor_divide", "remainder", "fmod"):
    call(f"{name} signs", binary(name), [7, -7, 7, -7, 6, -6], [2, 2, -2, -2, 3, 3])
    call(f"{name} float signs", binary(name), [7.5, -7.5, 7.5, -7.5], [2.0, 2, -2, -2], grad=False)
call("add alpha", lambda T, x, y: T.add(x, y, alpha=3), reals(4), reals(4, seed=2))
call("sub alpha", lambda T, x, y: x.sub(y, alpha=0.5), reals(4), reals(4, seed=2))
call("rsub", lambda T, x, y: T.rsub(x, y, alpha=2), reals(4), reals(4, seed=2))
call("rsub number", lambda T, x: 3 - x, reals(4))
call("heaviside", lambda T, x, y: T.heaviside(x, y), [-1.0, 0.0, 2.0, NAN], [0.5, 0.25, 1.0, 1.0], grad=False)
call("gcd", lambda T, x, y: T.gcd(x, y), [12, -18, 0, 7], [18, 12, 5, 0], captures=False)
call("lcm", lambda T, x, y: T.lcm(x, y), [12, -18, 0, 7], [18, 12, 5, 3], captures=False)
for name in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    call(f"{name} int", binary(name), ints(4), ints(4, seed=2))
    call(f"{name} bool", binary(name), ints(4) > 0, ints(4, seed=2) > 0)
    call(f"{name} mixed", binary(name), ints(4, low=0, dtype="uint8"), ints(4, seed=2))
call("shifts", lambda T, x, y: (x << y) + (x >> y), ints(6, low=-50, high=50), ints(6, low=0, high=5))
call("shift u8", lambda T, x: (x << 3, x >> 2), ints(6, low=0, high=255, dtype="uint8"))
call("operators", lambda T, x, y: (x & y, x | y, x ^ y, ~x, x & 3, 5 | x), ints(6), ints(6, seed=2))
call(
    "float operators",
    lambda T, x, y: (2 / x, x // y, x % y, 2**x, -x, +x, abs(x)),
    reals(4, low=0.5, high=3),
    reals(4, low=0.5),
    grad=False,
)
call("scalars keep the dtype", lambda T, x: (x + 1, x * 2.5, x / 2, x > 1), ints(4, dtype="int16"))
call("small integer overflow", lambda T, x: (x + x, x * x, -x), np.array([100, 127, -128], "int8"))
call("uint8 wraps", lambda T, x: (x - 201, x * 2), np.array([0, 200, 255], "uint8"))

# ---- more operands ----------------------------------------------------------------------------------------------

call("clamp", lambda T, x: T.clamp(x, -0.5, 0.5), [-1.0, -0.5, 0.0, 0.5, 1.0, INF])
call("clamp min", lambda T, x: x.clamp(min=0), [-1.0, 0.0, 2.0])
call("clamp max", lambda T, x: x.clamp(max=0), [-1.0, 0.0, 2.0])
call("clamp nan", lambda T, x: (x.clamp(max=0), x.clamp(-1, 1), x.clamp(min=NAN)), [-1.0, 0.0, 2.0, NAN], grad=False)
call("clamp crossed", lambda T, x: x.clamp(1, -1), [-2.0, 0.0, 2.0])
call(
    "clamp tensors",
    lambda T, x, a, b: T.clamp(x, a, b),
    [-1.0, -0.5, 0.0, 0.5, 2.0],
    [-0.5, -0.5, 0.1, 0.5, 0.0],
    [0.5, 0.5, 0.5, 0.5, 1.0],
)
call("clamp nan bound", lambda T, x, a: T.clamp(x, min=a), [1.0, 2.0], [NAN, 0.0], grad=False)
call("clamp ints", lambda T, x: (T.clamp(x, -1, 2), T.clip(x, min=0.5), x.clamp_min(0), x.clamp_max(1)), ints(6))
call("where", lambda T, c, x, y: T.where(c, x, y), ints(4) > 0, reals(4), reals(4, seed=2))
call("where numbers", lambda T, c: (T.where(c, 1.0, 0.0), T.where(c, 1, 2)), ints(4) > 0)
call("where promotes", lambda T, c, x: T.where(c, x, 2.5), ints(4) > 0, ints(4))
call("where nan not taken", lambda T, x: T.where(x > 0, x, x * NAN).sum(), [1.0, 2.0])
call("masked_fill", lambda T, x: x.masked_fill(x > 0, 7), reals(4))
call("masked_fill_", lambda T, x: x.clone().masked_fill_(x > 0, 7), reals(4))
call("lerp number", lambda T, x, y: (T.lerp(x, y, 0.25), T.lerp(x, y, 0.75)), reals(4), reals(4, seed=2))
call("lerp tensor", lambda T, x, y, w: T.lerp(x, y, w), reals(4), reals(4, seed=2), reals(4, low=0, high=1, seed=3))
call("addcmul", lambda T, x, y, z: T.addcmul(x, y, z, value=0.5), reals(3, 4), reals(4, seed=2), reals(3, 1, seed=3))
call("addcdiv", lambda T, x, y, z: T.addcdiv(x, y, z, value=-2), reals(4), reals(4, seed=2), reals(4, low=0.5, seed=3))
call("isclose", lambda T, x, y: (T.isclose(x, y), T.isclose(x, y, equal_nan=True)), *GRID, grad=False)
call("comparisons of bools", lambda T, x: (x == False, x < True, x != x), ints(4) > 0)  # noqa: E712
call("casts", lambda T, x: (x.float(), x.double(), x.half(), x.bfloat16().float(), x.to(T.float32)), reals(4, low=0))
call(
    "integer casts", lambda T, x: (x.long(), x.int(), x.short(), x.char(), x.byte(), x.bool()), reals(4, low=0, high=9)
)
call("type_as", lambda T, x, y: x.type_as(y), ints(4), reals(2, dtype="float32"))

# ---- reductions ---------------------------------------------------------------------------------------------------

X = reals(3, 4, 5)
DIMS: list[dict[str, Any]] = [
    {},
    {"dim": 1},
    {"dim": -1, "keepdim": True},
    {"dim": (0, 2)},
    {"dim": [1, 2], "keepdim": True},
]
for name in (
    "sum",
    "mean",
    "amax",
    "amin",
    "any",
    "all",
    "nansum",
    "nanmean",
    "count_nonzero",
    "std",
    "var",
    "logsumexp",
):
    for kw in DIMS:
        if (name == "count_nonzero" and "keepdim" in kw) or (name == "logsumexp" and not kw):
            continue
        call(f"{name} {kw}", lambda T, x, name=name, kw=kw: getattr(T, name)(x, **kw), X)
    kw = {"dim": 0} if name == "logsumexp" else {}
    call(
        f"{name} 0-d",
        lambda T, x, name=name, kw=kw: getattr(T, name)(x, **kw),
        reals(),
        grad=name not in ("std", "var"),
    )
    if name not in ("amax", "amin"):
        call(f"{name} of nothing", lambda T, x, name=name: getattr(T, name)(x, dim=1), reals(3, 0))
    call(f"{name} no rows", lambda T, x, name=name: getattr(T, name)(x, dim=1), reals(0, 3))
    if name not in ("mean", "nanmean", "std", "var"):
        call(f"{name} int", lambda T, x, name=name: getattr(T, name)(x, dim=1), ints(3, 4, dtype="int32"))
        if name != "logsumexp":
            call(f"{name} bool", lambda T, x, name=name: getattr(T, name)(x, dim=0), ints(3, 4) > 0)
            call(f"{name} u8", lambda T, x, name=name: getattr(T, name)(x), ints(4, low=0, dtype="uint8"))
with_nan = X.copy()
with_nan[0, 0, 0] = with_nan[1, 2, :] = NAN
for name in ("sum", "amax", "amin", "nansum", "nanmean"):
    call(f"{name} nan", lambda T, x, name=name: getattr(T, name)(x, dim=2), with_nan, grad=name in ("sum", "nansum"))
for kw in ({}, {"dim": 1}, {"dim": -1, "keepdim": True}):
    call(f"prod {kw}", lambda T, x, kw=kw: T.prod(x, **kw), reals(2, 3, 2))
    call(f"argmax {kw}", lambda T, x, kw=kw: (T.argmax(x, **kw), T.argmin(x, **kw)), X)
    call(f"aminmax {kw}", lambda T, x, kw=kw: tuple(T.aminmax(x, **kw)), X)
call("prod with zeros", lambda T, x: x.prod(1), [[2.0, 0.0, 3.0], [0.0, 0.0, 1.0], [1.0, 2.0, 3.0]])
call("prod int", lambda T, x: x.prod(), ints(4, dtype="int8"))
for name in ("max", "min"):
    call(f"{name} all", lambda T, x, name=name: getattr(T, name)(x), X)
    call(f"{name} ties", lambda T, x, name=name: getattr(T, name)(x), [1.0, 3.0, 1.0, 3.0])
    call(f"{name} dim", lambda T, x, name=name: tuple(getattr(T, name)(x, 1)), X)
    call(f"{name} dim keep", lambda T, x, name=name: tuple(getattr(x, name)(dim=-1, keepdim=True)), X)
    call(f"{name} dim ties", lambda T, x, name=name: getattr(T, name)(x, 0).values, [1.0, 3.0, 1.0, 3.0])
    call(
        f"{name} nan",
        lambda T, x, name=name: (getattr(T, name)(x), *getattr(T, name)(x, 0)),
        [1.0, NAN, 3.0],
        grad=False,
    )
    call(f"{name} other", lambda T, x, y, name=name: getattr(T, name)(x, y), reals(4), reals(4, seed=2))
    call(f"{name} bool", lambda T, x, name=name: (getattr(T, name)(x), getattr(T, name)(x, 0).values), ints(4) > 0)
    call(f"{name} int", lambda T, x, name=name: tuple(getattr(T, name)(x, 0)), ints(4, 3, dtype="int16"))
call("amax ties", lambda T, x: T.amax(x, 0), [1.0, 3.0, 1.0, 3.0])
for kw in ({"correction": 0}, {"unbiased": False}, {"dim": 1, "correction": 2}, {"dim": (0, 1), "keepdim": True}):
    call(f"var {kw}", lambda T, x, kw=kw: (T.var(x, **kw), T.std(x, **kw)), X)
    call(f"var_mean {kw}", lambda T, x, kw=kw: (*T.var_mean(x, **kw), *T.std_mean(x, **kw)), X)
call("std at 0", lambda T, x: T.std(x), [1.0, 1.0, 1.0])
for p in (0, 0.5, 1, 2, 3, 2.5, -1, INF, -INF, "fro"):
    call(
        f"norm {p}",
        lambda T, x, p=p: (T.norm(x, p), x.norm(p, dim=1), x.norm(p, dim=(0, 2), keepdim=True)),
        X,
        grad=p != 0,
    )
    call(f"norm {p} at 0", lambda T, x, p=p: T.norm(x, p), [0.0, 0.0, 0.0], grad=p not in (0, -1))
    call(f"norm {p} with 0", lambda T, x, p=p: T.norm(x, p), [0.0, 3.0, -4.0], grad=p not in (0, -1))
call("dist", lambda T, x, y: T.dist(x, y, 3), reals(4), reals(4, seed=2))
call("sum dtype", lambda T, x: (x.sum(dtype=T.float64), x.sum(0, dtype=T.int32)), ints(3, 4, dtype="int16"))
call("mean dtype", lambda T, x: x.mean(dtype=T.float32), ints(3, 4))
call("logsumexp -inf", lambda T, x: T.logsumexp(x, 1), [[-INF, -INF], [-INF, 0.0], [1000.0, 1000.0]])

# ---- running reductions and order statistics ------------------------------------------------------------------------

for name in ("cumsum", "cumprod", "logcumsumexp"):
    for dim in (0, 1, -1):
        call(f"{name} {dim}", lambda T, x, name=name, dim=dim: getattr(T, name)(x, dim), X)
    call(f"{name} 0-d", lambda T, x, name=name: getattr(T, name)(x, 0), reals())
    call(f"{name} empty", lambda T, x, name=name: getattr(T, name)(x, 1), reals(2, 0))
    call(f"{name} f32", lambda T, x, name=name: getattr(x, name)(0), reals(50, dtype="float32"))
call("cumsum ints", lambda T, x: (x.cumsum(0), x.cumprod(1), x.cumsum(1, dtype=T.float32)), ints(3, 4, dtype="int8"))
call("cumprod zeros", lambda T, x: T.cumprod(x, 1), [[2.0, 0.0, 3.0, 4.0], [0.0, 0.0, 5.0, 2.0], [0.0, 2.0, 0.0, 1.0]])
call("cumsum_", lambda T, x: x.clone().cumsum_(0), reals(4))
for name in ("cummax", "cummin"):
    call(f"{name}", lambda T, x, name=name: tuple(getattr(T, name)(x, 1)), X)
    call(f"{name} ties", lambda T, x, name=name: tuple(getattr(T, name)(x, 0)), [1.0, 3.0, 1.0, 3.0, 3.0])
    call(f"{name} nan", lambda T, x, name=name: tuple(getattr(T, name)(x, 0)), [1.0, NAN, 1.0, NAN, 3.0], grad=False)
    call(f"{name} int", lambda T, x, name=name: tuple(getattr(T, name)(x, -1)), ints(3, 4))
call(
    "trapezoid",
    lambda T, y, x: (T.trapezoid(y, x), T.trapezoid(y, dx=0.5, dim=0), T.trapz(y)),
    reals(3, 4),
    np.sort(reals(4, seed=2)),
)
call(
    "cumulative_trapezoid",
    lambda T, y, x: (T.cumulative_trapezoid(y, x), T.cumulative_trapezoid(y, dx=2, dim=0)),
    reals(3, 4),
    np.sort(reals(4, seed=2)),
)
for name in ("median", "nanmedian"):
    call(f"{name}", lambda T, x, name=name: getattr(T, name)(x), reals(7))
    call(f"{name} even", lambda T, x, name=name: getattr(T, name)(x), reals(6))
    call(f"{name} ties", lambda T, x, name=name: getattr(T, name)(x), [2.0, 1.0, 2.0, 5.0])
    call(f"{name} dim", lambda T, x, name=name: tuple(getattr(T, name)(x, 1)), reals(3, 5))
    call(f"{name} keep", lambda T, x, name=name: tuple(getattr(T, name)(x, 0, keepdim=True)), reals(4, 5))
    call(
        f"{name} nan",
        lambda T, x, name=name: (getattr(T, name)(x), *getattr(T, name)(x, 1)),
        [[1.0, NAN, 3.0, 0.0], [4.0, 2.0, 9.0, 7.0]],
        grad=False,
    )
    call(f"{name} int", lambda T, x, name=name: (getattr(T, name)(x), *getattr(T, name)(x, 0)), ints(3, 4))
for name in ("quantile", "nanquantile"):
    for how in ("linear", "lower", "higher", "midpoint", "nearest"):
        call(
            f"{name} {how}",
            lambda T, x, n=name, h=how: (
                getattr(T, n)(x, 0.3, dim=1, interpolation=h),
                getattr(T, n)(x, 0.6, interpolation=h),
            ),
            reals(3, 5),
        )
    call(
        f"{name} vector",
        lambda T, x, q, n=name: (
            getattr(T, n)(x, q),
            getattr(T, n)(x, q, dim=0, keepdim=True),
            getattr(x, n)(q, dim=1),
        ),
        reals(3, 5),
        [0.1, 0.5, 1.0],
        grad=False,
    )
    call(f"{name} keep", lambda T, x, n=name: getattr(T, n)(x, 0.25, keepdim=True), reals(3, 5))
    call(
        f"{name} nan",
        lambda T, x, n=name: getattr(T, n)(x, 0.4, dim=1),
        [[1.0, NAN, 3.0], [4.0, 2.0, 9.0], [NAN, NAN, NAN]],
        grad=False,
    )
call("mode", lambda T, x: (T.mode(x, 1).values, x.mode(0, keepdim=True).values), ints(4, 9, low=0, high=3))

# ---- creation -------------------------------------------------------------------------------------------------------

call("zeros ones", lambda T: (T.zeros(2, 3), T.ones((2, 3), dtype=T.int32), T.zeros(()), T.ones(0, 3), T.empty(2, 0)))
call("full", lambda T: (T.full((2, 3), 7), T.full((2,), 1.5), T.full((), True), T.full((2,), 3, dtype=T.float64)))
call("eye", lambda T: (T.eye(3), T.eye(2, 4), T.eye(4, 2, dtype=T.int64), T.eye(0)))
call(
    "arange",
    lambda T: (T.arange(5), T.arange(1, 2.5, 0.5), T.arange(5, 1, -2), T.arange(0), T.arange(3, dtype=T.float32)),
)
call(
    "linspace",
    lambda T: (T.linspace(0, 1, 5), T.linspace(3, -2, 4, dtype=T.float64), T.linspace(2, 3, 1), T.linspace(0, 1, 0)),
)
call("logspace", lambda T: (T.logspace(0, 2, 5), T.logspace(0, 3, 4, base=2.0), T.logspace(1, 2, 0)), rtol=2e-6)
call(
    "likes",
    lambda T, x: (T.zeros_like(x), T.ones_like(x, dtype=T.int8), T.full_like(x, 3), T.empty_like(x).fill_(1)),
    ints(2, 3),
)
call(
    "news",
    lambda T, x: (x.new_zeros(2), x.new_ones((2, 2)), x.new_full((2,), 3), x.new_tensor([1.0, 2.0]), x.new_empty(0)),
    ints(2),
)
call("vander", lambda T, x: (T.vander(x), T.vander(x, 2), T.vander(x, increasing=True)), ints(4))
call(
    "windows",
    lambda T: (T.hann_window(6), T.hamming_window(5, periodic=False), T.hann_window(1), T.hann_window(0)),
    rtol=1e-5,
)
call("scalar_tensor", lambda T: (T.scalar_tensor(3), T.scalar_tensor(2.5, dtype=T.float64)))
call(
    "tensor",
    lambda T: (
        T.tensor([1, 2]),
        T.tensor([1.0, 2]),
        T.tensor(True),
        T.tensor([[]]),
        T.tensor([1, 2], dtype=T.half).float(),
    ),
)
call(
    "more windows",
    lambda T: (T.blackman_window(7), T.bartlett_window(6), T.bartlett_window(5, periodic=False)),
    rtol=1e-5,
)
call(
    "diff",
    lambda T, x, y: (T.diff(x), T.diff(x, n=2, dim=0), T.diff(x, dim=1, prepend=y), x.diff(9)),
    X[0],
    X[0][:, :1],
)
call("diff bool", lambda T, x: T.diff(x), ints(5) > 0)
call("mvlgamma", lambda T, x: T.mvlgamma(x, 3), reals(4, low=1.5, high=5))
call("renorm", lambda T, x: (T.renorm(x, 2, 0, 1.5), x.renorm(1, 1, 2.0)), X[0], rtol=1e-6)
call("angle", lambda T, x: T.angle(x), SPECIAL, grad=False)
call(
    "NumPy's names of arguments",
    lambda T, x: (x.sum(axis=1), x.mean(axis=0, keepdims=True), T.cat([x, x], axis=1), T.softmax(x, axis=0)),
    X[0],
)
call("any and all over no dim", lambda T, x: (x.any(dim=()), T.all(x, dim=[])), [[0.0, 1.0], [2.0, 0.0]], grad=False)
call("nuclear norm", lambda T, x: (T.norm(x, "nuc"), x.norm("nuc", dim=(1, 0), keepdim=True)), X[0])
call("cumprod of signs", lambda T, x: 1 / T.cumprod(x, 0), [-1.0, 0.0, 2.0, -3.0], grad=False)
call("sizes by keyword", lambda T: (T.zeros(size=(2,)), T.ones(size=[1, 2]), T.arange(end=3), T.empty(size=(0,))))
call(
    "tensor of tensors",
    lambda T, x: (T.tensor([x[0], 2]), T.tensor([[x[0], 1], [2, True]]), T.tensor([-1, 255], dtype=T.uint8)),
    reals(1, dtype="float32"),
    grad=False,
    captures=False,
)
call(
    "numbers beyond an integer dtype",
    lambda T, x: (
        x == -1,
        x > 300,
        x + 300,
        x * -1,
        x.remainder(-3),
        x & -1,
        T.where(x > 1, x, -1),
        T.full_like(x, -1),
    ),
    ints(4, low=0, high=4, dtype="uint8"),
)
call("filled beyond", lambda T, x: (x.masked_fill(x > 1, -1), x.clone().fill_(-3)), ints(4, low=0, dtype="uint8"))
call("sign of bools", lambda T, x: (x.sign(), T.sgn(x)), ints(4) > 0)
call("logcumsumexp far apart", lambda T, x: T.logcumsumexp(x, 0), [1e4, 1.0, -2.0])
call("logspace of integers", lambda T: (T.logspace(4.3, 0, 4, dtype=T.int64), T.logspace(0, 3.7, 4, 2, dtype=T.int32)))
call("sum_to_size of integers", lambda T, x: (x.sum_to_size(1, 3), x.sum_to_size(2, 3)), ints(2, 3, dtype="int8"))
call(
    "cov of halves",
    lambda T, x, w: T.cov(x.half(), aweights=w),
    X[0],
    reals(X[0].shape[1], low=0.1, dtype="float32"),
    grad=False,
)
call("histogram of nothing", lambda T, x: tuple(T.histogram(x, 3)), reals(0), grad=False)
call(
    "integers counted in the dtype",
    lambda T: (
        T.arange(2.1, -2.9, -1.0, dtype=T.int64),
        T.arange(0.1, -7.9, -4.0, dtype=T.int16),
        T.linspace(4.3, -3, 50, dtype=T.int64),
    ),
)
call("diff of nothing but ends", lambda T, x: T.diff(x, 0, 1, prepend=x, append=x), X[0])
call("square of bools", lambda T, x: T.square(x), ints(3) > 0)
call("gather from a scalar", lambda T, x: x.gather(0, T.tensor([0, 0])), reals())
