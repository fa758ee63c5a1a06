"""Matrix products."""

from __future__ import annotations

from tinygrad_lite.functional.common import Scalar, node_of, wrap
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ops import contract, movement
from tinygrad_lite.ops import elementwise as ew

__all__ = ["addmm", "bmm", "dot", "linear", "matmul", "mm", "mv", "outer"]


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """input @ other: vectors are rows on the left and columns on the right, batch axes broadcast.

    Raises:
        RuntimeError: inner sizes or dtypes differ.
    """
    return wrap(contract.matmul(node_of(input, "input"), node_of(other, "other")))


def _ranked(name: str, rank_a: int, rank_b: int, a: Tensor, b: Tensor) -> Tensor:
    x, y = node_of(a, "input"), node_of(b, "other")
    if (x.type.ndim, y.type.ndim) != (rank_a, rank_b):
        raise RuntimeError(f"{name}: expected {rank_a}-D and {rank_b}-D tensors, got {x.type} and {y.type}")
    if rank_a == 3 and x.shape[0] != y.shape[0]:
        raise RuntimeError(f"{name}: batch sizes of {x.type} and {y.type} differ")
    return wrap(contract.matmul(x, y))


def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of two matrices."""
    return _ranked("mm", 2, 2, input, mat2)


def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Products of (b, m, k) and (b, k, n)."""
    return _ranked("bmm", 3, 3, input, mat2)


def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Matrix times vector."""
    return _ranked("mv", 2, 1, input, vec)


def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Inner product of two vectors."""
    return _ranked("dot", 1, 1, input, tensor)


def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of elements of two vectors."""
    a, b = node_of(input, "input"), node_of(vec2, "vec2")
    if (a.type.ndim, b.type.ndim) != (1, 1):
        raise RuntimeError(f"outer: Expected 1-D tensors, got {a.type} and {b.type}")
    return wrap(ew.mul(movement.unsqueeze(a, 1), b))


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Scalar = 1, alpha: Scalar = 1) -> Tensor:
    """beta * input + alpha * mat1 @ mat2."""
    product = mm(mat1, mat2)._read()
    product = product if alpha == 1 else ew.mul(product, alpha)
    start = node_of(input, "input")
    return wrap(ew.add(start if beta == 1 else ew.mul(start, beta), product))


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias, weight (out, in)."""
    shift = None if bias is None else node_of(bias, "bias")
    return wrap(contract.linear(node_of(input, "input"), node_of(weight, "weight"), shift))
