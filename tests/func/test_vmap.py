"""vmap equals the loop over examples, whatever the function does, eagerly and compiled, and runs it once."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import func
from tinygrad_lite.nn import functional as F
from tinygrad_lite.utils.checkpoint import checkpoint

SIZE = 4


def real(*shape, seed=1):
    return tl.tensor(np.random.default_rng(seed).normal(size=shape))


def array(x):
    return x.detach().numpy()


def looped(f, *args, in_dims=0):
    dims = in_dims if isinstance(in_dims, tuple) else (in_dims,) * len(args)
    picks = lambda x, d, i: x if d is None else x.select(d, i)  # noqa: E731
    return tl.stack([f(*[picks(x, d, i) for x, d in zip(args, dims, strict=True)]) for i in range(SIZE)])


def check(f, *args, in_dims=0, tolerance=1e-10, compiled=False):
    """vmap(f) against the loop."""
    expected = array(looped(f, *args, in_dims=in_dims))
    mapped = func.vmap(f, in_dims)
    result = (tl.compile(mapped) if compiled else mapped)(*args)
    assert result.dtype.numpy == expected.dtype
    np.testing.assert_allclose(array(result), expected, rtol=tolerance, atol=tolerance)


W, V = real(3, 5, seed=8), real(5, 3, seed=9)


def in_place(x):
    y = x.clone()
    y[0] = y[1] * 2
    y[1:].mul_(3)
    y.view(-1)[2] += 1
    return y


def looping(x):
    carry, ys = tl.scan(lambda h, r: (tl.tanh(h @ W[:, :3] + r), h * 2), x[0], x)
    return carry.sum() + ys.pow(2).sum(0)


def choosing(x):
    values, places = x.sort(dim=1, descending=True)
    best = values.topk(2, dim=0)[0]
    return tl.where(best > 0, best, -best) + places[:2].double()


def convolving(x):
    image = x.float().reshape(1, 1, 3, 3)
    weight = W[:2, :4].float().reshape(2, 1, 2, 2)
    return F.max_pool2d(F.conv2d(image, weight, padding=1), 2)


def per_example_kernel(x):
    return F.conv2d(tl.ones(2, 1, 4, 4), x.float().reshape(1, 1, 3, 3))


def indexing(x):
    rows = (x * 10).long().remainder(3)
    table = x.gather(1, rows) + W[rows[0]].sum()
    return table.index_add(0, rows[1], x).scatter(1, rows, x)


PROGRAMS = {
    "arithmetic": lambda x: (x.sin() * W[:, :3] + 1).exp().log1p(),
    "reductions": lambda x: x.amax(0) + x.prod(1) + x.std() + x.argmin().double() + tl.logsumexp(x, 1),
    "shapes": lambda x: tl.cat([x.T.flip(0), x.reshape(9, 1).expand(9, 3), F.pad(x, (0, 0, 1, 2))])[1::2].transpose(
        0, 1
    ),
    "products": lambda x: (x @ W @ V @ x).sum(0) + W.T[:3] @ x[0] + tl.einsum("ij,jk->k", x, x),
    "attention": lambda x: F.scaled_dot_product_attention(
        x[None].float(), x[None].float(), x[None].float(), is_causal=True
    ),
    "normalisation": lambda x: F.layer_norm(x, (3,)) + F.softmax(x, 0) + F.cross_entropy(x, tl.tensor([0, 2, 1])),
    "linear algebra": lambda x: (
        tl.linalg.solve(x @ x.T + tl.eye(3).double(), x) + tl.linalg.svd(x)[1] + tl.linalg.det(x)
    ),
    "cumulation": lambda x: x.cumsum(0) + x.cummax(1)[0] + x.logcumsumexp(0),
    "in place": in_place,
    "a loop": looping,
    "choosing": choosing,
    "convolution": convolving,
    "a kernel of each example's own": per_example_kernel,
    "indexing": indexing,
    "a constant": lambda x: tl.arange(3),
    "gradients": func.grad(lambda x: ((x @ W).tanh() ** 2).sum()),
    "jacobians": func.jacrev(lambda x: x[0] * x.sum()),
    "hessians": func.hessian(lambda x: (x.sum(0) ** 3).sum()),
    "products with vectors": lambda x: func.jvp(lambda x: x @ x, (x,), (x.cos(),))[1],
    "gradients through a convolution": lambda x: func.grad(lambda w: (F.conv2d(tl.ones(1, 1, 4, 4), w) ** 2).sum())(
        x.float()[None, None]
    ),
    "gradients through a loop": func.grad(lambda x: looping(x).sum()),
    "16 bits": lambda x: (x.bfloat16() * 2 + x.bfloat16().sum()).float(),
}


SINGLE = ("convolution", "a kernel of each example's own", "attention", "gradients through a convolution")
COMPILED_ALWAYS = ("arithmetic", "in place", "indexing", "gradients", "a loop")


@pytest.mark.parametrize("name", PROGRAMS)
def test_equals_the_loop(name):
    check(PROGRAMS[name], real(SIZE, 3, 3), tolerance=2e-5 if name in SINGLE else 1e-9)


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in COMPILED_ALWAYS else pytest.mark.slow) for n in PROGRAMS]
)
def test_equals_the_loop_compiled(name):
    check(PROGRAMS[name], real(SIZE, 3, 3), tolerance=2e-5 if name in SINGLE else 1e-9, compiled=True)


def test_axes_in_and_out():
    x, y = real(2, SIZE, seed=1), real(SIZE, 3, seed=2)
    outer = lambda x, y: x[:, None] * y  # noqa: E731
    expected = np.einsum("ab,bc->bac", x.numpy(), y.numpy())
    for dim in (0, 1, 2, -1):
        found = func.vmap(outer, in_dims=(1, 0), out_dims=dim)(x, y)
        np.testing.assert_allclose(found.numpy(), np.moveaxis(expected, 0, dim))
    check(lambda x, y: x @ y[:2], x, y, in_dims=(-1, 0))
    check(lambda x, w: x @ w, y, W, in_dims=(0, None))
    found, same = func.vmap(
        lambda t, n: ({"a": t["x"] * n, "b": t["y"].sum()}, t["y"]), ({"x": 0, "y": None}, None), (0, None)
    )({"x": y, "y": x}, 2)
    np.testing.assert_allclose(found["a"].numpy(), 2 * y.numpy())
    np.testing.assert_allclose(found["b"].numpy(), np.full(SIZE, x.numpy().sum()))
    assert same.shape == (2, SIZE)


def test_nested():
    x, y = real(2), real(3)
    table = func.vmap(func.vmap(lambda a, b: (a * b).sin(), (None, 0)), (0, None))
    np.testing.assert_allclose(table(x, y).numpy(), np.sin(np.outer(x.numpy(), y.numpy())))
    np.testing.assert_allclose(tl.compile(table)(x, y).numpy(), np.sin(np.outer(x.numpy(), y.numpy())))


def test_the_function_runs_once():
    calls = []
    func.vmap(lambda x: calls.append(x.shape) or x)(real(1000, 2))
    assert calls == [(2,)]


def test_the_graph_does_not_grow_with_the_batch():
    f = func.vmap(func.grad(lambda x: (x @ W).tanh().sum()))
    sizes = {len(tl.trace(f, real(n, 3))) for n in (2, 50)}
    assert len(sizes) == 1


def test_what_no_example_decides_is_computed_once():
    graph = tl.trace(func.vmap(lambda x, w: x * tl.linalg.inv(w).exp().sum(), (0, None)), real(SIZE, 2), real(2, 2))
    (exp,) = [n for n in graph.nodes if n.op.name == "exp"]
    assert exp.shape == (2, 2)


def test_gradients_flow_to_arguments_and_to_what_is_shared():
    x, w = real(SIZE, 3).requires_grad_(), real(3, 2, seed=2).requires_grad_()
    func.vmap(lambda x: (x @ w).tanh().sum())(x).pow(2).sum().backward()
    found = x.grad.numpy(), w.grad.numpy()
    x.grad = w.grad = None
    (x @ w).tanh().sum(1).pow(2).sum().backward()
    np.testing.assert_allclose(found[0], x.grad.numpy(), rtol=1e-12)
    np.testing.assert_allclose(found[1], w.grad.numpy(), rtol=1e-12)


def test_no_grad_within_stops_gradients():
    x = real(SIZE, 3).requires_grad_()

    def f(x):
        with tl.no_grad():
            scale = x.exp()
        return (x * scale).sum() + x.detach().sum()

    func.vmap(f)(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp(array(x)))


def test_per_example_gradients_of_a_module():
    model = tl.nn.Sequential(
        tl.nn.Conv2d(1, 2, 3, padding=1), tl.nn.GroupNorm(1, 2), tl.nn.ReLU(), tl.nn.Flatten(), tl.nn.Linear(32, 3)
    )
    x, target = tl.randn(SIZE, 1, 4, 4), tl.tensor([0, 1, 2, 0])
    params = dict(model.named_parameters())

    def loss(params, x, target):
        return F.cross_entropy(func.functional_call(model, params, (x[None],)), target[None])

    found = func.vmap(func.grad(loss), (None, 0, 0))(params, x, target)
    for i in range(SIZE):
        model.zero_grad()
        F.cross_entropy(model(x[i : i + 1]), target[i : i + 1]).backward()
        for name, p in model.named_parameters():
            np.testing.assert_allclose(array(found[name][i]), p.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_over_values_that_a_checkpoint_let_go():
    x, plain = real(3), lambda x: (x.sin() * x).exp()
    kept = lambda x: checkpoint(plain, x, use_reentrant=False)  # noqa: E731
    for transform in (func.jacrev, func.jacfwd, lambda f: func.hessian(lambda x: f(x).sum())):
        np.testing.assert_allclose(transform(kept)(x).numpy(), transform(plain)(x).numpy(), rtol=1e-12)


def test_an_ensemble():
    models = [tl.nn.Sequential(tl.nn.Linear(3, 4), tl.nn.BatchNorm1d(4)).eval() for _ in range(3)]
    x = tl.randn(5, 3)
    params, buffers = func.stack_module_state(models)
    assert params["0.weight"].requires_grad and params["0.weight"].is_leaf and buffers["1.running_mean"].shape == (3, 4)
    found = func.vmap(lambda p, b: func.functional_call(models[0], (p, b), (x,)))(params, buffers)
    np.testing.assert_allclose(array(found), np.stack([array(m(x)) for m in models]), rtol=1e-5, atol=1e-6)


# ---- random numbers ------------------------------------------------------------------------------


def test_randomness_different():
    x = real(SIZE, 3)
    f = func.vmap(lambda x: x * 0 + tl.randn(3, dtype=tl.float64), randomness="different")
    results = []
    for run in (f, tl.compile(f), tl.compile(f)):
        tl.manual_seed(5)
        results.append(run(x).numpy())
        after = tl.rand(1).item()
    tl.manual_seed(5)
    expected = np.stack([tl.randn(3, dtype=tl.float64).numpy() for _ in range(SIZE)])  # the stream, example by example
    assert tl.rand(1).item() == after
    for result in results:
        np.testing.assert_allclose(result, expected, rtol=1e-12)


def test_randomness_same():
    tl.manual_seed(5)
    found = func.vmap(lambda x: x * 0 + tl.randn(3), randomness="same")(tl.zeros(SIZE, 3))
    after = tl.rand(1).item()
    tl.manual_seed(5)
    np.testing.assert_array_equal(found.numpy(), np.tile(tl.randn(3).numpy(), (SIZE, 1)))
    assert tl.rand(1).item() == after


def test_randomness_nested():
    x = tl.zeros(2, SIZE, 3)
    draw = lambda x: x + tl.rand(3)  # noqa: E731
    same_rows = func.vmap(func.vmap(draw, randomness="same"), randomness="different")(x).numpy()
    assert (same_rows == same_rows[:, :1]).all() and not np.allclose(same_rows[0], same_rows[1])
    all_differ = func.vmap(func.vmap(draw, randomness="different"), randomness="different")(x).numpy()
    assert len(np.unique(all_differ)) > 0.9 * all_differ.size
    with pytest.raises(RuntimeError, match=r"random numbers are drawn at .*test_vmap"):
        func.vmap(func.vmap(draw, randomness="different"))(x)


def test_dropout_of_every_example():
    keep = func.vmap(lambda x: F.dropout(x, 0.5), randomness="different")(tl.ones(SIZE, 200)).numpy()
    assert set(np.unique(keep)) == {0.0, 2.0}
    assert len({row.tobytes() for row in keep}) == SIZE
    loop = lambda x: tl.scan(lambda h, r: (h + tl.rand(2), None), x, length=3)[0]  # noqa: E731
    walks = func.vmap(loop, randomness="different")(tl.zeros(SIZE, 2)).numpy()
    assert len({row.tobytes() for row in walks}) == SIZE


# ---- writes --------------------------------------------------------------------------------------


def test_writes_to_arguments_reach_them():
    x = real(3, SIZE)
    before = x.numpy().copy()
    func.vmap(lambda x: x.mul_(2).sum(), in_dims=1)(x)
    np.testing.assert_allclose(x.numpy(), 2 * before)


def test_writes_to_what_is_shared():
    count, total = tl.zeros(()), tl.zeros(3)

    def f(x):
        count.add_(1)
        return x + count

    np.testing.assert_array_equal(func.vmap(f)(tl.zeros(SIZE)).numpy(), np.ones(SIZE))
    assert count.item() == 1
    with pytest.raises(RuntimeError, match="writes what differs between examples"):
        func.vmap(lambda x: total.add_(x))(tl.ones(SIZE, 3))
    assert total.tolist() == [0, 0, 0]


def test_results_share_no_memory():
    x, w = real(SIZE, 3), real(3)
    for found in (
        func.vmap(lambda x: (x, x.detach(), x[1:], w), out_dims=(0, 0, 0, None))(x),
        func.vmap(lambda x: (x.T, w.detach()), out_dims=(1, 0))(x),
    ):
        before = x.numpy().copy(), w.numpy().copy()
        for t in found:
            assert not np.shares_memory(t.numpy(), x.numpy()) and not np.shares_memory(t.numpy(), w.numpy())
            t.zero_()
        np.testing.assert_array_equal(x.numpy(), before[0])
        np.testing.assert_array_equal(w.numpy(), before[1])


def test_chunks():
    x, f = real(SIZE, 3), lambda x: (x.sum(), x * 2)
    whole = func.vmap(f, out_dims=(0, 1))(x)
    for size in (1, 3, 10):
        parts = func.vmap(f, out_dims=(0, 1), chunk_size=size)(x)
        np.testing.assert_array_equal(parts[0].numpy(), whole[0].numpy())
        np.testing.assert_array_equal(parts[1].numpy(), whole[1].numpy())


def test_no_examples():
    assert func.vmap(lambda x: (x @ W).sum())(tl.zeros(0, 3, dtype=tl.float64)).shape == (0,)


X = tl.ones(SIZE, 3)
ERRORS = {
    "a decision": (RuntimeError, "bool.* while vmap runs", lambda: func.vmap(lambda x: x if x.sum() > 0 else -x)(X)),
    "a value": (RuntimeError, "item.* while vmap runs", lambda: func.vmap(lambda x: x.sum().item())(X)),
    "a mask": (RuntimeError, "size depends on values", lambda: func.vmap(lambda x: x[x > 0])(X)),
    "backward": (RuntimeError, "use tl.func.grad", lambda: func.vmap(lambda x: x.requires_grad_().sum().backward())(X)),
    "in_dims no tuple": (ValueError, "must be an integer or a tuple", lambda: func.vmap(tl.sin, in_dims=[0])(X)),
    "no arguments": (ValueError, "no positional arguments", lambda: func.vmap(lambda: X)()),
    "in_dims of another structure": (ValueError, "structure of the arguments", lambda: func.vmap(tl.sin, (0, 0))(X)),
    "in_dims not integers": (ValueError, "integers and None", lambda: func.vmap(tl.sin, (0.5,))(X)),
    "not a tensor": (ValueError, "in_dim 0 was given for a float", lambda: func.vmap(lambda x, y: x)(X, 2.0)),
    "a scalar": (ValueError, "out of range", lambda: func.vmap(tl.sin)(tl.tensor(1.0))),
    "in_dim out of range": (ValueError, "in_dim 2 is out of range", lambda: func.vmap(tl.sin, 2)(X)),
    "nothing mapped": (ValueError, "none of the arguments", lambda: func.vmap(tl.sin, (None,))(X)),
    "numbers of examples": (ValueError, r"disagree.*\[4, 3\]", lambda: func.vmap(tl.add, (0, 1))(X, X)),
    "no tensor back": (ValueError, "only Tensors, got float", lambda: func.vmap(lambda x: 1.0)(X)),
    "out_dims of another structure": (
        ValueError,
        "structure of the results",
        lambda: func.vmap(tl.sin, out_dims=(0, 0))(X),
    ),
    "out_dims not integers": (
        ValueError,
        "out_dims must be made of integers",
        lambda: func.vmap(tl.sin, out_dims="0")(X),
    ),
    "out_dim None": (ValueError, "differs between examples", lambda: func.vmap(tl.sin, out_dims=None)(X)),
    "out_dim out of range": (IndexError, "range", lambda: func.vmap(tl.sin, out_dims=2)(X)),
    "randomness": (RuntimeError, "randomness must be one of", lambda: func.vmap(tl.sin, randomness="some")),
    "chunk_size": (ValueError, "positive integer", lambda: func.vmap(tl.sin, chunk_size=0)),
    "chunks of one draw": (
        ValueError,
        "goes without chunk_size",
        lambda: func.vmap(tl.sin, randomness="same", chunk_size=2),
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    kind, message, call = ERRORS[name]
    with pytest.raises(kind, match=message):
        call()


def test_an_error_leaves_nothing_changed():
    kept = tl.zeros(())

    def f(x):
        kept.add_(1)
        raise KeyError("mine")

    with pytest.raises(KeyError):
        func.vmap(f)(X)
    assert kept.item() == 0 and (kept + 1).item() == 1
