"""Functions of real variables: exponentials, logarithms, circles and hyperbolas, error and gamma functions."""

from __future__ import annotations

import math

from tinygrad_lite.functional.common import node_of, unary, wrap
from tinygrad_lite.functional.pointwise import _binary
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops import promote, special
from tinygrad_lite.ops.promote import Operand

__all__ = [
    "acos",
    "acosh",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "cos",
    "cosh",
    "deg2rad",
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "hypot",
    "ldexp",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "logit",
    "mvlgamma",
    "polygamma",
    "rad2deg",
    "sigmoid",
    "sin",
    "sinc",
    "sinh",
    "tan",
    "tanh",
    "xlogy",
]

exp = unary(ew.exp, "exp", "e to the power of each element.")
exp2 = unary(special.exp2, "exp2", "2 to the power of each element.")
expm1 = unary(special.expm1, "expm1", "exp(x) - 1 without cancellation near 0.")
log = unary(ew.log, "log", "Natural logarithm; -inf at 0, NaN below.")
log2 = unary(special.log2, "log2", "Logarithm to base 2; -inf at 0, NaN below.")
log10 = unary(special.log10, "log10", "Logarithm to base 10; -inf at 0, NaN below.")
log1p = unary(special.log1p, "log1p", "log(1 + x) without cancellation near 0.")
sin = unary(ew.sin, "sin", "Sine of radians.")
cos = unary(ew.cos, "cos", "Cosine of radians.")
tan = unary(special.tan, "tan", "Tangent of radians.")
asin = arcsin = unary(special.asin, "asin", "Inverse of the sine; NaN outside [-1, 1].")
acos = arccos = unary(special.acos, "acos", "Inverse of the cosine; NaN outside [-1, 1].")
atan = arctan = unary(special.atan, "atan", "Inverse of the tangent.")
sinh = unary(special.sinh, "sinh", "Hyperbolic sine.")
cosh = unary(special.cosh, "cosh", "Hyperbolic cosine.")
tanh = unary(ew.tanh, "tanh", "Hyperbolic tangent.")
asinh = arcsinh = unary(special.asinh, "asinh", "Inverse of the hyperbolic sine.")
acosh = arccosh = unary(special.acosh, "acosh", "Inverse of the hyperbolic cosine; NaN below 1.")
atanh = arctanh = unary(special.atanh, "atanh", "Inverse of the hyperbolic tangent; NaN outside [-1, 1].")
erf = unary(ew.erf, "erf", "Error function.")
erfc = unary(special.erfc, "erfc", "1 - erf(x) without cancellation.")
erfinv = unary(special.erfinv, "erfinv", "Inverse of the error function.")
lgamma = unary(special.lgamma, "lgamma", "log of the gamma function's absolute value.")
digamma = unary(special.digamma, "digamma", "Derivative of lgamma.")
sigmoid = unary(ew.sigmoid, "sigmoid", "1 / (1 + exp(-x)).")
deg2rad = unary(lambda x: ew.mul(x, math.pi / 180), "deg2rad", "Degrees to radians.")
rad2deg = unary(lambda x: ew.mul(x, 180 / math.pi), "rad2deg", "Radians to degrees.")
sinc = unary(lambda x: _sinc(x), "sinc", "sin(πx) / (πx), 1 at 0.")

atan2 = arctan2 = _binary(special.atan2, "atan2", "The angle of the point (other, input).", 2)
hypot = _binary(special.hypot, "hypot", "sqrt(input² + other²) without overflow.", 2, True)
logaddexp = _binary(special.logaddexp, "logaddexp", "log(exp(input) + exp(other)) without overflow.", 2, True)
logaddexp2 = _binary(
    lambda a, b: _logaddexp2(a, b), "logaddexp2", "log2(2**input + 2**other) without overflow.", 2, True
)
xlogy = _binary(lambda a, b: _xlogy(a, b), "xlogy", "input * log(other), 0 where input is 0 and other is not NaN.")
ldexp = _binary(lambda a, b: ew.mul(a, special.exp2(b)), "ldexp", "input * 2**other.", 2)


def _sinc(x: Node) -> Node:
    angle = ew.mul(x, math.pi)
    zero = ew.eq(angle, 0.0)
    safe = ew.where(zero, 1.0, angle)
    return ew.where(zero, 1.0, ew.div(ew.sin(safe), safe))


def _logaddexp2(a: Operand, b: Operand) -> Node:
    scaled = (x * special.LN2 if not isinstance(x, Node) else ew.mul(x, special.LN2) for x in (a, b))
    return ew.mul(special.logaddexp(*scaled), 1 / special.LN2)


def _xlogy(a: Operand, b: Operand) -> Node:
    if not isinstance(b, Node):
        b = ew.as_node(b, promote.result_type((a, float(b))))
    out_of_reach = ew.logical_or(ew.le(b, 0), ew.eq(b, math.inf))
    quiet = ew.logical_and(ew.eq(a, 0), out_of_reach)
    return ew.where(quiet, 0.0, ew.mul(a, ew.log(ew.where(quiet, 1.0, b))))


def polygamma(n: int, input: Tensor) -> Tensor:
    """The n-th derivative of digamma. RuntimeError for n < 0."""
    if n < 0:
        raise RuntimeError(f"polygamma(n, x) does not support negative n, got {n}")
    return wrap(special.polygamma(n, node_of(input, "input")))


def logit(input: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)), x limited to [eps, 1 - eps] where eps is given."""
    x = node_of(input, "input")
    if eps is not None:
        x = ew.where(ew.lt(x, eps), eps, x)
        x = ew.where(ew.gt(x, 1 - eps), 1 - eps, x)
    return wrap(ew.log(ew.div(x, ew.sub(1.0, x))))


def mvlgamma(input: Tensor, p: int) -> Tensor:
    """log of the multivariate gamma function of p dimensions: Σ lgamma(x - j/2) + p (p - 1) / 4 log π, j = 0 … p - 1.

    RuntimeError for p < 1.
    """
    x = node_of(input, "input")
    if p < 1:
        raise RuntimeError(f"mvlgamma: p has to be greater than or equal to 1, got {p}")
    total: Node = special.lgamma(x)
    for j in range(1, p):
        total = ew.add(total, special.lgamma(ew.sub(x, j / 2)))
    return wrap(ew.add(total, p * (p - 1) / 4 * math.log(math.pi)))
