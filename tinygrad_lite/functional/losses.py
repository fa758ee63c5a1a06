"""Losses. `reduction` is "mean", "sum" or "none"; `size_average` and `reduce` are PyTorch's old names for it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinygrad_lite.functional.common import node_of, wrap
from tinygrad_lite.functional.distances import distance_between, maybe
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import mode
from tinygrad_lite.ops import composite, create, indexing, movement
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops import reduce as reduction_ops
from tinygrad_lite.ops.graft import graft

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cross_entropy",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "poisson_nll_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]


def legacy_reduction(reduction: str, size_average: Any, reduce_: Any) -> str:
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
    how = legacy_reduction(reduction, size_average, reduce)
    return wrap(composite.cross_entropy(x, y, maybe(weight, "weight"), ignore_index, how, label_smoothing))


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
    how = legacy_reduction(reduction, size_average, reduce)
    return wrap(composite.nll_loss(x, y, maybe(weight, "weight"), ignore_index, how))


def _elementwise_loss(name: str, formula: Callable[[Node, Node], Node], doc: str) -> Callable[..., Tensor]:
    def loss(
        input: Tensor,
        target: Tensor,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
    ) -> Tensor:
        value = formula(node_of(input, "input"), node_of(target, "target"))
        how = legacy_reduction(reduction, size_average, reduce)
        if weight is None:
            return wrap(composite._reduced(value, how))
        factor = _weight_like(weight, input)
        total = composite._reduced(ew.mul(value, factor), "sum" if how == "mean" else how)
        return wrap(ew.div(total, reduction_ops.sum(factor)) if how == "mean" else total)

    loss.__name__ = loss.__qualname__ = name
    loss.__doc__ = doc
    return loss


mse_loss = _elementwise_loss(
    "mse_loss",
    lambda x, y: composite.mse_loss(x, y, "none"),
    "(x - y)²; with `weight`, of input's shape, a mean is weighted.",
)
l1_loss = _elementwise_loss(
    "l1_loss",
    lambda x, y: composite.l1_loss(x, y, "none"),
    "|x - y|; with `weight`, of input's shape, a mean is weighted.",
)


def _weight_like(weight: Tensor, input: Tensor) -> Node:
    if tuple(weight.shape) != tuple(input.shape):
        raise ValueError(f"Weights and input must have the same size, got {list(weight.shape)} and {list(input.shape)}")
    return node_of(weight, "weight")


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
    how = legacy_reduction(reduction, size_average, reduce)
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
    return wrap(composite._reduced(loss, legacy_reduction(reduction, size_average, reduce)))


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
    how, positive = legacy_reduction(reduction, size_average, reduce), maybe(pos_weight, "pos_weight")
    return wrap(composite.binary_cross_entropy_with_logits(x, y, maybe(weight, "weight"), how, positive))


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
    how = legacy_reduction(reduction, size_average, reduce)
    if how == "batchmean":
        return wrap(ew.div(composite._reduced(loss, "sum"), float(x.shape[0]) if x.type.ndim else 1.0))
    return wrap(composite._reduced(loss, how))


# ---- classes and margins ------------------------------------------------------------------------------------------


def _at_least_zero(x: Node) -> Node:
    """max(x, 0) with clamp's gradient: 1 at 0."""
    return ew.where(ew.lt(x, 0.0), 0.0, x)


def _total(x: Node, axes: int | Sequence[int] | None = None) -> Node:
    return reduction_ops.sum(x, axes)


def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-y x)) for targets of 1 and -1; it does not overflow."""
    x, y = node_of(input, "input"), node_of(target, "target")
    loss = ew.neg(composite.log_sigmoid(ew.mul(x, y)))
    return wrap(composite._reduced(loss, legacy_reduction(reduction, size_average, reduce)))


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-(y log σ(x) + (1 - y) log σ(-x)), averaged over the last axis, the classes."""
    x, y = node_of(input, "input"), node_of(target, "target")
    hit, miss = composite.log_sigmoid(x), composite.log_sigmoid(ew.neg(x))
    loss = ew.neg(ew.add(ew.mul(y, hit), ew.mul(ew.sub(1.0, y), miss)))
    loss = loss if weight is None else ew.mul(loss, node_of(weight, "weight"))
    loss = reduction_ops.mean(loss, -1) if loss.type.ndim else loss
    return wrap(composite._reduced(loss, legacy_reduction(reduction, size_average, reduce)))


def _class_rows(name: str, x: Node, y: Node, per_class: bool) -> tuple[Node, Node, bool]:
    """x (N, C) and y (N,), or (N, C) where targets are `per_class`, and whether there was no batch."""
    single = x.type.ndim < 2
    expected = x.shape if per_class else x.shape[:-1]
    fits = y.shape == expected or (not per_class and single and y.shape == (1,))
    if x.type.ndim > 2 or not fits or (x.type.ndim == 2 and x.shape[1] == 0):
        raise RuntimeError(f"{name}: expected a target of shape {list(expected)} for input {x.type}, got {y.type}")
    if y.dtype.kind not in "iu":
        raise RuntimeError(f"{name}: expected a target of integers, got {y.type}")
    if single:
        x = movement.reshape(x, (1, x.type.size))
        y = movement.reshape(y, (1, y.type.size) if per_class else (1,))
    return x, y, single


def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Σ_{i ≠ y} max(0, margin - x_y + x_i)^p / C for input (N, C) or (C,) and classes (N,) or ().

    Raises:
        ValueError: p is not 1 or 2. RuntimeError: shapes or dtypes that do not fit. IndexError: a class out of range.
    """
    if p not in (1, 2):
        raise ValueError(f"multi_margin_loss: only p == 1 and p == 2 supported, got {p}")
    x, y, single = _class_rows("multi_margin_loss", node_of(input, "input"), node_of(target, "target"), False)
    classes = x.shape[1]
    index = ew.check_index(y, classes)
    own = ew.eq(movement.unsqueeze(index, 1), create.arange(classes))
    score = reduction_ops.sum(ew.where(own, x, 0.0), 1, keepdim=True)
    gap = ew.add(ew.sub(margin, score), x)
    counts = ew.logical_and(ew.gt(gap, 0.0), ew.logical_not(own))
    loss = ew.where(counts, gap if p == 1 else ew.mul(gap, gap), 0.0)
    if weight is not None:
        w = node_of(weight, "weight")
        if w.shape != (classes,):
            raise RuntimeError(f"multi_margin_loss: inconsistent weight size, expected {classes} but got {w.type}")
        loss = ew.mul(loss, movement.unsqueeze(indexing.gather(w, index), 1))
    return _by_rows(ew.div(_total(loss, 1), float(classes)), single, legacy_reduction(reduction, size_average, reduce))


def _by_rows(loss: Node, single: bool, reduction: str) -> Tensor:
    return wrap(composite._reduced(movement.squeeze(loss, 0) if single else loss, reduction))


def multilabel_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Σ_j Σ_i max(0, 1 - x_j + x_i) / C over the classes j in a target row before its first -1 and all others i.

    Raises:
        RuntimeError: shapes or dtypes that do not fit. IndexError: a class out of range.
    """
    x, y, single = _class_rows("multilabel_margin_loss", node_of(input, "input"), node_of(target, "target"), True)
    classes = x.shape[1]
    numbers = create.arange(classes)
    upto = ew.le(numbers, movement.unsqueeze(numbers, 1))  # (j, k): k <= j
    ended = reduction_ops.any(ew.logical_and(upto, ew.lt(movement.unsqueeze(y, 1), 0)), 2)
    valid = ew.logical_not(ended)  # (N, j)
    index = ew.check_index(ew.where(valid, y, 0), classes)
    scores = indexing.take_along(x, index, 1)
    named = ew.logical_and(movement.unsqueeze(valid, 2), ew.eq(movement.unsqueeze(index, 2), numbers))  # (N, j, i)
    others = ew.logical_not(reduction_ops.any(named, 1, keepdim=True))
    gap = ew.add(ew.sub(1.0, movement.unsqueeze(scores, 2)), movement.unsqueeze(x, 1))
    counts = ew.logical_and(ew.logical_and(movement.unsqueeze(valid, 2), others), ew.gt(gap, 0.0))
    loss = ew.div(_total(ew.where(counts, gap, 0.0), (1, 2)), float(classes))
    return _by_rows(loss, single, legacy_reduction(reduction, size_average, reduce))


# ---- pairs and triples --------------------------------------------------------------------------------------------


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, -y (x1 - x2) + margin): y = 1 wants x1 above x2, y = -1 below.

    Raises:
        RuntimeError: different numbers of axes.
    """
    a, b, y = (node_of(x, n) for x, n in ((input1, "input1"), (input2, "input2"), (target, "target")))
    if not a.type.ndim == b.type.ndim == y.type.ndim:
        raise RuntimeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{list(a.shape)}, input2: {list(b.shape)}, target: {list(y.shape)} "
        )
    loss = _at_least_zero(ew.add(ew.mul(ew.neg(y), ew.sub(a, b)), float(margin)))
    return wrap(composite._reduced(loss, legacy_reduction(reduction, size_average, reduce)))


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """x where y = 1, max(0, margin - x) where y = -1."""
    x, y = node_of(input, "input"), node_of(target, "target")
    apart = ew.where(ew.ne(y, 1), _at_least_zero(ew.sub(float(margin), x)), 0.0)
    loss = ew.add(apart, ew.where(ew.ne(y, -1), x, 0.0))
    return wrap(composite._reduced(loss, legacy_reduction(reduction, size_average, reduce)))


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cos(x1, x2) where y = 1, max(0, cos(x1, x2) - margin) where y = -1; inputs (N, D) or (D,).

    Raises:
        RuntimeError: shapes that do not fit.
    """
    a, b, y = (node_of(x, n) for x, n in ((input1, "input1"), (input2, "input2"), (target, "target")))
    if y.type.ndim > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if not a.type.ndim == b.type.ndim == y.type.ndim + 1:
        raise RuntimeError(
            f"{y.type.ndim}D target tensor expects {y.type.ndim + 1}D input tensors, but found inputs with sizes "
            f"{list(a.shape)} and {list(b.shape)}."
        )
    squares = ew.mul(*(ew.add(_total(ew.mul(x, x), -1), 1e-12) for x in (a, b)))
    cosine = ew.div(_total(ew.mul(a, b), -1), ew.sqrt(squares))
    near = ew.where(ew.eq(y, 1), ew.sub(1.0, cosine), 0.0)
    apart = ew.where(ew.eq(y, -1), _at_least_zero(ew.sub(cosine, float(margin))), 0.0)
    return wrap(composite._reduced(ew.add(near, apart), legacy_reduction(reduction, size_average, reduce)))


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """max(0, d(anchor, positive) - d(anchor, negative) + margin) with distances of order p along the last axis.

    `swap` takes d(positive, negative) where it is the smaller. Balntas et al., BMVC 2016.

    Raises:
        ValueError: margin not above 0. RuntimeError: different numbers of axes.
    """

    def distance(a: Tensor, b: Tensor) -> Tensor:
        return wrap(distance_between(node_of(a), node_of(b), p, eps))

    ranks = [x.ndim for x in (anchor, positive, negative)]
    if len(set(ranks)) > 1:
        raise RuntimeError(
            "The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {ranks[0]}D, positive {ranks[1]}D, and negative {ranks[2]}D inputs"
        )
    how = legacy_reduction(reduction, size_average, reduce)
    return triplet_margin_with_distance_loss(
        anchor, positive, negative, distance_function=distance, margin=margin, swap=swap, reduction=how
    )


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """triplet_margin_loss with any distance, by default the Euclidean one.

    Raises:
        ValueError: margin not above 0, or an unknown reduction.
    """
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    distance = distance_function or (lambda a, b: wrap(distance_between(node_of(a), node_of(b), 2.0, 1e-6)))
    near, far = distance(anchor, positive)._read(), distance(anchor, negative)._read()
    if swap:
        far = ew.minimum(far, distance(positive, negative)._read())
    return wrap(composite._reduced(_at_least_zero(ew.add(ew.sub(near, far), float(margin))), reduction))


# ---- distributions ------------------------------------------------------------------------------------------------


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """exp(x) - y x, x being the log of the rate, or x - y log(x + eps); `full` adds Stirling's log y! where y > 1."""
    x, y = node_of(input, "input"), node_of(target, "target")
    loss = ew.sub(ew.exp(x), ew.mul(y, x)) if log_input else ew.sub(x, ew.mul(y, ew.log(ew.add(x, eps))))
    if full:
        many = ew.gt(y, 1)
        safe = ew.where(many, y, 2.0)
        factorial = ew.add(ew.sub(ew.mul(safe, ew.log(safe)), safe), ew.mul(ew.log(ew.mul(safe, 2 * math.pi)), 0.5))
        loss = ew.add(loss, ew.where(many, factorial, 0.0))
    return wrap(composite._reduced(loss, legacy_reduction(reduction, size_average, reduce)))


def gaussian_nll_loss(
    input: Tensor,
    target: Tensor,
    var: Tensor | float,
    full: bool = False,
    eps: float = 1e-6,
    reduction: str = "mean",
) -> Tensor:
    """(log var + (x - y)² / var) / 2, var at least eps (which its gradient does not see); `full` adds log(2π) / 2.

    `var` has input's shape, or lacks its last axis, or has 1 there, or is a number.

    Raises:
        ValueError: a var of another shape, or a negative one (outside a capture).
    """
    x, y = node_of(input, "input"), node_of(target, "target")
    spread = _variance(x, var)
    floored = graft(ew.maximum(ew.detach(spread), eps), spread)
    error = ew.sub(x, y)
    loss = ew.mul(ew.add(ew.log(floored), ew.div(ew.mul(error, error), floored)), 0.5)
    loss = ew.add(loss, 0.5 * math.log(2 * math.pi)) if full else loss
    return wrap(composite._reduced(loss, reduction))


def _variance(x: Node, var: Tensor | float) -> Node:
    if not isinstance(var, Tensor):
        if var < 0:
            raise ValueError(f"var has negative entry/entries: {var}")
        return create.full(x.shape, float(var), x.dtype)
    spread = node_of(var, "var")
    if mode.trace is None and (spread.value < 0).any():
        raise ValueError("var has negative entry/entries")
    if spread.shape == x.shape:
        return spread
    if spread.shape == x.shape[:-1]:
        return movement.unsqueeze(spread, -1)
    if spread.shape == (*x.shape[:-1], 1):
        return spread
    raise ValueError(f"var is of incorrect size: {list(spread.shape)} for input {list(x.shape)}")
