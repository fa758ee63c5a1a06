"""Samples of attention's ops. They are float32 only: gradients are checked in test_attention.py, by the composite."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.operands import Array, Sample, reals
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import record
from tinygrad_lite.ops import attention

SHAPES = {
    "plain": ((5, 4), (5, 4), (5, 4)),
    "cross": ((2, 3, 4), (2, 6, 4), (2, 6, 5)),
    "heads": ((2, 3, 9, 8), (2, 3, 9, 8), (2, 3, 9, 8)),
    "one query": ((1, 2, 1, 3), (1, 2, 7, 3), (1, 2, 7, 3)),
    "blocks": ((1, 70, 5), (1, 70, 5), (1, 70, 3)),
    "block": ((32, 16), (32, 16), (32, 16)),
    "more queries than keys": ((40, 3), (33, 3), (33, 3)),
    "wide": ((3, 40), (3, 40), (3, 33)),
}


def weights(q: Array, k: Array, causal: bool) -> Array:
    scores = np.einsum("...ij,...kj->...ik", q, k).astype("f8") / np.sqrt(q.shape[-1])
    if causal:
        i, j = np.indices(scores.shape[-2:])
        scores[..., j > i] = -np.inf
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def output(causal: bool) -> Any:
    return lambda q, k, v: np.einsum("...ij,...jk->...ik", weights(q, k, causal), v).astype("f4")


def log_sum(causal: bool) -> Any:
    def reference(q: Array, k: Array, v: Array) -> Array:
        scores = np.einsum("...ij,...kj->...ik", q, k).astype("f8") / np.sqrt(q.shape[-1])
        first = np.log(weights(q, k, causal)[..., :1])  # key 0 is always seen
        return (scores[..., :1] - first).astype("f4")

    return reference


def gradient(position: int, causal: bool) -> Any:
    def reference(q: Array, k: Array, v: Array, g: Array) -> Array:
        p, scale = weights(q, k, causal), 1 / np.sqrt(q.shape[-1])
        if position == 2:
            return np.einsum("...ij,...ik->...jk", p, g).astype("f4")
        slope = np.einsum("...ik,...jk->...ij", g, v).astype("f8")
        slope = p * (slope - (p * slope).sum(-1, keepdims=True)) * scale
        spec, other = ("...ij,...jk->...ik", k) if position == 0 else ("...ij,...ik->...jk", q)
        return np.einsum(spec, slope, other).astype("f4")

    return reference


def forward(op: Any, causal: bool) -> Any:
    def build(q: Node, k: Node, v: Node) -> Node:
        return record(op, q, k, v, causal=causal, scale=q.shape[-1] ** -0.5)

    return build


def backward(position: int, causal: bool) -> Any:
    def build(q: Node, k: Node, v: Node, g: Node) -> Node:
        attrs = {"causal": causal, "scale": q.shape[-1] ** -0.5}
        out, lse = record(attention.ATTENTION, q, k, v, **attrs), record(attention.LSE, q, k, v, **attrs)
        return record(attention.GRADIENTS[position], q, k, v, out, lse, g, **attrs)

    return build


def of_forward(op: Any, reference: Any) -> list[Sample]:
    return [
        Sample(f"{name}{' causal' * causal}", reals(*shapes, dtype="float32"), forward(op, causal), reference(causal))
        for name, shapes in SHAPES.items()
        for causal in (False, True)
    ]


def of_backward(position: int) -> list[Sample]:
    return [
        Sample(
            f"{name}{' causal' * causal}",
            reals(*shapes, (*shapes[0][:-1], shapes[2][-1]), dtype="float32"),
            backward(position, causal),
            gradient(position, causal),
        )
        for name, shapes in SHAPES.items()
        for causal in (False, True)
    ]


ATTENTION = {
    "attention": of_forward(attention.ATTENTION, output),
    "attention_lse": of_forward(attention.LSE, log_sum),
    **{f"attention_d{name}": of_backward(i) for i, name in enumerate("qkv")},
}
