"""Every sample of the ops table: the un-jitted kernels and the compiled program equal the interpreter.

Compiling takes a fifth of a second a kernel, so two samples an op are compiled here and the others in the slow tests.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.compile.running import PlainProgram, assert_same, is_exact, verify_program
from tests.ops.samples import SAMPLES, Sample
from tinygrad_lite.interpreter import evaluate
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.passes import pipeline
from tinygrad_lite.ir.record import mode
from tinygrad_lite.ir.types import dtype_of
from tinygrad_lite.ops.leaf import input
from tinygrad_lite.program import Program
from tinygrad_lite.runtime.workers import pool


def graph_of(sample: Sample) -> tuple[Graph, list[np.ndarray]]:
    arrays = sample.make(np.random.default_rng(7))
    args = tuple(input(f"x{i}", dtype_of(a.dtype), a.shape) for i, a in enumerate(arrays))
    with mode.set(trace=object()):
        result = sample.build(*args)
    return Graph("sample", args, (), (result,)), arrays


def cases(compiled: bool) -> Iterator[Any]:
    for name, samples in SAMPLES.items():
        single = next((s for s in samples if "f32" in s.id), samples[-1])
        for s in samples:
            slow = compiled and s is not samples[0] and s is not single
            yield pytest.param(s, id=f"{name}-{s.id.replace(' ', '_')}", marks=[pytest.mark.slow] if slow else [])


@pytest.mark.parametrize("sample", [*cases(compiled=False)])
def test_unjitted(sample):
    graph, arrays = graph_of(sample)
    expected, _ = evaluate(graph, arrays)
    program = PlainProgram(pipeline.run(graph), workers=2)
    verify_program(program)
    assert_same(graph, program.run(arrays), expected)


@pytest.mark.parametrize("sample", [*cases(compiled=True)])
def test_compiled(sample):
    graph, arrays = graph_of(sample)
    expected, _ = evaluate(graph, arrays)
    assert_same(graph, Program(pipeline.run(graph)).run(arrays), expected)


@pytest.mark.parametrize("sample", [pytest.param(samples[0], id=name) for name, samples in SAMPLES.items()])
def test_the_same_bits_however_divided(sample):
    graph, arrays = graph_of(sample)
    program = Program(pipeline.run(graph), workers=3)
    found = []
    for shares in ([1 / 3] * 3, [0.1, 0.7, 0.2], [0.55, 0.05, 0.4]):
        pool().divide(shares)
        found.append(program.run(arrays))
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("sample", [*cases(compiled=True)])
def test_compiled_of_zeros_and_ones_of_both_signs(sample):
    graph, arrays = graph_of(sample)
    if not all(is_exact(n) for n in graph.nodes):
        pytest.skip("approximates, so signs of zeros are not held")
    draw = np.random.default_rng(8).choice
    arrays = [
        draw([-1.0, -0.0, 0.0, 1.0], a.shape).astype(a.dtype) if dtype_of(a.dtype).kind == "f" else a for a in arrays
    ]
    expected, _ = evaluate(graph, arrays)
    assert_same(graph, Program(pipeline.run(graph)).run(arrays), expected)
