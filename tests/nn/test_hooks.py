"""Hooks around forward and backward, and on tensors: called when, with what, and what their results replace."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn


class Pairs(nn.Module):
    """Two inputs, two outputs, one keyword."""

    def forward(self, a, b, scale=1.0):
        return a * b * scale, a + b


def gradients(model, x):
    x.grad = None
    model.zero_grad()
    model(x).pow(2).sum().backward()
    return [x.grad.numpy().copy(), *(p.grad.numpy().copy() for p in model.parameters())]


def test_backward_hooks_see_the_gradients_of_inputs_and_outputs():
    model, x = nn.Sequential(nn.Linear(3, 2), nn.Tanh()), tl.randn(4, 3, requires_grad=True)
    seen = []
    model[0].register_full_backward_pre_hook(lambda module, grad_output: seen.append(("pre", module, grad_output)))
    model[0].register_full_backward_hook(lambda module, *grads: seen.append(("full", module, *grads)))
    bare = gradients(nn.Sequential(*model), x)
    with_hooks = gradients(model, x)
    for a, b in zip(bare, with_hooks, strict=True):
        np.testing.assert_array_equal(a, b)
    (_, module, before), (_, _, grad_input, grad_output) = seen[-2:]
    assert module is model[0] and [s[0] for s in seen[-2:]] == ["pre", "full"]
    np.testing.assert_array_equal(grad_input[0].numpy(), x.grad.numpy())
    np.testing.assert_array_equal(grad_output[0].numpy(), before[0].numpy())
    assert grad_output[0].shape == (4, 2)


def test_what_backward_hooks_return_replaces_gradients():
    model, x = nn.Linear(3, 2), tl.randn(4, 3, requires_grad=True)
    plain = gradients(model, x)
    after = model.register_full_backward_hook(lambda module, grad_input, grad_output: (grad_input[0] * 10,))
    with model.register_full_backward_pre_hook(lambda module, grad_output: grad_output[0] * 2):
        both = gradients(model, x)
    np.testing.assert_allclose(both[0], 20 * plain[0], rtol=1e-6)
    np.testing.assert_allclose(both[1], 2 * plain[1], rtol=1e-6)  # parameters lie between the two
    np.testing.assert_allclose(gradients(model, x)[0], 10 * plain[0], rtol=1e-6)
    after.remove()
    after.remove()
    np.testing.assert_array_equal(gradients(model, x)[0], plain[0])


def test_backward_hooks_of_several_inputs_and_outputs():
    module, calls = Pairs(), []
    module.register_full_backward_hook(lambda module, gi, go: calls.append((gi, go)))
    a, b, c = tl.ones(2, requires_grad=True), tl.ones(2), tl.ones(2, requires_grad=True)
    module(a, b, scale=c)[0].sum().backward()  # the second output has no gradient, b needs none, a keyword is not seen
    ((gi, go),) = calls
    assert gi[0].tolist() == [1, 1] and gi[1] is None and len(gi) == 2
    assert go[0].tolist() == [1, 1] and (go[1] is None or not go[1].any())
    assert c.grad.tolist() == [1, 1]


def test_backward_hooks_without_inputs_that_require_gradients():
    model, calls = nn.Linear(3, 2), []
    model.register_full_backward_hook(lambda module, gi, go: calls.append((gi, go)))
    model(tl.ones(1, 3)).sum().backward()
    assert calls[0][0] == (None,) and calls[0][1][0].tolist() == [[1, 1]]
    model.register_full_backward_hook(lambda module, gi, go: (tl.ones(3),))
    with pytest.raises(RuntimeError, match="must return None"):
        model(tl.ones(1, 3)).sum().backward()


def test_order_of_backward_hooks():
    model, order = nn.Linear(1, 1), []
    for name, prepend in (("a", False), ("b", False), ("c", True)):
        model.register_full_backward_hook(lambda *_, name=name: order.append(name), prepend=prepend)
        model.register_full_backward_pre_hook(lambda *_, name=name: order.append(f"pre {name}"), prepend=prepend)
    model(tl.ones(1, 1, requires_grad=True)).backward()
    assert order == ["pre c", "pre a", "pre b", "c", "a", "b"]


def test_backward_hooks_in_a_compiled_step():
    model, x = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1)), tl.randn(4, 3)

    def step(x):
        model.zero_grad()
        model(x).pow(2).sum().backward()
        return [p.grad for p in model.parameters()]

    compiled = tl.compile(step)
    plain = [g.numpy().copy() for g in compiled(x)]
    handle = model[1].register_full_backward_hook(lambda module, gi, go: (gi[0].clamp(-0.01, 0.01),))
    expected = [g.numpy().copy() for g in step(x)]
    found = [g.numpy().copy() for g in compiled(x)]
    assert not np.allclose(plain[0], found[0])
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)
    handle.remove()
    for a, b in zip(plain, compiled(x), strict=True):
        np.testing.assert_allclose(a, b.numpy(), rtol=1e-6)


def test_backward_hook_errors():
    model, x = nn.Linear(3, 2), tl.ones(1, 3, requires_grad=True)
    with model.register_full_backward_hook(lambda *_: (x, x)), pytest.raises(RuntimeError, match="got 2, expected 1"):
        model(x).sum().backward()
    with (
        model.register_full_backward_pre_hook(lambda *_: (x, x)),
        pytest.raises(RuntimeError, match="grad_output: got 2"),
    ):
        model(x).sum().backward()

    class Named(nn.Module):
        def forward(self, x):
            return {"out": x}

    named = Named()
    named.register_full_backward_hook(lambda *_: None)
    with pytest.warns(UserWarning, match="Named need a Tensor or a tuple of Tensors as its output; for a dict"):
        named(x)


def test_forward_hooks_that_are_called_always():
    class Failing(nn.Module):
        def forward(self, x):
            raise KeyError("forward")

    module, calls = Failing(), []
    module.register_forward_hook(lambda *_: calls.append("usual"))
    module.register_forward_hook(lambda module, args, out: calls.append(("always", out)), always_call=True)
    with pytest.raises(KeyError):
        module(tl.ones(1))
    assert calls == [("always", None)]

    def broken(*_):
        raise ValueError("hook")

    module.register_forward_hook(broken, always_call=True)
    with warnings.catch_warnings(record=True) as caught, pytest.raises(KeyError):
        warnings.simplefilter("always")
        module(tl.ones(1))
    assert "passed over" in str(caught[0].message)


def test_forward_hooks_with_keywords():
    module, seen = Pairs(), []
    module.register_forward_pre_hook(lambda m, args, kwargs: (args, {"scale": 3.0}), with_kwargs=True)
    module.register_forward_hook(lambda m, args, kwargs, out: seen.append(kwargs) or out[0], with_kwargs=True)
    assert module(tl.ones(1), tl.ones(1), scale=2.0).item() == 3.0
    assert seen == [{"scale": 3.0}]


# ---- tensors -------------------------------------------------------------------------------------------------------


def test_hooks_after_accumulation():
    p, q = tl.ones(2, requires_grad=True), tl.ones(2, requires_grad=True)
    seen = []
    handle = p.register_post_accumulate_grad_hook(lambda t: seen.append((t is p, t.grad.tolist())))
    (p * q + p).sum().backward()
    (p * q).sum().backward(inputs=[p])
    assert seen == [(True, [2, 2]), (True, [3, 3])]
    handle.remove()
    (p * q).sum().backward()
    tl.autograd.grad((p * q).sum(), p)
    assert len(seen) == 2
    with pytest.raises(RuntimeError, match="non-leaf"):
        (p * q).register_post_accumulate_grad_hook(print)
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        tl.ones(1).register_post_accumulate_grad_hook(print)


def test_an_optimiser_in_the_backward_pass():
    def train(compiled):
        tl.manual_seed(0)
        model, x = nn.Linear(3, 1), tl.randn(8, 3)

        @tl.no_grad()
        def update(p):
            p.sub_(0.1 * p.grad)
            p.grad = None

        for p in model.parameters():
            p.register_post_accumulate_grad_hook(update)

        def step(x):
            loss = model(x).pow(2).mean()
            loss.backward()
            return loss

        run = tl.compile(step) if compiled else step
        return [run(x).item() for _ in range(4)]

    eager, compiled = train(False), train(True)
    np.testing.assert_allclose(eager, compiled, rtol=1e-5)
    assert eager == sorted(eager, reverse=True)


def test_hooks_added_after_a_capture_are_seen():
    w, x = tl.ones(2, requires_grad=True), tl.ones(2)

    @tl.compile
    def step(x):
        w.grad = None
        (w * x).sum().backward()
        return w.grad

    assert step(x).tolist() == [1, 1]
    handle = w.register_hook(lambda g: g * 5)
    assert step(x).tolist() == [5, 5]
    handle.remove()
    assert step(x).tolist() == [1, 1]

    @tl.compile
    def by_argument(x):
        return tl.autograd.grad((x * 3).sum(), x)[0]

    a, b = tl.ones(1, requires_grad=True), tl.ones(1, requires_grad=True)
    assert by_argument(a).item() == 3
    b.register_hook(lambda g: g * 2)
    assert by_argument(b).item() == 6
    assert by_argument(a).item() == 3
