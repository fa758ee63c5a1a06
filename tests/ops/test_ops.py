"""Every op against its samples: values, types, gradients to second order, text and pickles."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from tests.ops.checks import Projected
from tests.ops.samples import SAMPLES, WITHOUT_SAMPLES, Sample
from tinygrad_lite.interpreter import evaluate
from tinygrad_lite.ir.equality import first_difference
from tinygrad_lite.ir.graph import Graph, topological
from tinygrad_lite.ir.op import Kind, all_ops, op_named
from tinygrad_lite.ir.record import leaf, mode
from tinygrad_lite.ir.text import parse, to_text
from tinygrad_lite.ir.types import dtype_of
from tinygrad_lite.ops.leaf import input

CASES = [pytest.param(n, s, id=f"{n}-{s.id.replace(' ', '_')}") for n, samples in SAMPLES.items() for s in samples]
GRADIENTS = [case for case in CASES if case.values[1].wrt]


def arrays_of(sample: Sample) -> list[np.ndarray]:
    return sample.make(np.random.default_rng(7))


def test_every_op_has_samples():
    missing = {op.name for op in all_ops()} - SAMPLES.keys() - WITHOUT_SAMPLES
    assert not missing, f"ops without samples in tests/ops/samples.py: {sorted(missing)}"
    assert all(len(samples) >= 8 for samples in SAMPLES.values())


@pytest.mark.parametrize("name, sample", CASES)
def test_value(name, sample):
    arrays = arrays_of(sample)
    before = [a.copy() for a in arrays]
    node = sample.build(*[leaf(a) for a in arrays])
    expected = np.asarray(sample.reference(*arrays))
    assert node.value.dtype == node.dtype.numpy
    assert node.value.shape == node.shape
    assert (node.value.dtype, node.value.shape) == (expected.dtype, expected.shape)
    loose = {"rtol": 2e-6, "atol": 1e-6} if node.dtype.name == "float32" else {"rtol": 1e-12, "atol": 1e-13}
    np.testing.assert_allclose(node.value, expected, **loose)
    for a, b in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(a, b, err_msg="an operand was written")


@pytest.mark.parametrize("name, sample", CASES)
def test_traced_type_is_the_value_s_type_and_the_op_is_used(name, sample):
    arrays = arrays_of(sample)
    eager = sample.build(*[leaf(a) for a in arrays])
    with mode.set(trace=object()):
        traced = sample.build(*[input(f"x{i}", dtype_of(a.dtype), a.shape) for i, a in enumerate(arrays)])
    assert traced.type == eager.type
    assert name in {n.op.name for n in topological([traced])}


@pytest.mark.parametrize("name, sample", CASES)
def test_text_and_pickle_hold_all_of_it(name, sample):
    arrays = arrays_of(sample)
    args = tuple(input(f"x{i}", dtype_of(a.dtype), a.shape) for i, a in enumerate(arrays))
    with mode.set(trace=object()):
        graph = Graph("sample", args, (), (sample.build(*args),))
    expected, _ = evaluate(graph, arrays)
    for again in (parse(to_text(graph)), pickle.loads(pickle.dumps(graph))):
        assert first_difference(graph, again) is None
        np.testing.assert_array_equal(evaluate(again, arrays)[0][0], expected[0])


@pytest.mark.parametrize("name, sample", GRADIENTS)
def test_gradients(name, sample):
    Projected(sample.build, arrays_of(sample), sample.wrt).check()


def test_differentiable_ops_have_differentiated_samples():
    lazy = {name for name, samples in SAMPLES.items() if op_named(name).vjp and not any(s.wrt for s in samples)}
    # a cast's gradient crosses dtypes and a graft's is not its value's: see test_elementwise; attention and convolution
    # are float32 only: see test_attention and test_convolution
    assert lazy == {"cast", "graft", "attention", "convolution"}


def test_costs_are_counts():
    for name, samples in SAMPLES.items():
        with mode.set(trace=object()):
            arrays = arrays_of(samples[0])
            traced = samples[0].build(*[input(f"x{i}", dtype_of(a.dtype), a.shape) for i, a in enumerate(arrays)])
        for node in topological([traced]):
            flops, size = node.op.cost(node)
            assert flops >= 0 and size >= 0, name
            assert node.op.kind is not Kind.MATMUL or flops > 0
