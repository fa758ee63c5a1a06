"""Neural functions compiled, forward and backward: what eager mode gives. Their graphs print and parse."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tests.neural.cases import CASES
from tests.neural.running import results_of, tensors_of, tolerance, weighted_sum
from tinygrad_lite.ir.equality import first_difference
from tinygrad_lite.ir.parse import parse
from tinygrad_lite.ir.text import to_text
from tinygrad_lite.nn import functional


def step_of(case):
    def step(*xs):
        results = results_of(case.run(tl, functional, *xs))
        wanted = [x for x in xs if x.requires_grad]
        grads = tl.autograd.grad(weighted_sum(tl, results), wanted, allow_unused=True, materialize_grads=True)
        return [r.detach() for r in results] + list(grads)

    return step


@pytest.mark.parametrize("name", CASES)
def test_compiled_as_eager(name):
    case = CASES[name]
    step = step_of(case)
    compiled = tl.compile(step)
    for ours, expected in zip(compiled(*tensors_of(tl, case)), step(*tensors_of(tl, case)), strict=True):
        assert (ours.shape, ours.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(ours.numpy(), expected.numpy(), **tolerance(case))
    graph = compiled.graph("traced")
    assert first_difference(parse(to_text(graph)), graph) is None
