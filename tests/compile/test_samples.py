"""Every sample of the ops table: the compiled program and the un-jitted kernels equal the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compile.running import PlainProgram, assert_same
from tests.ops.samples import SAMPLES, Sample
from tinygrad_lite.interpreter import evaluate
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.passes import pipeline
from tinygrad_lite.ir.record import mode
from tinygrad_lite.ir.types import dtype_of
from tinygrad_lite.ops.leaf import input
from tinygrad_lite.program import Program

CASES = [pytest.param(n, s, id=f"{n}-{s.id.replace(' ', '_')}") for n, samples in SAMPLES.items() for s in samples]


def graph_of(sample: Sample) -> tuple[Graph, list[np.ndarray]]:
    arrays = sample.make(np.random.default_rng(7))
    args = tuple(input(f"x{i}", dtype_of(a.dtype), a.shape) for i, a in enumerate(arrays))
    with mode.set(trace=object()):
        result = sample.build(*args)
    return Graph("sample", args, (), (result,)), arrays


@pytest.mark.parametrize("name, sample", CASES)
def test_sample(name, sample):
    graph, arrays = graph_of(sample)
    expected, _ = evaluate(graph, arrays)
    optimised = pipeline.run(graph)
    for program in (PlainProgram(optimised), Program(optimised)):
        assert_same(graph, program.run(arrays), expected)
