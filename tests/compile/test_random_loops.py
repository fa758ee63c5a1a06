"""Scans of random bodies: interpreted, optimised, compiled for several workers and by un-jitted kernels, they agree."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from tests.compile.running import PlainProgram, assert_same, verify_program
from tests.compile.test_random_graphs import EXAMPLES
from tests.strategies import cases
from tinygrad_lite.interpreter import evaluate
from tinygrad_lite.ir.equality import first_difference
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.parse import parse
from tinygrad_lite.ir.passes import pipeline
from tinygrad_lite.ir.record import mode
from tinygrad_lite.ir.text import to_text
from tinygrad_lite.ops import control, movement
from tinygrad_lite.ops.leaf import input
from tinygrad_lite.program import Program

Array = np.ndarray[Any, Any]
checked = settings(max_examples=max(1, EXAMPLES // 2), deadline=None, suppress_health_check=list(HealthCheck))


@st.composite
def loops(draw: DrawFn) -> tuple[Graph, list[Array]]:
    """A random graph as the body of a loop: its arguments become carries where a result fits, else xs or consts."""
    case = draw(cases(max_ops=8, stable=True, states=False))
    length, reverse = draw(st.integers(1, 4)), draw(st.booleans())
    roles: dict[str, list[Any]] = {"carry": [], "x": [], "const": []}
    news = []
    for arg, array in zip(case.graph.args, case.args, strict=True):
        fits = [n for n in (*case.graph.outputs, *case.graph.args) if n.type == arg.type]
        role = draw(st.sampled_from(("carry", "carry", "x", "const")))
        roles[role].append((arg, array))
        if role == "carry":
            news.append(draw(st.sampled_from(fits)))
    assume(news or case.graph.outputs)
    ordered = [arg for role in roles.values() for arg, _ in role]
    body = Graph("body", tuple(ordered), (), (*news, *case.graph.outputs))
    history = [draw(st.booleans()) for _ in news]
    with mode.set(trace=object(), grad_enabled=False):
        nodes, arrays = _operands(draw, roles, length)
        parts = nodes["carry"], nodes["x"], nodes["const"]
        results = control.scan(body, *parts, length, reverse, history)
        outputs = [results.final(k) for k in range(len(news))]
        outputs += [results.after(k) for k in range(len(news)) if history[k]]
        outputs += [results.y(j) for j in range(len(case.graph.outputs))]
        kept = [n for n in outputs if draw(st.integers(0, 3))] or outputs
    args = [n if n.op.name == "input" else n.inputs[0] for role in nodes.values() for n in role]
    return Graph("loop", tuple(args), (), tuple(kept)), arrays


def _operands(draw: DrawFn, roles: dict[str, list[Any]], length: int) -> tuple[dict[str, list[Any]], list[Array]]:
    """Arguments for the loop's operands, some seen through a permutation, and their values."""
    nodes: dict[str, list[Any]] = {}
    arrays = []
    for role, found in roles.items():
        nodes[role] = []
        for i, (arg, array) in enumerate(found):
            value = np.stack([array] * length) if role == "x" else array
            turned = draw(st.booleans()) and value.ndim > 1
            value = np.ascontiguousarray(np.moveaxis(value, 0, -1)) if turned else value
            node = input(f"{role}{i}", arg.dtype, value.shape)
            nodes[role].append(movement.move_axis(node, -1, 0) if turned else node)
            arrays.append(value)
    return nodes, arrays


def same(graph: Graph, got: list[Array], want: list[Array]) -> None:
    """As `assert_same`; which zero is the greater one, max and min may decide as they like."""
    assert_same(graph, *([np.where(a == 0, np.zeros_like(a), a) for a in found] for found in (got, want)))


@checked
@given(loops(), st.integers(1, 3), st.integers(0, 99), st.booleans())
def test_unjitted(found, workers, seed, passes):
    graph, arrays = found
    expected, _ = evaluate(graph, arrays)
    optimised = pipeline.run(graph, observers=[pipeline.verifying]) if passes else graph
    same(graph, evaluate(optimised, arrays)[0], expected)
    program = PlainProgram(optimised, workers, seed)
    verify_program(program)
    for _ in range(2):
        same(graph, program.run(arrays), expected)


@settings(checked, max_examples=max(1, EXAMPLES // 6))
@given(loops(), st.integers(1, 2))
def test_compiled(found, workers):
    graph, arrays = found
    program = Program(pipeline.run(graph), workers)
    same(graph, program.run(arrays), evaluate(graph, arrays)[0])


@checked
@given(loops())
def test_text(found):
    graph, _ = found
    assert first_difference(parse(to_text(graph)), graph) is None
