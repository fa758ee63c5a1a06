"""Elementwise functions: arithmetic, comparisons, logic, and functions of one real variable."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tinygrad_lite.functional.common import Scalar, fresh, node_of, unary, unwrap, wrap
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.types import DType, bool_
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops import promote
from tinygrad_lite.ops.graft import graft
from tinygrad_lite.ops.promote import Operand

__all__ = [
    "abs",
    "absolute",
    "add",
    "addcdiv",
    "addcmul",
    "allclose",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "ceil",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clip",
    "cos",
    "div",
    "divide",
    "eq",
    "equal",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "ge",
    "greater",
    "greater_equal",
    "gt",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "le",
    "lerp",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lt",
    "masked_fill",
    "maximum",
    "minimum",
    "mul",
    "multiply",
    "ne",
    "neg",
    "negative",
    "not_equal",
    "pow",
    "promote_types",
    "reciprocal",
    "remainder",
    "result_type",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sqrt",
    "square",
    "sub",
    "subtract",
    "tan",
    "tanh",
    "true_divide",
    "trunc",
    "where",
]

Value = Tensor | Scalar

# ---- one operand ----------------------------------------------------------------------------------------


def _ceil(x: Node) -> Node:
    return ew.neg(ew.floor(ew.neg(x))) if x.dtype.kind == "f" else x


def _trunc(x: Node) -> Node:
    return ew.where(ew.lt(x, 0), _ceil(x), ew.floor(x)) if x.dtype.kind == "f" else x


def _round(x: Node) -> Node:
    """Halves go to the even neighbour."""
    if x.dtype.kind != "f":
        return x
    up = ew.floor(ew.add(x, 0.5))
    odd = ew.ne(ew.sub(up, ew.mul(ew.floor(ew.mul(up, 0.5)), 2.0)), 0.0)
    return ew.where(ew.logical_and(ew.eq(ew.sub(up, x), 0.5), odd), ew.sub(up, 1.0), up)


def _log1p(x: Node) -> Node:
    """log(1 + x), also for small x: the rounding error of 1 + x cancels (Kahan)."""
    plain = ew.log(ew.add(x, 1.0))
    u = ew.detach(ew.add(x, 1.0))
    exact = ew.where(ew.eq(u, 1.0), x, ew.div(ew.mul(ew.log(u), x), ew.sub(u, 1.0)))
    return graft(ew.where(ew.eq(u, math.inf), u, exact), plain)


def _expm1(x: Node) -> Node:
    """exp(x) - 1, also for small x (Kahan)."""
    plain = ew.sub(ew.exp(x), 1.0)
    u = ew.detach(ew.exp(x))
    exact = ew.div(ew.mul(ew.sub(u, 1.0), x), ew.log(u))
    ends = ew.logical_or(ew.eq(u, 0.0), ew.eq(u, math.inf))
    return graft(ew.where(ew.eq(u, 1.0), x, ew.where(ends, ew.sub(u, 1.0), exact)), plain)


def _floating(x: Node) -> Node:
    return x if x.dtype.kind == "f" else ew.mul(x, 1.0)


def _is_infinite(x: Node) -> Node:
    return ew.eq(ew.abs(_floating(x)), math.inf)


def _is_nan(x: Node) -> Node:
    return ew.ne(x, x)


exp = unary(ew.exp, "exp", "e to the power of each element.")
exp2 = unary(lambda x: ew.exp(ew.mul(x, math.log(2))), "exp2", "2 to the power of each element.")
expm1 = unary(lambda x: _expm1(_floating(x)), "expm1", "exp(x) - 1 without cancellation near 0.")
log = unary(ew.log, "log", "Natural logarithm; NaN below 0.")
log2 = unary(lambda x: ew.mul(ew.log(x), 1 / math.log(2)), "log2", "Logarithm to base 2.")
log10 = unary(lambda x: ew.mul(ew.log(x), 1 / math.log(10)), "log10", "Logarithm to base 10.")
log1p = unary(lambda x: _log1p(_floating(x)), "log1p", "log(1 + x) without cancellation near 0.")
sqrt = unary(ew.sqrt, "sqrt", "Square root; NaN below 0.")
rsqrt = unary(ew.rsqrt, "rsqrt", "1 / sqrt(x).")
square = unary(lambda x: ew.mul(x, x), "square", "x².")
reciprocal = unary(lambda x: ew.div(1.0, x), "reciprocal", "1 / x.")
tanh = unary(ew.tanh, "tanh", "Hyperbolic tangent.")
sin = unary(ew.sin, "sin", "Sine of radians.")
cos = unary(ew.cos, "cos", "Cosine of radians.")
tan = unary(lambda x: ew.div(ew.sin(x), ew.cos(x)), "tan", "Tangent of radians.")
erf = unary(ew.erf, "erf", "Error function.")
sigmoid = unary(ew.sigmoid, "sigmoid", "1 / (1 + exp(-x)).")
abs = unary(ew.abs, "abs", "|x|.")
sign = unary(ew.sign, "sign", "-1, 0 or 1.")
floor = unary(ew.floor, "floor", "The largest integer not above x.")
ceil = unary(_ceil, "ceil", "The smallest integer not below x.")
trunc = unary(_trunc, "trunc", "The integer part, towards 0.")
isnan = unary(_is_nan, "isnan", "Which elements are NaN.")
isinf = unary(_is_infinite, "isinf", "Which elements are infinite.")
isfinite = unary(
    lambda x: ew.lt(ew.abs(_floating(x)), math.inf), "isfinite", "Which elements are neither NaN nor infinite."
)
logical_not = unary(ew.logical_not, "logical_not", "Which elements are 0.")


def neg(input: Tensor) -> Tensor:
    """-x. RuntimeError for bool."""
    node = node_of(input, "input")
    if node.dtype is bool_:
        raise RuntimeError("Negation, the `-` operator, on a bool tensor is not supported. Use `~` or logical_not()")
    return wrap(ew.neg(node))


def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """To the nearest integer, or decimal; halves to the even one."""
    node = node_of(input, "input")
    if decimals == 0:
        return fresh(_round(node), node)
    scale = 10.0**decimals
    return wrap(ew.div(_round(ew.mul(node, scale)), scale))


def bitwise_not(input: Tensor) -> Tensor:
    """~x of a bool tensor, -x - 1 of an integer one."""
    node = node_of(input, "input")
    if node.dtype is bool_:
        return wrap(ew.logical_not(node))
    if node.dtype.kind == "f":
        raise TypeError(f"~ is not defined for {node.type}")
    return wrap(ew.sub(ew.neg(node), 1))


# ---- two operands -----------------------------------------------------------------------------------------


def _binary(build: Callable[[Operand, Operand], Node], name: str, doc: str) -> Callable[[Value, Value], Tensor]:
    def function(input: Value, other: Value) -> Tensor:
        return wrap(build(unwrap(input), unwrap(other)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc + " Broadcasts and promotes."
    return function


mul = multiply = _binary(ew.mul, "mul", "input * other.")
maximum = _binary(ew.maximum, "maximum", "The larger of two; NaN wins; ties share the gradient.")
minimum = _binary(ew.minimum, "minimum", "The smaller of two; NaN wins; ties share the gradient.")
floor_divide = _binary(ew.floor_divide, "floor_divide", "floor(input / other).")
remainder = _binary(ew.remainder, "remainder", "input - other * floor(input / other).")
eq = _binary(ew.eq, "eq", "input == other.")
ne = not_equal = _binary(ew.ne, "ne", "input != other.")
lt = less = _binary(ew.lt, "lt", "input < other.")
le = less_equal = _binary(ew.le, "le", "input <= other.")
gt = greater = _binary(ew.gt, "gt", "input > other.")
ge = greater_equal = _binary(ew.ge, "ge", "input >= other.")
logical_and = _binary(ew.logical_and, "logical_and", "Whether both are nonzero.")
logical_or = _binary(ew.logical_or, "logical_or", "Whether one is nonzero.")
logical_xor = _binary(lambda a, b: ew.ne(_truth(a), _truth(b)), "logical_xor", "Whether just one is nonzero.")


def _truth(x: Operand) -> Operand:
    return ew.truth(x) if isinstance(x, Node) else bool(x)


def _scaled(other: Value, alpha: Scalar) -> Operand:
    node = unwrap(other)
    if alpha == 1:
        return node
    return ew.mul(node, alpha) if isinstance(node, Node) else node * alpha


def add(input: Value, other: Value, *, alpha: Scalar = 1) -> Tensor:
    """input + alpha * other. Broadcasts and promotes."""
    return wrap(ew.add(unwrap(input), _scaled(other, alpha)))


def sub(input: Value, other: Value, *, alpha: Scalar = 1) -> Tensor:
    """input - alpha * other. Broadcasts and promotes."""
    return wrap(ew.sub(unwrap(input), _scaled(other, alpha)))


subtract = sub


def div(input: Value, other: Value, *, rounding_mode: str | None = None) -> Tensor:
    """input / other, always floating; `rounding_mode` "floor" or "trunc" rounds and keeps integers."""
    a, b = unwrap(input), unwrap(other)
    if rounding_mode is None:
        return wrap(ew.div(a, b))
    if rounding_mode == "floor":
        return wrap(ew.floor_divide(a, b))
    if rounding_mode != "trunc":
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found {rounding_mode!r}"
        )
    dtype = promote.result_type((a, b))
    if dtype.kind == "f":
        return wrap(_trunc(ew.div(a, b)))
    down = ew.floor_divide(a, b)
    short = ew.logical_and(ew.lt(down, 0), ew.ne(ew.mul(down, b), a))
    return wrap(ew.where(short, ew.add(down, 1), down))


divide = div


def true_divide(input: Value, other: Value) -> Tensor:
    """input / other."""
    return div(input, other)


def pow(input: Value, exponent: Value) -> Tensor:
    """input ** exponent; small constant powers become products and roots."""
    a, b = unwrap(input), unwrap(exponent)
    if isinstance(a, Node) and not isinstance(b, Node) and a.dtype is not bool_:
        short = _constant_power(a, b)
        if short is not None:
            return fresh(short, a)
    return wrap(ew.pow(a, b))


def _constant_power(x: Node, exponent: Scalar) -> Node | None:
    if exponent in (2, 3) and (x.dtype.kind == "f" or isinstance(exponent, int)):
        squared = ew.mul(x, x)
        return squared if exponent == 2 else ew.mul(squared, x)
    if x.dtype.kind != "f":
        return None
    if exponent == 1:
        return x
    if exponent == -1:
        return ew.div(1.0, x)
    if exponent == 0.5:
        return ew.sqrt(x)
    return ew.rsqrt(x) if exponent == -0.5 else None


def bitwise_and(input: Value, other: Value) -> Tensor:
    """input & other of bool tensors."""
    return wrap(ew.logical_and(*_bools("&", input, other)))


def bitwise_or(input: Value, other: Value) -> Tensor:
    """input | other of bool tensors."""
    return wrap(ew.logical_or(*_bools("|", input, other)))


def bitwise_xor(input: Value, other: Value) -> Tensor:
    """input ^ other of bool tensors."""
    return wrap(ew.ne(*_bools("^", input, other)))


def _bools(symbol: str, *values: Value) -> list[Operand]:
    operands = [unwrap(v) for v in values]
    for o in operands:
        if not (isinstance(o, bool) or (isinstance(o, Node) and o.dtype is bool_)):
            raise TypeError(f"{symbol} is defined for bool tensors only, got {o.type if isinstance(o, Node) else o!r}")
    return operands


# ---- more operands ------------------------------------------------------------------------------------------


def clamp(input: Tensor, min: Value | None = None, max: Value | None = None) -> Tensor:
    """Limit each element to [min, max]; elements on a bound keep their gradient. Without order, max wins."""
    node = node_of(input, "input")
    if min is None and max is None:
        raise RuntimeError("clamp: At least one of 'min' or 'max' must not be None")
    result = node
    if min is not None:
        low = unwrap(min)
        result = ew.where(ew.lt(result, low), low, result)
    if max is not None:
        high = unwrap(max)
        result = ew.where(ew.gt(result, high), high, result)
    return wrap(result)


clip = clamp


def clamp_min(input: Tensor, min: Value) -> Tensor:
    """clamp(min=min)."""
    return clamp(input, min=min)


def clamp_max(input: Tensor, max: Value) -> Tensor:
    """clamp(max=max)."""
    return clamp(input, max=max)


def where(condition: Tensor, input: Value | None = None, other: Value | None = None) -> Any:
    """input where condition holds, else other. With a condition alone, `nonzero(as_tuple=True)`."""
    if input is None and other is None:
        from tinygrad_lite.functional.indexing import nonzero

        return nonzero(condition, as_tuple=True)
    if input is None or other is None:
        raise TypeError("where() takes the condition alone, or both input and other")
    return wrap(ew.where(node_of(condition, "condition"), unwrap(input), unwrap(other)))


def masked_fill(input: Tensor, mask: Tensor, value: Value) -> Tensor:
    """input with `value` where mask is True; keeps input's dtype."""
    node, where_, fill = node_of(input, "input"), node_of(mask, "mask"), unwrap(value)
    if where_.dtype is not bool_:
        raise RuntimeError(f"masked_fill only supports boolean masks, but got mask {where_.type}")
    if isinstance(fill, Node) and fill.type.ndim:
        raise RuntimeError(f"masked_fill only supports a 0-dimensional value tensor, but got {fill.type}")
    return wrap(ew.where(where_, ew.as_node(fill, node.dtype), node))


def lerp(input: Tensor, end: Tensor, weight: Value) -> Tensor:
    """input + weight * (end - input)."""
    return add(input, mul(weight, sub(end, input)))


def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1) -> Tensor:
    """input + value * tensor1 * tensor2."""
    return add(input, mul(tensor1, tensor2), alpha=value)


def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1) -> Tensor:
    """input + value * tensor1 / tensor2."""
    return add(input, div(tensor1, tensor2), alpha=value)


def isclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """|input - other| <= atol + rtol |other|."""
    a, b = node_of(input, "input"), node_of(other, "other")
    near = ew.le(ew.abs(ew.sub(a, b)), ew.add(ew.mul(ew.abs(b), rtol), atol))
    close = ew.logical_or(ew.eq(a, b), ew.logical_and(near, ew.lt(ew.abs(_floating(b)), math.inf)))
    return wrap(ew.logical_or(close, ew.logical_and(_is_nan(a), _is_nan(b))) if equal_nan else close)


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether all elements are close. Reads values."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shapes and all elements are equal. Reads values."""
    return input.shape == other.shape and bool(eq(input, other).all())


absolute, negative = abs, neg


def result_type(tensor1: Value, tensor2: Value) -> DType:
    """The dtype that an operation on the two computes in."""
    return promote.result_type([unwrap(tensor1), unwrap(tensor2)])


promote_types = promote.promote_types
