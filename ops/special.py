"""More elementwise ops: functions of one and two real variables, rounding, and the bits of integers.

What a derivative needs of another op of this file is looked up when it is taken, so the order here is free.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Cost, Kind, Op, moved_bytes, register
from tinygrad_lite.ir.record import record
from tinygrad_lite.ir.types import TensorType
from tinygrad_lite.ops.elementwise import (
    _aligned,
    _binary,
    _by_input,
    _division,
    _floating,
    _function,
    _infer_float,
    _nothing,
    _op,
    _same,
    _unary,
    add,
    as_node,
    div,
    exp,
    mul,
    neg,
    rsqrt,
    sigmoid,
    sign,
    sub,
)
from tinygrad_lite.ops.later import special
from tinygrad_lite.ops.promote import Operand

Array = np.ndarray[Any, Any]
LN2, LN10 = math.log(2), math.log(10)


def _quotient(denominator: Callable[[Node], Node]) -> Callable[[Node, Node, int], Node]:
    """g / denominator(x)."""
    return lambda g, n, i: div(g, denominator(n.inputs[0]))


# ---- exponentials and logarithms -----------------------------------------------------------------------

EXP2 = _unary("exp2", np.exp2, "exp2_{t}({0})", lambda x, y: mul(y, LN2), 12)
EXPM1 = _unary("expm1", np.expm1, "expm1_{t}({0})", lambda x, y: add(y, 1.0), 14)
LOG1P = _op("log1p", _infer_float("log1p"), np.log1p, "log1p_{t}({0})", _quotient(lambda x: add(x, 1.0)), 18)
LOG2 = _op("log2", _infer_float("log2"), np.log2, "log2_{t}({0})", _quotient(lambda x: mul(x, LN2)), 16)
LOG10 = _op("log10", _infer_float("log10"), np.log10, "log10_{t}({0})", _quotient(lambda x: mul(x, LN10)), 16)


def _logaddexp(a: Array, b: Array) -> Array:
    return np.asarray(np.logaddexp(a, b))


LOGADDEXP = _op(
    "logaddexp",
    _infer_float("logaddexp"),
    _logaddexp,
    "where(b1({0} == {1}), {0} + {t}(0.6931471805599453), maximum({0}, {1}) + log1p_{t}(exp_{t}(-abs_{t}({0} - {1}))))",
    _by_input(
        lambda g, n: mul(g, sigmoid(sub(n.inputs[0], n.inputs[1]))),
        lambda g, n: mul(g, sigmoid(sub(n.inputs[1], n.inputs[0]))),
    ),
    36,
)

# ---- circles and hyperbolas ------------------------------------------------------------------------------

TAN = _unary("tan", np.tan, "tan_{t}({0})", lambda x, y: add(mul(y, y), 1.0), 24)
ASIN = _unary("asin", np.arcsin, "asin_{t}({0})", lambda x, y: rsqrt(sub(1.0, mul(x, x))), 30)
ACOS = _unary("acos", np.arccos, "acos_{t}({0})", lambda x, y: neg(rsqrt(sub(1.0, mul(x, x)))), 30)
ATAN = _op("atan", _infer_float("atan"), np.arctan, "atan_{t}({0})", _quotient(lambda x: add(mul(x, x), 1.0)), 26)
SINH = _unary("sinh", np.sinh, "sinh_{t}({0})", lambda x, y: cosh(x), 28)
COSH = _unary("cosh", np.cosh, "cosh_{t}({0})", lambda x, y: sinh(x), 24)
ASINH = _unary("asinh", np.arcsinh, "asinh_{t}({0})", lambda x, y: rsqrt(add(mul(x, x), 1.0)), 34)
ACOSH = _unary("acosh", np.arccosh, "acosh_{t}({0})", lambda x, y: rsqrt(sub(mul(x, x), 1.0)), 34)
ATANH = _op("atanh", _infer_float("atanh"), np.arctanh, "atanh_{t}({0})", _quotient(lambda x: sub(1.0, mul(x, x))), 34)


def _square_sum(n: Node) -> Node:
    return add(mul(n.inputs[0], n.inputs[0]), mul(n.inputs[1], n.inputs[1]))


ATAN2 = _op(
    "atan2",
    _infer_float("atan2"),
    np.arctan2,
    "atan2_{t}({0}, {1})",
    _by_input(
        lambda g, n: div(mul(g, n.inputs[1]), _square_sum(n)),
        lambda g, n: neg(div(mul(g, n.inputs[0]), _square_sum(n))),
    ),
    32,
)
HYPOT = _op(
    "hypot",
    _infer_float("hypot"),
    np.hypot,
    "hypot_{t}({0}, {1})",
    lambda g, n, i: mul(g, div(n.inputs[i], n)),
    10,
)

# ---- error and gamma functions ---------------------------------------------------------------------------

ERFC = _unary(
    "erfc", lambda x: special.erfc(x), "erfc_{t}({0})", lambda x, y: mul(exp(neg(mul(x, x))), -1.1283791670955126), 30
)
ERFINV = _unary(
    "erfinv", lambda x: special.erfinv(x), "erfinv_{t}({0})", lambda x, y: mul(exp(mul(y, y)), 0.886226925452758), 90
)


def _lgamma(x: Array) -> Array:
    """As C's, inf at -inf."""
    return np.asarray(special.gammaln(np.where(x == -np.inf, x.dtype.type(np.inf), x)))


LGAMMA = _unary("lgamma", _lgamma, "lgamma_{t}({0})", lambda x, y: digamma(x), 60)
DIGAMMA = _unary("digamma", lambda x: special.digamma(x), "digamma_{t}({0})", lambda x, y: polygamma(1, x), 60)


def _infer_polygamma(x: TensorType, *, order: int) -> TensorType:
    if order < 1:
        raise ValueError(f"polygamma: the order of the op must be positive, got {order}")
    return _infer_float("polygamma")(x)


def _polygamma(x: Array, *, order: int) -> Array:
    """(-1)^(n+1) n! ζ(n + 1, x)."""
    zeta = special.zeta(order + 1.0, x)
    return np.asarray((-1.0) ** (order + 1) * math.factorial(order) * zeta, x.dtype)


POLYGAMMA = register(
    Op(
        "polygamma",
        Kind.ELEMENTWISE,
        _infer_polygamma,
        _polygamma,
        lambda g, n, i: mul(g, polygamma(n.attrs["order"] + 1, n.inputs[0])),
        "polygamma_{t}({t}({order}), {0})",
        lambda node: Cost(300 * node.type.size, moved_bytes(node)),
        frozenset({"expensive"}),
    )
)

# ---- rounding and remainders -------------------------------------------------------------------------------


def _step(name: str, rule: Callable[..., Any]) -> Op:
    """A function whose gradient is 0."""
    return _op(name, _infer_float(name), rule, f"{name}_{{t}}({{0}})", lambda g, n, i: _nothing(g))


CEIL, TRUNC, ROUND = _step("ceil", np.ceil), _step("trunc", np.trunc), _step("round", np.rint)
FMOD = _division(
    "fmod",
    np.fmod,
    "truncmod({0}, {1})",
    _by_input(lambda g, n: g, lambda g, n: neg(mul(g, trunc(div(n.inputs[0], n.inputs[1]))))),
)
COPYSIGN = _op(
    "copysign",
    _infer_float("copysign"),
    np.copysign,
    "copysign({0}, {1})",
    _by_input(lambda g, n: mul(g, mul(sign(n.inputs[0]), copysign(1.0, n.inputs[1]))), lambda g, n: _nothing(g)),
)
NEXTAFTER = _op("nextafter", _infer_float("nextafter"), np.nextafter, "nextafter_{t}({0}, {1})", flops=8)

# ---- the bits of integers ----------------------------------------------------------------------------------


def _infer_bits(name: str) -> Callable[..., TensorType]:
    def infer(*types: TensorType) -> TensorType:
        if types[0].dtype.kind not in "iu":
            raise TypeError(f"{name}: needs integer operands, got {', '.join(map(str, types))}")
        return _same(name, types)

    return infer


def _shift(rule: Callable[..., Any], beyond: Callable[[Array], Array]) -> Callable[[Array, Array], Array]:
    """Shifts by less than 0 or by all bits give what a long enough shift does."""

    def shift(x: Array, count: Array) -> Array:
        bits = 8 * x.dtype.itemsize
        good = (count >= 0) & (count < bits)
        return np.where(good, rule(x, np.where(good, count, 0).astype(x.dtype)), beyond(x)).astype(x.dtype)

    return shift


AND = _op("bitwise_and", _infer_bits("bitwise_and"), np.bitwise_and, "{0} & {1}")
OR = _op("bitwise_or", _infer_bits("bitwise_or"), np.bitwise_or, "{0} | {1}")
XOR = _op("bitwise_xor", _infer_bits("bitwise_xor"), np.bitwise_xor, "{0} ^ {1}")
NOT = _op("bitwise_not", _infer_bits("bitwise_not"), np.bitwise_not, "~{0}")
SHIFT_LEFT = _op("shift_left", _infer_bits("shift_left"), _shift(np.left_shift, np.zeros_like), "shift_left({0}, {1})")
SHIFT_RIGHT = _op(
    "shift_right",
    _infer_bits("shift_right"),
    _shift(np.right_shift, lambda x: np.where(x < 0, -1, 0)),
    "shift_right({0}, {1})",
)

# ---- builders ------------------------------------------------------------------------------------------------


def exp2(x: Operand) -> Node:
    """2ˣ."""
    return _function(EXP2, x)


def expm1(x: Operand) -> Node:
    """eˣ - 1, without cancellation near 0."""
    return _function(EXPM1, x)


def log1p(x: Operand) -> Node:
    """log(1 + x), without cancellation near 0."""
    return _function(LOG1P, x)


def log2(x: Operand) -> Node:
    """The logarithm to base 2."""
    return _function(LOG2, x)


def log10(x: Operand) -> Node:
    """The logarithm to base 10."""
    return _function(LOG10, x)


def tan(x: Operand) -> Node:
    """The tangent of radians."""
    return _function(TAN, x)


def asin(x: Operand) -> Node:
    """The inverse of the sine, in [-π/2, π/2]; NaN outside [-1, 1]."""
    return _function(ASIN, x)


def acos(x: Operand) -> Node:
    """The inverse of the cosine, in [0, π]; NaN outside [-1, 1]."""
    return _function(ACOS, x)


def atan(x: Operand) -> Node:
    """The inverse of the tangent, in [-π/2, π/2]."""
    return _function(ATAN, x)


def sinh(x: Operand) -> Node:
    """(eˣ - e⁻ˣ) / 2."""
    return _function(SINH, x)


def cosh(x: Operand) -> Node:
    """(eˣ + e⁻ˣ) / 2."""
    return _function(COSH, x)


def asinh(x: Operand) -> Node:
    """The inverse of sinh."""
    return _function(ASINH, x)


def acosh(x: Operand) -> Node:
    """The inverse of cosh, not negative; NaN below 1."""
    return _function(ACOSH, x)


def atanh(x: Operand) -> Node:
    """The inverse of tanh; NaN outside [-1, 1]."""
    return _function(ATANH, x)


def erfc(x: Operand) -> Node:
    """1 - erf(x), without cancellation where erf is near 1."""
    return _function(ERFC, x)


def erfinv(x: Operand) -> Node:
    """The inverse of erf; ±inf at ±1, NaN beyond."""
    return _function(ERFINV, x)


def lgamma(x: Operand) -> Node:
    """log |Γ(x)|."""
    return _function(LGAMMA, x)


def digamma(x: Operand) -> Node:
    """Γ'(x) / Γ(x)."""
    return _function(DIGAMMA, x)


def polygamma(order: int, x: Operand) -> Node:
    """The derivative of `digamma` of that order."""
    if order == 0:
        return digamma(x)
    return record(POLYGAMMA, as_node(x, _floating((x,))), order=int(order))


def _floating_binary(op: Op, a: Operand, b: Operand) -> Node:
    return record(op, *_aligned(op.name, (a, b), _floating((a, b))))


def logaddexp(a: Operand, b: Operand) -> Node:
    """log(eᵃ + eᵇ), without overflow."""
    return _floating_binary(LOGADDEXP, a, b)


def atan2(a: Operand, b: Operand) -> Node:
    """The angle of the point (b, a), in [-π, π]."""
    return _floating_binary(ATAN2, a, b)


def hypot(a: Operand, b: Operand) -> Node:
    """√(a² + b²), without overflow."""
    return _floating_binary(HYPOT, a, b)


def copysign(a: Operand, b: Operand) -> Node:
    """|a| with the sign of b, that of -0.0 included."""
    return _floating_binary(COPYSIGN, a, b)


def nextafter(a: Operand, b: Operand) -> Node:
    """The number next to a on the way to b."""
    return _floating_binary(NEXTAFTER, a, b)


def fmod(a: Operand, b: Operand) -> Node:
    """a - b trunc(a / b), which has the sign of a."""
    return _binary(FMOD, a, b)


def _rounded(op: Op, x: Node) -> Node:
    return record(op, x) if x.dtype.kind == "f" else x


def ceil(x: Node) -> Node:
    """The smallest integer not below x."""
    return _rounded(CEIL, x)


def trunc(x: Node) -> Node:
    """The integer part, towards 0."""
    return _rounded(TRUNC, x)


def round(x: Node) -> Node:
    """The nearest integer; halves go to the even one."""
    return _rounded(ROUND, x)


def bitwise_and(a: Operand, b: Operand) -> Node:
    """The bits that both have."""
    return _binary(AND, a, b)


def bitwise_or(a: Operand, b: Operand) -> Node:
    """The bits that one has at least."""
    return _binary(OR, a, b)


def bitwise_xor(a: Operand, b: Operand) -> Node:
    """The bits that just one has."""
    return _binary(XOR, a, b)


def bitwise_not(x: Node) -> Node:
    """All bits turned over."""
    return record(NOT, x)


def shift_left(a: Operand, b: Operand) -> Node:
    """a 2ᵇ, modulo the width; 0 unless 0 <= b < width."""
    return _binary(SHIFT_LEFT, a, b)


def shift_right(a: Operand, b: Operand) -> Node:
    """⌊a / 2ᵇ⌋; the sign's bits unless 0 <= b < width."""
    return _binary(SHIFT_RIGHT, a, b)
