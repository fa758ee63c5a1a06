"""Samples of linear algebra. Bases that are free in sign are compared by what does not depend on it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import scipy.linalg

from tests.ops.operands import Array, Make, Sample
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import record
from tinygrad_lite.ops import contract, elementwise, linalg, movement

Build = Callable[..., Node]


def matrices(*shapes: Sequence[int], dtype: str = "float64", add: float = 3.0) -> Make:
    """Uniform in [-1, 1] plus `add` on the diagonal: far from singular."""

    def make(rng: np.random.Generator) -> list[Array]:
        return [(rng.uniform(-1, 1, s) + add * np.eye(*s[-2:])).astype(dtype) for s in shapes]

    return make


def singular(*shape: int) -> Make:
    """Of rank n - 1."""

    def make(rng: np.random.Generator) -> list[Array]:
        x = rng.uniform(-1, 1, shape)
        x[..., -1] = x[..., 0] * 2
        return [x]

    return make


def strided(make: Make) -> Make:
    """The same matrices as transposes of others, so that their memory is not contiguous."""
    return lambda rng: [np.swapaxes(np.ascontiguousarray(np.swapaxes(x, -1, -2)), -1, -2) for x in make(rng)]


def of(build: Build, reference: Callable[..., Any], *, wrt: tuple[int, ...] = (0,)) -> list[Sample]:
    """The samples that every op of square matrices has."""
    makes = {
        "one": matrices((4, 4)),
        "1 by 1": matrices((1, 1)),
        "2 by 2": matrices((2, 2)),
        "batch": matrices((3, 3, 3)),
        "two batch axes": matrices((2, 2, 3, 3)),
        "strided": strided(matrices((2, 3, 3))),
    }
    samples = [Sample(name, make, build, each(reference), wrt) for name, make in makes.items()]
    return [
        *samples,
        Sample("f32", matrices((2, 2), dtype="float32", add=2.0), build, in_float64(each(reference))),
        Sample(
            "transposed first",
            matrices((2, 3, 3)),
            lambda x: build(linalg.transposed(x)),
            lambda x: each(reference)(np.swapaxes(x, -1, -2)),
            wrt,
        ),
    ]


def each(function: Callable[..., Any]) -> Callable[..., Array]:
    """A function of matrices over batches of them."""

    def batched(*arrays: Array) -> Array:
        batch = arrays[0].shape[:-2]
        parts = [np.asarray(function(*[a[at] for a in arrays])) for at in np.ndindex(batch)]
        return np.array(parts).reshape(batch + parts[0].shape)

    return batched


def in_float64(reference: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *arrays: reference(*[a.astype("float64") for a in arrays]).astype("float32")


def symmetric(x: Node) -> Node:
    return elementwise.add(x, linalg.transposed(x))


def joined(batch: int, *parts: Node) -> Node:
    """Parts side by side, each flattened behind its batch axes."""
    return movement.concat([movement.flatten(p, batch) for p in parts], -1)


def leibniz(x: Array) -> float:
    """The determinant by its definition."""
    n = len(x)
    total = 0.0
    for p in permutations(range(n)):
        sign = (-1) ** sum(p[i] > p[j] for i in range(n) for j in range(i + 1, n))
        total += sign * math.prod(x[i, p[i]] for i in range(n))
    return total


def cofactors(x: Array) -> Array:
    n = len(x)
    minors = [[leibniz(np.delete(np.delete(x, i, 0), j, 1)) for j in range(n)] for i in range(n)]
    return np.array([[(-1) ** (i + j) * minors[i][j] for j in range(n)] for i in range(n)])


def positive(x: Node) -> Node:
    """x xᵀ + I"""
    return elementwise.add(contract.matmul(x, linalg.transposed(x)), linalg.eye(x.shape[-1], x.dtype))


def cholesky(x: Array) -> Array:
    """Column by column."""
    a, lower = x @ x.T + np.eye(len(x)), np.zeros_like(x)
    for j in range(len(a)):
        lower[j, j] = math.sqrt(a[j, j] - lower[j, :j] @ lower[j, :j])
        for i in range(j + 1, len(a)):
            lower[i, j] = (a[i, j] - lower[i, :j] @ lower[j, :j]) / lower[j, j]
    return lower


def with_right(columns: int, *shape: int, dtype: str = "float64") -> Make:
    def make(rng: np.random.Generator) -> list[Array]:
        (a,) = matrices(shape, dtype=dtype)(rng)
        return [a, rng.uniform(-1, 1, (*shape[:-1], columns)).astype(dtype)]

    return make


def solving(build: Build, inverse: Callable[[Array], Array]) -> list[Sample]:
    def reference(a: Array, b: Array) -> Array:
        return each(lambda x, y: inverse(x) @ y)(a, b)

    shapes = {
        "one column": (1, 3, 3),
        "more columns": (5, 3, 3),
        "1 by 1": (2, 1, 1),
        "batch": (2, 3, 4, 4),
        "two batch axes": (3, 2, 2, 2, 2),
    }
    samples = [Sample(name, with_right(*s), build, reference, (0, 1)) for name, s in shapes.items()]
    return [
        *samples,
        Sample("strided", strided(with_right(3, 3, 3)), build, reference, (0, 1)),
        Sample("f32", with_right(2, 3, 3, dtype="float32"), build, in_float64(reference)),
        Sample(
            "right broadcasts",
            lambda rng: [matrices((2, 3, 3))(rng)[0], rng.uniform(-1, 1, (3, 2))],
            build,
            lambda a, b: reference(a, np.stack([b, b])),
            (0, 1),
        ),
    ]


def triangle(upper: bool, unit: bool) -> Callable[[Array], Array]:
    def inverse(x: Array) -> Array:
        part = np.triu(x) if upper else np.tril(x)
        if unit:
            np.fill_diagonal(part, 1.0)
        return np.linalg.inv(part)

    return inverse


def triangles(upper: bool, unit: bool) -> list[Sample]:
    samples = solving(lambda a, b: linalg.triangular(a, b, upper=upper, unit=unit), triangle(upper, unit))
    side = ("upper" if upper else "lower") + (", unit" if unit else "")
    return [Sample(f"{side}, {s.id}", s.make, s.build, s.reference, s.wrt) for s in samples]


def rectangular(build: Build, reference: Callable[..., Any], *, wrt: tuple[int, ...] = (0,)) -> list[Sample]:
    shapes = {"square": (3, 3), "tall": (5, 3), "wide": (3, 5), "column": (4, 1), "row": (1, 4), "batch": (2, 4, 3)}
    samples = [Sample(name, matrices(s), build, each(reference), wrt) for name, s in shapes.items()]
    return [
        *samples,
        Sample("strided", strided(matrices((2, 2, 3))), build, each(reference), wrt),
        Sample("f32", matrices((3, 2), dtype="float32"), build, in_float64(each(reference))),
    ]


def svd_invariants(full: bool) -> Build:
    """Singular values, |U| and |Vh| of the vectors that belong to them, and U S² Vh."""

    def build(x: Node) -> Node:
        u, s, vh = linalg.svd(x, full)
        k = s.shape[-1]
        u, vh = movement.narrow(u, -1, 0, k), movement.narrow(vh, -2, 0, k)
        product = contract.matmul(elementwise.mul(u, movement.unsqueeze(elementwise.mul(s, s), -2)), vh)
        return joined(x.type.ndim - 2, s, elementwise.mul(u, u), elementwise.mul(vh, vh), product)

    return build


def svd_reference(x: Array) -> Array:
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return np.concatenate([s, (u * u).ravel(), (vh * vh).ravel(), ((u * s * s) @ vh).ravel()])


def qr_invariants(complete: bool) -> Build:
    def build(x: Node) -> Node:
        q, r = linalg.qr(x, complete)
        k = min(x.shape[-2:])
        q, r = movement.narrow(q, -1, 0, k), movement.narrow(r, -2, 0, k)
        return joined(x.type.ndim - 2, elementwise.mul(q, q), elementwise.mul(r, r), contract.matmul(q, r))

    return build


def gram_schmidt(x: Array) -> Array:
    m, n = x.shape
    k = min(m, n)
    q = np.zeros((m, k))
    for j in range(k):
        v = x[:, j] - q[:, :j] @ (q[:, :j].T @ x[:, j])
        v -= q[:, :j] @ (q[:, :j].T @ v)
        q[:, j] = v / np.sqrt(v @ v)
    r = np.triu(q.T @ x)
    return np.concatenate([(q * q).ravel(), (r * r).ravel(), (q @ r).ravel()])


def eigen_invariants(upper: bool) -> Build:
    def build(x: Node) -> Node:
        w, v = linalg.eigh(symmetric(x), upper)
        return joined(x.type.ndim - 2, w, elementwise.mul(v, v))

    return build


def eigen_reference(x: Array) -> Array:
    w, v = np.linalg.eigh(x + x.T)
    return np.concatenate([w, (v * v).ravel()])


def exponential(x: Array) -> Array:
    """By eigenvalues, complex ones too."""
    w, v = np.linalg.eig(x)
    return np.real((v * np.exp(w)) @ np.linalg.inv(v))


def tril_only(x: Array) -> Array:
    return np.tril(x) + np.tril(x, -1).T


LINALG: dict[str, list[Sample]] = {
    "cholesky": of(lambda x: linalg.cholesky(positive(x)), cholesky),
    "solve": [
        *solving(linalg.solve, np.linalg.inv),
        Sample("inverse", matrices((2, 4, 4)), linalg.inverse, each(lambda x: cofactors(x).T / leibniz(x)), (0,)),
    ],
    "solve_triangular": [
        *triangles(True, False),
        *triangles(False, False),
        *triangles(True, True)[:3],
        *triangles(False, True)[:3],
    ],
    "det": [
        *of(linalg.det, leibniz),
        Sample("negative", lambda rng: [matrices((3, 3))(rng)[0][::-1].copy()], linalg.det, leibniz, (0,)),
        Sample("singular", lambda rng: [np.ones((3, 3))], linalg.det, lambda x: np.zeros(())),
    ],
    "cofactor": [
        *of(lambda x: record(linalg.COFACTOR, x), cofactors),
        Sample("singular", singular(3, 3), lambda x: record(linalg.COFACTOR, x), cofactors),
    ],
    "slogdet": [
        *of(lambda x: record(linalg.SLOGDET, x), lambda x: [np.sign(leibniz(x)), math.log(abs(leibniz(x)))], wrt=()),
        Sample(
            "log", matrices((2, 3, 3)), lambda x: linalg.slogdet(x)[1], each(lambda x: math.log(abs(leibniz(x)))), (0,)
        ),
        Sample(
            "singular",
            lambda rng: [np.ones((2, 2))],
            lambda x: record(linalg.SLOGDET, x),
            lambda x: np.array([0.0, -np.inf]),
        ),
    ],
    "svd": [
        *rectangular(svd_invariants(False), svd_reference),
        *(
            Sample(f"full, {s.id}", s.make, s.build, s.reference, s.wrt)
            for s in rectangular(svd_invariants(True), svd_reference)[:5]
        ),
        Sample(
            "equal values, only those used", lambda rng: [np.eye(3)], lambda x: linalg.svd(x)[1], lambda x: np.ones(3)
        ),
    ],
    "svdvals": rectangular(
        linalg.svdvals, lambda x: np.sqrt(np.sort(np.linalg.eigvalsh(x @ x.T if len(x) <= len(x.T) else x.T @ x))[::-1])
    ),
    "eigh": [
        *of(eigen_invariants(False), eigen_reference),
        Sample("upper", matrices((2, 3, 3)), eigen_invariants(True), each(eigen_reference), (0,)),
        Sample(
            "reads one triangle",
            matrices((3, 3)),
            lambda x: linalg.eigh(x)[0],
            lambda x: np.sort(np.linalg.eigvals(tril_only(x)).real),
        ),
    ],
    "eigvalsh": [
        *of(lambda x: linalg.eigvalsh(symmetric(x)), lambda x: np.sort(np.linalg.eigvals(x + x.T).real)),
        Sample(
            "upper",
            matrices((3, 3)),
            lambda x: linalg.eigvalsh(x, True),
            lambda x: np.sort(np.linalg.eigvals(tril_only(x.T)).real),
        ),
    ],
    "qr": [
        *rectangular(qr_invariants(False), gram_schmidt),
        Sample("complete, tall", matrices((4, 2)), qr_invariants(True), gram_schmidt),
        Sample("complete, wide", matrices((2, 2, 4)), qr_invariants(True), each(gram_schmidt), (0,)),
    ],
    "pinv": [
        *rectangular(
            linalg.pinv, lambda x: np.linalg.inv(x.T @ x) @ x.T if len(x) >= len(x.T) else x.T @ np.linalg.inv(x @ x.T)
        ),
        Sample(
            "atol", lambda rng: [np.diag([2.0, 0.5])], lambda x: linalg.pinv(x, atol=1.0), lambda x: np.diag([0.5, 0.0])
        ),
        Sample("rank", lambda rng: [np.outer([1.0, 2.0], [2.0, 1.0])], linalg.pinv, lambda x: x.T / 25),
    ],
    "matrix_exp": [
        *of(linalg.matrix_exp, scipy.linalg.expm),
        Sample(
            "small",
            matrices((3, 3), add=0.0),
            lambda x: linalg.matrix_exp(elementwise.mul(x, 0.1)),
            lambda x: exponential(x * 0.1),
            (0,),
        ),
        Sample("zero", lambda rng: [np.zeros((3, 3))], linalg.matrix_exp, lambda x: np.eye(3), (0,)),
    ],
}
