"""autograd.functional against central differences, and where torch is installed against torch.autograd.functional."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite.autograd import functional as AF

try:
    import torch
except ImportError:
    torch = None


def arrays(tree):
    return [arrays(t) for t in tree] if isinstance(tree, tuple | list) else tree.detach().numpy()


def test_jacobian_and_products_against_differences():
    x = tl.tensor(np.random.default_rng(0).normal(size=3))
    f = lambda x: tl.stack([x[0] * x[1], x.exp().sum()])  # noqa: E731
    step = 1e-6
    rows = np.stack([(f(x + step * d) - f(x - step * d)).numpy() / (2 * step) for d in tl.eye(3).double()], 1)
    for strategy in ("reverse-mode", "forward-mode"):
        np.testing.assert_allclose(AF.jacobian(f, x, strategy=strategy).numpy(), rows, atol=1e-8)
    v, w = tl.tensor([1.0, -2.0, 0.5]).double(), tl.tensor([3.0, -1.0]).double()
    np.testing.assert_allclose(AF.jvp(f, x, v)[1].numpy(), rows @ v.numpy(), atol=1e-8)
    np.testing.assert_allclose(AF.vjp(f, x, w)[1].numpy(), w.numpy() @ rows, atol=1e-8)


def test_second_derivatives():
    x, v = tl.tensor([1.0, 2.0]).double(), tl.tensor([1.0, -1.0]).double()
    f = lambda x: (x[0] ** 3 * x[1]).reshape(1)  # noqa: E731
    expected = np.array([[12.0, 3.0], [3.0, 0.0]])
    np.testing.assert_allclose(AF.hessian(f, x).numpy(), expected)
    for product in (AF.hvp, AF.vhp):
        output, found = product(f, x, v)
        assert output.item() == 2
        np.testing.assert_allclose(found.numpy(), expected @ v.numpy())


def test_history_only_on_request():
    x = tl.ones(2, requires_grad=True)
    assert not AF.jacobian(tl.sin, x).requires_grad
    AF.jacobian(lambda x: x**3, x, create_graph=True).sum().backward()
    assert x.grad.tolist() == [6, 6]
    with tl.no_grad():
        assert AF.jacobian(tl.sin, x).shape == (2, 2)


def test_errors():
    x = tl.ones(2)
    for call, kind, message in (
        (lambda: AF.jacobian(tl.sin, [x]), TypeError, "got list at 0"),
        (lambda: AF.jacobian(tl.sin, x, strategy="sideways"), ValueError, "sideways"),
        (lambda: AF.jacobian(lambda x, y: x, (x, x), strict=True), RuntimeError, "output 0 is independent of input 1"),
        (lambda: AF.hessian(tl.sin, x), RuntimeError, r"one element, got \[2\]"),
        (lambda: AF.vjp(tl.sin, x), RuntimeError, "single element"),
        (lambda: AF.jvp(tl.sin, x, tl.ones(3)), RuntimeError, r"shape \[2\] at 0, got \[3\]"),
        (lambda: AF.hvp(tl.sum, x, (x, x)), RuntimeError, "must have 1 tensors, got 2"),
    ):
        with pytest.raises(kind, match=message):
            call()


FORMS = {
    "one to one": (lambda t, x, y: t.sin(x) * x.sum(), 1),
    "one to two": (lambda t, x, y: (x * 2, x.prod()), 1),
    "two to one": (lambda t, x, y: x * y.sum(), 2),
    "two to two": (lambda t, x, y: (x * y, (x + y).sum()), 2),
    "unused": (lambda t, x, y: x * 2, 2),
}


def scalar_of(run):
    def scalar(*args):
        output = run(*args)
        return output[-1] if isinstance(output, tuple) else output.pow(3).sum()

    return scalar


@pytest.mark.torch
@pytest.mark.skipif(torch is None, reason="needs torch")
@pytest.mark.parametrize("name", FORMS)
def test_forms_are_those_of_torch(name):
    f, count = FORMS[name]
    results = []
    for t in (tl, torch):
        given = tuple(t.tensor([1.0, 2.0 * i + 3.0]) for i in range(count))
        given = given[0] if count == 1 else given
        run = lambda x, y=None, t=t: f(t, x, y)  # noqa: E731
        scalar = scalar_of(run)
        api = t.autograd.functional
        outputs = run(*(given if count > 1 else (given,)))
        results.append(
            arrays(
                [
                    api.jacobian(run, given),
                    api.hessian(scalar, given),
                    api.vjp(run, given, outputs),
                    api.jvp(run, given, given),
                    api.hvp(scalar, given, given),
                    api.vhp(scalar, given, given),
                ]
            )
        )
    compare(*results)


def compare(a, b):
    assert type(a) is type(b)
    if isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            compare(x, y)
    else:
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
