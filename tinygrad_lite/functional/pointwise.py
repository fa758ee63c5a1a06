"""Elementwise functions: arithmetic, comparisons, logic, rounding and bits; more in `functional/transcendental.py`."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_lite.functional.common import Scalar, fresh, node_of, unary, unwrap, wrap
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import leaf
from tinygrad_lite.ir.types import DType, bool_, filling, float64, int64, limits
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops import promote, special
from tinygrad_lite.ops.promote import Operand

__all__ = [
    "abs",
    "absolute",
    "add",
    "addcdiv",
    "addcmul",
    "allclose",
    "angle",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "can_cast",
    "ceil",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clip",
    "conj",
    "copysign",
    "div",
    "divide",
    "eq",
    "equal",
    "fix",
    "float_power",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "fmod",
    "frac",
    "gcd",
    "ge",
    "greater",
    "greater_equal",
    "gt",
    "heaviside",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "isreal",
    "lcm",
    "le",
    "lerp",
    "less",
    "less_equal",
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
    "nan_to_num",
    "ne",
    "neg",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "promote_types",
    "real",
    "reciprocal",
    "remainder",
    "resolve_conj",
    "result_type",
    "round",
    "rsqrt",
    "rsub",
    "sgn",
    "sign",
    "signbit",
    "sqrt",
    "square",
    "sub",
    "subtract",
    "true_divide",
    "trunc",
    "where",
]

Value = Tensor | Scalar

# ---- one operand ----------------------------------------------------------------------------------------


def _floating(x: Node) -> Node:
    return x if x.dtype.kind == "f" else ew.mul(x, 1.0)


def _is_nan(x: Node) -> Node:
    return ew.ne(x, x)


def _square(x: Node) -> Node:
    number = ew.cast(x, int64) if x.dtype is bool_ else x
    return ew.mul(number, number)


square = unary(_square, "square", "x²; of bools in int64.")
reciprocal = unary(lambda x: ew.div(1.0, x), "reciprocal", "1 / x.")
sqrt = unary(ew.sqrt, "sqrt", "Square root; NaN below 0.")
rsqrt = unary(ew.rsqrt, "rsqrt", "1 / sqrt(x).")
abs = absolute = unary(ew.abs, "abs", "|x|; its gradient at 0 is 0.")
sign = sgn = unary(
    lambda x: x if x.dtype is bool_ else ew.sign(x), "sign", "-1, 0 or 1; 0 for NaN; bools stay. Its gradient is 0."
)
floor = unary(ew.floor, "floor", "The largest integer not above x.")
ceil = unary(special.ceil, "ceil", "The smallest integer not below x.")
trunc = fix = unary(special.trunc, "trunc", "The integer part, towards 0.")
isnan = unary(_is_nan, "isnan", "Which elements are NaN.")
isinf = unary(lambda x: ew.eq(ew.abs(_floating(x)), math.inf), "isinf", "Which elements are infinite.")
isposinf = unary(lambda x: ew.eq(_floating(x), math.inf), "isposinf", "Which elements are inf.")
isneginf = unary(lambda x: ew.eq(_floating(x), -math.inf), "isneginf", "Which elements are -inf.")
isfinite = unary(
    lambda x: ew.lt(ew.abs(_floating(x)), math.inf), "isfinite", "Which elements are neither NaN nor infinite."
)
isreal = unary(
    lambda x: ew.eq(ew.mul(ew.truth(x), False), False), "isreal", "True everywhere: there is no complex dtype."
)
logical_not = unary(ew.logical_not, "logical_not", "Which elements are 0.")


def neg(input: Tensor) -> Tensor:
    """-x. RuntimeError for bool."""
    node = node_of(input, "input")
    if node.dtype is bool_:
        raise RuntimeError("Negation, the `-` operator, on a bool tensor is not supported. Use `~` or logical_not()")
    return wrap(ew.neg(node))


negative = neg


def positive(input: Tensor) -> Tensor:
    """x itself. RuntimeError for bool."""
    if node_of(input, "input").dtype is bool_:
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


def real(input: Tensor) -> Tensor:
    """x itself: there are no complex dtypes."""
    node_of(input, "input")
    return input


conj = resolve_conj = real


def angle(input: Tensor) -> Tensor:
    """π where x is negative, 0 elsewhere, NaN at NaN."""
    node = node_of(input, "input")
    x = _floating(node)
    return wrap(ew.where(ew.lt(x, 0), math.pi, ew.where(_is_nan(x), x, 0.0)))


def frac(input: Tensor) -> Tensor:
    """x - trunc(x), with the sign of x. RuntimeError for integers."""
    node = node_of(input, "input")
    if node.dtype.kind != "f":
        raise RuntimeError(f"frac: needs a floating tensor, got {node.type}")
    return wrap(ew.sub(node, special.trunc(node)))


def signbit(input: Tensor) -> Tensor:
    """Which elements are negative, -0.0 included."""
    node = node_of(input, "input")
    if node.dtype.kind != "f":
        return wrap(ew.lt(node, 0))
    return wrap(ew.lt(special.copysign(1.0, node), 0.0))


def round(input: Tensor, *, decimals: int = 0) -> Tensor:
    """To the nearest integer, or decimal (negative: to tens, hundreds, …); halves to the even one."""
    node = node_of(input, "input")
    if decimals == 0:
        return fresh(special.round(node), node)
    scale = 10.0 ** builtins.abs(decimals)
    if decimals < 0:
        return wrap(ew.mul(special.round(ew.div(node, scale)), scale))
    return wrap(ew.div(special.round(ew.mul(node, scale)), scale))


def bitwise_not(input: Tensor) -> Tensor:
    """~x: not of a bool tensor, -x - 1 of an integer one."""
    node = node_of(input, "input")
    if node.dtype is bool_:
        return wrap(ew.logical_not(node))
    return wrap(special.bitwise_not(node))


def nan_to_num(input: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """NaN and infinities replaced, the latter by the dtype's greatest and least numbers unless given."""
    node = node_of(input, "input")
    if node.dtype.kind != "f":
        return fresh(node, node)
    top = float(limits(node.dtype).max)
    result = ew.where(_is_nan(node), float(0.0 if nan is None else nan), node)
    result = ew.where(ew.eq(node, math.inf), top if posinf is None else float(posinf), result)
    return wrap(ew.where(ew.eq(node, -math.inf), -top if neginf is None else float(neginf), result))


# ---- two operands -----------------------------------------------------------------------------------------


def _binary(
    build: Callable[[Operand, Operand], Node], name: str, doc: str, tensors: int = 0, floating: bool = False
) -> Callable[[Value, Value], Tensor]:
    """`tensors`: how many of the two, from the first, may not be numbers; `floating`: they may not be integers."""

    def function(input: Value, other: Value) -> Tensor:
        a = node_of(input, f"{name}(): input") if tensors > 0 else unwrap(input)
        b = node_of(other, f"{name}(): other") if tensors > 1 else unwrap(other)
        if floating and promote.result_type((a, b)).kind != "f":
            raise RuntimeError(f"{name}(): needs floating tensors, got {_shown(a)} and {_shown(b)}")
        if name not in ("mul", "floor_divide"):  # PyTorch multiplies two numbers, and so do add, sub and div
            _some_tensor(name, a, b)
        return wrap(build(a, b))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc + " Broadcasts and promotes."
    return function


def _some_tensor(name: str, a: Operand, b: Operand) -> None:
    """TypeError unless one of them is a tensor."""
    if not isinstance(a, Node) and not isinstance(b, Node):
        raise TypeError(f"{name}() needs a tensor among its arguments, got {a!r} and {b!r}")


def _shown(x: Operand) -> str:
    return str(x.type) if isinstance(x, Node) else repr(x)


mul = multiply = _binary(ew.mul, "mul", "input * other.")
maximum = _binary(ew.maximum, "maximum", "The larger of two; NaN wins; ties share the gradient.", 2)
minimum = _binary(ew.minimum, "minimum", "The smaller of two; NaN wins; ties share the gradient.", 2)
floor_divide = _binary(ew.floor_divide, "floor_divide", "floor(input / other).")
remainder = _binary(ew.remainder, "remainder", "input - other * floor(input / other), which has the sign of other.")
fmod = _binary(special.fmod, "fmod", "input - other * trunc(input / other), which has the sign of input.", 1)
copysign = _binary(special.copysign, "copysign", "|input| with the sign of other, that of -0.0 included.", 1)
nextafter = _binary(special.nextafter, "nextafter", "The number next to input on the way to other.", 2, True)
eq = _binary(ew.eq, "eq", "input == other.", 1)
ne = not_equal = _binary(ew.ne, "ne", "input != other.", 1)
lt = less = _binary(ew.lt, "lt", "input < other.", 1)
le = less_equal = _binary(ew.le, "le", "input <= other.", 1)
gt = greater = _binary(ew.gt, "gt", "input > other.", 1)
ge = greater_equal = _binary(ew.ge, "ge", "input >= other.", 1)
logical_and = _binary(ew.logical_and, "logical_and", "Whether both are nonzero.", 2)
logical_or = _binary(ew.logical_or, "logical_or", "Whether one is nonzero.", 2)
logical_xor = _binary(lambda a, b: ew.ne(_truth(a), _truth(b)), "logical_xor", "Whether just one is nonzero.", 2)
fmax = _binary(
    lambda a, b: ew.where(_wins(ew.ge, a, b), a, b), "fmax", "The larger of two, the number where the other is NaN.", 2
)
fmin = _binary(
    lambda a, b: ew.where(_wins(ew.le, a, b), a, b), "fmin", "The smaller of two, the number where the other is NaN.", 2
)


def _truth(x: Operand) -> Operand:
    return ew.truth(x) if isinstance(x, Node) else bool(x)


def _wins(compare: Callable[[Operand, Operand], Node], a: Operand, b: Operand) -> Node:
    return ew.logical_or(compare(a, b), ew.ne(b, b))


def _scaled(other: Value, alpha: Scalar) -> Operand:
    node = unwrap(other)
    if alpha == 1:
        return node
    if isinstance(node, Node) and node.dtype.kind != "f" and isinstance(alpha, float):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    return ew.mul(node, alpha) if isinstance(node, Node) else node * alpha


def add(input: Value, other: Value, *, alpha: Scalar = 1) -> Tensor:
    """input + alpha * other. Broadcasts and promotes."""
    return wrap(ew.add(unwrap(input), _scaled(other, alpha)))


def sub(input: Value, other: Value, *, alpha: Scalar = 1) -> Tensor:
    """input - alpha * other. Broadcasts and promotes."""
    return wrap(ew.sub(unwrap(input), _scaled(other, alpha)))


def rsub(input: Value, other: Value, *, alpha: Scalar = 1) -> Tensor:
    """other - alpha * input. Broadcasts and promotes."""
    node_of(input, "rsub(): input")
    return sub(other, input, alpha=alpha)


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
        return wrap(special.trunc(ew.div(a, b)))
    down = ew.floor_divide(a, b)
    short = ew.logical_and(ew.lt(down, 0), ew.ne(ew.mul(down, b), a))
    return wrap(ew.where(short, ew.add(down, 1), down))


divide = div


def true_divide(input: Value, other: Value) -> Tensor:
    """input / other."""
    return div(input, other)


def pow(input: Value, exponent: Value) -> Tensor:
    """input ** exponent; small constant powers become products and roots. 0 ** 0 is 1."""
    a, b = unwrap(input), unwrap(exponent)
    _some_tensor("pow", a, b)
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


def float_power(input: Value, exponent: Value) -> Tensor:
    """input ** exponent in float64."""
    a, b = (ew.cast(x, float64) if isinstance(x, Node) else float(x) for x in (unwrap(input), unwrap(exponent)))
    _some_tensor("float_power", a, b)
    return wrap(ew.power(a, b))


def heaviside(input: Tensor, values: Tensor) -> Tensor:
    """0 below 0, 1 above, `values` at 0."""
    node, at_zero = node_of(input, "input"), node_of(values, "values")
    if node.dtype is not at_zero.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")
    return wrap(ew.where(ew.eq(node, 0), at_zero, ew.cast(ew.gt(node, 0), node.dtype)))


# ---- bits -----------------------------------------------------------------------------------------------------


def _bits(bools: Callable[..., Node], integers: Callable[..., Node], symbol: str, name: str) -> Callable[..., Tensor]:
    def function(input: Value, other: Value) -> Tensor:
        operands = [unwrap(input), unwrap(other)]
        _some_tensor(name, *operands)
        dtype = promote.result_type(operands)
        if dtype.kind == "f":
            shown = ", ".join(str(o.type) if isinstance(o, Node) else repr(o) for o in operands)
            raise TypeError(f"{symbol} ({name}) is defined for bool and integer tensors only, got {shown}")
        return wrap((bools if dtype is bool_ else integers)(*operands))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"input {symbol} other of bool or integer tensors. Broadcasts and promotes."
    return function


bitwise_and = _bits(ew.logical_and, special.bitwise_and, "&", "bitwise_and")
bitwise_or = _bits(ew.logical_or, special.bitwise_or, "|", "bitwise_or")
bitwise_xor = _bits(ew.ne, special.bitwise_xor, "^", "bitwise_xor")
bitwise_left_shift = _bits(special.shift_left, special.shift_left, "<<", "bitwise_left_shift")
bitwise_right_shift = _bits(special.shift_right, special.shift_right, ">>", "bitwise_right_shift")


def _of_integers(rule: Any, name: str, doc: str) -> Callable[[Tensor, Tensor], Tensor]:
    def function(input: Tensor, other: Tensor) -> Tensor:
        a, b = node_of(input, "input"), node_of(other, "other")
        dtype = promote.result_type((a, b))
        if dtype.kind not in "iu":
            raise RuntimeError(f"{name}: needs integer tensors, got {a.type} and {b.type}")
        x, y = input._values(f"{name}()"), other._values(f"{name}()")
        return wrap(leaf(np.asarray(rule(x.astype(dtype.numpy), y.astype(dtype.numpy)), dtype.numpy)))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{doc} of integers. Reads values."
    return function


gcd = _of_integers(np.gcd, "gcd", "The greatest common divisor")
lcm = _of_integers(np.lcm, "lcm", "The least common multiple")

# ---- more operands ------------------------------------------------------------------------------------------


def clamp(input: Tensor, min: Value | None = None, max: Value | None = None) -> Tensor:
    """Limit each element to [min, max]; elements on a bound keep their gradient. Without order, max wins.

    NaN in the input or in a bound stays NaN.
    """
    node = node_of(input, "input")
    if min is None and max is None:
        raise RuntimeError("clamp: At least one of 'min' or 'max' must not be None")
    result = node
    for bound, beyond in ((min, ew.lt), (max, ew.gt)):
        if bound is not None:
            limit = unwrap(bound)
            if isinstance(limit, int) and node.dtype.kind in "iu":
                limit = filling(limit, node.dtype)
            result = _limited(result, limit, beyond)
    return wrap(result)


def _limited(x: Node, bound: Operand, beyond: Callable[[Operand, Operand], Node]) -> Node:
    outside = beyond(x, bound)
    if isinstance(bound, Node) and bound.dtype.kind == "f":
        outside = ew.logical_or(outside, ew.ne(bound, bound))
    elif bound != bound:
        outside = ew.eq(x, x)
    return ew.where(outside, bound, x)


clip = clamp


def clamp_min(input: Tensor, min: Value) -> Tensor:
    """clamp(min=min)."""
    return clamp(input, min=min)


def clamp_max(input: Tensor, max: Value) -> Tensor:
    """clamp(max=max)."""
    return clamp(input, max=max)


def where(condition: Tensor, input: Value | None = None, other: Value | None = None) -> Any:
    """input where condition holds, else other. With a condition alone, `nonzero(as_tuple=True)`.

    No gradient flows into what was not chosen; NaN there times 0 is still NaN further down, so mask before dividing.
    """
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
    fill = fill if isinstance(fill, Node) else filling(fill, node.dtype)
    return wrap(ew.where(where_, ew.as_node(fill, node.dtype), node))


def lerp(input: Tensor, end: Tensor, weight: Value) -> Tensor:
    """input + weight * (end - input), computed from the nearer end. RuntimeError unless of one floating dtype."""
    a, b, w = node_of(input, "input"), node_of(end, "end"), unwrap(weight)
    if a.dtype is not b.dtype or (isinstance(w, Node) and w.dtype is not a.dtype):
        raise RuntimeError(f"lerp: expected one dtype, got input {a.type}, end {b.type} and weight {w}")
    if a.dtype.kind != "f":
        raise RuntimeError(f"lerp: needs floating tensors, got {a.type}")
    apart = ew.sub(b, a)
    near = ew.add(a, ew.mul(w, apart))
    if not isinstance(w, Node):
        return wrap(near if builtins.abs(w) < 0.5 else ew.sub(b, ew.mul(apart, 1 - w)))
    return wrap(ew.where(ew.lt(ew.abs(w), 0.5), near, ew.sub(b, ew.mul(apart, ew.sub(1.0, w)))))


def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1) -> Tensor:
    """input + value * tensor1 * tensor2."""
    return add(input, mul(tensor1, tensor2), alpha=value)


def addcdiv(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: Scalar = 1) -> Tensor:
    """input + value * tensor1 / tensor2. RuntimeError where both divided tensors are integers."""
    if all(node_of(t, "tensor").dtype.kind != "f" for t in (tensor1, tensor2)):
        raise RuntimeError("Integer division with addcdiv is no longer supported: convert to floating point first")
    return add(input, div(tensor1, tensor2), alpha=value)


def isclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """|input - other| <= atol + rtol |other|. RuntimeError for two dtypes or a negative tolerance."""
    a, b = node_of(input, "input"), node_of(other, "other")
    if a.dtype is not b.dtype:
        raise RuntimeError(f"isclose: {a.dtype.name} did not match {b.dtype.name}")
    if rtol < 0 or atol < 0:
        raise RuntimeError(f"isclose: rtol and atol must not be negative, got rtol={rtol} and atol={atol}")
    if a.dtype is bool_:
        return wrap(ew.eq(a, b))
    near = ew.le(ew.abs(ew.sub(a, b)), ew.add(ew.mul(ew.abs(b), rtol), atol))
    close = ew.logical_or(ew.eq(a, b), ew.logical_and(near, ew.lt(ew.abs(_floating(b)), math.inf)))
    return wrap(ew.logical_or(close, ew.logical_and(_is_nan(a), _is_nan(b))) if equal_nan else close)


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether all elements are close. Reads values."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())  # type: ignore[attr-defined]


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether shapes and all elements are equal. Reads values."""
    return input.shape == other.shape and bool(eq(input, other).all())  # type: ignore[attr-defined]


def result_type(tensor1: Value, tensor2: Value) -> DType:
    """The dtype that an operation on the two computes in."""
    return promote.result_type([unwrap(tensor1), unwrap(tensor2)])


def can_cast(from_: DType, to: DType) -> bool:
    """Whether values may be converted so without changing category: float to integer may not, nor anything to bool."""
    ranks = "buif"
    if from_.kind == "i" and to.kind == "u":
        return False
    return ranks.index(from_.kind) <= ranks.index(to.kind)


promote_types = promote.promote_types
