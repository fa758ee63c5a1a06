"""Every expression of the table compiled, forward and backward: what eager mode gives."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tests.tensor.expressions import EAGER_ONLY, FLOATING, X, Y
from tinygrad_lite.nn import functional as F


def _with_gradients(name):
    def step(x, y):
        out = FLOATING[name](tl, F, x, y)
        weights = tl.cos(tl.arange(out.numel()).float()).reshape(out.shape)
        grads = tl.autograd.grad((out * weights).sum(), [x, y], allow_unused=True, materialize_grads=True)
        return out.detach(), *grads

    return step


def _leaves():
    return tl.tensor(X, requires_grad=True), tl.tensor(Y, requires_grad=True)


@pytest.mark.parametrize("name", sorted(FLOATING.keys() - EAGER_ONLY))
def test_compiled_as_eager(name):
    step = _with_gradients(name)
    for ours, expected in zip(tl.compile(step)(*_leaves()), step(*_leaves()), strict=True):
        np.testing.assert_allclose(ours.numpy(), expected.numpy(), rtol=3e-5, atol=3e-6)


@pytest.mark.parametrize("name", sorted(EAGER_ONLY))
def test_what_reads_values_says_so(name):
    with pytest.raises(tl.CaptureError, match=r"expressions.py:\d+"):
        tl.compile(_with_gradients(name))(*_leaves())


def test_writes_views_and_indices():
    def fn(x, index):
        x = x * 1
        x[index] = x[0] * 2
        x[:, 1:] += 1
        x.t()[0].mul_(3)
        x[x > 3] = 0.0
        row = x[1]
        x.add_(1)
        return x, x[index, 0], x[..., None, 0], row

    given = tl.tensor(X), tl.tensor([1, -1])
    for ours, expected in zip(tl.compile(fn)(*given), fn(*given), strict=True):
        assert ours.shape == expected.shape
        np.testing.assert_allclose(ours.numpy(), expected.numpy(), rtol=1e-6)


def test_aliases_see_compiled_updates():
    w = tl.ones(4, requires_grad=True)
    view, values = w.detach()[:2], w.detach().numpy()

    @tl.compile
    def step(x):
        (w * x).sum().backward()
        with tl.no_grad():
            w.sub_(w.grad)
        w.grad = None

    step(tl.ones(4))
    assert w.tolist() == [0, 0, 0, 0] and view.tolist() == [0, 0] and values.tolist() == [0, 0, 0, 0]
    with tl.no_grad():
        w.fill_(5)
    assert view.tolist() == [5, 5]
    step(tl.ones(4))
    assert view.tolist() == [4, 4]
    stale = w * w
    step(tl.ones(4))
    with pytest.raises(RuntimeError, match="inplace operation"):
        stale.sum().backward()


def test_the_same_random_numbers():
    def draw(x):
        return tl.dropout(x, 0.5), tl.rand(3), tl.randint(0, 9, (4,)), tl.bernoulli(x * 0.5), tl.randn(3)

    compiled = tl.compile(draw)
    for _ in range(2):
        tl.manual_seed(5)
        *first, normal = [t.numpy() for t in compiled(tl.ones(8))]
        state = tl.get_rng_state().tolist()
        tl.manual_seed(5)
        *again, eager_normal = [t.numpy() for t in draw(tl.ones(8))]
        assert state == tl.get_rng_state().tolist()
        for a, b in zip(first, again, strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(normal, eager_normal, rtol=1e-6)  # the logarithm may round otherwise
