"""gradcheck and gradgradcheck: right gradients pass, a wrong one is named."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite.autograd import GradcheckError, gradcheck, gradgradcheck


def _leaf(*shape, seed=0, dtype=np.float64):
    return tl.tensor(np.random.default_rng(seed).normal(size=shape).astype(dtype), requires_grad=True)


def _two_outputs(a, b, power):
    return a @ b, (a**power).sum(1)


def _doubled_gradient(x):
    y = x * 1
    y.register_hook(lambda g: g * 2)
    return y.sin()


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
def test_right_gradients_pass(check):
    assert check(_two_outputs, (_leaf(2, 3), _leaf(3, 2, seed=1), 3))
    assert check(lambda x: x.softmax(-1), _leaf(2, 3))
    assert check(lambda x, y: x * y, (_leaf(2), tl.ones(2, dtype=tl.float64)))
    assert check(lambda x: x.exp(), _leaf(0))


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
def test_wrong_gradient_is_named(check):
    with pytest.raises(GradcheckError, match=r"output 0 with respect to input 0: .* by autograd and .* by central"):
        check(_doubled_gradient, _leaf(3))
    assert check(_doubled_gradient, _leaf(3), raise_exception=False) is False


def test_only_the_wrong_pair_is_named():
    with pytest.raises(GradcheckError, match="output 1 with respect to input 1"):
        gradcheck(lambda a, b: (a * b, a + _doubled_gradient(b)), (_leaf(2), _leaf(2, seed=1)))


def test_a_gradient_that_is_cut_is_found():
    with pytest.raises(GradcheckError, match="by autograd"):
        gradcheck(lambda x: x * x.detach(), _leaf(2))


def test_nan_does_not_pass():
    with pytest.raises(GradcheckError, match="nan"):
        gradcheck(lambda x: x * float("nan"), _leaf(2))


def test_given_cotangents():
    assert gradgradcheck(lambda x: x.tanh(), _leaf(3), _leaf(3, seed=2))


def test_inputs_are_left_alone():
    x = _leaf(3)
    before = x.numpy(force=True).copy()
    gradgradcheck(lambda x: x.tanh(), x)
    np.testing.assert_array_equal(x.numpy(force=True), before)
    assert x.grad is None


def test_what_cannot_be_checked_says_why():
    with pytest.raises(ValueError, match="none of them do"):
        gradcheck(lambda x: x, tl.ones(2))
    with pytest.raises(ValueError, match=r"input 0 is .*float32.*\.double\(\)"):
        gradcheck(lambda x: x, _leaf(2, dtype=np.float32))
