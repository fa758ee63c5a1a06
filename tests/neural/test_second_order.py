"""Second derivatives of the smooth neural functions, against differences of the first ones."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tests.neural.cases import CASES
from tests.neural.running import results_of, weighted_sum
from tinygrad_lite.nn import functional

STEP = 1e-3


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.twice])
def test_second_order(name):
    case = CASES[name]
    rng = np.random.default_rng(1)
    v, w = ([rng.standard_normal(a.shape) for a in case.arrays] for _ in range(2))

    def slope(shift):
        """<gradient, v> at the arrays moved along w, and the leaves."""
        xs = [tl.tensor(a + shift * b, requires_grad=True) for a, b in zip(case.arrays, w, strict=True)]
        total = weighted_sum(tl, results_of(case.run(tl, functional, *xs)))
        grads = tl.autograd.grad(total, xs, create_graph=True)
        return sum((g * tl.tensor(d)).sum() for g, d in zip(grads, v, strict=True)), xs

    value, xs = slope(0.0)
    found = tl.autograd.grad(value, xs, allow_unused=True, materialize_grads=True)
    exact = sum(float(np.sum(g.numpy() * b)) for g, b in zip(found, w, strict=True))
    one, two = ([slope(k * h)[0].item() for k in (1, -1)] for h in (STEP, 2 * STEP))
    expected = (8 * (one[0] - one[1]) - (two[0] - two[1])) / (12 * STEP)
    assert abs(exact - expected) <= 1e-6 * (1 + abs(expected))
