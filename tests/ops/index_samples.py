"""Samples of the matrix product, gathers and scatters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.ops.operands import Array, Make, Sample, bools, both, fixed, integers, reals
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ops import contract, indexing


def product(spec: str, *shapes: Sequence[int], name: str) -> Sample:
    return Sample(name, reals(*shapes), contract.matmul, lambda a, b: np.einsum(spec, a, b), (0, 1))


CONTRACT = {
    "matmul": [
        product("ij,jk->ik", (3, 4), (4, 2), name="matrices"),
        product("i,i->", (4,), (4,), name="vectors"),
        product("ij,j->i", (3, 4), (4,), name="matrix vector"),
        product("i,ij->j", (3,), (3, 4), name="vector matrix"),
        product("abij,jk->abik", (2, 3, 4, 5), (5, 2), name="batch by matrix"),
        product("abij,abjk->abik", (2, 3, 4, 5), (2, 3, 5, 2), name="batches"),
        product("abij,bjk->abik", (2, 3, 1, 2), (3, 2, 4), name="broadcast batch"),
        product("ij,ajk->aik", (4, 5), (3, 5, 2), name="matrix by batch"),
        product("ij,jk->ik", (2, 0), (0, 3), name="inner empty"),
        product("ij,jk->ik", (0, 2), (2, 3), name="outer empty"),
        Sample(
            "f32",
            reals((5, 7), (7, 6), dtype="float32"),
            contract.matmul,
            lambda a, b: (a.astype("f8") @ b.astype("f8")).astype("f4"),
        ),
        Sample("i64", integers((3, 4), (4, 2)), contract.matmul, lambda a, b: np.einsum("ij,jk->ik", a, b)),
        Sample(
            "linear",
            reals((2, 3, 4), (5, 4), (5,)),
            contract.linear,
            lambda x, w, b: np.einsum("abi,oi->abo", x, w) + b,
            (0, 1, 2),
        ),
    ],
}

INDEX = {"repeated": [[1, 0], [1, 1]], "empty": np.zeros((0,), "int64"), "scalar": 2, "i32": np.array([2, 0], "int32")}


def taken(axis: int) -> Callable[[Array, Array], Array]:
    return lambda x, i: x[(slice(None),) * axis + (i,)]


def gathered(base: Array, index: Array, axis: int) -> tuple[int, ...]:
    return base.shape[:axis] + index.shape + base.shape[axis + 1 :]


def with_source(axis: int, index: Any, *shape: int) -> Make:
    """base, index, source"""

    def make(rng: np.random.Generator) -> list[Array]:
        (base,) = reals(shape)(rng)
        return [base, np.array(index), reals(gathered(base, np.array(index), axis))(rng)[0]]

    return make


def strided(make: Make) -> Make:
    """The same values in column-major memory."""
    return lambda rng: [np.asfortranarray(a) for a in make(rng)]


def slices_set(axis: int, adds: bool) -> Callable[[Array, Array, Array], Array]:
    def reference(base: Array, index: Array, source: Array) -> Array:
        out, parts = (
            np.moveaxis(base.copy(), axis, 0),
            np.moveaxis(source, range(axis, axis + index.ndim), range(index.ndim)),
        )
        for at in np.ndindex(index.shape):
            out[index[at]] = out[index[at]] + parts[at] if adds else parts[at]
        return np.moveaxis(out, 0, axis)

    return reference


def elements_combined(axis: int, combine: Callable[[Any, Any], Any]) -> Callable[[Array, Array, Array], Array]:
    def reference(base: Array, index: Array, source: Array) -> Array:
        out = base.copy()
        for at in np.ndindex(index.shape):
            to = (*at[:axis], index[at], *at[axis + 1 :])
            out[to] = combine(out[to], source[at])
        return out

    return reference


def elements_set(axis: int, adds: bool) -> Callable[[Array, Array, Array], Array]:
    def reference(base: Array, index: Array, source: Array) -> Array:
        out = base.copy()
        for at in np.ndindex(index.shape):
            to = (*at[:axis], index[at], *at[axis + 1 :])
            out[to] = out[to] + source[at] if adds else source[at]
        return out

    return reference


def elements_at(axis: int) -> Callable[[Array, Array], Array]:
    def reference(x: Array, index: Array) -> Array:
        out = np.zeros(index.shape, x.dtype)
        for at in np.ndindex(index.shape):
            out[at] = x[(*at[:axis], index[at], *at[axis + 1 :])]
        return out

    return reference


def slicewise(build: Callable[..., Node], adds: bool) -> list[Sample]:
    def at(axis: int) -> Callable[..., Node]:
        return lambda b, i, s: build(b, i, s, axis)

    samples = [Sample(name, with_source(0, i, 3, 2), at(0), slices_set(0, adds), (0, 2)) for name, i in INDEX.items()]
    return [
        *samples,
        Sample("i64", both(integers((3, 2)), fixed([2, 0, 2]), integers((3, 2))), at(0), slices_set(0, adds)),
        Sample("strided", strided(with_source(0, [1, 1], 3, 2)), at(0), slices_set(0, adds), (0, 2)),
        Sample("last axis", with_source(1, [[3, 0, 0]], 2, 4), at(1), slices_set(1, adds), (0, 2)),
        Sample("middle axis", with_source(1, [2, 0, 2], 2, 3, 2), at(1), slices_set(1, adds), (0, 2)),
    ]


ALONG: dict[str, tuple[int, Any, tuple[int, ...]]] = {
    "rows": (1, [[2, 0], [1, 1]], (2, 3)),
    "columns": (0, [[2, 0, 1]], (3, 3)),
    "repeated": (0, [1, 1, 1, 0], (3,)),
    "empty": (1, np.zeros((2, 0), "int64"), (2, 3)),
    "three axes": (1, [[[0, 1]], [[1, 1]]], (2, 2, 2)),
}


def elementwise_set(build: Callable[..., Node], adds: bool) -> list[Sample]:
    def sample(name: str, axis: int, index: Any, shape: tuple[int, ...]) -> Sample:
        make = both(reals(shape), fixed(index), reals(np.shape(index)))
        return Sample(name, make, lambda b, i, s: build(b, i, s, axis), elements_set(axis, adds), (0, 2))

    index = fixed([[2, 0, 2], [1, 1, 1]])
    return [
        *(sample(name, *case) for name, case in ALONG.items()),
        sample("smaller index", 1, [[2, 0]], (3, 4)),
        Sample(
            "i64",
            both(integers((2, 3)), index, integers((2, 3))),
            lambda b, i, s: build(b, i, s, 1),
            elements_set(1, adds),
        ),
        Sample(
            "strided",
            strided(both(reals((2, 3)), index, reals((2, 3)))),
            lambda b, i, s: build(b, i, s, 1),
            elements_set(1, adds),
            (0, 2),
        ),
    ]


def combined(how: str, combine: Callable[[Any, Any], Any]) -> list[Sample]:
    """put_along_mul, put_along_max or put_along_min."""

    def build(axis: int) -> Callable[..., Node]:
        return lambda b, i, s: indexing.put_along_with(how, b, i, s, axis)

    samples = [
        Sample(
            name,
            both(reals(shape), fixed(index), reals(np.shape(index))),
            build(axis),
            elements_combined(axis, combine),
            (0, 2),
        )
        for name, (axis, index, shape) in ALONG.items()
    ]
    index = fixed([[2, 0, 2], [1, 1, 1]])
    return [
        *samples,
        Sample(
            "smaller index",
            both(reals((3, 4)), fixed([[2, 0]]), reals((1, 2))),
            build(1),
            elements_combined(1, combine),
            (0, 2),
        ),
        Sample("i64", both(integers((2, 3)), index, integers((2, 3))), build(1), elements_combined(1, combine)),
        Sample(
            "f32",
            both(reals((2, 3), dtype="float32"), index, reals((2, 3), dtype="float32")),
            build(1),
            elements_combined(1, combine),
        ),
        Sample(
            "with zeros",
            fixed([[0.0, 2.0, 3.0]], [[0, 1, 1, 2]], [[0.0, 0.0, 2.0, 0.0]]),
            build(1),
            elements_combined(1, combine),
        ),
        Sample(
            "nan", fixed([1.0, np.nan, 2.0], [0, 1, 2], [np.nan, 1.0, 3.0]), build(0), elements_combined(0, combine)
        ),
    ]


def updated(
    starts: Sequence[int], stops: Sequence[int], steps: Sequence[int] | None, *shapes: Sequence[int], name: str
) -> Sample:
    at = tuple(slice(*s) for s in zip(starts, stops, steps or (1,) * len(starts), strict=True))

    def reference(base: Array, source: Array) -> Array:
        mask = np.zeros(base.shape, bool)
        mask[at] = True
        spread = np.zeros(base.shape)
        spread[at] = source
        return np.where(mask, spread, base)

    return Sample(
        name, reals(*shapes), lambda b, s: indexing.slice_update(b, s, starts, stops, steps), reference, (0, 1)
    )


INDEXING = {
    "gather": [
        *[
            Sample(name, both(reals((3, 2)), fixed(i)), lambda x, i: indexing.gather(x, i), taken(0), (0,))
            for name, i in INDEX.items()
        ],
        Sample(
            "last axis", both(reals((2, 4)), fixed([[3, 0, 0]])), lambda x, i: indexing.gather(x, i, 1), taken(1), (0,)
        ),
        Sample(
            "from the end",
            both(reals((3, 2)), fixed([-1, 0])),
            lambda x, i: indexing.gather(x, i, wrap=True),
            taken(0),
            (0,),
        ),
        Sample(
            "two indices",
            both(reals((3, 2, 4)), fixed([[0], [2]], [1, 0, -1])),
            lambda x, i, j: indexing.index_nd(x, [i, j]),
            lambda x, i, j: x[i, j],
            (0,),
        ),
        Sample(
            "apart",
            both(reals((3, 2, 4)), fixed([2, 0], [1, 1])),
            lambda x, i, j: indexing.index_nd(x, [i, None, j]),
            lambda x, i, j: x[i, :, j],
            (0,),
        ),
        Sample(
            "behind",
            both(reals((3, 2, 4)), fixed([1, 0], [3, 1])),
            lambda x, i, j: indexing.index_nd(x, [None, i, j]),
            lambda x, i, j: x[:, i, j],
            (0,),
        ),
        Sample("bool", both(bools((5,)), fixed([4, 4, 0])), indexing.gather, taken(0)),
    ],
    "take_along": [
        *[
            Sample(
                name,
                both(reals(shape), fixed(i)),
                lambda x, i, axis=axis: indexing.take_along(x, i, axis),
                elements_at(axis),
                (0,),
            )
            for name, (axis, i, shape) in ALONG.items()
        ],
        Sample(
            "smaller index",
            both(reals((3, 4)), fixed([[1, 0]])),
            lambda x, i: indexing.take_along(x, i, 1),
            elements_at(1),
            (0,),
        ),
        Sample("scalar", both(reals(()), fixed(0)), lambda x, i: indexing.take_along(x, i, 0), lambda x, i: x, (0,)),
        Sample("bool", both(bools((3,)), fixed([2, 2, 0])), lambda x, i: indexing.take_along(x, i, 0), elements_at(0)),
    ],
    "scatter_add": slicewise(indexing.scatter_add, True),
    "put": [
        *slicewise(indexing.put, False),
        Sample(
            "two indices",
            both(reals((3, 2, 4)), fixed([0, 2], [1, -1]), reals((2,))),
            lambda x, i, j, s: indexing.index_put_nd(x, [i, None, j], s),
            lambda x, i, j, s: slices_of(x, i, j, s),
            (0, 3),
        ),
    ],
    "put_along_add": elementwise_set(indexing.put_along_add, True),
    "put_along": elementwise_set(indexing.put_along, False),
    "put_along_mul": combined("prod", lambda a, b: a * b),
    "put_along_max": combined("amax", np.maximum),
    "put_along_min": combined("amin", np.minimum),
    "slice_update": [
        updated((1, 0), (3, 2), None, (4, 3), (2, 2), name="box"),
        updated((0,), (8,), (3,), (8,), (3,), name="step"),
        updated((1, 0), (4, 3), None, (4, 3), (), name="broadcast"),
        updated((2,), (2,), None, (4,), (0,), name="empty"),
        updated((0, 1), (3, 4), (2, 2), (3, 4), (2, 2), name="two steps"),
        updated((0, 0), (2, 3), None, (2, 3), (2, 3), name="whole"),
        updated((0, 1, 0), (2, 2, 2), None, (2, 3, 2), (2, 1, 2), name="middle axis"),
        updated((1,), (2,), None, (3,), (1,), name="one element"),
    ],
}


def slices_of(x: Array, i: Array, j: Array, source: Array) -> Array:
    """x[i, :, j] = source, by loops."""
    out = x.copy()
    for a, b in zip(i, j, strict=True):
        out[a, :, b] = source
    return out
