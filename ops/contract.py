"""The matrix product. The op is strict: (*batch, m, k) @ (*batch, k, n) with equal batch axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Cost, Kind, Op, moved_bytes, register
from tinygrad_lite.ir.record import record
from tinygrad_lite.ir.types import TensorType, bool_
from tinygrad_lite.ops import elementwise, movement

Array = np.ndarray[Any, Any]


def _infer_matmul(a: TensorType, b: TensorType) -> TensorType:
    if a.dtype is not b.dtype:
        raise RuntimeError(f"matmul: expected m1 and m2 to have the same dtype, but got {a} and {b}")
    if a.dtype is bool_:
        raise RuntimeError(f"matmul: not defined for bool tensors, got {a} and {b}")
    if a.ndim != b.ndim or a.ndim < 2 or a.shape[:-2] != b.shape[:-2] or a.shape[-1] != b.shape[-2]:
        raise RuntimeError(f"matmul: shapes {list(a.shape)} and {list(b.shape)} cannot be multiplied")
    return TensorType(a.dtype, (*a.shape[:-1], b.shape[-1]))


def _vjp_matmul(g: Node, node: Node, i: int) -> Node:
    a, b = node.inputs
    if i == 0:
        return record(MATMUL, g, movement.transpose(b, -2, -1))
    return record(MATMUL, movement.transpose(a, -2, -1), g)


def _cost(node: Node) -> Cost:
    return Cost(2 * node.type.size * node.inputs[0].shape[-1], moved_bytes(node))


MATMUL = register(Op("matmul", Kind.MATMUL, _infer_matmul, np.matmul, _vjp_matmul, None, _cost))


def matmul(a: Node, b: Node) -> Node:
    """PyTorch's matmul: vectors are rows on the left and columns on the right, batch axes broadcast."""
    if not a.type.ndim or not b.type.ndim:
        raise RuntimeError(f"matmul: both arguments need to be at least 1D, got {a.type} and {b.type}")
    left = movement.unsqueeze(a, 0) if a.type.ndim == 1 else a
    right = movement.unsqueeze(b, 1) if b.type.ndim == 1 else b
    if left.shape[-1] != right.shape[-2]:
        raise RuntimeError(f"matmul: shapes {list(a.shape)} and {list(b.shape)} cannot be multiplied")
    product = _by_rows(left, right) if right.type.ndim == 2 else _batched(left, right)
    shape = product.shape[:-2] + product.shape[-2:][a.type.ndim == 1 : 2 - (b.type.ndim == 1)]
    return movement.reshape(product, shape)


def _by_rows(a: Node, b: Node) -> Node:
    """One 2-D product over all rows of a."""
    rows = movement.reshape(a, (math.prod(a.shape[:-1]), a.shape[-1]))
    return movement.reshape(record(MATMUL, rows, b), (*a.shape[:-1], b.shape[-1]))


def _batched(a: Node, b: Node) -> Node:
    batch = elementwise.broadcast_shapes("matmul", [a.shape[:-2], b.shape[:-2]])
    return record(MATMUL, *[movement.broadcast_to(x, batch + x.shape[-2:]) for x in (a, b)])


def linear(x: Node, weight: Node, bias: Node | None = None) -> Node:
    """x Wᵀ + b with weight (out, in)."""
    if weight.type.ndim not in (1, 2) or not x.type.ndim or x.shape[-1] != weight.shape[-1]:
        raise RuntimeError(f"linear: input {list(x.shape)} does not fit weight {list(weight.shape)}")
    product = matmul(x, movement.transpose(weight, 0, 1) if weight.type.ndim == 2 else weight)
    return product if bias is None else elementwise.add(product, bias)
