"""The functions of torch.linalg, under `tinygrad_lite.linalg`. Everything takes batches of matrices."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tinygrad_lite.functional import contraction
from tinygrad_lite.functional.common import as_dtype, axis_list, fresh, node_of, wrap
from tinygrad_lite.functional.diagonals import diagonal as _diagonal
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.types import DType, int64
from tinygrad_lite.ops import contract, create, movement, reduce
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops import linalg as ops

__all__ = [
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "householder_product",
    "inv",
    "lstsq",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

Dim = int | tuple[int, ...] | list[int] | None


class SlogdetResult(NamedTuple):
    """Sign of a determinant, and the logarithm of its size."""

    sign: Tensor
    logabsdet: Tensor


class QRResult(NamedTuple):
    """Orthonormal columns, and an upper triangle."""

    Q: Tensor
    R: Tensor


class SVDResult(NamedTuple):
    """Left singular vectors (columns), singular values, right singular vectors (rows)."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class EighResult(NamedTuple):
    """Eigenvalues, ascending, and eigenvectors (columns)."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class LstsqResult(NamedTuple):
    """A least-squares solution, its squared residuals, the rank, and the singular values."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


# ---- determinants, inverses, solving --------------------------------------------------------------------------


def det(A: Tensor) -> Tensor:
    """Determinants. Singular matrices have a gradient, but no second one."""
    return wrap(ops.det(node_of(A, "A")))


def slogdet(A: Tensor) -> SlogdetResult:
    """(sign, log |det|), (0, -inf) for singular matrices."""
    sign, log = ops.slogdet(node_of(A, "A"))
    return SlogdetResult(wrap(sign), wrap(log))


def inv(A: Tensor) -> Tensor:
    """Inverses. LinAlgError for a singular matrix, also from a compiled program."""
    node = node_of(A, "A")
    return fresh(ops.inverse(node), node)


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X with A X = B, or X A = B with left=False; B may be vectors, of shape A.shape[:-1] or (n,).

    Raises:
        RuntimeError: shapes or dtypes that do not fit. LinAlgError: a singular matrix, also from a compiled program.
    """
    a, b = node_of(A, "A"), node_of(B, "B")
    ops.check_matrices("linalg.solve", a.type, square=True)
    vector = b.type.ndim == 1 or (b.type.ndim == a.type.ndim - 1 and b.shape == a.shape[:-1])
    if vector:
        if not left:
            raise RuntimeError("linalg.solve: with left=False, B must be a matrix or a batch of matrices")
        return wrap(movement.squeeze(ops.solve(a, movement.unsqueeze(b, -1)), -1))
    if left:
        return fresh(ops.solve(a, b), b)
    return wrap(ops.transposed(ops.solve(ops.transposed(a), _transposed(b, "linalg.solve"))))


def _transposed(x: Node, name: str) -> Node:
    if x.type.ndim < 2:
        raise RuntimeError(f"{name}: expected a matrix or a batch of matrices, got {x.type}")
    return ops.transposed(x)


def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """X with A X = B (X A = B with left=False) where only a triangle of A is read.

    `unitriangular` takes the diagonal as ones; a zero on it gives inf or nan.
    """
    a, b = node_of(A, "A"), node_of(B, "B")
    if left:
        return fresh(ops.triangular(a, b, upper=upper, unit=unitriangular), b)
    a, b = (_transposed(x, "linalg.solve_triangular") for x in (a, b))
    return wrap(ops.transposed(ops.triangular(a, b, upper=not upper, unit=unitriangular)))


def pinv(
    A: Tensor,
    rcond: float | None = None,
    hermitian: bool = False,
    *,
    atol: float | None = None,
    rtol: float | None = None,
) -> Tensor:
    """Pseudoinverses; singular values at or below max(atol, rtol · the largest) count as 0.

    Args:
        atol, rtol: 0 and max(m, n) · eps by default; rtol is 0 where only atol is given. `rcond` is rtol's old name.
        hermitian: read the lower triangle alone.

    The gradient takes the rank as constant.
    """
    node = node_of(A, "A")
    return fresh(
        ops.pinv(_hermitian(node, hermitian), _number(rcond if rtol is None else rtol), float(atol or 0.0)), node
    )


def _number(x: Any) -> float | None:
    return None if x is None else float(x)


def _hermitian(x: Node, hermitian: bool) -> Node:
    """The symmetric matrix that the lower triangle says."""
    if not hermitian:
        return x
    ops.check_matrices("linalg", x.type, square=True)
    lower = wrap(x).tril()._read()
    strict = wrap(x).tril(-1)._read()
    return ew.add(lower, ops.transposed(strict))


def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LstsqResult:
    """(solution, residuals, rank, singular_values): X that makes |A X - B| least, and of those |X|; differentiable.

    Args:
        rcond: singular values at or below rcond · the largest count as 0; max(m, n) · eps by default.
        driver: says what is reported: "gelsy" the rank; "gels" the residuals, for A of full rank; "gelsd" and "gelss"
            the rank, singular values, and residuals where the rank is full (it is read: CaptureError in a capture).

    Residuals are those of A with more rows than columns.
    """
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(f"linalg.lstsq: driver must be one of gels, gelsy, gelsd, gelss, got {driver!r}")
    a, b = node_of(A, "A"), node_of(B, "B")
    ops.check_matrices("linalg.lstsq", a.type)
    vector = b.type.ndim == a.type.ndim - 1 and b.shape == a.shape[:-1]
    right = movement.unsqueeze(b, -1) if vector else b
    if right.type.ndim < 2 or right.shape[-2] != a.shape[-2] or b.dtype is not a.dtype:
        raise RuntimeError(f"linalg.lstsq: B {b.type} does not fit A {a.type}")
    m, n = a.shape[-2:]
    cut = max(m, n) * float(np.finfo(a.dtype.numpy).eps) if rcond is None else float(rcond)
    solution = contract.matmul(ops.pinv(a, cut), right)
    rank = _rank(ops.svdvals(a), cut, 0.0)
    full = m > n and driver not in (None, "gelsy")
    if full and driver != "gels":
        full = bool((wrap(rank)._values("linalg.lstsq(driver='gelsd')") == n).all())
    residuals = create.zeros((0,), a.dtype)
    if full:
        missed = ew.sub(contract.matmul(a, solution), right)
        residuals = reduce.sum(ew.mul(missed, missed), -2)
    values = ops.svdvals(a) if driver in ("gelsd", "gelss") else create.zeros((0,), a.dtype)
    ranks = create.zeros((0,), int64) if driver == "gels" else rank
    solution = movement.squeeze(solution, -1) if vector else solution
    return LstsqResult(*map(wrap, (solution, residuals, ranks, values)))


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of A as a matrix from the dims from `ind` on to those before it."""
    node = node_of(A, "A")
    if ind <= 0:
        raise RuntimeError(f"linalg.tensorinv: expected a strictly positive integer for 'ind', got {ind}")
    rows, columns = node.shape[:ind], node.shape[ind:]
    if math.prod(rows) != math.prod(columns):
        raise RuntimeError(f"linalg.tensorinv: {node.type} is not square when split at {ind}")
    square = movement.reshape(node, (math.prod(rows), math.prod(columns)))
    return wrap(movement.reshape(ops.inverse(square), (*columns, *rows)))


def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """X with tensordot(A, X, X.ndim) = B; `dims` of A are moved to its end first."""
    a, b = node_of(A, "A"), node_of(B, "B")
    if dims is not None:
        moved = [movement.normalize_axis(d, a.type.ndim) for d in dims]
        a = movement.permute(a, [x for x in range(a.type.ndim) if x not in moved] + moved)
    shape = a.shape[b.type.ndim :]
    if math.prod(shape) != b.type.size or a.type.size != b.type.size**2:
        raise RuntimeError(f"linalg.tensorsolve: {a.type} does not fit {b.type}")
    square = movement.reshape(a, (b.type.size, b.type.size))
    return wrap(movement.reshape(ops.solve(square, movement.reshape(b, (b.type.size, 1))), shape))


# ---- factorisations -------------------------------------------------------------------------------------------


def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """Lower triangular L with L Lᵀ = A, or its transpose. Gradients are symmetric.

    Raises:
        LinAlgError: A is not positive definite, also from a compiled program.
    """
    node = node_of(A, "A")
    factor = ops.transposed(ops.cholesky(ops.transposed(node))) if upper and node.type.ndim > 1 else ops.cholesky(node)
    return fresh(factor, node)


def qr(A: Tensor, mode: str = "reduced") -> QRResult:
    """A = Q R. Q is (m, k), k = min(m, n), in mode "reduced", (m, m) in "complete", empty in "r".

    Gradients in mode "complete" need at least as many columns as rows.
    """
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr received unrecognized mode {mode!r} but expected one of 'reduced', 'r', or 'complete'")
    q, r = ops.qr(node_of(A, "A"), mode == "complete")
    return QRResult(wrap(create.zeros((0,), q.dtype) if mode == "r" else q), wrap(r))


def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> SVDResult:
    """A = U diag(S) Vh. U is (m, m) and Vh (n, n) with full_matrices, else (m, k) and (k, n).

    Gradients are finite where singular values differ, or where only the values are used. `driver` changes nothing.
    """
    return SVDResult(*map(wrap, ops.svd(node_of(A, "A"), bool(full_matrices))))


def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """Singular values, descending."""
    return wrap(ops.svdvals(node_of(A, "A")))


def _upper(UPLO: str) -> bool:
    if UPLO not in ("L", "U", "l", "u"):
        raise RuntimeError(f"linalg.eigh: expected UPLO to be 'L' or 'U', but got {UPLO!r}")
    return UPLO in "Uu"


def eigh(A: Tensor, UPLO: str = "L") -> EighResult:
    """Eigenvalues and eigenvectors of symmetric matrices, of which one triangle is read. Gradients are symmetric."""
    return EighResult(*map(wrap, ops.eigh(node_of(A, "A"), _upper(UPLO))))


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues of symmetric matrices, ascending."""
    return wrap(ops.eigvalsh(node_of(A, "A"), _upper(UPLO)))


# ---- norms and what singular values tell ----------------------------------------------------------------------


def norm_of(x: Node, p: float, axes: tuple[int, ...], keepdim: bool) -> Node:
    """(Σ |x|^p)^(1/p) over axes, with gradient 0 where it is 0; p may be 0 (a count), inf or -inf."""
    size = ew.abs(x)
    if math.isinf(p):
        return (reduce.max if p > 0 else reduce.min)(size, axes, keepdim) if axes else size
    if p == 0:
        return reduce.sum(ew.where(ew.eq(x, 0.0), ew.mul(x, 0.0), 1.0), axes, keepdim)
    if p == 1:
        return reduce.sum(size, axes, keepdim)
    if p == 2:
        return _rooted(reduce.sum(ew.mul(x, x), axes, keepdim), ew.sqrt)
    zero = ew.eq(size, 0.0)
    neutral = 0.0 if p > 0 else float("inf")
    powers = ew.where(zero, neutral, ew.pow(ew.where(zero, 1.0, size), p))
    return _rooted(reduce.sum(powers, axes, keepdim), lambda s: ew.pow(s, 1 / p))


def _rooted(total: Node, root: Any) -> Node:
    """root(total), but total itself, 0 or nan, where it is not positive: no infinite slopes there."""
    positive = ew.gt(total, 0.0)
    return ew.where(positive, root(ew.where(positive, total, 1.0)), total)


def _floating(A: Tensor, dtype: DType | None, name: str) -> Node:
    node = node_of(A, "A")
    node = node if dtype is None else ew.cast(node, as_dtype(dtype))
    if node.dtype.kind != "f":
        raise RuntimeError(f"{name}: Expected a floating point tensor as input. Got {node.type}")
    return node


def vector_norm(
    x: Tensor, ord: float = 2, dim: Dim = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """(Σ |x|^ord)^(1/ord) over `dim`, by default over all elements; gradient 0 where it is 0."""
    node = _floating(x, dtype, "linalg.vector_norm")
    return fresh(norm_of(node, float(ord), movement.normalize_axes(axis_list(dim), node.type.ndim), keepdim), node)


def matrix_norm(
    A: Tensor,
    ord: float | str = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """Norms of matrices: "fro", "nuc" (Σ of singular values), ±2 (extremes of them), ±1 and ±inf (columns, rows)."""
    node = _floating(A, dtype, "linalg.matrix_norm")
    if isinstance(dim, int) or len(dim) != 2 or node.type.ndim < 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple of a tensor of 2 or more dims, got {dim}")
    rows, columns = (movement.normalize_axis(d, node.type.ndim) for d in dim)
    if rows == columns:
        raise RuntimeError(f"linalg.matrix_norm: dims must be different. Got ({dim[0]}, {dim[1]})")
    return wrap(_matrix_norm(node, ord, rows, columns, keepdim))


def _matrix_norm(node: Node, ord: float | str, rows: int, columns: int, keepdim: bool) -> Node:
    if ord == "fro":
        return norm_of(node, 2.0, (rows, columns), keepdim)
    if ord in ("nuc", 2, -2):
        rest = [a for a in range(node.type.ndim) if a not in (rows, columns)]
        values = ops.svdvals(movement.permute(node, [*rest, rows, columns]))
        found = reduce.sum(values, -1) if ord == "nuc" else (reduce.max if ord == 2 else reduce.min)(values, -1)
        for axis in sorted((rows, columns)) if keepdim else ():
            found = movement.unsqueeze(found, axis)
        return found
    if isinstance(ord, str) or abs(ord) not in (1, math.inf):
        raise RuntimeError(f"linalg.matrix_norm: Order {ord!r} not supported; there are fro, nuc, ±1, ±2, ±inf")
    summed, compared = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = reduce.sum(ew.abs(node), summed, keepdim=True)
    found = (reduce.max if ord > 0 else reduce.min)(sums, compared, keepdim=True)
    return found if keepdim else movement.squeeze(found, (rows, columns))


def norm(
    A: Tensor,
    ord: float | str | None = None,
    dim: Dim = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """`vector_norm` over one dim or, without `ord`, over any; `matrix_norm` over two dims, or of a matrix."""
    axes = axis_list(dim)
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if axes is None:
        if A.ndim not in (1, 2):
            raise RuntimeError(
                f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D"
            )
        axes = tuple(range(A.ndim))
    if not isinstance(axes, int) and len(axes) > 1:
        return matrix_norm(A, ord, axes, keepdim, dtype=dtype)
    if isinstance(ord, str):
        raise RuntimeError(f"linalg.norm: a vector norm of order {ord!r} does not exist; the input must be a matrix")
    return vector_norm(A, ord, axes, keepdim, dtype=dtype)


def cond(A: Tensor, p: float | str | None = None) -> Tensor:
    """Condition numbers: the quotient of extreme singular values, or norm(A, p) · norm(inv(A), p).

    Raises:
        LinAlgError: a singular matrix where p is not None, 2 or -2.
    """
    node = node_of(A, "A")
    if p in (None, 2, -2):
        values = ops.svdvals(node)
        high, low = (movement.squeeze(movement.narrow(values, -1, i, 1), -1) for i in (0, -1))
        return wrap(ew.div(low, high) if p == -2 else ew.div(high, low))
    ops.check_matrices("linalg.cond", node.type, square=True)
    assert p is not None
    return matrix_norm(A, p) * matrix_norm(inv(A), p)


def matrix_rank(
    A: Tensor,
    *,
    tol: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    hermitian: bool = False,
) -> Tensor:
    """How many singular values exceed max(atol, rtol · the largest), by default as for `pinv`; `tol` is an old atol."""
    node = _hermitian(node_of(A, "A"), hermitian)
    ops.check_matrices("linalg.matrix_rank", node.type)
    absolute = float(atol if atol is not None else tol or 0.0)
    default = 0.0 if absolute else max(node.shape[-2:]) * float(np.finfo(node.dtype.numpy).eps)
    values = ops.svdvals(node)
    if not values.shape[-1]:
        return wrap(create.zeros(values.shape[:-1], int64))
    return wrap(_rank(values, default if rtol is None else float(rtol), absolute))


def _rank(values: Node, rtol: float, atol: float) -> Node:
    cut = ew.maximum(ew.mul(movement.narrow(values, -1, 0, 1), rtol), atol)
    return reduce.sum(ew.gt(values, cut), -1)


# ---- powers and products --------------------------------------------------------------------------------------


def matrix_exp(A: Tensor) -> Tensor:
    """Σ Aᵏ / k!"""
    node = node_of(A, "A")
    return fresh(ops.matrix_exp(node), node)


def matrix_power(A: Tensor, n: int) -> Tensor:
    """A multiplied by itself n times; the identity for 0, powers of the inverse for negative n."""
    node = node_of(A, "A")
    if node.type.ndim < 2 or node.shape[-1] != node.shape[-2]:
        raise RuntimeError(f"linalg.matrix_power: A must be batches of square matrices, got {node.type}")
    if n == 0:
        unit = ew.cast(ops.eye(node.shape[-1], node.dtype), node.dtype)
        return fresh(movement.broadcast_to(unit, node.shape), node)
    base, power = (ops.inverse(node) if n < 0 else node), abs(n)
    result: Node | None = None
    while power:
        if power & 1:
            result = base if result is None else contract.matmul(result, base)
        power >>= 1
        base = contract.matmul(base, base) if power else base
    assert result is not None
    return fresh(result, node)


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of two or more matrices in the cheapest order; the first and the last may be vectors."""
    nodes = [node_of(x, "linalg.multi_dot(): tensor") for x in tensors]
    if len(nodes) < 2:
        raise RuntimeError(f"linalg.multi_dot: expected at least 2 tensors but got {len(nodes)}")
    first, last = nodes[0].type.ndim == 1, nodes[-1].type.ndim == 1
    nodes[0] = movement.unsqueeze(nodes[0], 0) if first else nodes[0]
    nodes[-1] = movement.unsqueeze(nodes[-1], 1) if last else nodes[-1]
    for a, b in itertools.pairwise(nodes):
        if a.type.ndim != 2 or b.type.ndim != 2 or a.shape[1] != b.shape[0]:
            raise RuntimeError(f"linalg.multi_dot: tensors {a.type} and {b.type} cannot be multiplied")
    split = _cheapest([nodes[0].shape[0], *(n.shape[1] for n in nodes)])

    def product(i: int, j: int) -> Node:
        if i == j:
            return nodes[i]
        return contract.matmul(product(i, split[i, j]), product(split[i, j] + 1, j))

    whole = product(0, len(nodes) - 1)
    drop = [0] * first + [1] * last
    return wrap(movement.squeeze(whole, drop) if drop else whole)


def _cheapest(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to split each run of matrices i … j of (sizes[i], sizes[i + 1]): Cormen et al., matrix-chain order."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            options = {k: cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)}
            split[i, j] = min(options, key=options.__getitem__)
            cost[i, j] = options[split[i, j]]
    return split


def matmul(input: Tensor, other: Tensor) -> Tensor:
    """input @ other."""
    return contraction.matmul(input, other)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Sums of products along a dim; the others broadcast."""
    a, b = _floating(x, None, "linalg.vecdot"), _floating(y, None, "linalg.vecdot")
    shape = ew.broadcast_shapes("linalg.vecdot", [a.shape, b.shape])
    axis = movement.normalize_axis(dim, len(shape))
    if not shape or a.shape[axis - len(shape)] != b.shape[axis - len(shape)]:
        raise RuntimeError(f"linalg.vecdot: {a.type} and {b.type} differ along dim {dim}")
    product = ew.mul(a, b)
    return wrap(ew.cast(reduce.sum(product, axis), product.dtype))


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """Vector products along a dim of size 3."""
    return contraction.cross(input, other, dim)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Diagonals of the last two dims, as views."""
    return _diagonal(A, offset, dim1, dim2)


def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Rows 1, x, x², … of N powers, by default as many as there are elements along the last dim; int64 of integers."""
    node = node_of(x, "x")
    node = node if node.type.ndim else movement.reshape(node, (1,))
    node = node if node.dtype.kind == "f" else ew.cast(node, int64)
    count = node.shape[-1] if N is None else int(N)
    if N is not None and count <= 1:
        raise RuntimeError(f"linalg.vander: N must be greater than 1, got {N}")
    column = movement.unsqueeze(node, -1)
    rows = [create.ones(column.shape, node.dtype)]
    for _ in range(count - 1):
        rows.append(ew.mul(rows[-1], column))
    return wrap(movement.concat(rows, -1))


def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first n columns of H_1 H_2 …, H_i = 1 - tau_i v_i v_iᵀ, v_i column i of A below a 1 on the diagonal.

    Shapes: A (*, m, n) with m ≥ n, tau (*, k) with k ≤ n, to (*, m, n). The product is taken in one piece, as
    1 - V T Vᵀ with T = (1 + D S)⁻¹ D, D the taus and S the part of VᵀV above the diagonal. Schreiber & Van Loan 1989.

    Raises:
        RuntimeError: shapes or dtypes that do not fit.
    """
    a, t = node_of(A, "A").type, node_of(tau, "tau").type
    ops.check_matrices("linalg.householder_product", a)
    m, n = a.shape[-2:]
    if m < n or t.ndim != a.ndim - 1 or t.shape[:-1] != a.shape[:-2] or t.shape[-1] > n or t.dtype is not a.dtype:
        raise RuntimeError(f"linalg.householder_product: {a} and tau {t} do not fit")
    k = t.shape[-1]
    unit = wrap(ops.eye(m, a.dtype))
    v = A[..., :k].tril(-1) + unit[:, :k]
    scaled = tau.unsqueeze(-1) * (v.transpose(-2, -1) @ v).triu(1)
    by_tau = tau.unsqueeze(-1) * v[..., :n, :].transpose(-2, -1)
    return unit[:, :n] - v @ solve_triangular(scaled + unit[:k, :k], by_tau, upper=True, unitriangular=True)
