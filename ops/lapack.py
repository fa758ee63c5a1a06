"""The kernels of ops/linalg.py: calls of BLAS and LAPACK by address, on one matrix of a batch after another.

LAPACK is column-major: it sees a contiguous matrix of ours as its transpose. Where the factors of that are those of the
matrix (Cholesky, SVD, symmetric eigenvalues, determinants) nothing is moved; QR and solving copy and transpose.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping

from tinygrad_lite.ir.native import Failure, Function, Native, NativeWord, Operand, Result, Workspace, native
from tinygrad_lite.ir.node import Node

_FAILED = """\
    if i32_at(info)[0] != 0:
        i64_at(fail)[0] = fail_code
"""


def _kernel(node: Node, body: str, flops: int, **words: NativeWord) -> Native:
    """A body over one matrix b of the batch; {t} stands for the dtype tag, {z} for an element's bytes."""
    dtype = node.inputs[0].dtype
    text = f"for b in range(lo, hi):\n{body}".replace("{t}", dtype.short).replace("{z}", str(dtype.itemsize))
    known: Mapping[str, NativeWord] = {
        "x": Operand(0),
        "y": Result(),
        "info": Workspace(64),
        "fail": Failure(),
        "one": 1,
    }
    batch = math.prod(node.inputs[0].shape[:-2])
    return native(text, {**known, **words}, batch if node.type.size else 0, max(1, batch * flops // 4))


def _routine(node: Node, name: str) -> Function:
    return Function(("s" if node.dtype.itemsize == 4 else "d") + name)


def _bytes(node: Node, count: int) -> Workspace:
    return Workspace(node.dtype.itemsize * count)


def _bits(value: float) -> int:
    """A float64 as the integer of its bits, for a word."""
    return int(struct.unpack("<q", struct.pack("<d", value))[0])


def _unit(node: Node) -> int:
    """1.0 of the node's dtype as the integer of its bits."""
    return _bits(1.0) if node.dtype.itemsize == 8 else int(struct.unpack("<i", struct.pack("<f", 1.0))[0])


# ---- Cholesky, solving ------------------------------------------------------------------------------


def cholesky(node: Node) -> Native:
    """The lower triangle, in place: LAPACK sees it as the upper one of the transpose."""
    n = node.shape[-1]
    body = f"""\
    a, l = {{t}}_at(x + {{z}} * n * n * b), {{t}}_at(y + {{z}} * n * n * b)
    for i in range(n * n):
        l[i] = a[i]
    call_library5(potrf, upper_at, n_at, y + {{z}} * n * n * b, n_at, info)
{_FAILED}\
    for i in range(n):
        for j in range(i + 1, n):
            l[i * n + j] = {{t}}(0)
"""
    return _kernel(node, body, n**3 // 3, n=n, upper=ord("U"), potrf=_routine(node, "potrf"))


def solve(node: Node) -> Native:
    """LU with row exchanges, on transposed copies."""
    n, k = node.shape[-2:]
    body = f"""\
    a, c, out = {{t}}_at(x + {{z}} * n * n * b), {{t}}_at(v + {{z}} * n * k * b), {{t}}_at(y + {{z}} * n * k * b)
    s, r = {{t}}_at(square), {{t}}_at(right)
    for i in range(n):
        for j in range(n):
            s[j * n + i] = a[i * n + j]
        for j in range(k):
            r[j * n + i] = c[i * k + j]
    call_library8(gesv, n_at, k_at, square, n_at, pivots, right, n_at, info)
{_FAILED}\
    for i in range(n):
        for j in range(k):
            out[i * k + j] = r[j * n + i]
"""
    return _kernel(
        node,
        body,
        n**3 + 2 * n * n * k,
        n=n,
        k=k,
        v=Operand(1),
        gesv=_routine(node, "gesv"),
        pivots=Workspace(4 * n),
        square=_bytes(node, n * n),
        right=_bytes(node, n * k),
    )


def solve_triangular(node: Node) -> Native:
    """A X = B is Xᵀ Aᵀ = Bᵀ to a column-major eye: nothing is transposed."""
    n, k = node.shape[-2:]
    body = """\
    c, out = {t}_at(v + {z} * n * k * b), {t}_at(y + {z} * n * k * b)
    for i in range(n * k):
        out[i] = c[i]
    call_library11(trsm, side_at, part_at, plain_at, diag_at, k_at, n_at, unit_at, x + {z} * n * n * b, n_at,
                   y + {z} * n * k * b, k_at)
"""
    return _kernel(
        node,
        body,
        n * n * k,
        n=n,
        k=k,
        v=Operand(1),
        trsm=_routine(node, "trsm"),
        side=ord("R"),
        part=ord("L" if node.attrs["upper"] else "U"),
        plain=ord("N"),
        diag=ord("U" if node.attrs["unit"] else "N"),
        unit=_unit(node),
    )


# ---- determinants -----------------------------------------------------------------------------------

_LU = """\
    a, s = {t}_at(x + {z} * n * n * b), {t}_at(square)
    for i in range(n * n):
        s[i] = a[i]
    call_library6(getrf, n_at, n_at, square, n_at, pivots, info)
    sign = {t}(1)
    for i in range(n):
        if i32_at(pivots)[i] != i + 1:
            sign = -sign
"""


def _by_lu(node: Node, rest: str) -> Native:
    n = node.inputs[0].shape[-1]
    return _kernel(
        node,
        _LU + rest,
        2 * n**3 // 3,
        n=n,
        getrf=_routine(node, "getrf"),
        pivots=Workspace(4 * n),
        square=_bytes(node, n * n),
    )


def det(node: Node) -> Native:
    """The signed product of LU's diagonal; a transpose has the same determinant."""
    return _by_lu(
        node,
        """\
    for i in range(n):
        sign = sign * s[i * n + i]
    {t}_at(y)[b] = sign
""",
    )


def slogdet(node: Node) -> Native:
    """Sign and Σ log |d|."""
    return _by_lu(
        node,
        """\
    total = {t}(0)
    for i in range(n):
        d = s[i * n + i]
        sign = sign * where(d < 0, {t}(-1), where(d > 0, {t}(1), d))
        total = total + log_{t}(where(d < 0, -d, d))
    {t}_at(y)[2 * b] = sign
    {t}_at(y)[2 * b + 1] = total
""",
    )


# ---- singular values --------------------------------------------------------------------------------

# LAPACK factors the transpose, B = Aᵀ (n, m): what it calls U is our Vhᵀ, and its VT our Uᵀ, all column-major.
_COPY = """\
    a, s = {t}_at(x + {z} * m * n * b), {t}_at(copy)
    for i in range(m * n):
        s[i] = a[i]
"""


def _svd_words(node: Node, job: str) -> dict[str, NativeWord]:
    m, n = node.inputs[0].shape[-2:]
    k, wide = min(m, n), max(m, n)
    length = 3 * k + max(wide, 7 * k) if job == "N" else 4 * k * k + 7 * k + wide
    return {
        "m": m,
        "n": n,
        "k": k,
        "job": ord(job),
        "gesdd": _routine(node, "gesdd"),
        "copy": _bytes(node, m * n),
        "work": _bytes(node, length),
        "length": length,
        "whole": Workspace(32 * k),
    }


def _svd_flops(node: Node) -> int:
    m, n = node.inputs[0].shape[-2:]
    return 8 * m * n * min(m, n)


def svd(node: Node) -> Native:
    """U, S and Vh one after another, each where the packed result has it."""
    m, n = node.inputs[0].shape[-2:]
    width = m if node.attrs["full"] else min(m, n)
    body = f"""{_COPY}\
    at = y + {{z}} * total * b
    call_library14(gesdd, job_at, n_at, m_at, copy, n_at, at + {{z}} * m * width, at + {{z}} * (m * width + k), n_at,
                   at, width_at, work, length_at, whole, info)
{_FAILED}"""
    words = _svd_words(node, "A" if node.attrs["full"] else "S")
    return _kernel(node, body, _svd_flops(node), **words, width=width, total=node.shape[-1])


def svdvals(node: Node) -> Native:
    """Singular values alone."""
    body = f"""{_COPY}\
    call_library14(gesdd, job_at, n_at, m_at, copy, n_at, y + {{z}} * k * b, work, n_at, work, k_at, work, length_at,
                   whole, info)
{_FAILED}"""
    return _kernel(node, body, _svd_flops(node) // 4, **_svd_words(node, "N"))


_FACTORS = f"""{_COPY}\
    call_library14(gesdd, job_at, n_at, m_at, copy, n_at, values, right, n_at, left, k_at, work, length_at, whole, info)
{_FAILED}\
    u, d, v, out = {{t}}_at(left), {{t}}_at(values), {{t}}_at(right), {{t}}_at(y + {{z}} * m * n * b)
"""


def _by_factors(node: Node, rest: str, **words: NativeWord) -> Native:
    m, n = node.inputs[0].shape[-2:]
    k = min(m, n)
    spaces = {"values": _bytes(node, k), "left": _bytes(node, m * k), "right": _bytes(node, k * n)}
    return _kernel(node, _FACTORS + rest, 2 * _svd_flops(node), **_svd_words(node, "S"), **spaces, **words)


def pinv(node: Node) -> Native:
    """V S⁺ Uᵀ, singular values at or below max(atol, rtol · the largest) left out."""
    body = """\
    cut = f64_at(rtol_at)[0] * f64(d[0])
    if cut < f64_at(atol_at)[0]:
        cut = f64_at(atol_at)[0]
    for i in range(n):
        for j in range(m):
            total = {t}(0)
            for p in range(k):
                if f64(d[p]) > cut:
                    total = total + v[p * n + i] * u[j * k + p] / d[p]
            out[i * m + j] = total
"""
    return _by_factors(node, body, rtol=_bits(node.attrs["rtol"]), atol=_bits(node.attrs["atol"]))


def cofactor(node: Node) -> Native:
    """det(U) det(V) U diag(products of the other singular values) Vh: right for singular matrices too."""
    body = """\
    sign = {t}(1)
    for side in range(2):
        source = u if side == 0 else v
        for i in range(n * n):
            s[i] = source[i]
        call_library6(getrf, n_at, n_at, copy, n_at, pivots, info)
        for i in range(n):
            if i32_at(pivots)[i] != i + 1:
                sign = -sign
            if s[i * n + i] < 0:
                sign = -sign
    for p in range(n):
        others = sign
        for q in range(n):
            if q != p:
                others = others * d[q]
        for i in range(n):
            u[i * n + p] = u[i * n + p] * others
    for i in range(n):
        for j in range(n):
            total = {t}(0)
            for p in range(n):
                total = total + u[i * n + p] * v[p * n + j]
            out[i * n + j] = total
"""
    n = node.shape[-1]
    return _by_factors(node, body, getrf=_routine(node, "getrf"), pivots=Workspace(4 * n))


# ---- symmetric eigenvalues ----------------------------------------------------------------------------


def _eigen_words(node: Node, job: str) -> dict[str, NativeWord]:
    n = node.inputs[0].shape[-1]
    length, whole = (1 + 6 * n + 2 * n * n, 3 + 5 * n) if job == "V" else (2 * n + 1, 1)
    return {
        "n": n,
        "job": ord(job),
        "part": ord("L" if node.attrs["upper"] else "U"),
        "syevd": _routine(node, "syevd"),
        "work": _bytes(node, length),
        "length": length,
        "whole": Workspace(4 * whole),
        "whole_length": whole,
    }


def eigh(node: Node) -> Native:
    """Eigenvalues, then eigenvectors as rows, where the packed result has them."""
    n = node.inputs[0].shape[-1]
    body = f"""\
    at = y + {{z}} * (n + n * n) * b
    a, s = {{t}}_at(x + {{z}} * n * n * b), {{t}}_at(at + {{z}} * n)
    for i in range(n * n):
        s[i] = a[i]
    call_library11(syevd, job_at, part_at, n_at, at + {{z}} * n, n_at, at, work, length_at, whole, whole_length_at,
                   info)
{_FAILED}"""
    return _kernel(node, body, 9 * n**3, **_eigen_words(node, "V"))


def eigvalsh(node: Node) -> Native:
    """Eigenvalues alone."""
    n = node.inputs[0].shape[-1]
    body = f"""\
    a, s = {{t}}_at(x + {{z}} * n * n * b), {{t}}_at(copy)
    for i in range(n * n):
        s[i] = a[i]
    call_library11(syevd, job_at, part_at, n_at, copy, n_at, y + {{z}} * n * b, work, length_at, whole, whole_length_at,
                   info)
{_FAILED}"""
    return _kernel(node, body, 2 * n**3, **_eigen_words(node, "N"), copy=_bytes(node, n * n))


# ---- QR, exponential ------------------------------------------------------------------------------------


def qr(node: Node) -> Native:
    """Qᵀ (which is Q, column-major), then R."""
    m, n = node.inputs[0].shape[-2:]
    k = min(m, n)
    rows, length = (m if node.attrs["complete"] else k), 32 * max(m, n)
    body = """\
    a, s = {t}_at(x + {z} * m * n * b), {t}_at(copy)
    q, r = {t}_at(y + {z} * total * b), {t}_at(y + {z} * (total * b + rows * m))
    for i in range(m):
        for j in range(n):
            s[j * m + i] = a[i * n + j]
    call_library8(geqrf, m_at, n_at, copy, m_at, tau, work, length_at, info)
    for i in range(rows):
        for j in range(n):
            r[i * n + j] = {t}(0)
            if i <= j:
                r[i * n + j] = s[j * m + i]
    call_library9(orgqr, m_at, rows_at, k_at, copy, m_at, tau, work, length_at, info)
    for i in range(rows * m):
        q[i] = s[i]
"""
    return _kernel(
        node,
        body,
        4 * m * n * k,
        m=m,
        n=n,
        k=k,
        rows=rows,
        total=node.shape[-1],
        geqrf=_routine(node, "geqrf"),
        orgqr=_routine(node, "orgqr"),
        copy=_bytes(node, m * max(n, rows)),
        tau=_bytes(node, k),
        work=_bytes(node, length),
        length=length,
    )


TERMS = 14  # of the series: 0.5^15 / 15! is below float64's rounding


def matrix_exp(node: Node) -> Native:
    """The series of A / 2^s, whose 1-norm is at most 0.5, squared s times."""
    n = node.shape[-1]
    product = """\
{pad}for i in range(n):
{pad}    for j in range(n):
{pad}        total = {t}(0)
{pad}        for p in range(n):
{pad}            total = total + {left}[i * n + p] * e[p * n + j]
{pad}        s[i * n + j] = {value}
{pad}for i in range(n * n):
{pad}    e[i] = s[i]
"""

    def times(left: str, value: str, pad: str = "        ") -> str:
        return product.replace("{pad}", pad).replace("{left}", left).replace("{value}", value)

    body = f"""\
    a, e, s = {{t}}_at(x + {{z}} * n * n * b), {{t}}_at(y + {{z}} * n * n * b), {{t}}_at(copy)
    norm, scale, squarings = {{t}}(0), {{t}}(1), 0
    for j in range(n):
        total = {{t}}(0)
        for i in range(n):
            total = total + abs_{{t}}(a[i * n + j])
        norm = where(norm < total, total, norm)
    while norm > {{t}}(0.5) and squarings < 1100:
        norm, scale, squarings = norm * {{t}}(0.5), scale * {{t}}(0.5), squarings + 1
    for i in range(n):
        for j in range(n):
            e[i * n + j] = {{t}}(i == j)
    for term in range({TERMS}):
        weight = scale / {{t}}({TERMS} - term)
{times("a", "total * weight + {t}(i == j)")}\
    for squaring in range(squarings):
{times("e", "total")}"""
    return _kernel(node, body, (2 * TERMS + 8) * n**3, n=n, copy=_bytes(node, n * n))
