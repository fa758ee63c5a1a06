"""Samples of the composites, with references in plain NumPy loops. The same table is compared with PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.ops.operands import Array, Make, bools, both, fixed, integers, reals
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ops import composite


@dataclass(frozen=True)
class Call:
    """composite.<function>(*operands, **options), the last operands passed by the names in `named`."""

    function: str
    id: str
    make: Make
    wrt: tuple[int, ...] = (0,)
    options: dict[str, Any] = field(default_factory=dict)
    named: tuple[str, ...] = ()

    def build(self, *nodes: Node) -> Node:
        return self.apply(getattr(composite, self.function), nodes)

    def reference(self, *arrays: Array) -> Array:
        return np.asarray(self.apply(REFERENCES[self.function], arrays))

    def apply(self, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
        split = len(operands) - len(self.named)
        return function(*operands[:split], **dict(zip(self.named, operands[split:], strict=True)), **self.options)


# ---- references -------------------------------------------------------------------------------------


def each(f: Callable[[float], float]) -> Callable[[Array], Array]:
    return np.vectorize(f, otypes=["float64"])


def softmax(x: Array, axis: int = -1) -> Array:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def log_softmax(x: Array, axis: int = -1) -> Array:
    top = x.max(axis, keepdims=True)
    return x - top - np.log(np.exp(x - top).sum(axis, keepdims=True))


def gelu(x: Array, approximate: str = "none") -> Array:
    if approximate == "none":
        return each(lambda v: v * (1 + math.erf(v / math.sqrt(2))) / 2)(x)
    return each(lambda v: v / 2 * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))))(x)


def layer_norm(
    x: Array, normalized_shape: Sequence[int], weight: Any = 1.0, bias: Any = 0.0, eps: float = 1e-5
) -> Array:
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps) * weight + bias


def reduced(loss: Array, reduction: str, weight: Any = None) -> Array:
    total = loss.sum() if reduction != "none" else loss
    return total / (loss.size if weight is None else weight) if reduction == "mean" else total


def cross_entropy(
    x: Array,
    target: Array,
    weight: Array | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    """Position by position."""
    rows = np.moveaxis(log_softmax(x, min(1, x.ndim - 1)), min(1, x.ndim - 1), -1)
    classes = rows.shape[-1]
    w = np.ones(classes) if weight is None else weight
    loss, total = np.zeros(rows.shape[:-1]), 0.0
    for at in np.ndindex(rows.shape[:-1]):
        if target.dtype.kind == "f":
            q = np.moveaxis(target, min(1, x.ndim - 1), -1)[at]
        elif target[at] == ignore_index:
            continue
        else:
            q = np.eye(classes)[target[at]]
        q = (1 - label_smoothing) * q + label_smoothing / classes
        loss[at] = -sum(w[c] * q[c] * rows[at][c] for c in range(classes))
        total += 1 if target.dtype.kind == "f" else w[target[at]]
    return reduced(loss, reduction, total)


def nll_loss(logp: Array, target: Array, weight: Array | None = None, ignore_index: int = -100) -> Array:
    kept = [(n, t) for n, t in enumerate(target) if t != ignore_index]
    w = np.ones(logp.shape[1]) if weight is None else weight
    return np.asarray(-sum(w[t] * logp[n, t] for n, t in kept) / sum(w[t] for _, t in kept))


def bce(x: Array, t: Array, weight: Any = None, pos_weight: Any = 1.0, reduction: str = "mean") -> Array:
    p = 1 / (1 + np.exp(-x))
    loss = -(pos_weight * t * np.log(p) + (1 - t) * np.log(1 - p))
    return reduced(loss if weight is None else loss * weight, reduction)


def attention(
    q: Array, k: Array, v: Array, mask: Array | None = None, is_causal: bool = False, scale: float | None = None
) -> Array:
    scores = np.einsum("...ie,...je->...ij", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        mask = np.tri(*scores.shape[-2:]).astype(bool)
    if mask is not None:
        scores = np.where(mask, scores, -1e300) if mask.dtype == bool else scores + mask
    nowhere = (scores < -1e200).all(-1, keepdims=True)
    return np.where(nowhere, 0, softmax(scores)) @ v


def embedding(weight: Array, index: Array, padding_idx: int | None = None) -> Array:
    return weight[index]


REFERENCES: dict[str, Callable[..., Any]] = {
    "relu": lambda x: np.where(x < 0, 0, x),
    "silu": each(lambda v: v / (1 + math.exp(-v))),
    "gelu": gelu,
    "softplus": each(lambda v: math.log1p(math.exp(v))),
    "log_sigmoid": each(lambda v: -math.log1p(math.exp(-v))),
    "softmax": softmax,
    "log_softmax": log_softmax,
    "logsumexp": lambda x, axes: np.log(np.exp(x).sum(axes)),
    "layer_norm": layer_norm,
    "mse_loss": lambda x, t, reduction="mean": reduced((x - t) ** 2, reduction),
    "l1_loss": lambda x, t, reduction="mean": reduced(np.abs(x - t), reduction),
    "binary_cross_entropy_with_logits": bce,
    "nll_loss": nll_loss,
    "cross_entropy": cross_entropy,
    "scaled_dot_product_attention": attention,
    "embedding": embedding,
}

# ---- the table ----------------------------------------------------------------------------------------

logits, classes = reals((4, 5)), fixed(np.array([1, 0, 4, 2]))
heads = reals((2, 3, 4, 5), (2, 3, 4, 5), (2, 3, 4, 6))

CALLS = [
    Call("relu", "matrix", reals((3, 4))),
    Call("relu", "empty", reals((0, 2))),
    Call("silu", "matrix", reals((3, 4), low=-4, high=4)),
    Call("gelu", "exact", reals((3, 4), low=-4, high=4)),
    Call("gelu", "tanh", reals((3, 4), low=-4, high=4), options={"approximate": "tanh"}),
    Call("softplus", "matrix", reals((3, 4), low=-4, high=4)),
    Call("softplus", "zero", fixed([0.0, -0.0])),
    Call("log_sigmoid", "matrix", reals((3, 4), low=-4, high=4)),
    Call("softmax", "rows", reals((3, 4))),
    Call("softmax", "middle", reals((2, 3, 4)), options={"axis": 1}),
    Call("softmax", "ties", fixed([[1.0, 1.0, -2.0]])),
    Call("log_softmax", "rows", reals((3, 4))),
    Call("log_softmax", "columns", reals((3, 4)), options={"axis": 0}),
    Call("logsumexp", "rows", reals((3, 4)), options={"axes": 1}),
    Call("logsumexp", "two axes", reals((2, 3, 4)), options={"axes": (0, 2)}),
    Call("layer_norm", "plain", reals((3, 6)), options={"normalized_shape": (6,)}),
    Call(
        "layer_norm", "affine", reals((2, 3, 6), (6,), (6,)), (0, 1, 2), {"normalized_shape": (6,)}, ("weight", "bias")
    ),
    Call(
        "layer_norm",
        "two axes",
        reals((2, 3, 4), (3, 4), (3, 4)),
        (0, 1, 2),
        {"normalized_shape": (3, 4)},
        ("weight", "bias"),
    ),
    Call("mse_loss", "mean", reals((3, 4), (3, 4)), (0, 1)),
    Call("mse_loss", "none", reals((3, 4), (3, 4)), (0, 1), {"reduction": "none"}),
    Call("l1_loss", "sum", reals((3, 4), (3, 4)), (0, 1), {"reduction": "sum"}),
    Call("binary_cross_entropy_with_logits", "mean", both(reals((3, 4)), reals((3, 4), low=0, high=1)), (0, 1)),
    Call("binary_cross_entropy_with_logits", "at zero", fixed([0.0, 0.0], [1.0, 0.25])),
    Call(
        "binary_cross_entropy_with_logits",
        "pos_weight",
        both(reals((3, 2)), reals((3, 2), (2,), low=0, high=1)),
        options={"reduction": "sum"},
        named=("pos_weight",),
    ),
    Call("nll_loss", "mean", both(logits, classes)),
    Call("nll_loss", "weights", both(logits, classes, reals((5,), low=0, high=1)), options={"ignore_index": 4}),
    Call("cross_entropy", "mean", both(logits, classes)),
    Call(
        "cross_entropy", "i32", both(logits, integers((4,), low=0, high=5, dtype="int32")), options={"reduction": "sum"}
    ),
    Call("cross_entropy", "ignored", both(logits, fixed(np.array([1, -100, 4, -100])))),
    Call(
        "cross_entropy",
        "none",
        both(logits, fixed(np.array([1, 2, 4, 2]))),
        options={"ignore_index": 2, "reduction": "none"},
    ),
    Call("cross_entropy", "weights", both(logits, classes, reals((5,), low=0, high=1)), options={"ignore_index": 0}),
    Call("cross_entropy", "smooth", both(logits, fixed(np.array([1, -100, 4, 2]))), options={"label_smoothing": 0.1}),
    Call(
        "cross_entropy",
        "smooth and weights",
        both(logits, fixed(np.array([1, -100, 4, 2])), reals((5,), low=0, high=1)),
        options={"label_smoothing": 0.3},
    ),
    Call("cross_entropy", "image", both(reals((2, 3, 4, 2)), integers((2, 4, 2), low=0, high=3))),
    Call("cross_entropy", "one row", both(reals((5,)), fixed(3))),
    Call(
        "cross_entropy", "probabilities", both(logits, reals((4, 5), low=0, high=1)), (0, 1), {"label_smoothing": 0.1}
    ),
    Call("scaled_dot_product_attention", "plain", heads, (0, 1, 2)),
    Call("scaled_dot_product_attention", "causal", heads, (0, 1, 2), {"is_causal": True}),
    Call(
        "scaled_dot_product_attention",
        "causal, fewer queries",
        reals((2, 3), (4, 3), (4, 2)),
        (0, 1, 2),
        {"is_causal": True, "scale": 0.3},
    ),
    Call("scaled_dot_product_attention", "bool mask", both(heads, bools((4, 4))), (0, 1, 2)),
    Call("scaled_dot_product_attention", "nothing to see", both(heads, fixed(np.tri(4, k=-1).astype(bool))), (0, 1, 2)),
    Call("scaled_dot_product_attention", "added mask", both(heads, reals((3, 4, 4))), (0, 1, 2, 3)),
    Call("embedding", "rows", both(reals((5, 3)), fixed(np.array([[1, 0], [4, 1]])))),
    Call("embedding", "empty", both(reals((5, 3)), fixed(np.zeros((0, 2), "int64")))),
]
