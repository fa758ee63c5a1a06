"""Elementwise ops: one shape in, the same shape out. The builders broadcast and promote; the ops never do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygrad_lite.errors import OutOfRangeError
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Cost, Kind, Op, moved_bytes, only_bytes, register
from tinygrad_lite.ir.record import record
from tinygrad_lite.ir.types import DType, TensorType, bool_, converted, int64, wrapped
from tinygrad_lite.ops import extremum, movement
from tinygrad_lite.ops.later import special
from tinygrad_lite.ops.leaf import constant
from tinygrad_lite.ops.promote import Operand, get_default_dtype, result_type

# ---- inference ------------------------------------------------------------------------------------


def _same(name: str, types: Sequence[TensorType]) -> TensorType:
    first = types[0]
    if any(t != first for t in types):
        raise TypeError(f"{name}: operands must have one dtype and shape, got {', '.join(map(str, types))}")
    return first


def _infer_same(name: str) -> Callable[..., TensorType]:
    return lambda *types: _same(name, types)


def _infer_float(name: str) -> Callable[..., TensorType]:
    def infer(*types: TensorType) -> TensorType:
        if types[0].dtype.kind != "f":
            raise TypeError(f"{name}: needs floating operands, got {types[0]}")
        return _same(name, types)

    return infer


def _infer_number(name: str) -> Callable[..., TensorType]:
    def infer(*types: TensorType) -> TensorType:
        if types[0].dtype is bool_:
            raise RuntimeError(f"{name}: not defined for bool tensors, got {', '.join(map(str, types))}")
        return _same(name, types)

    return infer


def _infer_bool(name: str) -> Callable[..., TensorType]:
    return lambda *types: TensorType(bool_, _same(name, types).shape)


# ---- tables of ops: name, NumPy rule, kernel expression, VJP ---------------------------------------

Vjp = Callable[[Node, Node, int], Node | None] | None


def _op(
    name: str, infer: Callable[..., TensorType], rule: Callable[..., Any], scalar: str, vjp: Vjp = None, flops: int = 1
) -> Op:
    def cost(node: Node) -> Cost:
        return Cost(flops * node.type.size, moved_bytes(node))

    traits = frozenset({"expensive"} if flops >= 8 else ())
    return register(Op(name, Kind.ELEMENTWISE, infer, rule, vjp, scalar, cost, traits))


def _by_input(*rules: Callable[[Node, Node], Node | None]) -> Vjp:
    return lambda g, node, i: rules[i](g, node)


def _unary(name: str, rule: Callable[..., Any], scalar: str, slope: Callable[[Node, Node], Node], flops: int = 1) -> Op:
    """A floating function of one operand; slope(x, y) is its derivative as nodes."""
    return _op(name, _infer_float(name), rule, scalar, lambda g, n, i: mul(g, slope(n.inputs[0], n)), flops)


def _division(name: str, rule: Callable[..., Any], scalar: str, vjp: Vjp) -> Op:
    """A quotient or remainder that integers raise for where the divisor is 0."""
    message = f"{name}: ZeroDivisionError: an integer was divided by 0"

    def divide(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Any:
        if b.dtype.kind != "f" and not b.all():
            raise RuntimeError(message)
        return rule(a, b)

    def cost(node: Node) -> Cost:
        return Cost(4 * node.type.size, moved_bytes(node))

    failure = (RuntimeError, message)
    return register(Op(name, Kind.ELEMENTWISE, _infer_number(name), divide, vjp, scalar, cost, failure=failure))


ADD = _op("add", _infer_same("add"), np.add, "{0} + {1}", _by_input(lambda g, n: g, lambda g, n: g))
SUB = _op("sub", _infer_number("sub"), np.subtract, "{0} - {1}", _by_input(lambda g, n: g, lambda g, n: neg(g)))
MUL = _op(
    "mul",
    _infer_same("mul"),
    np.multiply,
    "{0} * {1}",
    _by_input(lambda g, n: mul(g, n.inputs[1]), lambda g, n: mul(g, n.inputs[0])),
)
DIV = _op(
    "div",
    _infer_float("div"),
    np.divide,
    "{0} / {1}",
    _by_input(lambda g, n: div(g, n.inputs[1]), lambda g, n: neg(div(mul(g, n), n.inputs[1]))),
    4,
)
FLOOR_DIVIDE = _division("floor_divide", np.floor_divide, "floordiv({0}, {1})", lambda g, n, i: _nothing(g))
REMAINDER = _division(
    "remainder",
    np.remainder,
    "mod({0}, {1})",
    _by_input(lambda g, n: g, lambda g, n: neg(mul(g, floor(div(n.inputs[0], n.inputs[1]))))),
)
POW = _op(
    "pow",
    _infer_number("pow"),
    lambda a, b: np.power(a, b) if a.dtype.kind == "f" else _integer_power(a, b),
    "pow_{t}({0}, {1})",
    _by_input(lambda g, n: _pow_base(g, n), lambda g, n: _pow_exponent(g, n)),
    20,
)
MAXIMUM = _op(
    "maximum",
    _infer_same("maximum"),
    extremum.MAXIMUM.of,
    "maximum({0}, {1})",
    _by_input(lambda g, n: _to_winner(g, n, 0, GT), lambda g, n: _to_winner(g, n, 1, GT)),
)
MINIMUM = _op(
    "minimum",
    _infer_same("minimum"),
    extremum.MINIMUM.of,
    "minimum({0}, {1})",
    _by_input(lambda g, n: _to_winner(g, n, 0, LT), lambda g, n: _to_winner(g, n, 1, LT)),
)


def _sign(x: np.ndarray[Any, Any]) -> Any:
    """0 for NaN, as PyTorch's."""
    return np.where(x == x, np.sign(x), 0).astype(x.dtype)


NEG = _op("neg", _infer_number("neg"), np.negative, "-{0}", lambda g, n, i: neg(g))
ABS = _op("abs", _infer_number("abs"), np.abs, "abs_{t}({0})", lambda g, n, i: mul(g, sign(n.inputs[0])))
SIGN = _op("sign", _infer_number("sign"), _sign, "sign_{t}({0})", lambda g, n, i: _nothing(g))
FLOOR = _op("floor", _infer_float("floor"), np.floor, "floor_{t}({0})", lambda g, n, i: _nothing(g))
EXP = _unary("exp", np.exp, "exp_{t}({0})", lambda x, y: y, 12)
LOG = _op("log", _infer_float("log"), np.log, "log_{t}({0})", lambda g, n, i: div(g, n.inputs[0]), 14)
SQRT = _op("sqrt", _infer_float("sqrt"), np.sqrt, "sqrt_{t}({0})", lambda g, n, i: div(g, mul(n, 2.0)), 6)
RSQRT = _unary("rsqrt", lambda x: 1 / np.sqrt(x), "rsqrt_{t}({0})", lambda x, y: mul(mul(mul(y, y), y), -0.5), 8)
TANH = _unary("tanh", np.tanh, "tanh_{t}({0})", lambda x, y: sub(1.0, mul(y, y)), 16)
SIN = _unary("sin", np.sin, "sin_{t}({0})", lambda x, y: cos(x), 20)
COS = _unary("cos", np.cos, "cos_{t}({0})", lambda x, y: neg(sin(x)), 20)
ERF = _unary(
    "erf", lambda x: special.erf(x), "erf_{t}({0})", lambda x, y: mul(exp(neg(mul(x, x))), 1.1283791670955126), 18
)
SIGMOID = _unary("sigmoid", lambda x: special.expit(x), "sigmoid_{t}({0})", lambda x, y: mul(y, sub(1.0, y)), 16)

EQ = _op("eq", _infer_bool("eq"), np.equal, "b1({0} == {1})")
NE = _op("ne", _infer_bool("ne"), np.not_equal, "b1({0} != {1})")
LT: Op = _op("lt", _infer_bool("lt"), np.less, "b1({0} < {1})")
LE = _op("le", _infer_bool("le"), np.less_equal, "b1({0} <= {1})")
GT: Op = _op("gt", _infer_bool("gt"), np.greater, "b1({0} > {1})")
GE = _op("ge", _infer_bool("ge"), np.greater_equal, "b1({0} >= {1})")


def _infer_logical(name: str) -> Callable[..., TensorType]:
    def infer(*types: TensorType) -> TensorType:
        if types[0].dtype is not bool_:
            raise TypeError(f"{name}: needs bool operands, got {types[0]}")
        return _same(name, types)

    return infer


AND = _op("logical_and", _infer_logical("logical_and"), np.logical_and, "b1({0} & {1})")
OR = _op("logical_or", _infer_logical("logical_or"), np.logical_or, "b1({0} | {1})")
NOT = _op("logical_not", _infer_logical("logical_not"), np.logical_not, "b1({0} == 0)")


def _infer_where(condition: TensorType, a: TensorType, b: TensorType) -> TensorType:
    if condition.dtype is not bool_ or a != b or condition.shape != a.shape:
        raise TypeError(f"where: needs a bool condition and two branches of one type, got {condition}, {a}, {b}")
    return a


WHERE = _op(
    "where",
    _infer_where,
    np.where,
    "where({0}, {1}, {2})",
    _by_input(lambda g, n: None, lambda g, n: where(n.inputs[0], g, 0.0), lambda g, n: where(n.inputs[0], 0.0, g)),
)


def _infer_cast(x: TensorType, *, dtype: DType) -> TensorType:
    return TensorType(dtype, x.shape)


def _cast(x: np.ndarray[Any, Any], *, dtype: DType) -> np.ndarray[Any, Any]:
    return converted(x, dtype)


CAST = register(
    Op(
        "cast",
        Kind.ELEMENTWISE,
        _infer_cast,
        _cast,
        lambda g, n, i: cast(g, n.inputs[0].dtype) if n.inputs[0].dtype.kind == "f" else None,
        "cast_{t}_{dtype}({0})",
        only_bytes,
    )
)


def _infer_check_index(index: TensorType, *, size: int, wrap: bool) -> TensorType:
    if index.dtype.kind not in "iu":
        raise IndexError(f"an index must be an integer tensor, got {index}")
    return TensorType(int64, index.shape)


def _check_index(index: np.ndarray[Any, Any], *, size: int, wrap: bool) -> np.ndarray[Any, Any]:
    low = -size if wrap else 0
    bad = (index < low) | (index >= size)
    if bad.any():
        raise OutOfRangeError(f"index {int(index[bad].flat[0])} is out of range for a dimension of size {size}")
    wide = index.astype(np.int64)
    return np.where(wide < 0, wide + size, wide) if wrap else wide


CHECK_INDEX = register(
    Op(
        "check_index",
        Kind.ELEMENTWISE,
        _infer_check_index,
        _check_index,
        None,
        "check_index({0}, {size}, {wrap}, status, {code})",
        only_bytes,
    )
)
DETACH = register(Op("detach", Kind.ELEMENTWISE, lambda x: x, lambda x: x, None, "{0}", only_bytes))


def _integer_power(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if (b < 0).any():
        raise RuntimeError("pow: integers to negative integer powers are not allowed")
    return np.asarray(np.power(a, b))


# ---- builders: broadcast, promote, record ------------------------------------------------------------


def broadcast_shapes(name: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """NumPy's rule; RuntimeError naming the shapes where they do not fit."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise RuntimeError(f"{name}: {_misfit(shapes)}") from None


def _misfit(shapes: Sequence[tuple[int, ...]]) -> str:
    """What is wrong with shapes that do not broadcast, as PyTorch says it, and the shapes."""
    shown = " and ".join(str(list(s)) for s in shapes)
    ndim = max(map(len, shapes))
    a, b = ((1,) * (ndim - len(s)) + s for s in (shapes[0], shapes[-1]))
    for axis, (m, n) in enumerate(zip(a, b, strict=True)):
        if m != n and 1 not in (m, n):
            return (
                f"The size of tensor a ({m}) must match the size of tensor b ({n}) at non-singleton dimension {axis}: "
                f"shapes {shown}"
            )
    return f"shapes {shown} cannot be broadcast together"


def as_node(x: Operand, dtype: DType) -> Node:
    """`x` as a node of `dtype`; integers beyond an integer dtype wrap around, as in PyTorch."""
    if isinstance(x, Node):
        return cast(x, dtype)
    if isinstance(x, int) and not -(2**63) <= x < 2**63:
        raise RuntimeError(f"the integer {x} does not fit into 64 bits")
    return constant(wrapped(x, dtype), dtype)


def _aligned(name: str, operands: Sequence[Operand], dtype: DType | None = None) -> list[Node]:
    dtype = dtype or result_type(operands)
    shape = broadcast_shapes(name, [o.shape for o in operands if isinstance(o, Node)])
    number = dtype if name in _COMPARISONS else dtype.working  # of 16-bit floats, numbers are not rounded first
    return [movement.broadcast_to(as_node(o, dtype if isinstance(o, Node) else number), shape) for o in operands]


_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


def _floating(operands: Sequence[Operand]) -> DType:
    dtype = result_type(operands)
    return dtype if dtype.kind == "f" else get_default_dtype()


def _binary(op: Op, a: Operand, b: Operand) -> Node:
    return record(op, *_aligned(op.name, (a, b)))


def _function(op: Op, x: Operand) -> Node:
    return record(op, as_node(x, _floating((x,))))


def add(a: Operand, b: Operand) -> Node:
    """a + b."""
    return _binary(ADD, a, b)


def sub(a: Operand, b: Operand) -> Node:
    """a - b."""
    return _binary(SUB, a, b)


def mul(a: Operand, b: Operand) -> Node:
    """a * b."""
    return _binary(MUL, a, b)


def div(a: Operand, b: Operand) -> Node:
    """a / b, in floating point."""
    return record(DIV, *_aligned("div", (a, b), _floating((a, b))))


def floor_divide(a: Operand, b: Operand) -> Node:
    """⌊a / b⌋."""
    return _binary(FLOOR_DIVIDE, a, b)


def remainder(a: Operand, b: Operand) -> Node:
    """a - b ⌊a / b⌋, which has the sign of b."""
    return _binary(REMAINDER, a, b)


def power(a: Operand, b: Operand) -> Node:
    """a ** b, by the op; `pow` knows shorter forms."""
    return _binary(POW, a, b)


def maximum(a: Operand, b: Operand) -> Node:
    """The larger operand; NaN wins, and 0 over -0."""
    return _binary(MAXIMUM, a, b)


def minimum(a: Operand, b: Operand) -> Node:
    """The smaller operand; NaN wins, and -0 over 0."""
    return _binary(MINIMUM, a, b)


def eq(a: Operand, b: Operand) -> Node:
    """a == b."""
    return _binary(EQ, a, b)


def ne(a: Operand, b: Operand) -> Node:
    """a != b."""
    return _binary(NE, a, b)


def lt(a: Operand, b: Operand) -> Node:
    """a < b."""
    return _binary(LT, a, b)


def le(a: Operand, b: Operand) -> Node:
    """a <= b."""
    return _binary(LE, a, b)


def gt(a: Operand, b: Operand) -> Node:
    """a > b."""
    return _binary(GT, a, b)


def ge(a: Operand, b: Operand) -> Node:
    """a >= b."""
    return _binary(GE, a, b)


def exp(x: Operand) -> Node:
    """eˣ."""
    return _function(EXP, x)


def log(x: Operand) -> Node:
    """The natural logarithm."""
    return _function(LOG, x)


def sqrt(x: Operand) -> Node:
    """√x."""
    return _function(SQRT, x)


def rsqrt(x: Operand) -> Node:
    """1 / √x."""
    return _function(RSQRT, x)


def tanh(x: Operand) -> Node:
    """The hyperbolic tangent."""
    return _function(TANH, x)


def sin(x: Operand) -> Node:
    """The sine of radians."""
    return _function(SIN, x)


def cos(x: Operand) -> Node:
    """The cosine of radians."""
    return _function(COS, x)


def erf(x: Operand) -> Node:
    """2/√π ∫₀ˣ exp(-t²) dt."""
    return _function(ERF, x)


def sigmoid(x: Operand) -> Node:
    """1 / (1 + e⁻ˣ)."""
    return _function(SIGMOID, x)


def neg(x: Node) -> Node:
    """-x."""
    return record(NEG, x)


def abs(x: Node) -> Node:
    """|x|."""
    return record(ABS, x)


def sign(x: Node) -> Node:
    """-1, 0 or 1; its gradient is 0."""
    return record(SIGN, x)


def detach(x: Node) -> Node:
    """x without its history."""
    return record(DETACH, x)


def floor(x: Node) -> Node:
    """The largest integer not above x; integers are their own floor."""
    return record(FLOOR, x) if x.dtype.kind == "f" else x


def pow(a: Operand, b: Operand) -> Node:
    """a ** b; the common constant powers of a floating tensor cost what their short forms do."""
    if isinstance(a, Node) and a.dtype.kind == "f" and not isinstance(b, Node):
        if b == 2:
            return mul(a, a)
        if b == 3:
            return mul(mul(a, a), a)
        if b == 0.5:
            return sqrt(a)
        if b == -1:
            return div(1.0, a)
    return power(a, b)


def _logical(op: Op, *operands: Operand) -> Node:
    return record(op, *_aligned(op.name, [truth(o) if isinstance(o, Node) else bool(o) for o in operands], bool_))


def truth(x: Node) -> Node:
    """x != 0 as bool."""
    return x if x.dtype is bool_ else ne(x, 0)


def logical_and(a: Operand, b: Operand) -> Node:
    """Are both nonzero."""
    return _logical(AND, a, b)


def logical_or(a: Operand, b: Operand) -> Node:
    """Is one of them nonzero."""
    return _logical(OR, a, b)


def logical_not(x: Operand) -> Node:
    """Is x zero."""
    return _logical(NOT, x)


def where(condition: Node, a: Operand, b: Operand) -> Node:
    """a where condition holds, else b."""
    if condition.dtype is not bool_:
        raise RuntimeError(f"where: the condition must be a bool tensor, got {condition.type}")
    dtype = result_type((a, b))
    shape = broadcast_shapes("where", [o.shape for o in (condition, a, b) if isinstance(o, Node)])
    branches = [movement.broadcast_to(as_node(o, dtype), shape) for o in (a, b)]
    return record(WHERE, movement.broadcast_to(condition, shape), *branches)


def cast(x: Node, dtype: DType) -> Node:
    """x converted to `dtype`; x itself where it has it already."""
    return x if x.dtype is dtype else record(CAST, x, dtype=dtype)


def check_index(index: Node, size: int, wrap: bool = False) -> Node:
    """`index` as int64, every element checked to lie in [0, size); with `wrap`, negative ones count from the end."""
    return record(CHECK_INDEX, index, size=int(size), wrap=bool(wrap))


# ---- derivatives that need more than a line ----------------------------------------------------------


def _nothing(g: Node) -> Node:
    """The zero cotangent of a step function."""
    return movement.broadcast_to(constant(0.0, g.dtype), g.shape)


def _to_winner(g: Node, node: Node, i: int, wins: Op) -> Node:
    """The gradient goes to the operand that won; at ties each gets half, beside NaN all of it, as in PyTorch."""
    mine, other = node.inputs[i], node.inputs[1 - i]
    share = where(record(EQ, mine, other), mul(g, 0.5), g)
    return where(record(wins, other, mine), 0.0, share)


def _pow_base(g: Node, node: Node) -> Node:
    """b a^(b-1), and 0 at a = b = 0 (0 * inf)."""
    a, b = node.inputs
    quiet = logical_and(eq(a, 0.0), eq(b, 0.0))
    return mul(g, mul(b, power(where(quiet, 1.0, a), sub(b, 1.0))))


def _pow_exponent(g: Node, node: Node) -> Node:
    """a^b log a, and 0 at a = 0 with b >= 0 (0 * -inf)."""
    a, b = node.inputs
    quiet = logical_and(eq(a, 0.0), ge(b, 0.0))
    return where(quiet, 0.0, mul(g, mul(node, log(where(quiet, 1.0, a)))))
