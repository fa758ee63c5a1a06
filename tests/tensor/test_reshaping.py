"""Shapes changed in place: the handle, its memory, the other views of that, history, and captures."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl

CHANGES = {
    "transpose_": (lambda x: x.transpose_(0, 2), lambda a: a.swapaxes(0, 2)),
    "swapaxes_": (lambda x: x.swapaxes_(0, -1), lambda a: a.swapaxes(0, -1)),
    "swapdims_": (lambda x: x.swapdims_(1, 2), lambda a: a.swapaxes(1, 2)),
    "squeeze_": (lambda x: x.squeeze_(), lambda a: a.squeeze()),
    "squeeze_ one": (lambda x: x.squeeze_(1), lambda a: a.squeeze(1)),
    "squeeze_ nothing": (lambda x: x.squeeze_(0), lambda a: a),
    "unsqueeze_": (lambda x: x.unsqueeze_(-1), lambda a: a[..., None]),
    "t_": (lambda x: x.squeeze_(1).t_(), lambda a: a[:, 0].T),
    "several": (lambda x: x.transpose_(0, 2).squeeze_(1), lambda a: a.swapaxes(0, 2)[:, 0]),
}


def made():
    return tl.arange(6.0).reshape(2, 1, 3).clone(), np.arange(6, dtype="f4").reshape(2, 1, 3)


@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_a_tensor_of_its_own(name):
    change, expected = CHANGES[name]
    x, a = made()
    assert change(x) is x
    np.testing.assert_array_equal(x.numpy(), expected(a))
    assert x.shape == expected(a).shape and x.is_leaf
    strides = [s // 4 for s in expected(a).strides]
    assert all(n == 1 or s == t for n, s, t in zip(x.shape, x.stride(), strides, strict=True))
    x.add_(1)
    np.testing.assert_array_equal(x.numpy(), expected(a) + 1)


@pytest.mark.parametrize("name", CHANGES)
def test_other_views_keep_their_shape_and_share_the_memory(name):
    change, expected = CHANGES[name]
    x, a = made()
    before, row = x.view(6), x[0]
    change(x)
    after = x.reshape(-1) if x.is_contiguous() else x[0]
    assert before.shape == (6,) and row.shape == (1, 3) and row.stride() == (3, 1)
    x.mul_(2)
    np.testing.assert_array_equal(before.numpy(), 2 * a.ravel())
    np.testing.assert_array_equal(row.numpy(), 2 * a[0])
    before[5] = 100
    row[0, 0] = -1
    a = 2 * a
    a[1, 0, 2], a[0, 0, 0] = 100, -1
    np.testing.assert_array_equal(x.numpy(), expected(a))
    np.testing.assert_array_equal(after.numpy(), expected(a).ravel() if x.is_contiguous() else expected(a)[0])


@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_a_view(name):
    change, expected = CHANGES[name]
    base, a = made()
    x, other = base.view(2, 1, 3), base.view(6)
    change(x)
    base[0, 0, 1] = 50
    other[3] = 60
    a[0, 0, 1], a[1, 0, 0] = 50, 60
    np.testing.assert_array_equal(x.numpy(), expected(a))
    x.zero_()
    assert not base.any() and base.shape == (2, 1, 3)


@pytest.mark.parametrize("name", CHANGES)
def test_gradients_and_capture(name):
    change, _ = CHANGES[name]
    weight = tl.arange(6.0) + 1

    def f(x):
        y = x * 2
        same = y.view(-1)
        change(y)
        z = (y * (weight if y.ndim == 1 else weight.reshape(y.shape))).sum()
        return z + same.pow(2).sum()

    x = made()[0]
    eager = tl.func.grad(f)(x)
    np.testing.assert_allclose(tl.compile(tl.func.grad(f))(x).numpy(), eager.numpy())
    np.testing.assert_allclose(tl.func.vmap(tl.func.grad(f))(tl.stack([x, x]))[1].numpy(), eager.numpy())
    step = 1e-2
    slopes = [(f(x + step * d) - f(x - step * d)).item() / (2 * step) for d in tl.eye(6).reshape(6, 2, 1, 3)]
    np.testing.assert_allclose(eager.numpy().ravel(), slopes, rtol=1e-2)


def test_a_retained_gradient_has_the_new_shape():
    x = tl.ones(2, 3, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.t_()
    (y * tl.arange(6.0).reshape(3, 2)).sum().backward()
    assert y.grad.tolist() == [[0, 1], [2, 3], [4, 5]]
    assert x.grad.tolist() == [[0, 4, 8], [2, 6, 10]]


def test_a_root_again_after_it_was_a_view():
    x = tl.arange(6.0).reshape(2, 3).clone()
    old = x[0]
    x.t_()
    x.data = tl.zeros(3, 2)
    new = x[0]
    new.fill_(7)
    assert x.tolist() == [[7, 7], [0, 0], [0, 0]]
    assert old.tolist() == [0, 1, 2]


def test_what_cannot_be_changed():
    with pytest.raises(RuntimeError, match="leaf Variable"):
        tl.ones(2, 3, requires_grad=True).t_()
    with pytest.raises(RuntimeError, match="<= 2 dimensions"):
        tl.ones(1, 2, 3).t_()
    with pytest.raises(IndexError):
        tl.ones(2).unsqueeze_(3)
    outside = tl.ones(2, 3)
    for run in (tl.compile(lambda: outside.t_()), tl.compile(lambda x: x.t_())):
        with pytest.raises(tl.CaptureError, match="shape of a tensor from outside"):
            run(*([outside.clone()] if run.fn.__code__.co_argcount else []))
    with pytest.raises(tl.CaptureError, match="shape of a tensor from outside"):
        tl.func.vmap(lambda x: outside.t_() @ x)(tl.ones(4, 2))
    assert outside.shape == (2, 3)
