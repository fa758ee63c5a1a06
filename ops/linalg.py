"""Factorisations and what is made of them: opaque ops over batches of matrices, by LAPACK, eager and in programs.

An op has one result. Where a factorisation has several, they are packed into the last axis, one after another, and the
builders slice them out: `svd` U, S, Vh; `eigh` W, Vᵀ; `qr` Qᵀ, R; `slogdet` sign, log |det|. So one cotangent
holds all parts, and a formula can use them together. Matrices without elements never reach the ops.

Formulas: M. B. Giles, "An extended collection of matrix derivative results" (2008); for QR also Walter, Lehmann, Lamour
(2012), for pinv Golub and Pereyra (1973), for the exponential Van Loan (1978).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tinygrad_lite.errors import LinAlgError
from tinygrad_lite.ir.native import Native
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Cost, Kind, Op, moved_bytes, register
from tinygrad_lite.ir.record import record
from tinygrad_lite.ir.types import DType, TensorType, float32, float64
from tinygrad_lite.ops import contract, create, elementwise, lapack, movement, reduce
from tinygrad_lite.ops.later import linalg

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]

# ---- inference ------------------------------------------------------------------------------------


def check_matrices(name: str, x: TensorType, square: bool = False) -> None:
    """RuntimeError unless x is a float32 or float64 matrix, or a batch of them; square ones if need be."""
    if x.ndim < 2:
        raise RuntimeError(f"{name}: The input tensor must have at least 2 dimensions, got {x}")
    if x.dtype not in (float32, float64):
        raise RuntimeError(f"{name}: Expected a float32 or float64 tensor as input, got {x}")
    if square and x.shape[-1] != x.shape[-2]:
        raise RuntimeError(f"{name}: A must be batches of square matrices, but they are {x.shape[-2]} by {x.shape[-1]}")


def _infer_square(name: str) -> Callable[..., TensorType]:
    def infer(x: TensorType) -> TensorType:
        check_matrices(name, x, square=True)
        return x

    return infer


def _infer_solve(name: str) -> Callable[..., TensorType]:
    def infer(a: TensorType, b: TensorType, **attrs: bool) -> TensorType:
        check_matrices(name, a, square=True)
        if b.dtype is not a.dtype or b.ndim != a.ndim or b.shape[:-1] != a.shape[:-1]:
            raise RuntimeError(f"{name}: right-hand side {b} does not fit {a}")
        return b

    return infer


def _infer_det(x: TensorType) -> TensorType:
    check_matrices("det", x, square=True)
    return TensorType(x.dtype, x.shape[:-2])


def _infer_slogdet(x: TensorType) -> TensorType:
    check_matrices("slogdet", x, square=True)
    return TensorType(x.dtype, (*x.shape[:-2], 2))


def _infer_svd(x: TensorType, *, full: bool) -> TensorType:
    check_matrices("svd", x)
    m, n = x.shape[-2:]
    k = min(m, n)
    u, v = (m, n) if full else (k, k)
    return TensorType(x.dtype, (*x.shape[:-2], m * u + k + v * n))


def _infer_svdvals(x: TensorType) -> TensorType:
    check_matrices("svdvals", x)
    return TensorType(x.dtype, (*x.shape[:-2], min(x.shape[-2:])))


def _infer_eigh(x: TensorType, *, upper: bool) -> TensorType:
    check_matrices("eigh", x, square=True)
    n = x.shape[-1]
    return TensorType(x.dtype, (*x.shape[:-2], n + n * n))


def _infer_eigvalsh(x: TensorType, *, upper: bool) -> TensorType:
    check_matrices("eigvalsh", x, square=True)
    return TensorType(x.dtype, x.shape[:-1])


def _infer_qr(x: TensorType, *, complete: bool) -> TensorType:
    check_matrices("qr", x)
    m, n = x.shape[-2:]
    q = m if complete else min(m, n)
    return TensorType(x.dtype, (*x.shape[:-2], q * m + q * n))


def _infer_pinv(x: TensorType, *, rtol: float, atol: float) -> TensorType:
    check_matrices("pinv", x)
    return TensorType(x.dtype, (*x.shape[:-2], x.shape[-1], x.shape[-2]))


# ---- NumPy rules: SciPy on one matrix after another, on its transpose where the kernels take that -------------


def _each(rule: Callable[..., Array], failure: str) -> Callable[..., Array]:
    """The rule of one matrix as that of a batch; LinAlgError where it gives up."""

    def batched(*arrays: Array, **attrs: Any) -> Array:
        batch = arrays[0].shape[:-2]
        flat = [a.reshape(-1, *a.shape[-2:]) for a in arrays]
        try:
            parts = [np.asarray(rule(*each, **attrs)) for each in zip(*flat, strict=True)]
        except (np.linalg.LinAlgError, ValueError) as error:
            raise LinAlgError(f"{failure}: {error}") from None
        return np.stack(parts).reshape((*batch, *parts[0].shape)).astype(arrays[0].dtype)

    return batched


def _solve(a: Array, b: Array) -> Array:
    _, _, x, info = linalg.lapack.get_lapack_funcs("gesv", (a, b))(a, b)
    if info:
        raise np.linalg.LinAlgError(f"The diagonal element {info} is zero, the solve could not be completed")
    return x  # type: ignore[no-any-return]


def _solve_triangular(a: Array, b: Array, *, upper: bool, unit: bool) -> Array:
    trsm = linalg.blas.get_blas_funcs("trsm", (a, b))
    return trsm(1.0, a, b, lower=not upper, diag=unit)  # type: ignore[no-any-return]


def _det(a: Array) -> Array:
    return np.asarray(np.linalg.det(a))


def _svd(a: Array, *, full: bool) -> Array:
    u, s, vh = linalg.svd(a.T, full_matrices=full, lapack_driver="gesdd")
    return np.concatenate([vh.T.ravel(), s, u.T.ravel()])


def _pinv(a: Array, *, rtol: float, atol: float) -> Array:
    u, s, vh = linalg.svd(a, full_matrices=False)
    kept = s > max(atol, rtol * float(s[0]))
    return (vh[kept].T / s[kept]) @ u[:, kept].T  # type: ignore[no-any-return]


def _cofactor(a: Array) -> Array:
    u, s, vh = linalg.svd(a)
    others = np.array([np.prod(np.delete(s, i)) for i in range(len(s))])
    return round(float(np.linalg.det(u) * np.linalg.det(vh))) * (u * others) @ vh  # type: ignore[no-any-return]


def _eigh(a: Array, *, upper: bool) -> Array:
    w, v = linalg.eigh(a.T, lower=upper, driver="evd", check_finite=False)
    return np.concatenate([w, v.T.ravel()])


def _eigvalsh(a: Array, *, upper: bool) -> Array:
    return linalg.eigh(a.T, lower=upper, eigvals_only=True, driver="evd", check_finite=False)  # type: ignore[no-any-return]


def _qr(a: Array, *, complete: bool) -> Array:
    q, r = linalg.qr(a, mode="full" if complete else "economic", check_finite=False)
    return np.concatenate([q.T.ravel(), r.ravel()])


# ---- Node algebra -------------------------------------------------------------------------------------


def transposed(x: Node) -> Node:
    """The last two axes exchanged."""
    return movement.transpose(x, -2, -1)


_matmul = contract.matmul


def _rows_by(x: Node, factors: Node) -> Node:
    """diag(factors) x"""
    return elementwise.mul(x, movement.unsqueeze(factors, -1))


def _columns_by(x: Node, factors: Node) -> Node:
    """x diag(factors)"""
    return elementwise.mul(x, movement.unsqueeze(factors, -2))


def eye(n: int, dtype: DType) -> Node:
    """The identity."""
    return elementwise.cast(_below(n, n, 0, elementwise.eq), dtype)


def _below(rows: int, columns: int, offset: int, compare: Callable[..., Node]) -> Node:
    """compare(column, row + offset) as a matrix."""
    return compare(create.arange(columns), elementwise.add(movement.unsqueeze(create.arange(rows), 1), offset))


def _part(x: Node, compare: Callable[..., Node], offset: int = 0) -> Node:
    """x where compare(column, row + offset), zeros elsewhere."""
    return elementwise.where(_below(x.shape[-2], x.shape[-1], offset, compare), x, 0.0)


def _half_lower(x: Node) -> Node:
    """The lower triangle with half the diagonal."""
    return elementwise.sub(_part(x, elementwise.le), elementwise.mul(_part(x, elementwise.eq), 0.5))


def _symmetric(x: Node) -> Node:
    return elementwise.mul(elementwise.add(x, transposed(x)), 0.5)


def _skew(x: Node) -> Node:
    return elementwise.sub(x, transposed(x))


def _differences(values: Node) -> Node:
    """values[j] - values[i] at (i, j)."""
    return elementwise.sub(movement.unsqueeze(values, -2), movement.unsqueeze(values, -1))


def _over_gaps(x: Node, gaps: Node) -> Node:
    """x / gaps off the diagonal. Where equal values leave a basis open and nothing was asked of it, 0 / 0 is 0."""
    open_ = elementwise.logical_and(elementwise.eq(gaps, 0.0), elementwise.eq(x, 0.0))
    diagonal = _below(x.shape[-2], x.shape[-1], 0, elementwise.eq)
    none = elementwise.logical_or(open_, movement.broadcast_to(diagonal, x.shape))
    return elementwise.where(none, 0.0, elementwise.div(x, elementwise.where(none, 1.0, gaps)))


def _embedded(values: Node) -> Node:
    """Vectors as diagonal matrices."""
    n = values.shape[-1]
    return elementwise.where(_below(n, n, 0, elementwise.eq), movement.unsqueeze(values, -2), 0.0)


def _cut(packed: Node, *shapes: Ints) -> list[Node]:
    """The parts of a packed result, or of its cotangent."""
    batch, parts, at = packed.shape[:-1], [], 0
    for shape in shapes:
        size = math.prod(shape)
        parts.append(movement.reshape(movement.narrow(packed, -1, at, size), (*batch, *shape)))
        at += size
    return parts


# ---- VJPs -----------------------------------------------------------------------------------------------


def _vjp_cholesky(g: Node, node: Node, i: int) -> Node:
    """L⁻ᵀ Φ(Lᵀ g) L⁻¹, made symmetric; Φ takes the lower triangle and half the diagonal."""
    upper = transposed(node)
    inner = triangular(upper, _half_lower(_matmul(upper, g)), upper=True)
    return _symmetric(transposed(triangular(upper, transposed(inner), upper=True)))


def _vjp_solve(g: Node, node: Node, i: int) -> Node:
    right = record(SOLVE, transposed(node.inputs[0]), g)
    return right if i == 1 else elementwise.neg(_matmul(right, transposed(node)))


def _vjp_triangular(g: Node, node: Node, i: int) -> Node:
    upper, unit = node.attrs["upper"], node.attrs["unit"]
    right = triangular(transposed(node.inputs[0]), g, upper=not upper, unit=unit)
    if i == 1:
        return right
    full = elementwise.neg(_matmul(right, transposed(node)))
    return _part(full, elementwise.ge, int(unit)) if upper else _part(full, elementwise.le, -int(unit))


def _vjp_det(g: Node, node: Node, i: int) -> Node:
    return elementwise.mul(record(COFACTOR, node.inputs[0]), movement.reshape(g, (*g.shape, 1, 1)))


def _vjp_cofactor(g: Node, node: Node, i: int) -> Node:
    """C = det(A) A⁻ᵀ: <g, C> A⁻ᵀ - A⁻ᵀ gᵀ C. Singular matrices raise here."""
    inverse_t = transposed(inverse(node.inputs[0]))
    scale = reduce.sum(elementwise.mul(g, node), (-2, -1), keepdim=True)
    rest = _matmul(inverse_t, _matmul(transposed(g), node))
    return elementwise.sub(elementwise.mul(inverse_t, scale), rest)


def _vjp_slogdet(g: Node, node: Node, i: int) -> Node:
    _, by_log = _cut(g, (1, 1), (1, 1))
    return elementwise.mul(transposed(inverse(node.inputs[0])), by_log)


def _vjp_svd(g: Node, node: Node, i: int) -> Node:
    """Only the first min(m, n) vectors of a full basis carry a gradient: the others are any basis of what is left."""
    m, n = node.inputs[0].shape[-2:]
    k = min(m, n)
    (u, s, vh), (gu, gs, gvh) = (_svd_parts(x, m, n, node.attrs["full"]) for x in (node, g))
    u, gu = movement.narrow(u, -1, 0, k), movement.narrow(gu, -1, 0, k)
    vh, gvh = movement.narrow(vh, -2, 0, k), movement.narrow(gvh, -2, 0, k)
    gaps = _differences(elementwise.mul(s, s))
    left = _over_gaps(_skew(_matmul(transposed(u), gu)), gaps)
    right = _over_gaps(_skew(_matmul(vh, transposed(gvh))), gaps)
    core = elementwise.add(elementwise.add(_columns_by(left, s), _rows_by(right, s)), _embedded(gs))
    total = _matmul(u, _matmul(core, vh))
    one_over = elementwise.div(1.0, s)
    if m > k:
        rest = elementwise.sub(gu, _matmul(u, _matmul(transposed(u), gu)))
        total = elementwise.add(total, _matmul(_columns_by(rest, one_over), vh))
    if n > k:
        rest = elementwise.sub(gvh, _matmul(_matmul(gvh, transposed(vh)), vh))
        total = elementwise.add(total, _matmul(u, _rows_by(rest, one_over)))
    return total


def _vjp_svdvals(g: Node, node: Node, i: int) -> Node:
    u, _, vh = svd(node.inputs[0])
    return _matmul(_columns_by(u, g), vh)


def _vjp_eigh(g: Node, node: Node, i: int) -> Node:
    n = node.inputs[0].shape[-1]
    w, vectors_t = _cut(node, (n,), (n, n))
    gw, g_t = _cut(g, (n,), (n, n))
    inner = _over_gaps(_matmul(vectors_t, transposed(g_t)), _differences(w))
    return _symmetric(_matmul(transposed(vectors_t), _matmul(elementwise.add(inner, _embedded(gw)), vectors_t)))


def _vjp_eigvalsh(g: Node, node: Node, i: int) -> Node:
    _, v = eigh(node.inputs[0], node.attrs["upper"])
    return _matmul(_columns_by(v, g), transposed(v))


def _vjp_qr(g: Node, node: Node, i: int) -> Node:
    """Of a wide A = [X Y] = Q [R₁ R₂], R₂ = Qᵀ Y."""
    x = node.inputs[0]
    m, n = x.shape[-2:]
    if node.attrs["complete"] and m > n:
        raise RuntimeError(
            f"qr: the derivative in mode 'complete' needs at least as many columns as rows, got {x.type}"
        )
    k = min(m, n)
    (q_t, r), (gq_t, gr) = (_cut(p, (k, m), (k, n)) for p in (node, g))
    q, gq = transposed(q_t), transposed(gq_t)
    if n <= m:
        return _qr_tall(q, r, gq, gr)
    y, gr_rest = movement.narrow(x, -1, k, n - k), movement.narrow(gr, -1, k, n - k)
    gq = elementwise.add(gq, _matmul(y, transposed(gr_rest)))
    gx = _qr_tall(q, movement.narrow(r, -1, 0, k), gq, movement.narrow(gr, -1, 0, k))
    return movement.concat([gx, _matmul(q, gr_rest)], -1)


def _qr_tall(q: Node, r: Node, gq: Node, gr: Node) -> Node:
    """(gQ + Q copyltu(R gRᵀ - gQᵀ Q)) R⁻ᵀ"""
    inner = elementwise.sub(_matmul(r, transposed(gr)), _matmul(transposed(gq), q))
    lower = _half_lower(inner)
    both = elementwise.add(lower, transposed(lower))
    right = elementwise.add(gq, _matmul(q, both))
    return transposed(triangular(r, transposed(right), upper=True))


def _vjp_pinv(g: Node, node: Node, i: int) -> Node:
    """-Pᵀ g Pᵀ + Pᵀ P gᵀ (I - P A) + (I - A P) gᵀ P Pᵀ, where the rank does not change."""
    a, p = node.inputs[0], node
    p_t, g_t = transposed(p), transposed(g)
    inside = _matmul(p_t, _matmul(g, p_t))
    before = _matmul(_matmul(p_t, p), elementwise.sub(g_t, _matmul(g_t, _matmul(p, a))))
    behind = _matmul(elementwise.sub(g_t, _matmul(a, _matmul(p, g_t))), _matmul(p, p_t))
    return elementwise.sub(elementwise.add(before, behind), inside)


def _vjp_matrix_exp(g: Node, node: Node, i: int) -> Node:
    """The upper right block of exp [[Aᵀ, g], [0, Aᵀ]]."""
    a = transposed(node.inputs[0])
    n = a.shape[-1]
    top = movement.concat([a, g], -1)
    bottom = movement.concat([create.zeros_like(a), a], -1)
    whole = record(MATRIX_EXP, movement.concat([top, bottom], -2))
    return movement.narrow(movement.narrow(whole, -2, 0, n), -1, n, n)


# ---- the ops --------------------------------------------------------------------------------------------


def _cost(node: Node) -> Cost:
    m, n = node.inputs[0].shape[-2:]
    return Cost(math.prod(node.inputs[0].shape[:-2]) * 4 * m * n * min(m, n), moved_bytes(node))


def _op(name: str, infer: Any, rule: Any, vjp: Any, native: Callable[[Node], Native], failure: str = "") -> Op:
    batched = _each(rule, failure or name)
    failed = (LinAlgError, failure) if failure else None
    return register(Op(name, Kind.OPAQUE, infer, batched, vjp, None, _cost, native=native, failure=failed))


_CONVERGE = "The algorithm failed to converge"
CHOLESKY = _op(
    "cholesky",
    _infer_square("cholesky"),
    np.linalg.cholesky,
    _vjp_cholesky,
    lapack.cholesky,
    "linalg.cholesky: The factorization could not be completed because the input is not positive-definite",
)
SOLVE = _op(
    "solve",
    _infer_solve("solve"),
    _solve,
    _vjp_solve,
    lapack.solve,
    "linalg.solve or linalg.inv: The input matrix is singular",
)
SOLVE_TRIANGULAR = _op(
    "solve_triangular", _infer_solve("solve_triangular"), _solve_triangular, _vjp_triangular, lapack.solve_triangular
)
DET = _op("det", _infer_det, _det, _vjp_det, lapack.det)
COFACTOR = _op(
    "cofactor",
    _infer_square("cofactor"),
    _cofactor,
    _vjp_cofactor,
    lapack.cofactor,
    f"gradient of linalg.det: {_CONVERGE}",
)
SLOGDET = _op("slogdet", _infer_slogdet, lambda a: np.array(np.linalg.slogdet(a)), _vjp_slogdet, lapack.slogdet)
SVD = _op("svd", _infer_svd, _svd, _vjp_svd, lapack.svd, f"linalg.svd: {_CONVERGE}")
SVDVALS = _op(
    "svdvals",
    _infer_svdvals,
    lambda a: linalg.svd(a.T, compute_uv=False),
    _vjp_svdvals,
    lapack.svdvals,
    f"linalg.svdvals: {_CONVERGE}",
)
EIGH = _op("eigh", _infer_eigh, _eigh, _vjp_eigh, lapack.eigh, f"linalg.eigh: {_CONVERGE}")
EIGVALSH = _op("eigvalsh", _infer_eigvalsh, _eigvalsh, _vjp_eigvalsh, lapack.eigvalsh, f"linalg.eigvalsh: {_CONVERGE}")
QR = _op("qr", _infer_qr, _qr, _vjp_qr, lapack.qr)
PINV = _op("pinv", _infer_pinv, _pinv, _vjp_pinv, lapack.pinv, f"linalg.pinv: {_CONVERGE}")
MATRIX_EXP = _op(
    "matrix_exp", _infer_square("matrix_exp"), lambda a: linalg.expm(a), _vjp_matrix_exp, lapack.matrix_exp
)

# ---- builders -------------------------------------------------------------------------------------------


def _empty(x: Node) -> bool:
    return 0 in x.shape


def cholesky(x: Node) -> Node:
    """L with L Lᵀ = x and a positive diagonal; reads the lower triangle. Its gradient is symmetric."""
    check_matrices("linalg.cholesky", x.type, square=True)
    return x if _empty(x) else record(CHOLESKY, x)


def _together(name: str, a: Node, b: Node) -> tuple[Node, Node]:
    """Both with the batch axes broadcast."""
    check_matrices(name, a.type, square=True)
    if a.dtype is not b.dtype or b.type.ndim < 2 or b.shape[-2] != a.shape[-1]:
        raise RuntimeError(f"{name}: Incompatible shapes or dtypes of A and B: {a.type} and {b.type}")
    batch = elementwise.broadcast_shapes(name, [a.shape[:-2], b.shape[:-2]])
    return movement.broadcast_to(a, batch + a.shape[-2:]), movement.broadcast_to(b, batch + b.shape[-2:])


def solve(a: Node, b: Node) -> Node:
    """X with a X = b, for b (…, n, k)."""
    a, b = _together("linalg.solve", a, b)
    return b if _empty(b) else record(SOLVE, a, b)


def triangular(a: Node, b: Node, *, upper: bool, unit: bool = False) -> Node:
    """X with a X = b where only a triangle of a is read; `unit` takes its diagonal as ones. A zero there gives inf."""
    a, b = _together("linalg.solve_triangular", a, b)
    return b if _empty(b) else record(SOLVE_TRIANGULAR, a, b, upper=upper, unit=unit)


def inverse(x: Node) -> Node:
    """x⁻¹"""
    check_matrices("linalg.inv", x.type, square=True)
    return x if _empty(x) else record(SOLVE, x, movement.broadcast_to(eye(x.shape[-1], x.dtype), x.shape))


def _of_nothing(x: Node, *results: Node) -> tuple[Node, ...]:
    """`results` for an empty x, which stays in their history."""
    nothing = reduce.sum(x)
    return tuple(elementwise.add(y, nothing) for y in results)


def det(x: Node) -> Node:
    """The determinant; its first derivative is right for singular matrices too, the second raises there."""
    check_matrices("linalg.det", x.type, square=True)
    return _of_nothing(x, create.ones(x.shape[:-2], x.dtype))[0] if _empty(x) else record(DET, x)


def slogdet(x: Node) -> tuple[Node, Node]:
    """(sign, log |det|); (0, -inf) for singular matrices."""
    check_matrices("linalg.slogdet", x.type, square=True)
    if _empty(x):
        return create.ones(x.shape[:-2], x.dtype), _of_nothing(x, create.zeros(x.shape[:-2], x.dtype))[0]
    sign, log = _cut(record(SLOGDET, x), (), ())
    return elementwise.detach(sign), log


def _svd_parts(packed: Node, m: int, n: int, full: bool) -> list[Node]:
    k = min(m, n)
    return _cut(packed, (m, m if full else k), (k,), (n if full else k, n))


def svd(x: Node, full: bool = False) -> tuple[Node, Node, Node]:
    """U, S, Vh with x = U diag(S) Vh and S descending."""
    check_matrices("linalg.svd", x.type)
    m, n = x.shape[-2:]
    if _empty(x):
        batch, (u, v) = x.shape[:-2], (m, n) if full else (0, 0) if 0 in (m, n) else (min(m, n),) * 2
        left, right = (movement.slice_(eye(max(p), x.dtype), (0, 0), p) for p in ((m, u), (v, n)))
        values = create.zeros((*batch, min(m, n)), x.dtype)
        left, right = movement.expand(left, (*batch, m, u)), movement.expand(right, (*batch, v, n))
        return _of_nothing(x, left, values, right)  # type: ignore[return-value]
    u_, s, vh = _svd_parts(record(SVD, x, full=full), m, n, full)
    return u_, s, vh


def svdvals(x: Node) -> Node:
    """Singular values, descending."""
    check_matrices("linalg.svdvals", x.type)
    if _empty(x):
        return _of_nothing(x, create.zeros((*x.shape[:-2], min(x.shape[-2:])), x.dtype))[0]
    return record(SVDVALS, x)


def eigh(x: Node, upper: bool = False) -> tuple[Node, Node]:
    """Eigenvalues, ascending, and eigenvectors, as columns, of symmetric matrices of which one triangle is read."""
    check_matrices("linalg.eigh", x.type, square=True)
    n = x.shape[-1]
    if _empty(x):
        return _of_nothing(x, create.zeros(x.shape[:-1], x.dtype))[0], x
    w, vectors = _cut(record(EIGH, x, upper=upper), (n,), (n, n))
    return w, transposed(vectors)


def eigvalsh(x: Node, upper: bool = False) -> Node:
    """Eigenvalues of symmetric matrices, ascending."""
    check_matrices("linalg.eigvalsh", x.type, square=True)
    if _empty(x):
        return _of_nothing(x, create.zeros(x.shape[:-1], x.dtype))[0]
    return record(EIGVALSH, x, upper=upper)


def qr(x: Node, complete: bool = False) -> tuple[Node, Node]:
    """Q (m, k) with orthonormal columns and upper triangular R (k, n); k is min(m, n), or m if `complete`."""
    check_matrices("linalg.qr", x.type)
    m, n = x.shape[-2:]
    k = m if complete else min(m, n)
    if _empty(x):
        q = movement.expand(movement.slice_(eye(max(m, k), x.dtype), (0, 0), (m, k)), (*x.shape[:-2], m, k))
        return _of_nothing(x, q, create.zeros((*x.shape[:-2], k, n), x.dtype))  # type: ignore[return-value]
    q_t, r = _cut(record(QR, x, complete=complete), (k, m), (k, n))
    return transposed(q_t), r


def pinv(x: Node, rtol: float | None = None, atol: float = 0.0) -> Node:
    """The pseudoinverse; singular values at or below max(atol, rtol · the largest) count as 0.

    rtol is by default max(m, n) · eps where atol is 0, else 0. The derivative takes the rank as constant.
    """
    check_matrices("linalg.pinv", x.type)
    if rtol is None:
        rtol = max(x.shape[-2:]) * float(np.finfo(x.dtype.numpy).eps) if atol == 0 else 0.0
    return transposed(x) if _empty(x) else record(PINV, x, rtol=float(rtol), atol=float(atol))


def matrix_exp(x: Node) -> Node:
    """Σ xᵏ / k!"""
    check_matrices("linalg.matrix_exp", x.type, square=True)
    return x if _empty(x) else record(MATRIX_EXP, x)
