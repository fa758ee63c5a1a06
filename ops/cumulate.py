"""Cumulation along an axis: running sums and extrema, and the linear recurrence that makes their gradients exact.

    cumsum        y_i = y_{i-1} + x_i
    linear_scan   y_i = a_i y_{i-1} + b_i          (cumprod: a = x, b = x_0, 0, 0, …)
    logcumsumexp  y_i = log(exp y_{i-1} + exp x_i)
    cumargmax     where the greatest element up to i stands, the last of equals; the first NaN is passed by later ones
    cumargmin     likewise for the smallest

float32 accumulates in float64 and rounds each result once, so long rows lose no digits. Rows run in parallel, the
elements of one in order. With `reverse` the rows run from their ends. Kernels are written out here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_lite.ir.native import Native, Operand, Result, native
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Cost, Kind, Op, moved_bytes, register
from tinygrad_lite.ir.record import record
from tinygrad_lite.ir.types import DType, TensorType, float32, float64, int64
from tinygrad_lite.ops import create, elementwise, indexing, movement

Array = np.ndarray[Any, Any]
_SUMMED = (int64, float32, float64)

# ---- inference and NumPy rules -------------------------------------------------------------------------


def _check(name: str, x: TensorType, axis: int, dtypes: tuple[DType, ...]) -> None:
    if not 0 <= axis < x.ndim:
        raise IndexError(f"{name}: axis {axis} is not one of {x}")
    if x.dtype not in dtypes:
        raise TypeError(f"{name}: takes {', '.join(d.name for d in dtypes)}, got {x}")


def _infer_cumsum(x: TensorType, *, axis: int, reverse: bool) -> TensorType:
    _check("cumsum", x, axis, _SUMMED)
    return x


def _infer_linear_scan(a: TensorType, b: TensorType, *, axis: int, reverse: bool) -> TensorType:
    _check("linear_scan", a, axis, _SUMMED)
    if a != b:
        raise TypeError(f"linear_scan: operands must have one dtype and shape, got {a} and {b}")
    return a


def _infer_logcumsumexp(x: TensorType, *, axis: int) -> TensorType:
    _check("logcumsumexp", x, axis, (float32, float64))
    return x


def _infer_position(name: str) -> Callable[..., TensorType]:
    def infer(x: TensorType, *, axis: int) -> TensorType:
        _check(name, x, axis, (x.dtype,))
        return TensorType(int64, x.shape)

    return infer


def _wide(x: Array) -> Array:
    return x.astype(np.float64) if x.dtype == np.float32 else x


def _turned(x: Array, axis: int, reverse: bool) -> Array:
    """The axis in front, from its end if reversed."""
    moved = np.moveaxis(x, axis, 0)
    return moved[::-1] if reverse else moved


def _cumsum(x: Array, *, axis: int, reverse: bool) -> Array:
    rows = _turned(np.cumsum(_turned(_wide(x), axis, reverse), 0), 0, reverse)
    return np.ascontiguousarray(np.moveaxis(rows, 0, axis)).astype(x.dtype)


def _linear_scan(a: Array, b: Array, *, axis: int, reverse: bool) -> Array:
    factors, rows = _turned(_wide(a), axis, reverse), _turned(_wide(b), axis, reverse).copy()
    for i in range(1, len(rows)):
        rows[i] += factors[i] * rows[i - 1]
    return np.ascontiguousarray(np.moveaxis(rows[::-1] if reverse else rows, 0, axis)).astype(b.dtype)


def _logcumsumexp(x: Array, *, axis: int) -> Array:
    return np.asarray(np.logaddexp.accumulate(_wide(x), axis)).astype(x.dtype)


def _positions(beats: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    def rule(x: Array, *, axis: int) -> Array:
        rows = np.moveaxis(x, axis, 0)
        best, at = rows[:1].copy(), np.zeros(rows.shape, np.int64)
        for i in range(1, len(rows)):
            wins = beats(rows[i], best[0]) | (rows[i] != rows[i])
            at[i] = np.where(wins, i, at[i - 1])
            best[0] = np.where(wins, rows[i], best[0])
        return np.ascontiguousarray(np.moveaxis(at, 0, axis))

    return rule


# ---- kernels ---------------------------------------------------------------------------------------------

_ROW = """
for r in range(lo, hi):
    at = r // inner * n * inner + r % inner + start
    {first}
    at += step
    for j in range(1, n):
        {next}
        at += step
"""


def _kernel(node: Node, first: list[str], following: list[str], flops: int, arrays: dict[str, DType]) -> Native:
    """Statements for the first element of a row and for the others; `at` is the element's number."""
    x, axis = node.inputs[0].type, node.attrs["axis"]
    n, inner = x.shape[axis], math.prod(x.shape[axis + 1 :])
    reverse = node.attrs.get("reverse", False)
    heads = "\n".join(f"{name} = {dtype.short}_at(p{name})" for name, dtype in arrays.items())
    body = heads + _ROW.format(first="\n    ".join(first), next="\n        ".join(following))
    words: dict[str, Any] = {f"p{name}": Operand(i) for i, name in enumerate(arrays) if name != "y"}
    words |= {"py": Result(), "n": n, "inner": inner}
    words |= {"start": (n - 1) * inner if reverse else 0, "step": -inner if reverse else inner}
    rows = x.size // n if n else 0
    return native(body, words, rows, flops * x.size)


def _accumulator(node: Node) -> str:
    return "i64" if node.dtype is int64 else "f64"


def _native_cumsum(node: Node) -> Native:
    wide, tag = _accumulator(node), node.dtype.short
    first = [f"s = {wide}(x[at])", f"y[at] = {tag}(s)"]
    following = [f"s = s + {wide}(x[at])", f"y[at] = {tag}(s)"]
    return _kernel(node, first, following, 4, {"x": node.dtype, "y": node.dtype})


def _native_linear_scan(node: Node) -> Native:
    wide, tag = _accumulator(node), node.dtype.short
    first = [f"s = {wide}(b[at])", f"y[at] = {tag}(s)"]
    following = [f"s = {wide}(b[at]) + {wide}(a[at]) * s", f"y[at] = {tag}(s)"]
    return _kernel(node, first, following, 6, {"a": node.dtype, "b": node.dtype, "y": node.dtype})


_LOG_ADD = "where(b1(s == v), s + 0.6931471805599453, maximum(s, v) + log1p_f64(exp_f64(-abs_f64(s - v))))"


def _native_logcumsumexp(node: Node) -> Native:
    tag = node.dtype.short
    first = ["s = f64(x[at])", f"y[at] = {tag}(s)"]
    following = ["v = f64(x[at])", f"s = {_LOG_ADD}", f"y[at] = {tag}(s)"]
    return _kernel(node, first, following, 80, {"x": node.dtype, "y": node.dtype})


def _native_position(sign: str) -> Callable[[Node], Native]:
    def kernel(node: Node) -> Native:
        first = ["best = x[at]", "k = i64(0)", "y[at] = k"]
        following = ["v = x[at]", f"wins = b1(v {sign}= best) | b1(v != v)", "best = where(wins, v, best)"]
        following += ["k = where(wins, i64(j), k)", "y[at] = k"]
        return _kernel(node, first, following, 6, {"x": node.inputs[0].dtype, "y": int64})

    return kernel


# ---- derivatives -------------------------------------------------------------------------------------------


def _shifted(x: Node, axis: int, reverse: bool, edge: Node) -> Node:
    """x_{i-1} in place i, or x_{i+1} if reverse; `edge` enters."""
    n = x.shape[axis]
    parts = [movement.narrow(x, axis, 1, n - 1), edge] if reverse else [edge, movement.narrow(x, axis, 0, n - 1)]
    return movement.concat(parts, axis)


def _edge(x: Node, axis: int) -> Node:
    """Zeros, one element along the axis."""
    return create.zeros(tuple(1 if a == axis else s for a, s in enumerate(x.shape)), x.dtype)


def _vjp_cumsum(g: Node, node: Node, i: int) -> Node:
    return record(CUMSUM, g, axis=node.attrs["axis"], reverse=not node.attrs["reverse"])


def _vjp_linear_scan(g: Node, node: Node, i: int) -> Node:
    """S_i = g_i + a_{i+1} S_{i+1} is b's cotangent, S_i y_{i-1} a's."""
    axis, reverse = node.attrs["axis"], node.attrs["reverse"]
    if not node.shape[axis]:
        return g
    edge = _edge(node, axis)
    later = _shifted(node.inputs[0], axis, not reverse, edge)
    total = record(LINEAR_SCAN, later, g, axis=axis, reverse=not reverse)
    return total if i == 1 else elementwise.mul(total, _shifted(node, axis, reverse, edge))


def _vjp_logcumsumexp(g: Node, node: Node, i: int) -> Node:
    """exp(x_i - y_i) S_i, S_i = g_i + exp(y_i - y_{i+1}) S_{i+1}: no exponent is positive. 0 where y_i is -inf."""
    axis, x = node.attrs["axis"], node.inputs[0]
    if not node.shape[axis]:
        return g
    nothing = elementwise.eq(node, -math.inf)
    later = _shifted(node, axis, True, movement.narrow(node, axis, node.shape[axis] - 1, 1))
    factor = elementwise.exp(elementwise.where(nothing, -math.inf, elementwise.sub(node, later)))
    total = record(LINEAR_SCAN, factor, g, axis=axis, reverse=True)
    share = elementwise.exp(elementwise.where(nothing, -math.inf, elementwise.sub(x, node)))
    return elementwise.mul(total, share)


# ---- the ops ---------------------------------------------------------------------------------------------------


def _op(name: str, infer: Any, rule: Any, kernel: Any, vjp: Any = None, flops: int = 1) -> Op:
    def cost(node: Node) -> Cost:
        return Cost(flops * node.type.size, moved_bytes(node))

    return register(Op(name, Kind.OPAQUE, infer, rule, vjp, cost=cost, native=kernel))


CUMSUM = _op("cumsum", _infer_cumsum, _cumsum, _native_cumsum, _vjp_cumsum)
LINEAR_SCAN = _op("linear_scan", _infer_linear_scan, _linear_scan, _native_linear_scan, _vjp_linear_scan, 2)
LOGCUMSUMEXP = _op("logcumsumexp", _infer_logcumsumexp, _logcumsumexp, _native_logcumsumexp, _vjp_logcumsumexp, 40)
CUMARGMAX = _op("cumargmax", _infer_position("cumargmax"), _positions(np.greater_equal), _native_position(">"))
CUMARGMIN = _op("cumargmin", _infer_position("cumargmin"), _positions(np.less_equal), _native_position("<"))

# ---- builders ----------------------------------------------------------------------------------------------------


def _summed(x: Node) -> Node:
    """What sums are taken in: int64 for integers and bools, float32 for 16-bit floats."""
    return elementwise.cast(x, x.dtype.working if x.dtype.kind == "f" else int64)


def _axis(x: Node, axis: int) -> int | None:
    """The axis from the front; None for a scalar, which is its own cumulation."""
    found = movement.normalize_axis(axis, x.type.ndim)
    return found if x.type.ndim else None


def _back(result: Node, x: Node) -> Node:
    return elementwise.cast(result, x.dtype) if x.dtype.kind == "f" else result


def cumsum(x: Node, axis: int, reverse: bool = False) -> Node:
    """Running sums; int64 for integers and bools."""
    at, wide = _axis(x, axis), _summed(x)
    return _back(wide if at is None else record(CUMSUM, wide, axis=at, reverse=reverse), x)


def linear_scan(a: Node, b: Node, axis: int, reverse: bool = False) -> Node:
    """y_i = a_i y_{i-1} + b_i, from y = 0; a_0 is not used."""
    return record(LINEAR_SCAN, a, b, axis=movement.normalize_axis(axis, a.type.ndim), reverse=reverse)


def cumprod(x: Node, axis: int) -> Node:
    """Running products; int64 for integers and bools. Gradients are exact also where elements are 0."""
    at, wide = _axis(x, axis), _summed(x)
    if at is None or not x.shape[at]:
        return _back(wide, x)
    rest = tuple(s - 1 if a == at else s for a, s in enumerate(x.shape))
    nothing = create.full(rest, -0.0 if wide.dtype.kind == "f" else 0, wide.dtype)  # adding -0.0 keeps a zero's sign
    start = movement.concat([movement.narrow(wide, at, 0, 1), nothing], at)
    return _back(linear_scan(wide, start, at), x)


def logcumsumexp(x: Node, axis: int) -> Node:
    """log of the running sums of exp(x), without overflow."""
    if x.dtype.kind != "f":
        raise RuntimeError(f"logcumsumexp: needs a floating tensor, got {x.type}")
    at, wide = _axis(x, axis), _summed(x)
    return _back(wide if at is None else record(LOGCUMSUMEXP, wide, axis=at), x)


def cummax(x: Node, axis: int) -> tuple[Node, Node]:
    """(values, indices) of the greatest element so far, the last of equals; NaN wins."""
    return _extremum(CUMARGMAX, x, axis)


def cummin(x: Node, axis: int) -> tuple[Node, Node]:
    """(values, indices) of the smallest element so far, the last of equals; NaN wins."""
    return _extremum(CUMARGMIN, x, axis)


def _extremum(op: Op, x: Node, axis: int) -> tuple[Node, Node]:
    at = _axis(x, axis)
    if at is None:
        return x, create.zeros((), int64)
    index = record(op, elementwise.cast(x, x.dtype.working), axis=at)
    return indexing.take_along(x, index, at), index
