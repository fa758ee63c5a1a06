"""Arithmetic with known operands. Bits are kept, except by `power_is_product` and `power_is_root`.

Those compute what PyTorch computes for their exponents; a general power differs in the last place, at -0.0 and at -inf.
"""

from __future__ import annotations

import math

import numpy as np

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.passes.values import full, is_uniform, uniform
from tinygrad_lite.ir.rewrite import Rule, build, rule
from tinygrad_lite.ir.types import DType, float32, wrapped
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops import movement

LARGE = 16  # divisors beyond it are mostly sizes


@rule("add", "mul", "eq", "ne", why="c + x = x + c: a uniform operand stands on the right")
def uniform_right(node: Node) -> Node | None:
    a, b = node.inputs
    return build(node.op, b, a) if uniform(a) is not None and uniform(b) is None else None


@rule("add", why="x + 0 = x for integers; for floats x + (-0.0) = x, while x + 0.0 turns -0.0 into 0.0")
def add_zero(node: Node) -> Node | None:
    x, c = node.inputs
    return x if is_uniform(c, -0.0 if x.dtype.kind == "f" else 0) else None


@rule("sub", why="x - 0 = x, and x - 0.0 = x even for -0.0")
def sub_zero(node: Node) -> Node | None:
    return node.inputs[0] if is_uniform(node.inputs[1], 0) else None


@rule("mul", "div", why="x * 1 = x / 1 = x")
def times_one(node: Node) -> Node | None:
    return node.inputs[0] if is_uniform(node.inputs[1], 1) else None


@rule("mul", why="x * -1 = -x")
def times_minus_one(node: Node) -> Node | None:
    x, c = node.inputs
    return ew.neg(x) if x.dtype.kind in "if" and is_uniform(c, -1) else None


@rule("div", why="x / 2^k = x * 2^-k, both rounding the same exact value; sizes stay, to share kernels")
def divide_by_power_of_two(node: Node) -> Node | None:
    x, c = node.inputs
    divisor = uniform(c)
    if divisor is None or abs(divisor) > LARGE or not _is_invertible(divisor, x.dtype):
        return None
    return build(ew.MUL, x, full(1 / divisor, x.shape, x.dtype))


@rule("neg", why="-(-x) = x")
def neg_neg(node: Node) -> Node | None:
    return node.inputs[0].inputs[0] if node.inputs[0].op.name == "neg" else None


@rule("add", why="x + (-y) = x - y; (-x) + y = y - x")
def add_neg(node: Node) -> Node | None:
    a, b = node.inputs
    if b.op.name == "neg":
        return ew.sub(a, b.inputs[0])
    return ew.sub(b, a.inputs[0]) if a.op.name == "neg" else None


@rule("sub", why="x - (-y) = x + y")
def sub_neg(node: Node) -> Node | None:
    a, b = node.inputs
    return ew.add(a, b.inputs[0]) if b.op.name == "neg" else None


@rule("sub", why="k - c = k + (-c) for integers, modulo 2^n")
def integer_sub_constant(node: Node) -> Node | None:
    x, c = node.inputs
    value = uniform(c) if x.dtype.kind in "iu" else None
    return None if value is None else build(ew.ADD, x, full(wrapped(-value, x.dtype), x.shape, x.dtype))


@rule("add", "mul", why="(k + a) + b = k + (a + b), (k a) b = k (a b) for integers, modulo 2^n")
def integer_chain(node: Node) -> Node | None:
    inner, c = node.inputs
    if node.dtype.kind not in "iu" or inner.op is not node.op:
        return None
    a, b = uniform(inner.inputs[1]), uniform(c)
    if a is None or b is None:
        return None
    merged = a + b if node.op is ew.ADD else a * b
    return build(node.op, inner.inputs[0], full(wrapped(merged, node.dtype), node.shape, node.dtype))


@rule("pow", why="x^1 = x, x^2 = x x, x^3 = x x x, x^-1 = 1 / x")
def power_is_product(node: Node) -> Node | None:
    x, exponent = node.inputs
    match uniform(exponent):
        case 1:
            return x
        case 2:
            return ew.mul(x, x)
        case 3:
            return ew.mul(ew.mul(x, x), x)
        case -1 if x.dtype.kind == "f":
            return ew.div(1.0, x)
    return None


@rule("pow", why="x^0.5 = sqrt(x), x^-0.5 = 1 / sqrt(x)")
def power_is_root(node: Node) -> Node | None:
    x, exponent = node.inputs
    match uniform(exponent):
        case 0.5:
            return ew.sqrt(x)
        case -0.5:
            return ew.div(1.0, ew.sqrt(x))
    return None


@rule("where", why="where(true, a, b) = a; where(c, a, a) = a")
def where_known(node: Node) -> Node | None:
    condition, a, b = node.inputs
    known = uniform(condition)
    if a is b or known is True:
        return a
    return b if known is False else None


@rule("logical_not", why="not not x = x")
def not_not(node: Node) -> Node | None:
    return node.inputs[0].inputs[0] if node.inputs[0].op.name == "logical_not" else None


@rule("detach", "history", why="passes run after differentiation: nothing is left to stop")
def detached(node: Node) -> Node | None:
    return node.inputs[0]


@rule("graft", "sloped", "function", why="passes run after differentiation: the history has had its say")
def grafted(node: Node) -> Node | None:
    return node.inputs[0]


@rule(
    "cast",
    why="cast(cast(x, B), C) = cast(x, C) where B holds all values of x's dtype; a cast to its own is x",
)
def cast_cast(node: Node) -> Node | None:
    (x,) = node.inputs
    if x.dtype is node.dtype:
        return x
    if x.op.name != "cast" or not _holds_all(x.dtype, x.inputs[0].dtype):
        return None
    return ew.cast(x.inputs[0], node.dtype)


@rule("sum", "prod", "max", "min", "any", "all", why="an axis of size 1 needs no reduction")
def reduce_nothing(node: Node) -> Node | None:
    (x,) = node.inputs
    axes = tuple(a for a in node.attrs["axes"] if x.shape[a] != 1)
    if not axes:
        return x
    return build(node.op, x, axes=axes) if len(axes) < len(node.attrs["axes"]) else None


def compute_before_expand(node: Node) -> Node | None:
    """f(expand(x), expand(y)) = expand(f(x', y')), x' and y' stretched only to each other's shape."""
    if not node.inputs or node.type.size <= 1:
        return None
    shapes = [_source_shape(i) for i in node.inputs]
    small = tuple(map(max, zip(*shapes, strict=True)))
    if math.prod(small) >= node.type.size:
        return None
    operands = [_shrunk(i, small) for i in node.inputs]
    return movement.expand(build(node.op, *operands, **node.attrs), node.shape)


def _source_shape(node: Node) -> tuple[int, ...]:
    if uniform(node) is not None:
        return (1,) * node.type.ndim
    return node.inputs[0].shape if node.op.name == "expand" else node.shape


def _shrunk(node: Node, shape: tuple[int, ...]) -> Node:
    value = uniform(node)
    if value is not None:
        return full(value, shape, node.dtype)
    source = node.inputs[0] if node.op.name == "expand" else node
    return movement.expand(source, shape)


def _is_invertible(divisor: float, dtype: DType) -> bool:
    """Is the divisor ± a power of two whose reciprocal is a normal number of `dtype`?"""
    if not math.isfinite(divisor) or divisor == 0:
        return False
    mantissa, exponent = math.frexp(abs(divisor))
    return mantissa == 0.5 and abs(exponent) <= (125 if dtype is float32 else 1021)


def _holds_all(wide: DType, narrow: DType) -> bool:
    """Is every value of `narrow` one of `wide`?"""
    rounds = narrow.kind in "iu" and wide.kind == "f" and narrow.itemsize >= wide.itemsize
    return np.can_cast(narrow.numpy, wide.numpy, "safe") and not rounds  # NumPy calls int64 → float64 safe


def _elementwise_names() -> tuple[str, ...]:
    from tinygrad_lite.ir.op import all_ops

    return tuple(op.name for op in all_ops() if op.kind is Kind.ELEMENTWISE)


RULES: tuple[Rule, ...] = (
    detached,
    grafted,
    uniform_right,
    add_zero,
    sub_zero,
    times_one,
    times_minus_one,
    divide_by_power_of_two,
    neg_neg,
    add_neg,
    sub_neg,
    integer_sub_constant,
    integer_chain,
    power_is_product,
    power_is_root,
    where_known,
    not_not,
    cast_cast,
    reduce_nothing,
    Rule("compute_before_expand", _elementwise_names(), compute_before_expand, "f(expand(x)) = expand(f(x))"),
)
