"""Compiled random numbers are the eager ones, though the generator's state is overwritten in the same program."""

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite.nn import functional as F


def draws_once():
    return tl.rand(8)


def draws_several_times():
    return tl.rand(3), tl.randn(5), F.dropout(tl.ones(64, 16), 0.5), tl.rand(())


def draws_and_sums():
    return tl.rand(64, 64).sum(dim=1) + tl.rand(64)


def draws_often():
    """Enough in one kernel for its variables to be numbered past 64."""
    total = tl.randn(64)
    for _ in range(20):
        total = total + 0.5 * tl.randn(64)
    return total


@pytest.mark.parametrize("fn", [draws_once, draws_several_times, draws_and_sums, draws_often])
def test_compiled_draws_what_eager_draws(fn):
    def drawn(call):
        values = [call(), call()]
        return [v.numpy() for value in values for v in (value if isinstance(value, tuple) else (value,))]

    tl.manual_seed(3)
    eager, after = drawn(fn), tl.get_rng_state()
    tl.manual_seed(3)
    for ours, theirs in zip(drawn(tl.compile(fn)), eager, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-6)
    assert tl.get_rng_state().tolist() == after.tolist()
