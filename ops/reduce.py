"""Reductions. The ops keep reduced axes as size 1; the builders drop them by a reshape.

The float32 rules of `sum` accumulate in float64 and round once: NumPy sums pairwise along the contiguous axis only, and
the reference should not lose digits on the others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind, Op, one_flop_an_input_element, register
from tinygrad_lite.ir.record import record
from tinygrad_lite.ir.types import DType, TensorType, bool_, int64
from tinygrad_lite.ops import create, cumulate, elementwise, extremum, movement

Array = np.ndarray[Any, Any]
Axes = int | Sequence[int] | None

# ---- the ops ----------------------------------------------------------------------------------------


def _kept(name: str, x: TensorType, axes: tuple[int, ...], dtype: DType | None = None) -> TensorType:
    if list(axes) != sorted(set(axes)) or (axes and not 0 <= axes[0] <= axes[-1] < x.ndim):
        raise IndexError(f"{name}: axes {axes} of {x} must be sorted, distinct and non-negative")
    return TensorType(dtype or x.dtype, tuple(1 if a in axes else s for a, s in enumerate(x.shape)))


def _nonempty(name: str, x: TensorType, axes: tuple[int, ...]) -> None:
    for a in axes:
        if x.shape[a] == 0:
            raise IndexError(f"{name}(): Expected reduction dim {a} to have non-zero size, got {x}")


def _infer_total(name: str) -> Callable[..., TensorType]:
    """Reductions with a neutral element."""
    return lambda x, *, axes: _kept(name, x, axes)


def _infer_extremum(name: str) -> Callable[..., TensorType]:
    def infer(x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
        result = _kept(name, x, axes)
        _nonempty(name, x, axes)
        return result

    return infer


def _infer_arg(name: str) -> Callable[..., TensorType]:
    def infer(x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
        result = _kept(name, x, axes, int64)
        if len(axes) != 1 or x.dtype is bool_:
            raise RuntimeError(f"{name}: takes one axis of a number tensor, got axes {axes} of {x}")
        _nonempty(name, x, axes)
        return result

    return infer


def _infer_truth(name: str) -> Callable[..., TensorType]:
    def infer(x: TensorType, *, axes: tuple[int, ...]) -> TensorType:
        if x.dtype is not bool_:
            raise TypeError(f"{name}: needs a bool operand, got {x}")
        return _kept(name, x, axes)

    return infer


def _sum(x: Array, *, axes: tuple[int, ...]) -> Array:
    wide = np.float64 if x.dtype == np.float32 else x.dtype
    return np.asarray(np.sum(x, axes, dtype=wide, keepdims=True)).astype(x.dtype)


def _vjp_sum(g: Node, node: Node, i: int) -> Node:
    return movement.broadcast_to(g, node.inputs[0].shape)


def _vjp_extremum(g: Node, node: Node, i: int) -> Node:
    """Spread evenly over the elements that attain the extremum."""
    x, axes = node.inputs[0], node.attrs["axes"]
    hit = elementwise.eq(x, node)
    count = sum(elementwise.cast(hit, g.dtype), axes, keepdim=True)
    return elementwise.where(hit, elementwise.div(g, count), 0.0)


def _vjp_prod(g: Node, node: Node, i: int) -> Node:
    """Times the product of the others, from prefix and suffix products: right when elements are zero."""
    x, axes = node.inputs[0], node.attrs["axes"]
    kept = [a for a in range(x.type.ndim) if a not in axes]
    order = (*kept, *axes)
    moved = movement.permute(x, order)
    rows = movement.reshape(moved, (*(x.shape[a] for a in kept), math.prod(x.shape[a] for a in axes)))
    others = movement.reshape(_products_of_others(rows), moved.shape)
    back = sorted(range(len(order)), key=order.__getitem__)
    return elementwise.mul(g, movement.permute(others, back))


def _products_of_others(x: Node) -> Node:
    """Along the last axis: the product of all elements but one's own."""
    if not x.shape[-1]:
        return x
    last = (x.type.ndim - 1,)
    before = cumulate.cumprod(_entering_one(x), -1)
    after = movement.flip(cumulate.cumprod(_entering_one(movement.flip(x, last)), -1), last)
    return elementwise.mul(before, after)


def _entering_one(x: Node) -> Node:
    """Along the last axis: a one enters, the last element leaves."""
    one = create.ones((*x.shape[:-1], 1), x.dtype)
    return movement.concat([one, movement.narrow(x, -1, 0, x.shape[-1] - 1)], -1)


def _op(name: str, infer: Any, rule: Any, vjp: Any = None) -> Op:
    return register(Op(name, Kind.REDUCE, infer, rule, vjp, None, one_flop_an_input_element))


def _numpy_arg(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *, axes: np.asarray(rule(x, axes[0], keepdims=True))


SUM = _op("sum", _infer_total("sum"), _sum, _vjp_sum)
PROD = _op(
    "prod",
    _infer_total("prod"),
    lambda x, *, axes: np.prod(x, axes, dtype=x.dtype, keepdims=True),
    _vjp_prod,
)
MAX = _op("max", _infer_extremum("max"), lambda x, *, axes: extremum.MAXIMUM.along(x, axes), _vjp_extremum)
MIN = _op("min", _infer_extremum("min"), lambda x, *, axes: extremum.MINIMUM.along(x, axes), _vjp_extremum)
ARGMAX = _op("argmax", _infer_arg("argmax"), _numpy_arg(np.argmax))
ARGMIN = _op("argmin", _infer_arg("argmin"), _numpy_arg(np.argmin))
ANY = _op("any", _infer_truth("any"), lambda x, *, axes: np.any(x, axes, keepdims=True))
ALL = _op("all", _infer_truth("all"), lambda x, *, axes: np.all(x, axes, keepdims=True))

# ---- builders: axes is an int, a sequence or None (all of them) ----------------------------------------


def _reduce(op: Op, x: Node, axes: Axes, keepdim: bool) -> Node:
    if not isinstance(keepdim, bool):
        raise TypeError(f"{op.name}(): keepdim must be a bool, got {keepdim!r}")
    found = movement.normalize_axes(axes, x.type.ndim)
    result = record(op, x, axes=found)
    return result if keepdim else _drop(result, found)


def _drop(x: Node, axes: tuple[int, ...]) -> Node:
    return movement.reshape(x, [s for a, s in enumerate(x.shape) if a not in axes])


def _widened(x: Node) -> Node:
    """Integers and bools add up in int64."""
    return x if x.dtype.kind == "f" else elementwise.cast(x, int64)


def sum(x: Node, axes: Axes = None, keepdim: bool = False) -> Node:
    """Σ x over `axes`; int64 for integers and bools. Nothing sums to 0."""
    return _reduce(SUM, _widened(x), axes, keepdim)


def prod(x: Node, axes: Axes = None, keepdim: bool = False) -> Node:
    """Π x over `axes`; int64 for integers and bools. Nothing multiplies to 1."""
    return _reduce(PROD, _widened(x), axes, keepdim)


def mean(x: Node, axes: Axes = None, keepdim: bool = False) -> Node:
    """Σ x / n of a floating tensor; NaN of nothing."""
    if x.dtype.kind != "f":
        raise RuntimeError(f"mean(): the input dtype must be floating point, got {x.type}")
    total = sum(elementwise.cast(x, x.dtype.working), axes, keepdim)
    return elementwise.cast(elementwise.div(total, float(count(x, axes))), x.dtype)


def count(x: Node, axes: Axes = None) -> int:
    """How many elements a reduction over `axes` takes in."""
    return math.prod(x.shape[a] for a in movement.normalize_axes(axes, x.type.ndim))


def max(x: Node, axes: Axes = None, keepdim: bool = False) -> Node:
    """The largest element; NaN wins. The gradient is shared evenly by ties (PyTorch's amax)."""
    return _extremum(MAX, x, axes, keepdim)


def min(x: Node, axes: Axes = None, keepdim: bool = False) -> Node:
    """The smallest element; NaN wins. The gradient is shared evenly by ties (PyTorch's amin)."""
    return _extremum(MIN, x, axes, keepdim)


amax, amin = max, min


def _extremum(op: Op, x: Node, axes: Axes, keepdim: bool) -> Node:
    if axes is None and x.type.size == 0:
        raise RuntimeError(f"{op.name}(): Expected reduction dim to be specified for input.numel() == 0, got {x.type}")
    return _reduce(op, x, axes, keepdim)


def argmax(x: Node, axis: int | None = None, keepdim: bool = False) -> Node:
    """Where the largest element is first met, int64; without an axis, in the flattened tensor."""
    return _arg(ARGMAX, x, axis, keepdim)


def argmin(x: Node, axis: int | None = None, keepdim: bool = False) -> Node:
    """Where the smallest element is first met, int64; without an axis, in the flattened tensor."""
    return _arg(ARGMIN, x, axis, keepdim)


def _arg(op: Op, x: Node, axis: int | None, keepdim: bool) -> Node:
    if axis is not None and x.type.ndim:
        return _reduce(op, x, axis, keepdim)
    if axis is not None:
        movement.normalize_axis(axis, 0)
    flat = _reduce(op, movement.reshape(x, (-1,) if x.type.size else (0,)), 0, False)
    return movement.reshape(flat, (1,) * x.type.ndim) if keepdim else flat


def any(x: Node, axes: Axes = None, keepdim: bool = False) -> Node:
    """Is one of the elements nonzero."""
    return _reduce(ANY, elementwise.truth(x), axes, keepdim)


def all(x: Node, axes: Axes = None, keepdim: bool = False) -> Node:
    """Are all elements nonzero."""
    return _reduce(ALL, elementwise.truth(x), axes, keepdim)


def var(x: Node, axes: Axes = None, correction: float = 1, keepdim: bool = False) -> Node:
    """Σ (x - mean)² / (n - correction), in two passes; NaN where n <= correction, as a quotient by 0."""
    return elementwise.cast(_var(x, axes, correction, keepdim), x.dtype)


def _var(x: Node, axes: Axes, correction: float, keepdim: bool) -> Node:
    if x.dtype.kind != "f":
        raise RuntimeError(f"std and var only support floating point and complex dtypes, got {x.type}")
    wide = elementwise.cast(x, x.dtype.working)
    centred = elementwise.sub(wide, mean(wide, axes, keepdim=True))
    freedom = count(x, axes) - correction
    total = sum(elementwise.mul(centred, centred), axes, keepdim)
    return elementwise.div(total, float(freedom if freedom > 0 else 0))


def std(x: Node, axes: Axes = None, correction: float = 1, keepdim: bool = False) -> Node:
    """The square root of `var`; its gradient at 0 is 0."""
    return elementwise.cast(root(_var(x, axes, correction, keepdim)), x.dtype)


def root(x: Node) -> Node:
    """√x whose gradient at 0 is 0: of sums of squares, which have a corner there."""
    zero = elementwise.eq(x, 0.0)
    return elementwise.where(zero, 0.0, elementwise.sqrt(elementwise.where(zero, 1.0, x)))
