"""The names of linear algebra that PyTorch has at its top level; the rest is in linalg.py."""

from __future__ import annotations

from typing import NamedTuple

from tinygrad_lite.functional import linalg
from tinygrad_lite.functional.common import fresh, node_of, wrap
from tinygrad_lite.functional.linalg import QRResult
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ops import create, movement
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops import linalg as ops

__all__ = [
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "det",
    "inverse",
    "logdet",
    "matrix_exp",
    "matrix_power",
    "pinverse",
    "qr",
    "slogdet",
    "svd",
    "triangular_solve",
]

det, slogdet, matrix_exp, matrix_power = linalg.det, linalg.slogdet, linalg.matrix_exp, linalg.matrix_power


def inverse(input: Tensor) -> Tensor:
    """`linalg.inv`"""
    return linalg.inv(input)


def logdet(input: Tensor) -> Tensor:
    """log det: -inf for singular matrices, nan for negative determinants."""
    sign, log = ops.slogdet(node_of(input, "input"))
    return wrap(ew.where(ew.lt(sign, 0.0), float("nan"), log))


def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """`linalg.pinv` with rtol=rcond."""
    return linalg.pinv(input, rtol=rcond)


def cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """`linalg.cholesky`"""
    return linalg.cholesky(input, upper=upper)


def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """X with A X = B, where A = L Lᵀ, or Lᵀ L if `upper`."""
    b, factor = node_of(B, "B"), node_of(L, "L")
    if b.type.ndim < 2:
        raise RuntimeError(f"cholesky_solve: B should have at least 2 dimensions, got {b.type}")
    lower = ops.transposed(factor) if upper and factor.type.ndim > 1 else factor
    half = ops.triangular(lower, b, upper=False)
    return fresh(ops.triangular(ops.transposed(lower), half, upper=True), b)


def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of L Lᵀ, or of Lᵀ L if `upper`."""
    factor = node_of(L, "L")
    ops.check_matrices("cholesky_inverse", factor.type, square=True)
    unit = movement.broadcast_to(ops.eye(factor.shape[-1], factor.dtype), factor.shape)
    return cholesky_solve(wrap(unit), L, upper)


def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Tensor, Tensor]:
    """(X, a copy of A) with A X = b, or Aᵀ X = b; the old name of `linalg.solve_triangular`."""
    matrix = A.mT if transpose else A
    solution = linalg.solve_triangular(matrix, b, upper=upper != transpose, unitriangular=unitriangular)
    return solution, A.clone()


def qr(input: Tensor, some: bool = True) -> QRResult:
    """`linalg.qr`, complete unless `some`."""
    return linalg.qr(input, "reduced" if some else "complete")


class USV(NamedTuple):
    """Left singular vectors (columns), singular values, right singular vectors (columns)."""

    U: Tensor
    S: Tensor
    V: Tensor


def svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> USV:
    """(U, S, V) with input = U diag(S) Vᵀ, V and not its transpose; zeros for U and V without compute_uv."""
    if not compute_uv:
        node = node_of(input, "input")
        values = linalg.svdvals(input)
        m, n = node.shape[-2:]
        u, v = (wrap(create.zeros((*node.shape[:-2], k, k), node.dtype)) for k in (m, n))
        return USV(u, values, v)
    u_, s, vh = ops.svd(node_of(input, "input"), not some)
    return USV(wrap(u_), wrap(s), wrap(ops.transposed(vh)))
