"""Reductions: dtypes, ties, accuracy, composites of them, and reductions of nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.ops.checks import Projected, differentiable
from tinygrad_lite.autodiff import gradients
from tinygrad_lite.ir.record import leaf
from tinygrad_lite.ir.types import bool_, float32, int64
from tinygrad_lite.ops import reduce


def slope(build, x: object) -> np.ndarray:
    node = differentiable(np.array(x, "float64"))
    y = build(node)
    (g,) = gradients([y], [leaf(np.ones(y.shape))], [node])
    assert g is not None
    return g.value


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32"])
def test_integers_add_up_in_int64(dtype: str):
    x = leaf(np.ones((2, 3), dtype))
    assert reduce.sum(x).dtype is int64
    assert reduce.prod(x, 0).dtype is int64
    assert reduce.any(x).dtype is bool_


def test_float32_sums_do_not_drift():
    x = np.full((1 << 16, 2), 0.1, "float32")
    expected = math.fsum(x[:, 0].tolist())
    total = reduce.sum(leaf(x), 0)
    assert total.dtype is float32
    np.testing.assert_array_equal(total.value, np.float32(expected))


def test_ties_share_the_gradient_evenly():
    np.testing.assert_array_equal(slope(lambda x: reduce.max(x, 1), [[1, 3, 3], [2, 0, 1]]), [[0, 0.5, 0.5], [1, 0, 0]])
    np.testing.assert_array_equal(slope(reduce.min, [1, 1, 1, 1]), [0.25] * 4)


def test_products_with_zeros_have_the_right_gradient():
    np.testing.assert_array_equal(slope(reduce.prod, [2.0, 0.0, 3.0]), [0, 6, 0])
    np.testing.assert_array_equal(slope(reduce.prod, [0.0, 0.0, 3.0]), [0, 0, 0])
    np.testing.assert_array_equal(slope(reduce.prod, np.arange(1.0, 8.0)), math.factorial(7) / np.arange(1.0, 8.0))


COMPOSITES = [
    (lambda x: reduce.mean(x, 1), lambda x: x.mean(1)),
    (reduce.mean, np.mean),
    (lambda x: reduce.var(x, 0), lambda x: x.var(0, ddof=1)),
    (lambda x: reduce.var(x, (0, 1), 0, True), lambda x: x.var((0, 1), keepdims=True)),
    (lambda x: reduce.std(x, 1), lambda x: x.std(1, ddof=1)),
]


@pytest.mark.parametrize("build, reference", COMPOSITES)
def test_composites(build, reference):
    x = np.random.default_rng(0).normal(size=(4, 5))
    np.testing.assert_allclose(build(leaf(x)).value, reference(x), rtol=1e-12)
    Projected(build, [x], (0,)).check()


def test_variance_takes_two_passes():
    x = leaf((np.random.default_rng(0).normal(size=1000) + 1e4).astype("float32"))
    np.testing.assert_allclose(reduce.var(x).value, np.var(x.value.astype("float64"), ddof=1), rtol=1e-4)


def test_too_few_elements():
    assert np.isnan(reduce.var(leaf(np.ones(1))).value)
    assert np.isinf(reduce.var(leaf(np.array([1.0, 2.0])), correction=3).value)
    assert np.isnan(reduce.mean(leaf(np.zeros((2, 0))), 1).value).all()


def test_keepdim():
    x = leaf(np.ones((2, 3)))
    assert reduce.sum(x, keepdim=True).shape == (1, 1)
    assert reduce.argmax(x, keepdim=True).shape == (1, 1)
    assert reduce.argmax(x, 1, keepdim=True).shape == (2, 1)
    assert reduce.sum(x, ()).shape == (2, 3)


BAD = [
    (
        IndexError,
        r"max\(\): Expected reduction dim 1 to have non-zero size",
        lambda: reduce.max(leaf(np.zeros((2, 0))), 1),
    ),
    (RuntimeError, r"max\(\): Expected reduction dim to be specified", lambda: reduce.max(leaf(np.zeros(0)))),
    (IndexError, r"argmin\(\)", lambda: reduce.argmin(leaf(np.zeros(0)))),
    (RuntimeError, "argmax", lambda: reduce.argmax(leaf(np.ones(3, bool)))),
    (RuntimeError, r"mean\(\).*floating point, got i64\[3\]", lambda: reduce.mean(leaf(np.arange(3)))),
    (IndexError, r"range of \[-2, 1\], but got 2\)", lambda: reduce.sum(leaf(np.zeros((2, 3))), 2)),
    (IndexError, r"range of \[-1, 0\], but got 1\)", lambda: reduce.argmax(leaf(np.zeros(())), 1)),
    (RuntimeError, "appears twice", lambda: reduce.sum(leaf(np.zeros((2, 3))), (0, -2))),
    (TypeError, "any", lambda: reduce.ANY.infer(leaf(np.zeros(2)).type, axes=(0,))),
    (IndexError, "sorted", lambda: reduce.SUM.infer(leaf(np.zeros((2, 2))).type, axes=(1, 0))),
]


@pytest.mark.parametrize("error, message, call", BAD)
def test_bad_input(error, message, call):
    with pytest.raises(error, match=message):
        call()
