"""Every dtype through kernels: arithmetic at the edges, casts and reductions as NumPy has them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from tests.compile.running import PlainProgram, assert_same
from tinygrad_lite.interpreter import evaluate
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import mode
from tinygrad_lite.ir.types import (
    DType,
    bfloat16,
    bool_,
    dtype_of,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
)
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops import reduce
from tinygrad_lite.ops.leaf import input
from tinygrad_lite.program import Program

DTYPES = (bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64)
FLOATS = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.5,
    -3.5,
    1e30,
    -1e30,
    np.inf,
    -np.inf,
    np.nan,
    1e-45,
    3.0,
    7.0,
    -7.0,
    -0.25,
    300.0,
    -70000.0,
]
BINARY = [ew.add, ew.sub, ew.mul, ew.div, ew.maximum, ew.minimum]
BINARY += [ew.eq, ew.ne, ew.lt, ew.le, ew.gt, ew.ge, ew.logical_and, ew.logical_or]
UNARY = [ew.neg, ew.abs, ew.sign, ew.floor, ew.logical_not, ew.sqrt]
REDUCTIONS = [reduce.max, reduce.min, reduce.any, reduce.all, reduce.argmax, reduce.argmin]


def values(dtype: DType) -> np.ndarray:
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return np.array(FLOATS).astype(dtype.numpy)
    if dtype.kind == "b":
        return np.array([0, 1] * 8, bool)
    info = np.iinfo(dtype.numpy)
    return np.array([*range(11), 100, info.max, info.max - 1, info.min, info.min + 1], dtype.numpy)


def allowed(build: Callable[..., Node], *operands: Node) -> list[Node]:
    try:
        return [build(*operands)]
    except (TypeError, RuntimeError):  # not defined for this dtype
        return []


def check(builds: list[Callable[..., Node]], *arrays: np.ndarray) -> None:
    args = tuple(input(f"x{i}", dtype_of(a.dtype), a.shape) for i, a in enumerate(arrays))
    with mode.set(trace=object()):
        outputs = tuple(out for build in builds for out in allowed(build, *args))
    graph = Graph("dtypes", args, (), outputs)
    expected, _ = evaluate(graph, arrays)
    for program in (PlainProgram(graph), Program(graph)):
        for node, got, want in zip(outputs, program.run(arrays), expected, strict=True):
            try:
                assert_same(graph, [got], [want])
            except AssertionError as error:
                error.add_note(f"{type(program).__name__}: {node!r}")
                raise


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_pairs_of_edge_values(dtype):
    a, b = (x.ravel().copy() for x in np.meshgrid(values(dtype), values(dtype)))
    check([*BINARY, lambda x, y: ew.where(ew.ne(x, y), x, y)], a, b)
    divisible = b != 0 if dtype.kind in "ui" else np.ones(b.shape, bool)  # integers raise instead
    check([ew.floor_divide, ew.remainder], a[divisible], b[divisible])


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_single_values_and_casts(dtype):
    casts = [partial(ew.cast, dtype=d) for d in DTYPES if dtype.kind != "f" or d.kind in "bf"]
    check([*UNARY, *casts], values(dtype))
    if dtype.kind == "f":
        inside = np.array([0, 1.9, -1.9, 100.5, -100.5], dtype.numpy)
        check([partial(ew.cast, dtype=d) for d in DTYPES if d.kind == "i"], inside)
        check([partial(ew.cast, dtype=uint8)], np.array([0, 1.9, 100.5, 254.9], dtype.numpy))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("axis", [0, 1])
def test_reductions(dtype, axis):
    x = np.stack([values(dtype), values(dtype)[::-1], np.roll(values(dtype), 3)])
    builds = [partial(r, **{("axis" if r in (reduce.argmax, reduce.argmin) else "axes"): axis}) for r in REDUCTIONS]
    if dtype.kind in "ui":
        builds += [partial(reduce.sum, axes=axis), partial(reduce.prod, axes=axis)]
    check(builds, x)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind in "ui"], ids=lambda d: d.name)
def test_powers_of_integers(dtype):
    base, exponent = (x.ravel().copy() for x in np.meshgrid(values(dtype), np.abs(values(dtype) // 2)))
    check([ew.power], base, exponent)
