"""Gradient clipping and vectors of parameters."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.ir.record import mode

GRADS = [np.array([3.0, -4.0], np.float32), np.array([[12.0]], np.float32)]


def parameters() -> list[nn.Parameter]:
    params = [nn.Parameter(tl.zeros(*g.shape)) for g in GRADS] + [nn.Parameter(tl.zeros(2))]
    for p, g in zip(params, GRADS, strict=False):
        p.grad = tl.tensor(g)
    return params


NORMS = {2.0: 13.0, 1: 19.0, math.inf: 12.0, 3.0: (27 + 64 + 1728) ** (1 / 3)}


@pytest.mark.parametrize(("order", "norm"), NORMS.items())
def test_clip_grad_norm(order, norm):
    params = parameters()
    held = params[0].grad
    total = nn.utils.clip_grad_norm_(iter(params), 2.0, norm_type=order)
    assert total.shape == () and total.item() == pytest.approx(norm)
    for p, g in zip(params, GRADS, strict=False):
        np.testing.assert_allclose(p.grad.numpy(), g * 2 / norm, rtol=1e-6)
    assert params[0].grad is held and params[2].grad is None


def test_small_gradients_are_left_alone():
    params = parameters()
    nn.utils.clip_grad_norm_(params, 100.0)
    np.testing.assert_array_equal(params[0].grad.numpy(), GRADS[0])


def test_no_gradients():
    assert nn.utils.clip_grad_norm_([nn.Parameter(tl.zeros(2))], 1.0).item() == 0


def test_one_tensor():
    p = parameters()[0]
    assert nn.utils.clip_grad_norm_(p, 1.0).item() == 5


def test_nonfinite_norm():
    p = parameters()[0]
    p.grad = tl.tensor([math.inf, 1.0])
    with pytest.raises(RuntimeError, match="inf"):
        nn.utils.clip_grad_norm_(p, 1.0, error_if_nonfinite=True)
    assert nn.utils.clip_grad_norm_(p, 1.0).item() == math.inf


def test_nonfinite_check_is_refused_in_a_capture():
    with mode.set(trace=object()), pytest.raises(RuntimeError, match="capture"):
        nn.utils.clip_grad_norm_([], 1.0, error_if_nonfinite=True)


def test_clip_grad_value():
    params = parameters()
    nn.utils.clip_grad_value_(params, 3.5)
    np.testing.assert_array_equal(params[0].grad.numpy(), [3, -3.5])
    np.testing.assert_array_equal(params[1].grad.numpy(), [[3.5]])


def test_vector_round_trip():
    params = [nn.Parameter(tl.tensor(g)) for g in GRADS]
    vector = nn.utils.parameters_to_vector(params)
    np.testing.assert_array_equal(vector.detach().numpy(), [3, -4, 12])
    nn.utils.vector_to_parameters(vector.detach() * 2, params)
    np.testing.assert_array_equal(params[1].detach().numpy(), [[24]])
    with pytest.raises(ValueError, match="3 elements"):
        nn.utils.vector_to_parameters(tl.zeros(4), params)
