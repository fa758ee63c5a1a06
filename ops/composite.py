"""Neural-network functions in terms of ops, written so that their traced VJPs come close to the textbook's backward.

A maximum that only guards against overflow is detached: the function does not depend on it, so it has no gradient at
any order. Reciprocals and negations are taken on reduced shapes, where they cost nothing, forward and backward.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ops import attention, contract, create, indexing, movement, reduce, special
from tinygrad_lite.ops.elementwise import (
    abs,
    add,
    cast,
    check_index,
    detach,
    div,
    eq,
    exp,
    ge,
    gt,
    le,
    log,
    lt,
    mul,
    ne,
    neg,
    rsqrt,
    sigmoid,
    sub,
    where,
)
from tinygrad_lite.ops.precision import rounded_once
from tinygrad_lite.ops.random import uniform
from tinygrad_lite.ops.slope import normal_share, sloped, tanh_share

# ---- activations --------------------------------------------------------------------------------------


def relu(x: Node) -> Node:
    """max(x, 0), its gradient 0 at 0; NaN stays NaN."""
    return where(le(x, 0), 0, x)


@rounded_once
def silu(x: Node) -> Node:
    """x σ(x)."""
    return sloped(mul(x, sigmoid(x)), x, "silu")


@rounded_once
def gelu(x: Node, approximate: str = "none") -> Node:
    """x Φ(x), or with "tanh" x/2 (1 + tanh(√(2/π) (x + 0.044715 x³))) (Hendrycks & Gimpel, arXiv:1606.08415)."""
    if approximate == "none":
        return sloped(mul(x, normal_share(x)), x, "gelu")
    if approximate != "tanh":
        raise RuntimeError(f"gelu: approximate must be 'none' or 'tanh', got {approximate!r}")
    return sloped(mul(x, tanh_share(x)), x, "gelu_tanh")


@rounded_once
def softplus(x: Node, beta: float = 1.0, threshold: float = 20.0) -> Node:
    """log(1 + exp(βx)) / β, and x where βx > threshold."""
    scaled = x if beta == 1 else mul(x, beta)
    near = le(scaled, threshold)
    soft = _log1p_exp(where(near, scaled, 0.0))  # what is not chosen must not overflow either: 0 * inf in the gradient
    return where(near, soft if beta == 1 else div(soft, beta), x)


@rounded_once
def log_sigmoid(x: Node) -> Node:
    """log σ(x) = -log(1 + exp(-x))."""
    return neg(_log1p_exp(neg(x)))


def _log1p_exp(x: Node) -> Node:
    """log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), in two branches that are smooth at every order also at 0."""
    positive = gt(x, 0.0)
    small = special.log1p(exp(where(positive, neg(x), x)))
    return where(positive, add(x, small), small)


# ---- softmax --------------------------------------------------------------------------------------------


@rounded_once
def softmax(x: Node, axis: int = -1) -> Node:
    """exp(x - max) / Σ exp(x - max); a row of -inf gives NaN."""
    raised = exp(sub(x, detach(reduce.max(x, axis, keepdim=True)))) if x.type.size else x
    return mul(raised, div(1.0, reduce.sum(raised, axis, keepdim=True)))


@rounded_once
def safe_softmax(x: Node, axis: int = -1) -> Node:
    """softmax, but 0 in rows of -inf: attention to nothing."""
    if not x.type.size:
        return softmax(x, axis)
    raised = exp(sub(x, _finite(reduce.max(x, axis, keepdim=True))))
    total = reduce.sum(raised, axis, keepdim=True)
    return mul(raised, div(1.0, where(eq(total, 0.0), 1.0, total)))


@rounded_once
def log_softmax(x: Node, axis: int = -1) -> Node:
    """(x - max) - log Σ exp(x - max); gradients stay finite beside entries of -inf."""
    if not x.type.size:
        return softmax(x, axis)
    shifted = sub(x, detach(reduce.max(x, axis, keepdim=True)))
    return add(shifted, neg(log(reduce.sum(exp(shifted), axis, keepdim=True))))


@rounded_once
def logsumexp(x: Node, axes: int | Sequence[int], keepdim: bool = False) -> Node:
    """log Σ exp(x); -inf of a row of -inf or of nothing."""
    if not reduce.count(x, axes):
        return log(reduce.sum(x, axes, keepdim))
    top = _finite(reduce.max(x, axes, keepdim=True))
    total = add(log(reduce.sum(exp(sub(x, top)), axes, keepdim=True)), top)
    return total if keepdim else movement.squeeze(total, movement.normalize_axes(axes, x.type.ndim))


def _finite(x: Node) -> Node:
    """A detached maximum, 0 where it is infinite and would make inf - inf."""
    x = detach(x)
    return where(eq(abs(x), math.inf), 0.0, x)


# ---- normalisation and dropout ------------------------------------------------------------------------


@rounded_once
def layer_norm(
    x: Node, normalized_shape: Sequence[int], weight: Node | None = None, bias: Node | None = None, eps: float = 1e-5
) -> Node:
    """(x - mean) / √(var + eps) over the last axes, times weight plus bias; the variance takes a second pass.

    Ba, Kiros, Hinton, arXiv:1607.06450.
    """
    shape = tuple(normalized_shape)
    if not shape or x.shape[x.type.ndim - len(shape) :] != shape or x.type.ndim < len(shape):
        raise RuntimeError(f"layer_norm: normalized_shape {list(shape)} must be the last sizes of input {x.type}")
    for name, parameter in (("weight", weight), ("bias", bias)):
        if parameter is not None and parameter.shape != shape:
            raise RuntimeError(f"layer_norm: {name} {parameter.type} must have shape {list(shape)}")
    axes = tuple(range(x.type.ndim - len(shape), x.type.ndim))
    centred = add(x, neg(reduce.mean(x, axes, keepdim=True)))
    spread = reduce.mean(mul(centred, centred), axes, keepdim=True)
    result = mul(centred, rsqrt(add(spread, eps)))
    result = result if weight is None else mul(result, weight)
    return result if bias is None else add(result, bias)


def dropout(x: Node, p: float, seed: Node, offset: Node) -> Node:
    """Zero each element with probability p and scale the others by 1 / (1 - p); takes x.size random counters.

    Srivastava et al., JMLR 15 (2014). Only the mask's bits are needed backward.
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if p == 0 or p == 1:
        return mul(x, 1.0 - p)
    return where(bernoulli_mask(1 - p, seed, offset, x.shape), mul(x, 1 / (1 - p)), 0.0)


def bernoulli_mask(keep: float | Node, seed: Node, offset: Node, shape: Sequence[int]) -> Node:
    """True with probability `keep`, a number or a tensor of `shape`."""
    return lt(uniform(seed, offset, shape), keep)


# ---- losses ---------------------------------------------------------------------------------------------


def _reduced(loss: Node, reduction: str) -> Node:
    if reduction == "none":
        return loss
    if reduction == "mean":
        return reduce.mean(loss)
    if reduction == "sum":
        return reduce.sum(loss)
    raise ValueError(f"{reduction!r} is not a valid value for reduction")


@rounded_once
def mse_loss(x: Node, target: Node, reduction: str = "mean") -> Node:
    """(x - target)²."""
    error = sub(x, target)
    return _reduced(mul(error, error), reduction)


@rounded_once
def l1_loss(x: Node, target: Node, reduction: str = "mean") -> Node:
    """|x - target|."""
    return _reduced(abs(sub(x, target)), reduction)


@rounded_once
def binary_cross_entropy_with_logits(
    x: Node, target: Node, weight: Node | None = None, reduction: str = "mean", pos_weight: Node | None = None
) -> Node:
    """-(w₊ t log σ(x) + (1 - t) log(1 - σ(x))) = (1 - t) x + (1 + (w₊ - 1) t) log(1 + exp(-x))."""
    if target.shape != x.shape:
        raise ValueError(f"Target size {list(target.shape)} must be the same as input size {list(x.shape)}")
    soft = _log1p_exp(neg(x))
    if pos_weight is not None:
        soft = mul(add(mul(sub(pos_weight, 1.0), target), 1.0), soft)
    loss = add(mul(sub(1.0, target), x), soft)
    return _reduced(loss if weight is None else mul(loss, weight), reduction)


@rounded_once
def nll_loss(
    logp: Node, target: Node, weight: Node | None = None, ignore_index: int = -100, reduction: str = "mean"
) -> Node:
    """-weight[target] logp[target] for logp (N, C), (N, C, d1, …) or (C,); the mean is over the weights that count."""
    return _smoothed_nll(logp, target, weight, ignore_index, reduction, 0.0)


@rounded_once
def cross_entropy(
    logits: Node,
    target: Node,
    weight: Node | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Node:
    """-Σ q log softmax(logits) over the classes, q being the target's one-hot row, smoothed, or probabilities given.

    logits (N, C), (N, C, d1, …) or (C,); target of class indices without the class axis, or floating, of logits' shape.
    Label smoothing: q = (1 - ε) onehot + ε / C (Szegedy et al., arXiv:1512.00567).
    """
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    logp = log_softmax(logits, _class_axis(logits))
    if target.dtype.kind == "f":
        return _soft_cross_entropy(logp, target, weight, reduction, label_smoothing)
    return _smoothed_nll(logp, target, weight, ignore_index, reduction, label_smoothing)


def _class_axis(x: Node) -> int:
    if not x.type.ndim:
        raise RuntimeError(f"cross_entropy: the input needs a class axis, got {x.type}")
    return 0 if x.type.ndim == 1 else 1


def _smoothed_nll(
    logp: Node, target: Node, weight: Node | None, ignore_index: int, reduction: str, smoothing: float
) -> Node:
    """Compares classes with the target instead of gathering, so that both directions are row reductions and fuse."""
    axis = _class_axis(logp)
    classes = logp.shape[axis]
    _check_target(logp, target, weight, axis)
    valid = ne(target, ignore_index)
    index = check_index(where(valid, target, 0), classes)
    # an ignored row matches no class: its loss and its gradient are 0 without a second mask
    match = _match_classes(where(valid, index, -1), classes, axis, logp.type.ndim)
    loss = neg(reduce.sum(where(match, logp, 0.0), axis))
    scale = None if weight is None else where(valid, indexing.gather(weight, index), 0.0)
    loss = loss if scale is None else mul(loss, scale)
    if smoothing:
        even = where(valid, neg(reduce.sum(_weighted(logp, weight, axis), axis)), 0.0)
        loss = add(mul(loss, 1.0 - smoothing), mul(even, smoothing / classes))
    if reduction != "mean":
        return _reduced(loss, reduction)
    return div(reduce.sum(loss), reduce.sum(cast(valid, logp.dtype) if scale is None else scale))


def _check_target(logp: Node, target: Node, weight: Node | None, axis: int) -> None:
    classes = logp.shape[axis]
    expected = logp.shape[:axis] + logp.shape[axis + 1 :]
    if target.shape != expected:
        raise ValueError(f"Expected target size {list(expected)}, got {list(target.shape)} for input {logp.type}")
    if target.dtype.kind not in "iu":
        raise RuntimeError(f"expected class indices as target, got {target.type}")
    if weight is not None and weight.shape != (classes,):
        raise RuntimeError(f"weight should be defined for all {classes} classes, got {weight.type}")


def _match_classes(index: Node, classes: int, axis: int, ndim: int) -> Node:
    numbers = movement.reshape(create.arange(classes), [classes if a == axis else 1 for a in range(ndim)])
    return eq(movement.unsqueeze(index, axis), numbers)


def _weighted(logp: Node, weight: Node | None, axis: int) -> Node:
    if weight is None:
        return logp
    return mul(logp, movement.reshape(weight, [-1 if a == axis else 1 for a in range(logp.type.ndim)]))


def _soft_cross_entropy(logp: Node, target: Node, weight: Node | None, reduction: str, smoothing: float) -> Node:
    axis = _class_axis(logp)
    if target.shape != logp.shape:
        raise RuntimeError(f"cross_entropy: probabilities {target.type} must have the shape of the input {logp.type}")
    if smoothing:
        target = add(mul(target, 1 - smoothing), smoothing / logp.shape[axis])
    loss = neg(reduce.sum(mul(_weighted(logp, weight, axis), target), axis))
    return _reduced(loss, reduction)


# ---- attention and embedding --------------------------------------------------------------------------


def scaled_dot_product_attention(
    query: Node,
    key: Node,
    value: Node,
    attn_mask: Node | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    seed: Node | None = None,
    offset: Node | None = None,
) -> Node:
    """softmax(scale Q Kᵀ + mask) V for Q (…, L, E), K (…, S, E), V (…, S, Ev); scale defaults to 1/√E.

    A bool mask is True where a query may look; a floating one is added; `is_causal` lets query i see keys 0 … i.
    Queries that a mask lets look nowhere give 0. Dropout takes one random counter a score. Vaswani et al., 2017.
    """
    if is_causal and attn_mask is not None:
        raise RuntimeError("scaled_dot_product_attention: explicit attn_mask should not be set when is_causal=True")
    if min(n.type.ndim for n in (query, key, value)) < 2:
        raise RuntimeError(f"scaled_dot_product_attention: needs 2 axes at least, got {query.type} and {key.type}")
    if attn_mask is None and not dropout_p and attention.applies(query, key, value):
        return attention.attention(query, key, value, is_causal, scale)
    scores = contract.matmul(query, movement.transpose(key, -2, -1))
    scores = mul(scores, 1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        scores = where(causal_mask(*scores.shape[-2:]), scores, -math.inf)
    elif attn_mask is not None:
        scores = where(attn_mask, scores, -math.inf) if attn_mask.dtype.kind == "b" else add(scores, attn_mask)
    weights = softmax(scores, -1) if attn_mask is None else safe_softmax(scores, -1)
    if dropout_p:
        if seed is None or offset is None:
            raise TypeError("scaled_dot_product_attention: dropout needs seed and offset")
        weights = dropout(weights, dropout_p, seed, offset)
    return contract.matmul(weights, value)


def causal_mask(queries: int, keys: int) -> Node:
    """True where key <= query, made of two ranges."""
    return ge(movement.unsqueeze(create.arange(queries), 1), create.arange(keys))


def embedding(weight: Node, index: Node, padding_idx: int | None = None) -> Node:
    """Rows of `weight`; the row `padding_idx` gets no gradient from here."""
    if weight.type.ndim != 2:
        raise RuntimeError(f"embedding: 'weight' must be 2-D, got {weight.type}")
    rows = indexing.gather(weight, index)
    if padding_idx is None:
        return rows
    if not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise ValueError(f"padding_idx {padding_idx} must be within the {weight.shape[0]} rows of weight")
    padding = movement.unsqueeze(eq(index, padding_idx % weight.shape[0]), -1)
    return where(padding, detach(rows), rows)
