"""autograd.Function: gradients of the user's own, to second order, eagerly, compiled, in loops and under transforms."""

from __future__ import annotations

import gc
import re
import weakref

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import func
from tinygrad_lite.autograd import Function, gradcheck, gradgradcheck
from tinygrad_lite.autograd.function import once_differentiable
from tinygrad_lite.interpreter import evaluate
from tinygrad_lite.ir.parse import parse
from tinygrad_lite.ir.text import to_text
from tinygrad_lite.ir.verify import verify


class Relu(Function):
    """As the PyTorch tutorial writes it: a saved argument, a mask, a write to a clone."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        grad = grad_output.clone()
        grad[x < 0] = 0
        return grad


class Exp(Function):
    """A saved result."""

    @staticmethod
    def forward(ctx, x):
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx, g):
        (result,) = ctx.saved_tensors
        return g * result


class SinCos(Function):
    """The other form; several results, one of them integers; an argument that is no tensor."""

    @staticmethod
    def forward(x, k=1.0):
        return (x * k).sin(), (x * k).cos(), x.argmax()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.k = inputs[1]
        ctx.save_for_backward(*output[:2])

    @staticmethod
    def backward(ctx, g_sin, g_cos, _):
        sin, cos = ctx.saved_tensors
        return ctx.k * (g_sin * cos - g_cos * sin), None


class Power(Function):
    """A tensor kept as an attribute, an intermediate one saved, gradients only where they are needed."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.x, square = x, w * w
        ctx.save_for_backward(square, None, w)
        return x * x * square

    @staticmethod
    def backward(ctx, g):
        square, nothing, w = ctx.saved_tensors
        assert nothing is None and square.shape == w.shape
        need_x, need_w = ctx.needs_input_grad
        return (2 * g * ctx.x * w * w if need_x else None), (2 * g * ctx.x**2 * w if need_w else None)


def real(*shape, seed=1):
    return tl.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=True)


FUNCTIONS = {
    "a saved argument": (Relu.apply, 1),
    "a saved result": (Exp.apply, 1),
    "several results": (lambda x: SinCos.apply(x, 2.0)[:2], 1),
    "attributes": (Power.apply, 2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients(name):
    f, count = FUNCTIONS[name]
    inputs = [real(3, seed=i + 1) for i in range(count)]
    assert gradcheck(f, inputs)
    assert gradgradcheck(f, inputs)


def loss(x):
    sin, cos, _ = SinCos.apply(x, 2.0)
    return (sin * cos * Exp.apply(x) * Relu.apply(x) + Power.apply(x, x.cos())).sum()


def reference(x):
    return ((2 * x).sin() * (2 * x).cos() * x.exp() * x.relu() + (x * x.cos()) ** 2).sum()


def looped(f):
    return lambda x: tl.scan(lambda h, row: (h + f(row + h), h), tl.zeros((), dtype=tl.float64), x)[0]


TRANSFORMS = {
    "gradients": func.grad,
    "second derivatives": func.hessian,
    "products with vectors": lambda f: lambda x: func.jvp(f, (x,), (x.cos(),))[1],
    "gradients of each example": lambda f: func.vmap(func.grad(f)),
    "gradients through a batch": lambda f: func.grad(lambda x: func.vmap(f)(x).pow(2).sum()),
    "second derivatives of each example": lambda f: func.vmap(func.hessian(f)),
    "gradients through a loop": lambda f: func.grad(looped(f)),
    "second derivatives through a loop": lambda f: func.grad(lambda x: func.grad(looped(f))(x).pow(2).sum()),
    "gradients through a loop for each example": lambda f: func.grad(
        lambda x: func.vmap(looped(f), in_dims=1)(x[:, :, None]).sum()
    ),
}


def check_transform(name, wrap):
    x = real(4, 3).detach()
    expected = TRANSFORMS[name](reference)(x).numpy()
    np.testing.assert_allclose(wrap(TRANSFORMS[name](loss))(x).numpy(), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_composes_with_transforms_and_loops(name):
    check_transform(name, lambda f: f)


COMPILED_ALWAYS = ("gradients", "gradients through a loop")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in COMPILED_ALWAYS else pytest.mark.slow) for n in TRANSFORMS]
)
def test_composes_with_capture(name):
    check_transform(name, tl.compile)


def test_the_user_s_gradient_is_the_one_used():
    class Tenfold(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return 10 * g

    x = real(2)
    f = lambda x: Tenfold.apply(x).sum()  # noqa: E731
    loop = lambda x: tl.scan(lambda h, row: (h + f(row), None), tl.zeros((), dtype=tl.float64), x)[0]  # noqa: E731
    for run in (
        func.grad(f),
        tl.compile(func.grad(f)),
        func.grad(loop),
        tl.compile(func.grad(loop)),
        func.vmap(func.grad(f)),
    ):
        np.testing.assert_array_equal(run(x.detach()[:, None]).numpy(), np.full((2, 1), 10.0))


def test_a_compiled_training_step_equals_the_eager_one():
    def train(compiled):
        tl.manual_seed(0)
        w = tl.randn(3, 3).requires_grad_()
        x = tl.randn(5, 3)
        optimiser = tl.optim.SGD([w], lr=0.1)

        def step(x):
            optimiser.zero_grad()
            value = (Relu.apply(x @ w) * Exp.apply(-x)).pow(2).mean()
            value.backward()
            optimiser.step()
            return value

        run = tl.compile(step) if compiled else step
        return [run(x).item() for _ in range(4)], w.detach().numpy()

    (a, w), (b, v) = train(False), train(True)
    np.testing.assert_allclose(a, b, rtol=1e-5)
    np.testing.assert_allclose(w, v, rtol=1e-5)


def test_results_and_their_history():
    x = real(3)
    y = Exp.apply(x)
    assert y.grad_fn.name() == "ExpBackward" and not y.is_leaf
    assert not Exp.apply(x.detach()).requires_grad
    with tl.no_grad():
        assert not Exp.apply(x).requires_grad
    sin, _cos, where = SinCos.apply(x)  # k by default
    assert sin.requires_grad and not where.requires_grad and where.item() == x.argmax().item()
    assert SinCos.apply(x, k=0.0)[0].abs().max().item() == 0

    class Same(Function):
        @staticmethod
        def forward(ctx, x, y):
            return x, "name", y[1:]

        @staticmethod
        def backward(ctx, g, nothing, h):
            assert nothing is None
            return 3 * g, tl.cat([tl.zeros(1, dtype=h.dtype), h])

    a, b = real(2), real(3)
    same, name, part = Same.apply(a, b)
    assert same is not a and name == "name" and not np.shares_memory(same.detach().numpy(), a.detach().numpy())
    assert not np.shares_memory(part.detach().numpy(), b.detach().numpy())
    (same.sum() + part.sum()).backward()
    assert a.grad.tolist() == [3, 3] and b.grad.tolist() == [0, 1, 1]


def test_dtypes_of_several_results():
    class Both(Function):
        @staticmethod
        def forward(ctx, x):
            return x.double(), x.bfloat16(), x * 1

        @staticmethod
        def backward(ctx, a, b, c):
            assert (a.dtype, b.dtype, c.dtype) == (tl.float64, tl.bfloat16, tl.float32)
            return a.float() + b.float() + c

    x = tl.ones(2, requires_grad=True)
    a, b, c = Both.apply(x)
    assert (a.dtype, b.dtype, c.dtype) == (tl.float64, tl.bfloat16, tl.float32)
    (a.sum() + 2 * b.float().sum() + 4 * c.sum()).backward()
    assert x.grad.tolist() == [7, 7]


def test_gradients_that_did_not_come():
    seen = []

    class Two(Function):
        @staticmethod
        def forward(ctx, x, materialize):
            ctx.set_materialize_grads(materialize)
            aside = x + 2
            ctx.mark_non_differentiable(aside)
            return x * 2, x * 3, aside

        @staticmethod
        def backward(ctx, *grads):
            seen.append(grads)
            return sum(k * g for k, g in zip((2, 3), grads, strict=False) if g is not None), None

    for materialize in (True, False):
        x = real(2)
        _, second, aside = Two.apply(x, materialize)
        assert not aside.requires_grad
        second.sum().backward()
        assert x.grad.tolist() == [3, 3]
    assert [None if g is None else g.tolist() for g in seen[0]] == [[0, 0], [1, 1], [0, 0]]
    assert seen[1][0] is None and seen[1][1].tolist() == [1, 1] and seen[1][2] is None


def test_arguments_changed_in_place():
    class Double(Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    def run(x):
        y = x * 1
        before = y.detach().clone()
        z = Double.apply(y)
        assert z is y
        return (y * before).sum()

    x = real(3)
    run(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * x.detach().numpy())
    np.testing.assert_allclose(tl.compile(func.grad(run))(x.detach()).numpy(), x.grad.numpy())
    with pytest.raises(RuntimeError, match="leaf Variable"):
        Double.apply(real(2))

    class Lost(Double):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x * 2

    with pytest.raises(RuntimeError, match="Lost: a tensor that was marked dirty must be returned"):
        Lost.apply(x * 1)


def test_gradients_are_fitted_to_their_arguments():
    class Wide(Function):
        @staticmethod
        def forward(ctx, x, shape):
            return x.sum() * tl.ones(shape)

        @staticmethod
        def backward(ctx, g):
            return g.double(), None, None, None  # more than there are arguments, as long as they are None

    x = tl.ones(1, 3, requires_grad=True)
    Wide.apply(x, (2, 3)).sum().backward()
    assert x.grad.tolist() == [[2, 2, 2]] and x.grad.dtype is tl.float32


class Wrong(Function):
    @staticmethod
    def forward(ctx, x, answer):
        ctx.answer = answer
        return x * 1

    @staticmethod
    def backward(ctx, g):
        return ctx.answer(g)


WRONG = {
    "too few": (
        RuntimeError,
        r"Wrong.backward\(\) returned an incorrect number of gradients \(expected 2, got 1\)",
        lambda g: g,
    ),
    "too many": (RuntimeError, "expected 2, got 3", lambda g: (g, None, g)),
    "shape": (
        RuntimeError,
        r"index 0 an invalid gradient: got \[5\] but expected .* \[3\]",
        lambda g: (tl.ones(5), None),
    ),
    "no tensor": (TypeError, "index 0 a float", lambda g: (1.0, None)),
    "of no tensor": (RuntimeError, "index 1 a gradient other than None", lambda g: (g, g)),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_gradients_are_named(name):
    kind, message, answer = WRONG[name]
    with pytest.raises(kind, match=message):
        Wrong.apply(real(3), answer).sum().backward()


def test_misuse_is_named():
    with pytest.raises(RuntimeError, match="not to be instantiated"):
        Relu()
    with pytest.raises(NotImplementedError, match=r"must define forward\(\)"):
        type("Empty", (Function,), {}).apply(real(1))
    with pytest.raises(NotImplementedError, match=r"must define backward\(\)"):
        type("Half", (Function,), {"forward": staticmethod(lambda ctx, x: x * 1)}).apply(real(1)).backward()

    class Saves(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(3)

    with pytest.raises(TypeError, match="can only save tensors, got int"):
        Saves.apply(real(1))


def test_second_passes_and_overwritten_values():
    y = Relu.apply(real(3)).sum()
    y.backward()
    with pytest.raises(RuntimeError, match=r"second time: Relu at .*test_function"):
        y.backward()
    x = real(3) * 1
    y = Relu.apply(x).sum()
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation: Relu"):
        y.backward()

    class Nothing(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return 2 * g

    x = real(3)
    y = Nothing.apply(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4, 4, 4]


def test_once_differentiable():
    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return 3 * g * x * x

    x = real(2)
    Cube.apply(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * x.detach().numpy() ** 2)
    (g,) = tl.autograd.grad(Cube.apply(x).mul(x).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"differentiate twice .*once_differentiable: .*Cube"):
        g.sum().backward()


def test_nothing_is_kept_alive_after_the_graph_is_gone():
    gc.collect()
    gc.disable()
    try:
        x = real(3)
        y = Exp.apply(x)
        z = y * 2
        known = [weakref.ref(each) for each in (y._node, y._node.op, z._node)]
        verify(z.graph())
        gc.collect()  # a graph is a cycle of its own
        del y, z
        assert [each() for each in known] == [None] * 3
    finally:
        gc.enable()


def test_the_gradient_is_not_part_of_a_graph_s_text():
    graph = tl.trace(lambda x: Exp.apply(x) * 2, real(2), train=True)
    assert " = function %" in graph.to_text() and 'name="Exp"' in graph.to_text()
    again = parse(graph.to_text())
    assert to_text(again) == re.sub("  # .*", "", graph.to_text())
    ((result,), _) = evaluate(again, [np.zeros(2)])
    assert result.tolist() == [2, 2]
    (node,) = [n for n in again.nodes if n.op.name == "function"]
    with pytest.raises(RuntimeError, match=r"the gradient of Exp at .* is Python code"):
        node.op.vjp(node, node, 0)
