"""Random graphs: interpreted, compiled for one and two workers, and by un-jitted kernels, they give the same.

TINYGRAD_LITE_EXAMPLES=5000 searches longer.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.compile.running import PlainProgram, assert_same, verify_program
from tests.compile.steps import STEPS
from tests.strategies import Case, cases
from tinygrad_lite.interpreter import evaluate
from tinygrad_lite.ir.passes import pipeline
from tinygrad_lite.program import Program

EXAMPLES = int(os.environ.get("TINYGRAD_LITE_EXAMPLES", 60))
checked = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
random_cases = cases(max_ops=int(os.environ.get("TINYGRAD_LITE_OPS", 14)), stable=True, steps=STEPS)


def check(case: Case, program: Program) -> None:
    """Two runs, the second on the states that the first left."""
    graph, args, given = case
    states = [s.copy() for s in given]
    for _ in range(2):
        expected, after = evaluate(graph, args, states)
        got = program.run(args, states)
        assert_same(graph, got, expected)
        assert_same(graph, states, after)


@checked
@given(random_cases, st.integers(1, 3), st.integers(0, 99), st.booleans())
def test_unjitted(case, workers, seed, passes):
    """Checks kernels, the memory plan, and that barriers suffice: workers take turns at random between them."""
    graph = pipeline.run(case.graph) if passes else case.graph
    program = PlainProgram(graph, workers, seed)
    verify_program(program)
    check(case, program)


@settings(checked, max_examples=max(1, EXAMPLES // 3))
@given(random_cases, st.integers(1, 2))
def test_compiled(case, workers):
    check(case, Program(pipeline.run(case.graph), workers))
