"""backward, grad, hooks, modes, and the errors that protect from wrong gradients."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import autodiff
from tinygrad_lite.autograd import grad
from tinygrad_lite.ir.op import Kind, Op
from tinygrad_lite.ir.record import mode, record


def leaf(*data):
    return tl.tensor(data, dtype=tl.float64, requires_grad=True)


def values(x):
    return x.detach().numpy().tolist()


def test_gradients_accumulate_in_the_same_tensor():
    x = leaf(1.0, 2.0)
    (x * 3).sum().backward()
    first = x.grad
    (x * x).sum().backward()
    assert x.grad is first and values(x.grad) == [5, 7]
    x.grad = None
    x.sum().backward()
    assert values(x.grad) == [1, 1]


def test_each_gradient_has_its_own_memory():
    x, y = leaf(1.0, 2.0), leaf(3.0, 4.0)
    seed = tl.ones(2, dtype=tl.float64)
    (x + y).backward(seed)
    arrays = [x.grad.numpy(), y.grad.numpy(), seed.numpy()]
    assert not any(np.shares_memory(a, b) for i, a in enumerate(arrays) for b in arrays[:i])
    z = leaf(1.0, 2.0)
    z.sum().backward()
    assert z.grad.numpy().flags.owndata and z.grad.numpy().flags.writeable


def test_backward_twice():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert values(x.grad) == [4, 8]
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    for harmless in (lambda: (x + x).sum(), lambda: x.mean(), lambda: x.reshape(2, 1).t()[0].sum(), lambda: -x.sum()):
        z = harmless()
        z.backward()
        z.backward()
    data = tl.tensor([3.0, 4.0], dtype=tl.float64)
    z = (x * data).sum()
    z.backward()
    with pytest.raises(RuntimeError, match="second time"):
        z.backward()


def test_overwritten_values():
    x = leaf(1.0, 2.0)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match=r"inplace operation: exp at .*test_autograd.py:\d+"):
        y.sum().backward()
    a = x * 2
    z = a * a
    a[0] = 5.0
    with pytest.raises(RuntimeError, match="inplace operation: mul"):
        z.sum().backward()
    w = x * x
    with tl.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="inplace operation"):
        w.sum().backward()
    part = (x * 1)[:1]
    q = part * part
    part._base.zero_()
    with pytest.raises(RuntimeError, match="inplace operation"):
        q.sum().backward()


def test_overwriting_what_nobody_reads():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = y + 1
    y.zero_()
    z.sum().backward()
    assert values(x.grad) == [2, 2]
    u = x.exp()
    v = u * 3
    u.detach_()
    v.sum().backward()
    a = (x.t() if x.ndim > 1 else x) * 2
    b = a.view(2, 1).expand(2, 3).reshape(6)  # a copy
    c = b * b
    a.zero_()
    c.sum().backward()


def test_grad_function():
    x, y = leaf(2.0), leaf(3.0)
    out = x * x * y
    gx, gy = grad(out, [x, y])
    assert values(gx) == [12] and values(gy) == [4] and x.grad is None and not gx.requires_grad
    unused = leaf(1.0)
    with pytest.raises(RuntimeError, match="allow_unused"):
        grad(x * 2, [x, unused])
    assert grad(x * 2, [x, unused], allow_unused=True)[1] is None
    assert values(grad(x * 2, [unused], materialize_grads=True)[0]) == [0]
    middle = x * x
    assert values(grad(middle * y, middle)[0]) == [3]
    with pytest.raises(RuntimeError, match="require grad"):
        grad(x * 2, tl.ones(1))
    assert values(grad([x * 2, x * y], x, [tl.ones(1), tl.full((1,), 10.0)])[0]) == [32]


def test_higher_derivatives():
    x = leaf(2.0)
    y = x**4
    for expected in (32, 48, 48, 24):
        (y,) = grad(y, x, create_graph=True)
        assert values(y) == [expected]
    x = leaf(0.3)
    (g,) = grad(x.sin() * x.exp(), x, create_graph=True)
    g.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(0.3) * np.cos(0.3))


def test_backward_create_graph_makes_grad_differentiable():
    x = leaf(3.0)
    (x**3).sum().backward(create_graph=True)
    assert x.grad.requires_grad
    (x.grad * x.grad).sum().backward()
    assert values(x.grad) == [27 + 2 * 27 * 18]


def test_inputs_argument():
    x, y = leaf(1.0), leaf(2.0)
    (x * y).sum().backward(inputs=[x])
    assert values(x.grad) == [2] and y.grad is None
    with pytest.raises(RuntimeError, match="empty"):
        (x * y).sum().backward(inputs=[])


def test_only_paths_to_inputs_are_followed():
    calls = []
    x, y = leaf(1.0), leaf(2.0)
    far = y.exp()
    far.register_hook(lambda g: calls.append(g))
    grad((x * far).sum(), x)
    assert calls == []


def test_hooks():
    x = leaf(1.0, 2.0)
    y = x * 3
    seen = []
    handle = y.register_hook(lambda g: seen.append(values(g)))
    y.register_hook(lambda g: g * 10)
    leaf_handle = x.register_hook(lambda g: g + 1)
    (y * y).sum().backward()
    assert seen == [[6, 12]] and values(x.grad) == [181, 361]
    handle.remove()
    handle.remove()
    leaf_handle.remove()
    x.grad = None
    z = x * 3
    with z.register_hook(lambda g: g * 0):
        pass
    z.sum().backward()
    assert values(x.grad) == [3, 3]
    bad = x * 2
    bad.register_hook(lambda g: g.float())
    with pytest.raises(RuntimeError, match="hook"):
        bad.sum().backward()


def test_retain_grad():
    x = leaf(1.0, 2.0)
    y = x * 3
    y.retain_grad()
    assert y.retains_grad
    (y * y).sum().backward()
    assert values(y.grad) == [6, 12] and y.grad is not x.grad
    z = x * 2
    z.retain_grad()
    z.add_(1)
    (z * z).sum().backward()
    assert values(z.grad) == [6, 10]
    with pytest.raises(RuntimeError, match="retain_grad"):
        tl.ones(1).retain_grad()


def test_modes():
    x = leaf(1.0)
    with tl.no_grad():
        assert not tl.is_grad_enabled() and not (x * 2).requires_grad
        with tl.enable_grad():
            assert (x * 2).requires_grad
    assert tl.is_grad_enabled()

    @tl.no_grad()
    def quiet():
        return x * 2

    @tl.no_grad
    def bare():
        return x * 2

    @tl.inference_mode()
    def inferred():
        return x * 2

    assert not quiet().requires_grad and not bare().requires_grad and not inferred().requires_grad
    assert quiet.__name__ == "quiet"
    with tl.set_grad_enabled(False):
        assert not tl.is_grad_enabled()
    assert tl.is_grad_enabled()
    tl.set_grad_enabled(False)
    assert not tl.is_grad_enabled()
    tl.set_grad_enabled(True)
    with pytest.raises(ZeroDivisionError), tl.no_grad():
        _ = 1 / 0
    assert tl.is_grad_enabled()


def test_detach_and_leaves():
    x = leaf(1.0, 2.0)
    y = x * 2
    assert x.is_leaf and not y.is_leaf and y.detach().is_leaf and not y.detach().requires_grad
    assert x.grad_fn is None and y.grad_fn.name() == "MulBackward0" and y.grad_fn.next_functions[1][0] is None
    (y.detach() * x).sum().backward()
    assert values(x.grad) == [2, 4]
    assert y.detach().requires_grad_().is_leaf
    frozen = leaf(1.0)
    frozen.requires_grad = False
    assert not frozen.requires_grad and not (frozen * 2).requires_grad


def test_a_hook_sees_the_accumulated_cotangent_once():
    x = leaf(2.0)
    y = x * 1
    calls = []
    y.register_hook(lambda g: calls.append(values(g)))
    (y * 2 + y * 3 + y).sum().backward()
    assert calls == [[6]]


def test_twenty_thousand_operations():
    x = leaf(1.0)
    y = x
    for _ in range(20_000):
        y = y + 1
    y.backward()
    assert values(x.grad) == [1]
    node = weakref.ref(y._node)
    del y
    assert node() is None


def test_eager_steps_do_not_pile_up():
    w = tl.ones(3, requires_grad=True)
    gc.collect()
    gc.disable()
    try:
        seen = []
        for _ in range(3):
            loss = (w.exp() * w).sum()
            seen.append(weakref.ref(loss._node))
            loss.backward()
            with tl.no_grad():
                w.sub_(0.1 * w.grad)
            w.grad = None
        del loss
        assert all(ref() is None for ref in seen)
    finally:
        gc.enable()


def test_intermediate_cotangents_are_freed():
    x = leaf(*range(10))
    alive = []
    y = x
    for _ in range(5):
        y = y * 2
        y.register_hook(lambda g: alive.append(weakref.ref(g._node)))
    y.sum().backward()
    assert len(alive) == 5 and not any(ref() for ref in alive)


def _op(vjp):
    return Op("strange", Kind.OPAQUE, lambda x: x, lambda x: x, vjp)


def test_ill_typed_rules_name_op_and_input():
    x = leaf(1.0, 2.0)
    out = tl.Tensor._from_node(record(_op(lambda g, n, i: autodiff.record(autodiff.ADD, g, g)), x._read()))
    out.sum().backward()
    wrong = _op(lambda g, n, i: tl.ones(3)._node)
    out = tl.Tensor._from_node(record(wrong, x._read()))
    with pytest.raises(RuntimeError, match=r"vjp of strange .* input 0, has type f32\[3\]"):
        out.sum().backward()


def test_ops_without_rules_stop_gradients():
    x = leaf(1.0, 2.0)
    assert not (x > 1).requires_grad and not tl.Tensor._from_node(record(_op(None), x._read())).requires_grad


def test_the_mode_is_put_back_after_an_error():
    x = leaf(1.0)
    y = x * 2
    y.register_hook(lambda g: 1 / 0)
    before = (mode.grad_enabled, mode.phase, mode.scope)
    with pytest.raises(ZeroDivisionError):
        y.backward()
    assert before == (mode.grad_enabled, mode.phase, mode.scope)


def test_backward_nodes_point_to_the_forward_line():
    x = leaf(2.0)
    with mode.set(scope="block.0"):
        y = x.sin()
    (g,) = grad(y, x, create_graph=True)
    location = g._node.location
    assert location.line == y._node.location.line and (location.phase, location.scope) == ("backward", "block.0")


def test_gradient_arguments():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.backward(tl.tensor([1.0, 10.0]))
    assert values(x.grad) == [2, 20]
    with pytest.raises(TypeError):
        (x * 2).backward([1.0, 2.0])
    with pytest.raises(RuntimeError, match="scalar"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        tl.ones(1).backward()
    with pytest.raises(RuntimeError, match="shape"):
        (x * 2).backward(tl.ones(3))
    with pytest.raises(RuntimeError, match="type"):
        x.grad = tl.ones(2)
    with pytest.raises(TypeError):
        x.grad = 3
