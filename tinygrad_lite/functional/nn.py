"""What torch.nn.functional has: activations, normalisation, dropout, losses, attention."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinygrad_lite.functional.common import as_dtype, fresh, node_of, unary, wrap
from tinygrad_lite.generator import default_generator
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.types import DType
from tinygrad_lite.ops import composite, movement, reduce
from tinygrad_lite.ops import elementwise as ew

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_similarity",
    "cross_entropy",
    "dropout",
    "elu",
    "gelu",
    "glu",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "log_softmax",
    "logsigmoid",
    "mish",
    "mse_loss",
    "nll_loss",
    "normalize",
    "relu",
    "relu6",
    "rms_norm",
    "scaled_dot_product_attention",
    "silu",
    "smooth_l1_loss",
    "softmax",
    "softmin",
    "softplus",
    "softsign",
]

# ---- activations ----------------------------------------------------------------------------------------------


def _finish(input: Tensor, node: Node, inplace: bool) -> Tensor:
    return input._write(node) if inplace else wrap(node)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return _finish(input, composite.relu(node_of(input, "input")), inplace)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """min(max(x, 0), 6)."""
    return hardtanh(input, 0.0, 6.0, inplace)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x limited to [min_val, max_val]; the gradient is 0 on the bounds."""
    x = node_of(input, "input")
    low = ew.where(ew.le(x, min_val), min_val, x)
    return _finish(input, ew.where(ew.ge(low, max_val), max_val, low), inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x, or negative_slope * x below 0."""
    x = node_of(input, "input")
    return _finish(input, ew.where(ew.gt(x, 0), x, ew.mul(x, negative_slope)), inplace)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, or alpha (exp(x) - 1) below 0. Clevert, Unterthiner, Hochreiter, arXiv:1511.07289."""
    x = node_of(input, "input")
    below = ew.mul(ew.sub(ew.exp(ew.where(ew.gt(x, 0), 0.0, x)), 1.0), alpha)
    return _finish(input, ew.where(ew.gt(x, 0), x, below), inplace)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x σ(x)."""
    return _finish(input, composite.silu(node_of(input, "input")), inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x tanh(softplus(x)). Misra, arXiv:1908.08681."""
    x = node_of(input, "input")
    return _finish(input, ew.mul(x, ew.tanh(composite.softplus(x))), inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """x / 6 + 1/2 limited to [0, 1]."""
    x = ew.add(ew.div(node_of(input, "input"), 6.0), 0.5)
    return _finish(input, ew.where(ew.le(x, 0.0), 0.0, ew.where(ew.ge(x, 1.0), 1.0, x)), inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x hardsigmoid(x)."""
    node = ew.mul(node_of(input, "input"), hardsigmoid(input)._read())
    return _finish(input, node, inplace)


def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """x Φ(x); "tanh" approximates."""
    return wrap(composite.gelu(node_of(input, "input"), approximate))


def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta, linear above the threshold."""
    return wrap(composite.softplus(node_of(input, "input"), beta, threshold))


logsigmoid = unary(composite.log_sigmoid, "logsigmoid", "log σ(x).")
softsign = unary(lambda x: ew.div(x, ew.add(ew.abs(x), 1.0)), "softsign", "x / (1 + |x|).")


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """a σ(b), a and b the halves of the axis. Dauphin et al., arXiv:1612.08083."""
    x = node_of(input, "input")
    axis = movement.normalize_axis(dim, x.type.ndim)
    if x.shape[axis] % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {axis} is size {x.shape[axis]}")
    half = x.shape[axis] // 2
    return wrap(ew.mul(movement.narrow(x, axis, 0, half), ew.sigmoid(movement.narrow(x, axis, half, half))))


# ---- softmax ----------------------------------------------------------------------------------------------------


def _over_axis(build: Callable[[Node, int], Node], input: Tensor, dim: int | None, dtype: DType | None) -> Tensor:
    x = node_of(input, "input")
    x = x if dtype is None else ew.cast(x, as_dtype(dtype))
    if dim is None:  # the axis that PyTorch takes by default
        dim = 0 if x.type.ndim in (0, 1, 3) else 1
    if not isinstance(dim, int):
        raise TypeError(f"dim must be an int, not {type(dim).__name__}")
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


# ---- normalisation, dropout, embedding ------------------------------------------------------------------------------


def _maybe(x: Tensor | None, name: str) -> Node | None:
    return None if x is None else node_of(x, name)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """(x - mean) / sqrt(var + eps) * weight + bias over the last axes."""
    x = node_of(input, "input")
    return wrap(composite.layer_norm(x, normalized_shape, _maybe(weight, "weight"), _maybe(bias, "bias"), eps))


def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """x / sqrt(mean(x²) + eps) * weight over the last axes; eps defaults to the dtype's. arXiv:1910.07467."""
    x, shape = node_of(input, "input"), tuple(normalized_shape)
    if x.type.ndim < len(shape) or x.shape[x.type.ndim - len(shape) :] != shape:
        raise RuntimeError(f"rms_norm: normalized_shape {list(shape)} must be the last sizes of input {x.type}")
    if eps is None:
        eps = 2.0**-23 if x.dtype.itemsize == 4 else 2.0**-52
    axes = tuple(range(x.type.ndim - len(shape), x.type.ndim))
    scaled = ew.mul(x, ew.rsqrt(ew.add(reduce.mean(ew.mul(x, x), axes, keepdim=True), eps)))
    return wrap(scaled if weight is None else ew.mul(scaled, node_of(weight, "weight")))


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """x / max(‖x‖, eps) along `dim`."""
    from tinygrad_lite.functional.reduction import norm

    size = norm(input, p, dim, keepdim=True)._read()
    return wrap(ew.div(node_of(input, "input"), ew.maximum(size, eps)))


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """x1 · x2 / (max(‖x1‖, eps) max(‖x2‖, eps)) along `dim`."""
    a, b = (normalize(x, 2.0, dim, eps)._read() for x in (x1, x2))
    return wrap(reduce.sum(ew.mul(a, b), dim))


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zero elements with probability p and scale the rest by 1 / (1 - p); nothing outside training.

    Raises:
        ValueError: p outside [0, 1].
    """
    x = node_of(input, "input")
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    seed, offset = default_generator.take(x.type.size)
    return _finish(input, composite.dropout(x, p, seed, offset), inplace)


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(scale Q Kᵀ + mask) V for Q (…, L, E), K (…, S, E), V (…, S, Ev); scale defaults to 1/√E.

    A bool mask is True where a query may look, a floating one is added; `is_causal` lets query i see keys 0 … i;
    `enable_gqa` repeats the key and value heads (axis -3) to the query's number.

    Raises:
        RuntimeError: shapes that do not fit; attn_mask together with is_causal.
    """
    q, k, v = (node_of(x, name) for x, name in ((query, "query"), (key, "key"), (value, "value")))
    if enable_gqa:
        k, v = (_repeat_heads(x, q) for x in (k, v))
    seed = offset = None
    if dropout_p:
        batch = ew.broadcast_shapes("scaled_dot_product_attention", [q.shape[:-2], k.shape[:-2]])
        seed, offset = default_generator.take(math.prod(batch) * q.shape[-2] * k.shape[-2])
    mask = _maybe(attn_mask, "attn_mask")
    return wrap(composite.scaled_dot_product_attention(q, k, v, mask, dropout_p, is_causal, scale, seed, offset))


def _repeat_heads(x: Node, query: Node) -> Node:
    heads, wanted = x.shape[-3], query.shape[-3]
    if wanted % heads:
        raise RuntimeError(f"enable_gqa: {wanted} query heads are no multiple of {heads} key or value heads")
    wide = movement.unsqueeze(x, -3)
    wide = movement.expand(wide, (*x.shape[:-3], heads, wanted // heads, *x.shape[-2:]))
    return movement.reshape(wide, (*x.shape[:-3], wanted, *x.shape[-2:]))


# ---- losses ---------------------------------------------------------------------------------------------------------


def _reduction(reduction: str, size_average: Any, reduce_: Any) -> str:
    """The reduction, with PyTorch's two deprecated flags in place of it."""
    if size_average is None and reduce_ is None:
        return reduction
    if reduce_ is False:
        return "none"
    return "sum" if size_average is False else "mean"


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """-log softmax(input)[target], input (N, C), (N, C, d1, …) or (C,); target of class indices, or probabilities.

    Raises:
        ValueError, RuntimeError: shapes or dtypes that do not fit. IndexError: a class out of range.
    """
    x, y = node_of(input, "input"), node_of(target, "target")
    how = _reduction(reduction, size_average, reduce)
    return wrap(composite.cross_entropy(x, y, _maybe(weight, "weight"), ignore_index, how, label_smoothing))


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-input[target] of log-probabilities."""
    x, y = node_of(input, "input"), node_of(target, "target")
    how = _reduction(reduction, size_average, reduce)
    return wrap(composite.nll_loss(x, y, _maybe(weight, "weight"), ignore_index, how))


def _elementwise_loss(name: str, formula: Callable[[Node, Node], Node], doc: str) -> Callable[..., Tensor]:
    def loss(
        input: Tensor,
        target: Tensor,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> Tensor:
        value = formula(node_of(input, "input"), node_of(target, "target"))
        return wrap(composite._reduced(value, _reduction(reduction, size_average, reduce)))

    loss.__name__ = loss.__qualname__ = name
    loss.__doc__ = doc
    return loss


mse_loss = _elementwise_loss("mse_loss", lambda x, y: composite.mse_loss(x, y, "none"), "(x - y)².")
l1_loss = _elementwise_loss("l1_loss", lambda x, y: composite.l1_loss(x, y, "none"), "|x - y|.")


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """d² / (2 beta) where d = |x - y| < beta, else d - beta / 2."""
    if beta < 0:
        raise RuntimeError("smooth_l1_loss does not support negative values for beta.")
    how = _reduction(reduction, size_average, reduce)
    if beta == 0:
        return l1_loss(input, target, reduction=how)
    return wrap(ew.div(huber_loss(input, target, how, beta)._read(), beta))


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """d² / 2 where d = |x - y| < delta, else delta (d - delta / 2)."""
    if delta <= 0:
        raise RuntimeError("huber_loss does not support non-positive values for delta.")
    error = ew.abs(ew.sub(node_of(input, "input"), node_of(target, "target")))
    near = ew.mul(ew.mul(error, error), 0.5)
    loss = ew.where(ew.lt(error, delta), near, ew.mul(ew.sub(error, 0.5 * delta), delta))
    loss = loss if weight is None else ew.mul(loss, node_of(weight, "weight"))
    return wrap(composite._reduced(loss, reduction))


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-(y log x + (1 - y) log(1 - x)) of probabilities; the logarithms are limited to -100."""
    x, y = node_of(input, "input"), node_of(target, "target")
    if x.shape != y.shape:
        raise ValueError(f"Using a target size ({list(y.shape)}) that is different to the input size ({list(x.shape)})")
    hit, miss = (_bounded_log(p) for p in (x, ew.sub(1.0, x)))
    loss = ew.neg(ew.add(ew.mul(y, hit), ew.mul(ew.sub(1.0, y), miss)))
    loss = loss if weight is None else ew.mul(loss, node_of(weight, "weight"))
    return wrap(composite._reduced(loss, _reduction(reduction, size_average, reduce)))


def _bounded_log(p: Node) -> Node:
    logs = ew.log(p)
    return ew.where(ew.lt(logs, -100.0), -100.0, logs)


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """binary_cross_entropy(sigmoid(x), y) without overflow."""
    x, y = node_of(input, "input"), node_of(target, "target")
    how, positive = _reduction(reduction, size_average, reduce), _maybe(pos_weight, "pos_weight")
    return wrap(composite.binary_cross_entropy_with_logits(x, y, _maybe(weight, "weight"), how, positive))


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """y (log y - x) of log-probabilities x; "batchmean" divides the sum by the first axis."""
    x, y = node_of(input, "input"), node_of(target, "target")
    if log_target:
        loss = ew.mul(ew.exp(y), ew.sub(y, x))
    else:
        entropy = ew.mul(y, ew.log(ew.where(ew.eq(y, 0.0), 1.0, y)))
        loss = ew.sub(entropy, ew.mul(y, x))
    how = _reduction(reduction, size_average, reduce)
    if how == "batchmean":
        return wrap(ew.div(composite._reduced(loss, "sum"), float(x.shape[0]) if x.type.ndim else 1.0))
    return wrap(composite._reduced(loss, how))
