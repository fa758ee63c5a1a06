"""tl.func's derivatives against central differences and closed forms, composed with each other, eager and compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import func

RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 3))


def real(*shape, seed=1):
    return tl.tensor(np.random.default_rng(seed).normal(size=shape))


def scalar(x):
    return (x.sin() * x).sum() + (x @ tl.tensor(A) @ x.cos()).exp().log()


def vector(x):
    return tl.stack([x[0] * x[1], (x * x).sum(), x[2].exp(), x[0]])


def differences(f, x, step=1e-5):
    """The Jacobian of a function of one array, by central differences: (*out, *in)."""
    columns = []
    for i in range(x.size):
        d = np.zeros(x.size)
        d[i] = step
        d = d.reshape(x.shape)
        high, low = (f(tl.tensor(x + s * d)).numpy() for s in (1, -1))
        columns.append((high - low) / (2 * step))
    return np.stack(columns, -1).reshape(*columns[0].shape, *x.shape)


def close(a, b, atol=1e-7):
    np.testing.assert_allclose(a.detach().numpy() if isinstance(a, tl.Tensor) else a, b, atol=atol, rtol=1e-6)


def both(f, *args):
    """The results of f eagerly and compiled, which must agree."""
    eager, compiled = f(*args), tl.compile(f)(*args)
    close(eager, compiled.detach().numpy(), 1e-12)
    return eager


def test_gradient():
    x = real(3)
    close(both(func.grad(scalar), x), differences(scalar, x.numpy()))


def test_gradient_of_gradient():
    x = real(3)
    first = func.grad(scalar)
    close(both(func.grad(lambda x: first(x).pow(2).sum()), x), differences(lambda x: first(x).pow(2).sum(), x.numpy()))


def test_levels_do_not_mix():
    """d/dx x · (d/dy x y) at y = 1 is 2 x, not x: the inner derivative sees its own argument alone."""
    found = func.grad(lambda x: x * func.grad(lambda y: x * y)(tl.ones((), dtype=tl.float64)))(tl.tensor(3.0))
    assert found.item() == 6.0
    assert func.grad(lambda x: func.grad(lambda x: x**3)(x))(tl.tensor(2.0)).item() == 12.0


@pytest.mark.parametrize("jacobian", [func.jacrev, func.jacfwd])
def test_jacobians(jacobian):
    x = real(3)
    close(both(jacobian(vector), x), differences(vector, x.numpy()))
    close(jacobian(jacobian(vector))(x), differences(jacobian(vector), x.numpy()))
    matrix = real(2, 3)
    close(jacobian(lambda m: m @ m.T)(matrix), differences(lambda m: m @ m.T, matrix.numpy()))


def test_jacobian_in_chunks():
    x = real(3)
    close(func.jacrev(vector, chunk_size=3)(x), func.jacrev(vector)(x).numpy(), 0)


def test_hessian():
    x = real(3)
    close(both(func.hessian(scalar), x), differences(func.grad(scalar), x.numpy()))
    found = func.hessian(lambda a, b: (a * b).sum() ** 2, argnums=(0, 1))(real(2), real(2, seed=2))
    a, b = real(2).numpy(), real(2, seed=2).numpy()
    close(found[0][1], 2 * np.outer(b, a) + 2 * (a @ b) * np.eye(2))
    close(found[1][1], 2 * np.outer(a, a))


def test_products_with_vectors():
    x, v, w = real(3), real(3, seed=2), real(4, seed=3)
    jacobian = differences(vector, x.numpy())
    output, pull = func.vjp(vector, x)
    close(output, vector(x).numpy(), 0)
    close(pull(w), w.numpy() @ jacobian)
    close(pull(2 * w), 2 * w.numpy() @ jacobian)
    output, tangent = func.jvp(vector, (x,), (v,))
    close(output, vector(x).numpy(), 0)
    close(tangent, jacobian @ v.numpy())
    output, push = func.linearize(vector, x)
    close(push(v), jacobian @ v.numpy())
    close(both(lambda x, v: func.jvp(vector, (x,), (v,))[1], x, v), jacobian @ v.numpy())
    close(func.vmap(push)(tl.stack([v, 2 * v])), np.stack([jacobian @ v.numpy(), 2 * jacobian @ v.numpy()]))


class Pair(NamedTuple):
    left: tl.Tensor
    right: tl.Tensor


def test_structures_of_tensors():
    x, y = real(2), real(2, seed=2)
    given = {"a": x, "b": [y, Pair(x, y)]}
    found = func.grad(lambda t: (t["a"] * t["b"][0]).sum() + t["b"][1].left.sum())(given)
    assert type(found["b"][1]) is Pair
    close(found["a"], y.numpy(), 0)
    close(found["b"][0], x.numpy(), 0)
    close(found["b"][1].left, np.ones(2), 0)
    close(found["b"][1].right, np.zeros(2), 0)
    pull = func.vjp(lambda p: {"sum": p.left + p.right, "twice": (2 * p.left,)}, Pair(x, y))[1]
    back = pull({"sum": tl.ones_like(x), "twice": (tl.ones_like(x),)})
    close(back.left, np.full(2, 3.0), 0)
    jacobian = func.jacrev(lambda p: {"product": p["x"] * p["y"]})({"x": x, "y": y})
    close(jacobian["product"]["x"], np.diag(y.numpy()), 0)
    rows = func.jacfwd(lambda p: (p["x"].sum(), p["y"] * 2))({"x": x, "y": y})
    close(rows[1]["y"], 2 * np.eye(2), 0)
    close(rows[0]["y"], np.zeros(2), 0)


def test_values_and_extra_results():
    x = real(3)
    with_aux = lambda x: (scalar(x), {"twice": 2 * x, "name": "x"})  # noqa: E731
    gradient, aux = func.grad(with_aux, has_aux=True)(x)
    close(aux["twice"], 2 * x.numpy(), 0)
    assert aux["name"] == "x"
    value, again = func.value_and_grad(scalar)(x)
    assert func.grad_and_value(scalar)(x)[1].item() == value.item() == pytest.approx(scalar(x).item())
    close(again, gradient.numpy(), 0)
    (value, aux), again = func.value_and_grad(with_aux, has_aux=True)(x)
    close(again, gradient.numpy(), 0)
    assert len(func.vjp(with_aux, x, has_aux=True)) == len(func.jvp(with_aux, (x,), (x,), has_aux=True)) == 3
    for jacobian in (func.jacrev, func.jacfwd):
        rows, aux = jacobian(lambda x: (vector(x), x.sum()), has_aux=True)(x)
        close(rows, differences(vector, x.numpy()))
        assert aux.item() == pytest.approx(x.sum().item())


def test_argnums():
    x, y = real(2), real(2, seed=2)
    product = lambda x, y: (x * y).sum()  # noqa: E731
    first, last = func.grad(product, argnums=(0, -1))(x, y)
    close(first, y.numpy(), 0)
    close(last, x.numpy(), 0)
    (only,) = func.grad(product, argnums=(1,))(x, y)
    close(only, x.numpy(), 0)
    close(func.jacrev(lambda x, y: x * y, argnums=1)(x, y), np.diag(x.numpy()), 0)
    ((block,),) = (func.jacrev(lambda x, y: x * y, argnums=(1,))(x, y),)
    close(block, np.diag(x.numpy()), 0)


def test_results_carry_history_only_from_outside():
    x, w = real(3), real(3, seed=2).requires_grad_()
    assert not func.grad(scalar)(x).requires_grad
    value = func.value_and_grad(scalar)(x)[0]
    assert not value.requires_grad
    through = func.grad(lambda x: (x * x * w).sum())(x)
    through.sum().backward()
    close(w.grad, 2 * x.numpy(), 0)
    assert func.grad(lambda w: (w**3).sum())(w).requires_grad  # of a tensor that is itself followed
    with tl.no_grad():
        quiet = func.grad(lambda x: (x * x * w).sum())(x)
    assert not quiet.requires_grad
    close(quiet, through.detach().numpy(), 0)
    assert x.grad is None and not x.requires_grad


def test_no_grad_inside_is_respected():
    def f(x):
        with tl.no_grad():
            c = x * x
        return (c * x).sum()

    x = real(3)
    close(both(func.grad(f), x), x.numpy() ** 2)


def test_results_share_no_memory_with_arguments():
    x = real(3)
    output, pull = func.vjp(lambda x: x, x)
    (aux,) = func.vjp(lambda x: (x.sum(), x[1:]), x, has_aux=True)[2:]
    g = pull(x)
    before = x.numpy().copy()
    for t in (output, aux, g):
        t.zero_()
        assert not np.shares_memory(t.numpy(), x.numpy())
    close(x, before, 0)


def test_in_place_within():
    def f(x):
        y = x * 1
        y[0] = x[1] * y[2].clone()
        y.mul_(2)
        return y.sum()

    x = real(3)
    close(both(func.grad(f), x), differences(f, x.numpy()))
    with pytest.raises(RuntimeError, match="leaf Variable"):
        func.grad(lambda x: x.mul_(2).sum())(x)


def test_constants_and_other_dtypes():
    x = real(3)
    close(func.grad(lambda x: tl.ones(()))(x), np.zeros(3), 0)
    close(func.jacfwd(lambda x: tl.ones(2))(x), np.zeros((2, 3)), 0)
    close(func.jacrev(lambda x: x.argmax())(x), np.zeros(3), 0)
    for jacobian in (func.jacrev, func.jacfwd):  # one that the argument decides, beside two that it does not
        rows = jacobian(lambda x: (x * 2, tl.ones(2), x.argmax()))(x)
        for row, expected in zip(rows, (2 * np.eye(3), np.zeros((2, 3)), np.zeros(3)), strict=True):
            close(row, expected, 0)
    half = func.grad(lambda x: (x * x).sum())(tl.ones(2, dtype=tl.bfloat16))
    assert half.dtype is tl.bfloat16 and half.tolist() == [2.0, 2.0]
    assert func.jacrev(lambda x: x[:0])(x).shape == (0, 3)


def test_random_numbers():
    x = real(3)
    f = lambda x: (tl.nn.functional.dropout(x, 0.5) ** 2).sum()  # noqa: E731
    tl.manual_seed(3)
    value, gradient = func.value_and_grad(f)(x)
    close(gradient * x / 2, (gradient * x / 2).numpy(), 0)
    assert value.item() == pytest.approx((gradient * x).sum().item() / 2)
    tl.manual_seed(3)
    again = tl.compile(func.grad(f))(x)
    close(again, gradient.numpy(), 1e-12)


def test_within_a_compiled_step():
    model = tl.nn.Sequential(tl.nn.Linear(3, 4), tl.nn.Tanh(), tl.nn.Linear(4, 1)).double()
    params = {k: v.detach().clone() for k, v in model.named_parameters()}
    x, y = real(5, 3), real(5, 1, seed=2)

    def step(params, x, y):
        loss, grads = func.value_and_grad(lambda p: (func.functional_call(model, p, (x,)) - y).pow(2).mean())(params)
        return loss, {k: p - 0.1 * grads[k] for k, p in params.items()}

    compiled = tl.compile(step)
    a = b = params
    losses = []
    for _ in range(5):
        loss, a = step(a, x, y)
        again, b = compiled(b, x, y)
        assert again.item() == pytest.approx(loss.item(), rel=1e-9)
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)
    assert "1 capture(s)" in str(compiled.explain())


ERRORS = {
    "not a tensor": (ValueError, "must be a Tensor, got float", lambda x: func.grad(scalar)(2.0)),
    "integers": (RuntimeError, "only floating tensors", lambda x: func.grad(scalar)(tl.arange(3))),
    "not a scalar": (
        RuntimeError,
        r"must return a scalar, got a tensor of shape \[3\]",
        lambda x: func.grad(tl.sin)(x),
    ),
    "no tensor back": (RuntimeError, "must return a Tensor, got int", lambda x: func.grad(lambda x: 3)(x)),
    "no aux": (RuntimeError, "output, aux", lambda x: func.grad(scalar, has_aux=True)(x)),
    "argnums out of range": (RuntimeError, "argnums=1 is out of range", lambda x: func.grad(scalar, argnums=1)(x)),
    "argnums twice": (RuntimeError, "twice", lambda x: func.jacrev(lambda a, b: a, argnums=(0, 0))(x, x)),
    "argnums empty": (RuntimeError, "non-empty", lambda x: func.grad(scalar, argnums=())(x)),
    "vjp of no tensor": (RuntimeError, "only Tensors, got float", lambda x: func.vjp(lambda x: 1.0, x)),
    "cotangents of another structure": (RuntimeError, "structure", lambda x: func.vjp(vector, x)[1]((x,))),
    "cotangents of another shape": (RuntimeError, r"f64\[3\] for f64\[4\]", lambda x: func.vjp(vector, x)[1](x)),
    "primals no tuple": (RuntimeError, "primals must be a non-empty tuple", lambda x: func.jvp(vector, x, (x,))),
    "tangents of another structure": (RuntimeError, "tangents", lambda x: func.jvp(vector, (x,), (x, x))),
    "tangents of another dtype": (RuntimeError, "f32", lambda x: func.jvp(vector, (x,), (x.float(),))),
    "strict": (
        RuntimeError,
        "output 1 does not depend",
        lambda x: func.jvp(lambda x: (x, tl.ones(2)), (x,), (x,), strict=True),
    ),
    "randomness": (RuntimeError, "randomness must be one of", lambda x: func.jacfwd(vector, randomness="some")),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    kind, message, call = ERRORS[name]
    with pytest.raises(kind, match=message):
        call(real(3))
