"""sloped: the value of a function of one variable, whose derivative the op knows as a whole.

Differentiating step by step, x Φ(x) gives g Φ + (g x) φ: backward then reads Φ, x and φ. As g (Φ + x φ), what lies
between is a function of x alone: one array, which the forward kernel can leave behind in place of three.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Cost, Kind, Op, register
from tinygrad_lite.ir.record import record
from tinygrad_lite.ir.types import TensorType
from tinygrad_lite.ops.elementwise import add, erf, exp, mul, neg, sigmoid, sub, tanh

# √(2/π) (x + 0.044715 x³) as x (SCALE + CUBE x²)
SCALE = math.sqrt(2 / math.pi)
CUBE = 0.044715 * SCALE


def normal_share(x: Node) -> Node:
    """Φ(x), the share of a normal distribution below x."""
    return mul(add(erf(mul(x, math.sqrt(0.5))), 1.0), 0.5)


def tanh_share(x: Node) -> Node:
    """(1 + tanh(√(2/π) (x + 0.044715 x³))) / 2, which is near Φ(x)."""
    return mul(add(_tanh_inner(x), 1.0), 0.5)


def _tanh_inner(x: Node) -> Node:
    return tanh(mul(x, add(mul(mul(x, x), CUBE), SCALE)))


def _gelu_slope(x: Node) -> Node:
    """Φ(x) + x φ(x)."""
    scaled = mul(x, math.sqrt(0.5))
    density = mul(exp(neg(mul(scaled, scaled))), 1 / math.sqrt(2 * math.pi))
    return add(normal_share(x), mul(x, density))


def _tanh_gelu_slope(x: Node) -> Node:
    """s(x) + x s'(x) of the share s."""
    t = _tanh_inner(x)
    inner_slope = add(mul(mul(x, x), 3 * CUBE), SCALE)
    return add(tanh_share(x), mul(x, mul(mul(sub(1.0, mul(t, t)), inner_slope), 0.5)))


def _silu_slope(x: Node) -> Node:
    """σ(x) (1 + x (1 - σ(x)))."""
    s = sigmoid(x)
    return mul(s, add(mul(x, sub(1.0, s)), 1.0))


SLOPES: dict[str, Callable[[Node], Node]] = {
    "gelu": _gelu_slope,
    "gelu_tanh": _tanh_gelu_slope,
    "silu": _silu_slope,
}


def _infer(value: TensorType, x: TensorType, *, of: str) -> TensorType:
    if value != x:
        raise TypeError(f"sloped: operands must have one type, got {value} and {x}")
    if of not in SLOPES:
        raise ValueError(f"sloped: `of` must be one of {', '.join(SLOPES)}, got {of!r}")
    return value


def _vjp(g: Node, node: Node, i: int) -> Node | None:
    return mul(g, SLOPES[node.attrs["of"]](node.inputs[1])) if i == 1 else None


def _free(node: Node) -> Cost:
    return Cost(0, 0)


SLOPED = register(Op("sloped", Kind.ELEMENTWISE, _infer, lambda value, x, *, of: value, _vjp, "{0}", _free))


def sloped(value: Node, x: Node, of: str) -> Node:
    """`value`, which is the function `of` at x; its gradient flows to x alone."""
    return record(SLOPED, value, x, of=of)
