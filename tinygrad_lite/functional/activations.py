"""Activations and the softmax family. Those called `…_`, and all with `inplace=True`, write over their input."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tinygrad_lite.functional.common import as_dtype, fresh, node_of, unary, wrap
from tinygrad_lite.generator import default_generator
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.types import DType
from tinygrad_lite.ops import composite, create, movement, random, reduce, special
from tinygrad_lite.ops import elementwise as ew

__all__ = [
    "celu",
    "celu_",
    "elu",
    "elu_",
    "gelu",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "leaky_relu",
    "leaky_relu_",
    "log_softmax",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanhshrink",
    "threshold",
    "threshold_",
]

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def _finish(input: Tensor, node: Node, inplace: bool) -> Tensor:
    return input._write(node) if inplace else wrap(node)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return _finish(input, composite.relu(node_of(input, "input")), inplace)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)."""
    return hardtanh(input, 0.0, 6.0, inplace)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x limited to [min_val, max_val]; the gradient is 0 on the bounds.

    Raises:
        ValueError: min_val above max_val.
    """
    if min_val > max_val:
        raise ValueError(f"hardtanh: min_val cannot be greater than max_val, got {min_val} and {max_val}")
    x = node_of(input, "input")
    if x.dtype.kind in "iu":
        min_val, max_val = int(min_val), int(max_val)
    low = ew.where(ew.le(x, min_val), min_val, x)
    return _finish(input, ew.where(ew.ge(low, max_val), max_val, low), inplace)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """x above the threshold, else `value`."""
    x = node_of(input, "input")
    return _finish(input, ew.where(ew.le(x, threshold), value, x), inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x, or negative_slope * x below 0."""
    x = node_of(input, "input")
    return _finish(input, ew.where(ew.gt(x, 0), x, ew.mul(x, negative_slope)), inplace)


def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """x, or weight * x below 0; one weight, or one a channel (axis 1). He et al., arXiv:1502.01852.

    Raises:
        RuntimeError: a weight that does not fit the channels, or of another dtype.
    """
    x, w = node_of(input, "input"), node_of(weight, "weight")
    if w.dtype is not x.dtype:
        raise RuntimeError(f"prelu: Type promoting not supported. Got {x.type} and {w.type}")
    if w.type.ndim > 1:
        raise RuntimeError(f"prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = {w.type.ndim}")
    if w.type.size != 1:
        if not x.type.ndim:
            raise RuntimeError("prelu: Not allow zero-dim input tensor with more than one weight")
        channels = x.shape[1] if x.type.ndim > 1 else 1
        if w.type.size != channels:
            raise RuntimeError(
                f"prelu: Mismatch of parameter numbers and input channel size. Found parameter numbers = {w.type.size} "
                f"and channel size = {channels}."
            )
    shape = [-1 if a == min(1, x.type.ndim - 1) else 1 for a in range(x.type.ndim)]
    return wrap(ew.where(ew.gt(x, 0), x, ew.mul(x, movement.reshape(w, shape))))


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """leaky_relu whose slope is drawn anew for each element in training, else (lower + upper) / 2. arXiv:1505.00853.

    Raises:
        RuntimeError: lower above upper.
    """
    if lower > upper:
        raise RuntimeError(f"Lower bound should be less than or equal to the upper bound, got {lower} and {upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    x = node_of(input, "input")
    drawn = ew.add(ew.mul(default_generator.draw(random.uniform, x.shape, x.dtype), upper - lower), lower)
    return _finish(input, ew.where(ew.le(x, 0), ew.mul(x, drawn), x), inplace)


def _exponential_unit(x: Node, alpha: float, scale: float, rate: float) -> Node:
    """scale * x, or scale * alpha (exp(rate x) - 1) below 0."""
    above = ew.gt(x, 0)
    below = special.expm1(_times(ew.where(above, 0.0, x), rate))
    return ew.where(above, _times(x, scale), _times(below, alpha * scale))


def _times(x: Node, factor: float) -> Node:
    return x if factor == 1 else ew.mul(x, factor)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, or alpha (exp(x) - 1) below 0. Clevert, Unterthiner, Hochreiter, arXiv:1511.07289."""
    return _finish(input, _exponential_unit(node_of(input, "input"), alpha, 1.0, 1.0), inplace)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu scaled so that it keeps mean 0 and variance 1. Klambauer et al., arXiv:1706.02515."""
    return _finish(input, _exponential_unit(node_of(input, "input"), _SELU_ALPHA, _SELU_SCALE, 1.0), inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, or alpha (exp(x / alpha) - 1) below 0. Barron, arXiv:1704.07483.

    Raises:
        RuntimeError: alpha is 0.
    """
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return _finish(input, _exponential_unit(node_of(input, "input"), alpha, 1.0, 1.0 / alpha), inplace)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x σ(x)."""
    return _finish(input, composite.silu(node_of(input, "input")), inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x tanh(softplus(x)). Misra, arXiv:1908.08681."""
    x = node_of(input, "input")
    return _finish(input, ew.mul(x, ew.tanh(composite.softplus(x))), inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """x / 6 + 1/2 limited to [0, 1]."""
    x = node_of(input, "input")
    middle = ew.add(ew.div(x, 6.0), 0.5)
    return _finish(input, ew.where(ew.le(x, -3.0), 0.0, ew.where(ew.ge(x, 3.0), 1.0, middle)), inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x hardsigmoid(x). Howard et al., arXiv:1905.02244."""
    x = node_of(input, "input")
    middle = ew.mul(x, ew.add(ew.div(x, 6.0), 0.5))
    return _finish(input, ew.where(ew.le(x, -3.0), 0.0, ew.where(ew.ge(x, 3.0), x, middle)), inplace)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x Φ(x); "tanh" approximates."""
    return wrap(composite.gelu(node_of(input, "input"), approximate))


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta, linear above the threshold."""
    return wrap(composite.softplus(node_of(input, "input"), beta, threshold))


logsigmoid = unary(composite.log_sigmoid, "logsigmoid", "log σ(x).")
softsign = unary(lambda x: ew.div(x, ew.add(ew.abs(x), 1.0)), "softsign", "x / (1 + |x|).")
tanhshrink = unary(lambda x: ew.sub(x, ew.tanh(x)), "tanhshrink", "x - tanh(x).")


def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x outside [-lambd, lambd], else 0."""
    x = node_of(input, "input")
    inside = ew.logical_and(ew.ge(x, -lambd), ew.le(x, lambd))
    return wrap(ew.where(inside, 0.0, x))


def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved by lambd towards 0, and 0 where it would pass it; NaN stays.

    Raises:
        RuntimeError: a negative lambd.
    """
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    x = node_of(input, "input")
    above, below = ew.gt(x, lambd), ew.lt(x, -lambd)
    middle = ew.where(ew.ne(x, x), x, 0.0)
    return wrap(ew.where(above, ew.sub(x, lambd), ew.where(below, ew.add(x, lambd), middle)))


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a σ(b), a and b the halves of the axis. Dauphin et al., arXiv:1612.08083."""
    x = node_of(input, "input")
    if not x.type.ndim:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    axis = movement.normalize_axis(dim, x.type.ndim)
    if x.shape[axis] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {axis} is size {x.shape[axis]}")
    half = x.shape[axis] // 2
    return wrap(ew.mul(movement.narrow(x, axis, 0, half), ew.sigmoid(movement.narrow(x, axis, half, half))))


def _in_place(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The form of an activation whose name ends in _."""

    def written(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return function(input, *args, **kwargs, inplace=True)

    functools.update_wrapper(written, function)
    written.__name__ = written.__qualname__ = f"{function.__name__}_"
    written.__doc__ = f"In-place version of `{function.__name__}`."
    return written


relu_, elu_, selu_, celu_ = _in_place(relu), _in_place(elu), _in_place(selu), _in_place(celu)
hardtanh_, leaky_relu_ = _in_place(hardtanh), _in_place(leaky_relu)
rrelu_, threshold_ = _in_place(rrelu), _in_place(threshold)


# ---- softmax ----------------------------------------------------------------------------------------------------


def _over_axis(build: Callable[[Node, int], Node], input: Tensor, dim: int | None, dtype: DType | None) -> Tensor:
    x = node_of(input, "input")
    x = x if dtype is None else ew.cast(x, as_dtype(dtype))
    if dim is None:  # the axis that PyTorch takes by default
        dim = 0 if x.type.ndim in (0, 1, 3) else 1
    if not isinstance(dim, int):
        raise TypeError(f"dim must be an int, not {type(dim).__name__}")
    if x.dtype.kind != "f":
        raise RuntimeError(f"softmax needs a floating tensor, or a floating dtype to convert it to, got {x.type}")
    movement.normalize_axis(dim, x.type.ndim)
    if not x.type.ndim:
        return wrap(movement.reshape(build(movement.reshape(x, (1,)), 0), ()))
    return fresh(build(x, dim), x)


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """exp(x) / Σ exp(x) along `dim`."""
    return _over_axis(composite.softmax, input, dim, dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """softmax(-x)."""
    return _over_axis(lambda x, axis: composite.softmax(ew.neg(x), axis), input, dim, dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """log softmax(x), without underflow."""
    return _over_axis(composite.log_softmax, input, dim, dtype)


def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """softmax((x + g) / tau) with Gumbel noise g: a sample that gradients flow through. Jang et al., arXiv:1611.01144.

    With `hard` the result is one-hot, its gradient the soft sample's. `eps` changes nothing.
    """
    x = node_of(logits, "logits")
    draws = default_generator.draw(random.uniform, x.shape, x.dtype)
    exponential = ew.neg(special.log1p(ew.neg(draws)))
    tiny = 2.0**-126 if x.dtype.itemsize <= 4 else 2.0**-1022
    noise = ew.neg(ew.log(ew.maximum(exponential, tiny)))
    soft = composite.softmax(ew.div(ew.add(x, noise), float(tau)), dim)
    if not hard:
        return wrap(soft)
    axis = movement.normalize_axis(dim, x.type.ndim)
    best = reduce.argmax(ew.detach(soft), axis, keepdim=True)
    numbers = movement.reshape(create.arange(x.shape[axis]), [-1 if a == axis else 1 for a in range(x.type.ndim)])
    chosen = ew.cast(ew.eq(best, numbers), x.dtype)
    return wrap(ew.add(ew.sub(chosen, ew.detach(soft)), soft))
