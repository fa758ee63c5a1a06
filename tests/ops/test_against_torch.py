"""The same calls in PyTorch: values and gradients, at the usual points and at the edges."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.ops.checks import differentiable
from tests.ops.composite_samples import CALLS, Call
from tinygrad_lite.autodiff import gradients
from tinygrad_lite.ir.record import leaf
from tinygrad_lite.ops import composite, contract, elementwise, promote, reduce

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
F = torch.nn.functional
INF, NAN = math.inf, math.nan

COUNTERPARTS: dict[str, Callable[..., Any]] = {
    "softmax": lambda x, axis=-1: torch.softmax(x, axis),
    "log_softmax": lambda x, axis=-1: torch.log_softmax(x, axis),
    "logsumexp": lambda x, axes: torch.logsumexp(x, axes),
    "log_sigmoid": F.logsigmoid,
    "embedding": lambda w, i, **kw: F.embedding(i, w, **kw),
}


def ours(build: Callable[..., Any], arrays: list[np.ndarray], wrt: tuple[int, ...], weights: np.ndarray) -> list[Any]:
    nodes = [differentiable(a) if i in wrt else leaf(a) for i, a in enumerate(arrays)]
    y = build(*nodes)
    found = gradients([y], [leaf(weights.astype(y.dtype.numpy))], [nodes[i] for i in wrt])
    return [y.value, *[None if g is None else g.value for g in found]]


def theirs(build: Callable[..., Any], arrays: list[np.ndarray], wrt: tuple[int, ...], weights: np.ndarray) -> list[Any]:
    tensors = [torch.tensor(a, requires_grad=i in wrt) for i, a in enumerate(arrays)]
    y = build(*tensors)
    found = torch.autograd.grad(y, [tensors[i] for i in wrt], torch.tensor(weights).to(y.dtype), allow_unused=True)
    return [y.detach().numpy(), *[None if g is None else g.numpy() for g in found]]


def agree(build: Any, other: Any, arrays: list[np.ndarray], wrt: tuple[int, ...], **loose: float) -> None:
    shape = build(*[leaf(a) for a in arrays]).shape
    weights = np.random.default_rng(1).normal(size=shape)
    for a, b in zip(ours(build, arrays, wrt, weights), theirs(other, arrays, wrt, weights), strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_allclose(a, b, **loose)


@pytest.mark.parametrize("call", [pytest.param(c, id=f"{c.function}-{c.id.replace(' ', '_')}") for c in CALLS])
def test_composites(call: Call):
    if call.function == "cross_entropy" and call.id == "i32":
        pytest.skip("PyTorch takes int64 targets only")
    other = COUNTERPARTS.get(call.function) or getattr(F, call.function)
    agree(
        call.build,
        lambda *t: call.apply(other, t),
        call.make(np.random.default_rng(5)),
        call.wrt,
        rtol=1e-9,
        atol=1e-12,
    )


EDGES: list[Any] = [
    ("relu", composite.relu, F.relu),
    ("silu", composite.silu, F.silu),
    ("softplus", composite.softplus, F.softplus),
    ("log_sigmoid", composite.log_sigmoid, F.logsigmoid),
    ("abs", elementwise.abs, torch.abs),
    ("sigmoid", elementwise.sigmoid, torch.sigmoid),
    ("tanh", elementwise.tanh, torch.tanh),
    ("exp", elementwise.exp, torch.exp),
    ("log", elementwise.log, torch.log),
    ("sqrt", elementwise.sqrt, torch.sqrt),
    ("rsqrt", elementwise.rsqrt, torch.rsqrt),
    ("square", lambda x: elementwise.pow(x, 2), lambda x: x**2),
    ("power 1.5", lambda x: elementwise.pow(x, 1.5), lambda x: x**1.5),
    ("power 0", lambda x: elementwise.pow(x, 0.0), lambda x: x**0.0),
    ("sign", elementwise.sign, torch.sign),
    ("max", reduce.max, torch.amax),
    ("softmax", composite.softmax, lambda x: torch.softmax(x, -1)),
]
POINTS = [0.0, -0.0, 1.0, -1.0, 30.0, -30.0, 1e-3, INF]


@pytest.mark.parametrize("name, build, other", EDGES, ids=[e[0] for e in EDGES])
def test_edges(name: str, build: Any, other: Any):
    agree(build, other, [np.array(POINTS)], (0,), rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("function", ["maximum", "minimum"])
def test_ties_share_the_gradient(function: str):
    arrays = [np.array([1.0, 2.0, 3.0]), np.array([1.0, 3.0, 2.0])]
    agree(getattr(elementwise, function), getattr(torch, function), arrays, (0, 1))


def test_prod_with_zeros():
    x = np.array([[2.0, 0.0, 3.0], [0.0, 0.0, 1.0]])
    agree(lambda n: reduce.prod(n, 1), lambda t: t.prod(1), [x], (0,))


@pytest.mark.parametrize("axes, correction", [(None, 1), (0, 0), ((0, 1), 1), (1, 2)])
def test_var(axes: Any, correction: int):
    x = np.random.default_rng(0).normal(size=(4, 5))
    agree(
        lambda n: reduce.var(n, axes, correction),
        lambda t: torch.var(t, axes, correction=correction),
        [x],
        (0,),
        rtol=1e-10,
    )


DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64"]


def test_promotion_table():
    for a in DTYPES:
        for b in DTYPES:
            for shapes in [((2,), (2,)), ((2,), ()), ((), ())]:
                nodes = [leaf(np.ones(s, t)) for s, t in zip(shapes, (a, b), strict=True)]
                tensors = [torch.ones(s, dtype=getattr(torch, t)) for s, t in zip(shapes, (a, b), strict=True)]
                expected = str(torch.result_type(*tensors)).removeprefix("torch.")
                assert promote.result_type(nodes).name == expected, (a, b, shapes)
        for value in (True, 2, 2.5):
            for shape in ((2,), ()):
                expected = str(torch.result_type(torch.ones(shape, dtype=getattr(torch, a)), value))
                found = promote.result_type([leaf(np.ones(shape, a)), value]).name
                assert found == expected.removeprefix("torch."), (a, value, shape)


SHAPES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 2)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 2)),
    ((4, 1, 2, 3), (5, 3, 2)),
    ((2, 3), (5, 3, 2)),
    ((5, 2, 3), (3, 2)),
    ((0, 3), (3, 2)),
    ((2, 0), (0, 2)),
]


@pytest.mark.parametrize("a, b", SHAPES)
def test_matmul(a: tuple[int, ...], b: tuple[int, ...]):
    rng = np.random.default_rng(0)
    agree(contract.matmul, torch.matmul, [rng.normal(size=a), rng.normal(size=b)], (0, 1), rtol=1e-10, atol=1e-12)
