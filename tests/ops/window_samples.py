"""Samples of sliding windows and of their overlap-add."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.ops.operands import Array, Make, Sample, bools, both, fixed, integers, reals
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ops import movement
from tinygrad_lite.ops.window import positions, unwindow, window

Each = tuple[int, int, int, int]  # axis, size, step, dilation


def columns(each: Sequence[Each]) -> tuple[tuple[int, ...], ...]:
    return tuple(zip(*each, strict=True))  # type: ignore[return-value]


def taken(each: Sequence[Each], shape: tuple[int, ...]) -> Array:
    """For every element of the windows the number of the element of x that it is, by loops."""
    numbers = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    outer = list(shape)
    for axis, size, step, dilation in each:
        outer[axis] = positions(shape[axis], size, step, dilation)
    out = np.zeros((*outer, *(size for _, size, _, _ in each)), int)
    for at in np.ndindex(out.shape):
        source = list(at[: len(shape)])
        for (axis, _, step, dilation), k in zip(each, at[len(shape) :], strict=True):
            source[axis] = at[axis] * step + k * dilation
        out[at] = numbers[tuple(source)]
    return out


def windows(name: str, make: Make, *each: Each, transposed: bool = False) -> Sample:
    def reference(x: Array) -> Array:
        x = x.T if transposed else x
        return x.reshape(-1)[taken(each, x.shape)]

    def build(x: Node) -> Node:
        return window(movement.transpose(x, 0, 1) if transposed else x, *columns(each))

    wrt = (0,) if make(np.random.default_rng(0))[0].dtype == np.float64 else ()
    return Sample(name, make, build, reference, wrt)


def overlapped(name: str, shape: tuple[int, ...], *each: Each, dtype: str = "float64") -> Sample:
    def make(rng: np.random.Generator) -> list[Array]:
        sources = reals(taken(each, shape).shape) if dtype != "int32" else integers(taken(each, shape).shape)
        base = reals(shape) if dtype != "int32" else integers(shape)
        return [a.astype(dtype) for a in both(base, sources)(rng)]

    def reference(base: Array, source: Array) -> Array:
        out = base.astype("float64" if base.dtype.kind == "f" else base.dtype)
        for number, value in zip(taken(each, shape).flat, source.flat, strict=True):
            out.reshape(-1)[number] += value
        return out.astype(base.dtype)

    wrt = (0, 1) if dtype == "float64" else ()
    return Sample(name, make, lambda base, source: unwindow(base, source, *columns(each)), reference, wrt)


WINDOWS = {
    "window": [
        windows("vector", reals((7,)), (0, 3, 1, 1)),
        windows("step", reals((2, 8)), (1, 3, 2, 1)),
        windows("dilation", reals((9, 2)), (0, 3, 1, 2)),
        windows("what is left over", reals((2, 10)), (1, 3, 4, 1)),
        windows("gaps", reals((9,)), (0, 2, 3, 1)),
        windows("images", reals((2, 3, 5, 6)), (2, 3, 1, 1), (3, 2, 2, 2)),
        windows("axes in any order", reals((5, 2, 6)), (2, 2, 1, 3), (0, 3, 2, 1)),
        windows("three axes", reals((3, 4, 3)), (0, 2, 1, 1), (1, 3, 1, 1), (2, 2, 1, 1)),
        windows("one window", reals((2, 4)), (1, 4, 1, 1)),
        windows("transposed", reals((4, 5)), (1, 2, 1, 1), transposed=True),
        windows("empty batch", reals((0, 5)), (1, 2, 1, 1)),
        windows("bool", bools((2, 5)), (1, 2, 1, 1)),
        windows("i32", integers((5,), dtype="int32"), (0, 4, 1, 1)),
        windows("f32", reals((2, 6), dtype="float32"), (1, 3, 2, 1)),
    ],
    "unwindow": [
        overlapped("vector", (7,), (0, 3, 1, 1)),
        overlapped("step", (2, 8), (1, 3, 2, 1)),
        overlapped("dilation", (9, 2), (0, 3, 1, 2)),
        overlapped("gaps", (2, 9), (1, 2, 3, 1)),
        overlapped("what is left over", (2, 10), (1, 3, 4, 1)),
        overlapped("images", (2, 3, 5, 6), (2, 3, 1, 1), (3, 2, 2, 2)),
        overlapped("axes in any order", (5, 2, 6), (2, 2, 1, 3), (0, 3, 2, 1)),
        overlapped("empty batch", (0, 5), (1, 2, 1, 1)),
        overlapped("i32", (2, 6), (1, 3, 1, 1), dtype="int32"),
        overlapped("f32", (2, 6), (1, 3, 1, 1), dtype="float32"),
        Sample(
            "of one number",
            both(reals((6,)), fixed(2.5)),
            lambda base, x: unwindow(base, movement.broadcast_to(x, (4, 3)), (0,), (3,)),
            lambda base, x: base + x * np.array([1, 2, 3, 3, 2, 1]),
            (0, 1),
        ),
    ],
}
