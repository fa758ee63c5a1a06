"""Random programs under the transforms of torch.func and of tl.func: values, structures and kinds of error agree."""

from __future__ import annotations

import random

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import func

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:torch")]

N, STEPS = 3, 7
UNARY = {
    "sin": lambda t, x: t.sin(x),
    "tanh": lambda t, x: t.tanh(x),
    "exp": lambda t, x: t.exp(-x * x),
    "softplus": lambda t, x: t.nn.functional.softplus(x),
    "gelu": lambda t, x: t.nn.functional.gelu(x),
    "square": lambda t, x: x**2,
    "relu": lambda t, x: t.relu(x),
    "softmax": lambda t, x: t.softmax(x, 0),
    "cumsum": lambda t, x: x.cumsum(0),
    "transpose": lambda t, x: x.transpose(0, 1),
    "flip": lambda t, x: x.flip(1),
    "sort": lambda t, x: x.sort(dim=1)[0],
    "rows": lambda t, x: x[t.tensor([2, 0, 0])],
    "window": lambda t, x: t.cat([x[1:], x[:1] * 2]),
    "mean": lambda t, x: x - x.mean(0, keepdim=True),
    "max": lambda t, x: x * x.amax(1, keepdim=True),
    "norm": lambda t, x: x / (1 + (x * x).sum()),
    "triangle": lambda t, x: t.tril(x),
    "where": lambda t, x: t.where(x > 0, x, x * 0.1),
    "gather": lambda t, x: x.gather(1, t.tensor([[0, 2, 1], [1, 1, 0], [2, 0, 0]])),
    "inverse": lambda t, x: t.linalg.solve(x @ x.T + 3 * t.eye(N, dtype=t.float64), x),
    "write": lambda t, x: _written(x),
}
BINARY = {
    "add": lambda t, x, y: x + y,
    "mul": lambda t, x, y: x * y,
    "matmul": lambda t, x, y: x @ y,
    "div": lambda t, x, y: x / (2 + y * y),
    "atan2": lambda t, x, y: t.atan2(x, y + 3),
    "outer": lambda t, x, y: t.einsum("ij,jk->ki", x, y),
}


def _written(x):
    y = x.clone()
    y[0] = y[1] * 2
    return y


def program(seed):
    """A random function of (library, two matrices) → a matrix, and its description."""
    rng = random.Random(seed)
    steps = []
    for i in range(STEPS):
        table = UNARY if rng.random() < 0.6 else BINARY
        steps.append((table, rng.choice(sorted(table)), rng.randrange(i + 2), rng.randrange(i + 2)))

    def run(t, x, y):
        values = [x, y]
        for table, name, a, b in steps:
            operands = (values[a],) if table is UNARY else (values[a], values[b])
            values.append(table[name](t, *operands))
        return values[-1] + 0.1 * values[-2]

    return run, [name for _, name, *_ in steps]


def direction(t, x):
    return t.cos(x)


TRANSFORMS = {
    "grad": lambda t, F, f: lambda x, y: F.grad(lambda x, y: f(x, y).sum(), argnums=(0, 1))(x, y),
    "second grad": lambda t, F, f: lambda x, y: F.grad(lambda x: F.grad(lambda x: f(x, y).sin().sum())(x).sum())(x),
    "value and grad": lambda t, F, f: lambda x, y: F.grad_and_value(lambda x: (f(x, y).sum(), x + y), has_aux=True)(x),
    "vjp": lambda t, F, f: lambda x, y: F.vjp(f, x, y)[1](direction(t, x)),
    "jvp": lambda t, F, f: lambda x, y: F.jvp(f, (x, y), (direction(t, x), direction(t, y))),
    "jacrev": lambda t, F, f: lambda x, y: F.jacrev(f, argnums=1)(x, y),
    "jacfwd": lambda t, F, f: lambda x, y: F.jacfwd(lambda d: {"f": f(d["x"], y), "s": d["x"].sum()})({"x": x}),
    "hessian": lambda t, F, f: lambda x, y: F.hessian(lambda x: f(x, y).sin().sum())(x),
    # + x: PyTorch 2.13 puts the axis of a result that no example decides at the wrong place
    "vmap": lambda t, F, f: lambda x, y: F.vmap(lambda x, y: f(x, y) + x, (2, None), 1)(t.stack([x, y, x * y], 2), y),
    "vmap of grad": lambda t, F, f: (
        lambda x, y: F.vmap(F.grad(lambda x, y: f(x, y).sum()), (None, 0))(x, t.stack([x, y]))
    ),
    "grad of vmap": lambda t, F, f: (
        lambda x, y: F.grad(lambda x: F.vmap(f, (None, 0))(x, t.stack([x, y])).sin().sum())(x)
    ),
    "vmap of jvp": lambda t, F, f: lambda x, y: F.vmap(lambda d: F.jvp(f, (x, y), (d, y))[1])(t.stack([x, y])),
    # PyTorch 2.13's own linearize loses writes in place: compare with its jvp
    "linearize": lambda t, F, f: (
        lambda x, y: (F.linearize(f, x, y)[1] if t is tl else lambda *v: F.jvp(f, (x, y), v)[1])(direction(t, x), y)
    ),
}


def arrays(tree):
    if isinstance(tree, dict):
        return {k: arrays(v) for k, v in tree.items()}
    if isinstance(tree, tuple | list):
        return [arrays(v) for v in tree]
    return tree.detach().numpy()


def compare(ours, theirs, what):
    assert type(ours) is type(theirs)
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        ours, theirs = list(ours.values()), list(theirs.values())
    if isinstance(ours, list):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            compare(a, b, what)
        return
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype, what
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7, err_msg=str(what))


SEEDS = [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 30))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_random_programs(name, seed):
    f, steps = program(seed)
    x, y = np.random.default_rng(seed).normal(size=(2, N, N))
    results = []
    for t, F in ((tl, func), (torch, torch.func)):
        run = TRANSFORMS[name](t, F, lambda x, y, t=t: f(t, x, y))
        results.append(arrays(run(t.tensor(x, dtype=t.float64), t.tensor(y, dtype=t.float64))))
    compare(*results, (name, seed, steps))


# ---- structures and errors -----------------------------------------------------------------------------------------

ERRORS = {
    "grad of no tensor": lambda t, F, x: F.grad(t.sum)(1.0),
    "grad of no scalar": lambda t, F, x: F.grad(t.sin)(x),
    "grad of integers": lambda t, F, x: F.grad(t.sum)(t.arange(3)),
    "argnums": lambda t, F, x: F.grad(t.sum, argnums=2)(x),
    "argnums twice": lambda t, F, x: F.jacrev(t.add, argnums=(0, 0))(x, x),
    "no aux": lambda t, F, x: F.grad(t.sum, has_aux=True)(x),
    "vjp of no tensor": lambda t, F, x: F.vjp(lambda x: 1.0, x),
    "cotangents": lambda t, F, x: F.vjp(t.sin, x)[1]((x, x)),
    "jvp tangents": lambda t, F, x: F.jvp(t.sin, (x,), (x, x)),
    "jvp primals": lambda t, F, x: F.jvp(t.sin, x, x),
    "vmap sizes": lambda t, F, x: F.vmap(t.add)(x, x[:2]),
    "vmap scalar": lambda t, F, x: F.vmap(t.sin)(x.sum()),
    "vmap in_dims": lambda t, F, x: F.vmap(t.sin, in_dims=(0, 0))(x),
    "vmap nothing": lambda t, F, x: F.vmap(t.sin, in_dims=(None,))(x),
    "vmap in_dim range": lambda t, F, x: F.vmap(t.sin, in_dims=3)(x),
    "vmap out_dims": lambda t, F, x: F.vmap(t.sin, out_dims=None)(x),
    "vmap output": lambda t, F, x: F.vmap(lambda x: 1.0)(x),
    "vmap randomness": lambda t, F, x: F.vmap(t.sin, randomness="often")(x),
    "vmap random": lambda t, F, x: F.vmap(lambda x: x + t.rand(1))(x),
    "vmap decision": lambda t, F, x: F.vmap(lambda x: x if x.sum() > 0 else -x)(x),
    "vmap item": lambda t, F, x: F.vmap(lambda x: x.sum().item())(x),
    "vmap chunk_size": lambda t, F, x: F.vmap(t.sin, chunk_size=0)(x),
    "vmap shared write": lambda t, F, x: F.vmap(lambda a: x.add_(a.sum()))(x),
    "unknown names": lambda t, F, x: F.functional_call(t.nn.Linear(3, 3), {"other": x}, (x,), strict=True),
}


@pytest.mark.parametrize("name", ERRORS)
def test_both_raise(name):
    kinds = []
    for t, F in ((tl, func), (torch, torch.func)):
        with pytest.raises(Exception) as caught:
            ERRORS[name](t, F, t.ones(4, 3))
        kinds.append(caught.type)
    assert issubclass(kinds[0], kinds[1]), kinds


def test_functional_call():
    for tie in (True, False):
        results = []
        for t, F in ((tl, func), (torch, torch.func)):
            model = t.nn.Sequential(t.nn.Linear(2, 2), t.nn.BatchNorm1d(2), t.nn.Linear(2, 2))
            model[2].weight = model[0].weight
            given = {k: t.full_like(v, 0.5) for k, v in model.named_parameters()}
            buffers = {"1.running_mean": t.zeros(2), "1.running_var": t.ones(2)}
            x = t.arange(6.0).reshape(3, 2)
            out = F.functional_call(model, (given, buffers), (x,), tie_weights=tie) if tie else None
            out = F.functional_call(model, given | buffers, x) if out is None else out
            results.append(arrays([out, *buffers.values(), model[1].running_mean]))
        compare(*results, "functional_call")


def test_module_gradients_by_example():
    """The per-example gradients of a convolutional network, its weights those of torch."""
    theirs = torch.nn.Sequential(
        torch.nn.Conv2d(1, 3, 3), torch.nn.GELU(), torch.nn.Flatten(), torch.nn.LayerNorm(12), torch.nn.Linear(12, 2)
    )
    ours = tl.nn.Sequential(
        tl.nn.Conv2d(1, 3, 3), tl.nn.GELU(), tl.nn.Flatten(), tl.nn.LayerNorm(12), tl.nn.Linear(12, 2)
    )
    ours.load_state_dict({k: tl.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    x, y = np.random.default_rng(0).normal(size=(5, 1, 4, 4)).astype("f4"), np.array([0, 1, 1, 0, 1])
    results = []
    for t, F, model in ((tl, func, ours), (torch, torch.func, theirs)):

        def loss(p, x, y, t=t, F=F, model=model):
            return t.nn.functional.cross_entropy(F.functional_call(model, p, (x[None],)), y[None])

        params = {k: v.detach() for k, v in model.named_parameters()}
        found = F.vmap(F.grad(loss), in_dims=(None, 0, 0))(params, t.tensor(x), t.tensor(y))
        results.append([v.detach().numpy() for v in found.values()])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
