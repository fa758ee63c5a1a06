"""The batching rule of every op: a batch of its samples is its samples, one by one, stacked."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.create_samples import RANDOM
from tests.ops.samples import SAMPLES, WITHOUT_SAMPLES, Sample
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind, Op, all_ops
from tinygrad_lite.ir.record import leaf, mode, record
from tinygrad_lite.ir.types import dtype_of
from tinygrad_lite.ops import batching
from tinygrad_lite.ops.leaf import input

SIZE = 3
CASES = [
    pytest.param(s, id=f"{n}-{s.id.replace(' ', '_')}")
    for n, samples in SAMPLES.items()
    for s in samples
    if n not in RANDOM and s.make(np.random.default_rng(0))
]


def rows_of(sample: Sample) -> list[list[np.ndarray]]:
    """The operands of SIZE examples."""
    return [sample.make(np.random.default_rng(seed)) for seed in range(SIZE)]


def traced(sample: Sample, arrays: list[np.ndarray]) -> tuple[Node, list[Node]]:
    args = [input(f"x{i}", dtype_of(a.dtype), a.shape) for i, a in enumerate(arrays)]
    with mode.set(trace=object()):
        return sample.build(*args), args


def batched(one: Node, known: batching.Known, different: bool = False) -> Node:
    batch = batching.Batch(SIZE, different)
    return batching.wholly(*batching.through([one], known, batch)[0], batch)


def check(sample: Sample, flags: tuple[bool, ...]) -> None:
    rows = rows_of(sample)
    shared = [[a if flag else b for a, b, flag in zip(row, rows[0], flags, strict=True)] for row in rows]
    expected = np.stack([sample.build(*[leaf(a) for a in row]).value for row in shared])
    one, args = traced(sample, rows[0])
    columns = [leaf(np.stack(c) if f else c[0]) for c, f in zip(zip(*rows, strict=True), flags, strict=True)]
    known = {id(a): (c, f) for a, c, f in zip(args, columns, flags, strict=True)}
    result = batched(one, known)
    assert result.type == leaf(expected).type
    loose = {"rtol": 2e-6, "atol": 1e-6} if result.dtype.name == "float32" else {"rtol": 1e-10, "atol": 1e-11}
    np.testing.assert_allclose(result.value, expected, **loose)


@pytest.mark.parametrize("sample", CASES)
def test_all_operands_batched(sample):
    check(sample, (True,) * len(rows_of(sample)[0]))


@pytest.mark.parametrize("sample", [case for case in CASES if len(case.values[0].make(np.random.default_rng(0))) > 1])
def test_one_operand_batched(sample):
    count = len(rows_of(sample)[0])
    for i in range(count):
        check(sample, tuple(j == i for j in range(count)))


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers(name):
    """The stream goes on from example to example; a seed of each example's own is refused."""
    for sample in RANDOM[name]:
        arrays = sample.make(np.random.default_rng(0))
        one, args = traced(sample, arrays)
        known = {id(a): (leaf(x), False) for a, x in zip(args, arrays, strict=True)}
        same = batched(one, dict(known)).value
        np.testing.assert_array_equal(same, np.stack([sample.build(*map(leaf, arrays)).value] * SIZE))
        offsets = [arrays[1] + k * one.type.size for k in range(SIZE)]
        expected = np.stack([sample.build(leaf(arrays[0]), leaf(np.asarray(o))).value for o in offsets])
        np.testing.assert_array_equal(batched(one, dict(known), different=True).value, expected)
        own = known | {id(args[1]): (leaf(np.array(offsets)), True)}
        with pytest.raises(RuntimeError, match=f"{name} at .* seed or offset of each example's own"):
            batched(one, own)


def test_every_op_has_a_rule():
    exempt = {op.name for op in all_ops() if op.kind in (Kind.LEAF, Kind.CREATE)}
    aligned = {op.name for op in all_ops() if op.kind in batching.ALIGNED}
    missing = {op.name for op in all_ops()} - exempt - aligned - batching.RULES.keys() - WITHOUT_SAMPLES
    assert not missing, f"ops without a rule in ops/batching.py: {sorted(missing)}"


def test_an_op_without_a_rule_is_named():
    mystery = Op("mystery", Kind.OPAQUE, lambda x: x, lambda x: x)
    arg = input("x", dtype_of(np.dtype("float32")), (2,))
    with mode.set(trace=object()):
        node = record(mystery, arg)
    with pytest.raises(NotImplementedError, match=r"mystery, recorded at .*test_batching"):
        batched(node, {id(arg): (leaf(np.ones((SIZE, 2), np.float32)), True)})
