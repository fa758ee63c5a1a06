"""Attention as ops of its own: softmax(scale Q Kᵀ) V without its matrix of scores in memory (Vaswani et al., 2017).

Two passes, each one kernel: forward gives the output and each query's log-sum-exp, backward the three gradients;
backward computes the scores again from Q, K and the log-sum-exp (Dao et al., 2022). An op has one result, so a pass is
several ops over the same operands, and the scheduler runs them as one. Higher derivatives go through the composite.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Cost, Kind, Op, moved_bytes, register
from tinygrad_lite.ir.record import mode, record
from tinygrad_lite.ir.types import TensorType, float32
from tinygrad_lite.ops import contract, create, movement, reduce
from tinygrad_lite.ops.elementwise import div, exp, ge, mul, sub, where

Array = np.ndarray[Any, Any]
FORWARD, BACKWARD = frozenset({"attention_forward"}), frozenset({"attention_backward"})

# ---- types ----------------------------------------------------------------------------------------------


def _check(q: TensorType, k: TensorType, v: TensorType) -> None:
    if not all(t.dtype is float32 and t.ndim >= 2 for t in (q, k, v)):
        raise TypeError(f"attention: needs f32 operands of two axes or more, got {q}, {k}, {v}")
    if not q.shape[:-2] == k.shape[:-2] == v.shape[:-2] or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise RuntimeError(f"attention: query {q}, key {k} and value {v} do not fit together")


def _infer_output(q: TensorType, k: TensorType, v: TensorType, *, causal: bool, scale: float) -> TensorType:
    _check(q, k, v)
    return TensorType(q.dtype, (*q.shape[:-1], v.shape[-1]))


def _infer_lse(q: TensorType, k: TensorType, v: TensorType, *, causal: bool, scale: float) -> TensorType:
    _check(q, k, v)
    return TensorType(q.dtype, (*q.shape[:-1], 1))


def _infer_gradient(position: int) -> Callable[..., TensorType]:
    def infer(*types: TensorType, causal: bool, scale: float) -> TensorType:
        q, k, v, out, lse, g = types
        expected = _infer_output(q, k, v, causal=causal, scale=scale)
        if out != expected or g != expected or lse != _infer_lse(q, k, v, causal=causal, scale=scale):
            raise RuntimeError(f"attention: gradient {g}, output {out} and log-sum-exp {lse} do not fit {q}, {k}, {v}")
        return types[position]

    return infer


# ---- NumPy -----------------------------------------------------------------------------------------------


def _scores(q: Array, k: Array, causal: bool, scale: float) -> Array:
    scores: Array = np.matmul(q, np.swapaxes(k, -1, -2)) * np.float32(scale)
    seen = np.tri(*scores.shape[-2:]) > 0
    return np.where(seen, scores, np.float32(-np.inf)) if causal else scores


def _numpy_lse(q: Array, k: Array, v: Array, *, causal: bool, scale: float) -> Array:
    scores = _scores(q, k, causal, scale)
    top = scores.max(-1, keepdims=True, initial=-np.inf)
    lse: Array = top + np.log(np.exp(scores - top).sum(-1, keepdims=True))
    return lse


def _numpy_output(q: Array, k: Array, v: Array, *, causal: bool, scale: float) -> Array:
    scores = _scores(q, k, causal, scale)
    weights = np.exp(scores - scores.max(-1, keepdims=True, initial=-np.inf))
    output: Array = np.matmul(weights / weights.sum(-1, keepdims=True), v)
    return output


def _numpy_gradient(position: int) -> Callable[..., Array]:
    def rule(q: Array, k: Array, v: Array, out: Array, lse: Array, g: Array, *, causal: bool, scale: float) -> Array:
        weights = np.exp(_scores(q, k, causal, scale) - lse)
        result: Array
        if position == 2:
            result = np.matmul(np.swapaxes(weights, -1, -2), g)
            return result
        slopes = np.matmul(g, np.swapaxes(v, -1, -2)) - (out * g).sum(-1, keepdims=True)
        slopes = weights * slopes * np.float32(scale)
        result = np.matmul(slopes, k) if position == 0 else np.matmul(np.swapaxes(slopes, -1, -2), q)
        return result

    return rule


# ---- derivatives -----------------------------------------------------------------------------------------


def _vjp_output(g: Node, node: Node, i: int) -> Node:
    if mode.grad_enabled:  # somebody will differentiate the gradient: give it ordinary ops
        return _composite_gradient(g, node, i)
    q, k, v = node.inputs
    lse = record(LSE, q, k, v, **node.attrs)
    return record(GRADIENTS[i], q, k, v, node, lse, g, **node.attrs)


def _weights(q: Node, k: Node, causal: bool, scale: float) -> Node:
    scores = mul(contract.matmul(q, movement.transpose(k, -2, -1)), scale)
    if causal:
        seen = ge(movement.unsqueeze(create.arange(q.shape[-2]), 1), create.arange(k.shape[-2]))
        scores = where(seen, scores, -math.inf)
    weights = exp(sub(scores, reduce.max(scores, -1, keepdim=True)))
    return div(weights, reduce.sum(weights, -1, keepdim=True))


def _composite_gradient(g: Node, node: Node, i: int) -> Node:
    q, k, v = node.inputs
    weights = _weights(q, k, **node.attrs)
    if i == 2:
        return contract.matmul(movement.transpose(weights, -2, -1), g)
    slopes = contract.matmul(g, movement.transpose(v, -2, -1))
    slopes = mul(weights, sub(slopes, reduce.sum(mul(slopes, weights), -1, keepdim=True)))
    slopes = mul(slopes, node.attrs["scale"])
    return contract.matmul(slopes, k) if i == 0 else contract.matmul(movement.transpose(slopes, -2, -1), q)


def _cost(products: int) -> Callable[[Node], Cost]:
    def cost(node: Node) -> Cost:
        q, k = node.inputs[:2]
        return Cost(products * q.type.size * k.shape[-2], moved_bytes(node))

    return cost


ATTENTION = register(
    Op("attention", Kind.ATTENTION, _infer_output, _numpy_output, _vjp_output, cost=_cost(4), traits=FORWARD)
)
LSE = register(Op("attention_lse", Kind.ATTENTION, _infer_lse, _numpy_lse, cost=_cost(2), traits=FORWARD))
GRADIENTS = tuple(
    register(
        Op(f"attention_d{name}", Kind.ATTENTION, _infer_gradient(i), _numpy_gradient(i), cost=_cost(4), traits=BACKWARD)
    )
    for i, name in enumerate("qkv")
)


def applies(q: Node, k: Node, v: Node) -> bool:
    """Whether the op takes these operands: f32, equal batch axes, two of them at the most, something to look at."""
    alike = q.shape[:-2] == k.shape[:-2] == v.shape[:-2] and q.type.ndim <= 4
    fits = q.shape[-1:] == k.shape[-1:] and k.shape[-2:-1] == v.shape[-2:-1] and 0 not in (*q.shape, *k.shape, *v.shape)
    return alike and fits and all(n.dtype is float32 for n in (q, k, v))


def attention(q: Node, k: Node, v: Node, causal: bool = False, scale: float | None = None) -> Node:
    """softmax(scale Q Kᵀ) V for f32 Q (…, L, E), K (…, S, E), V (…, S, Ev) of equal batch axes.

    With `causal`, query i sees keys 0 … i. `scale` defaults to 1/√E.
    """
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    return record(ATTENTION, q, k, v, causal=bool(causal), scale=scale)
