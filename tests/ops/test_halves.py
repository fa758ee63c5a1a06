"""float16 and bfloat16: stored in 16 bits, computed in float32, rounded once an operation; eager and compiled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tinygrad_lite as tl
from tests.backend.test_scalars import call, native
from tinygrad_lite.backends.numba import plain

KINDS = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
DTYPES = {"f16": tl.float16, "bf16": tl.bfloat16}
tags = pytest.mark.parametrize("tag", KINDS)

READ = """
def kernel(args, lo, hi, worker):
    w = i64_at(args)
    x = {tag}_at(w[0])
    y = f32_at(w[1])
    for i in range(lo, hi):
        y[i] = load_{tag}(x, i)
"""
WRITE = """
def kernel(args, lo, hi, worker):
    w = i64_at(args)
    x = f32_at(w[0])
    y = {tag}_at(w[1])
    for i in range(lo, hi):
        store_{tag}(y, i, x[i])
"""
ROUND = """
def kernel(args, lo, hi, worker):
    w = i64_at(args)
    x = {source}_at(w[0])
    y = f32_at(w[1])
    for i in range(lo, hi):
        y[i] = {tag}(x[i])
"""


@tags
def test_every_pattern_is_read_and_written_back(tag):
    words = np.arange(1 << 16, dtype=np.uint16)
    out, back = np.empty(words.size, np.float32), np.empty_like(words)
    call(native(READ.format(tag=tag)), words, out)
    np.testing.assert_array_equal(out, words.view(KINDS[tag]).astype(np.float32))
    call(native(WRITE.format(tag=tag)), out, back)
    numbers = ~np.isnan(out)
    np.testing.assert_array_equal(back[numbers], words[numbers])
    assert np.isnan(back.view(KINDS[tag])[~numbers].astype(np.float32)).all()


@tags
def test_rounding_is_to_the_nearest_halves_to_even(tag):
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 200000, dtype=np.uint32)
    halves = np.arange(1 << 16, dtype=np.uint16).view(KINDS[tag]).astype(np.float32)
    with np.errstate(all="ignore"):
        ties = ((halves[:-1].astype(np.float64) + halves[1:]) / 2).astype(np.float32)
        x = np.concatenate(
            [bits.view(np.float32), ties, [65519.9, 65520, 65536, 3.4e38, -3.4e38, np.inf, -np.inf, np.nan]]
        )
        x = x.astype(np.float32)
        expected = x.astype(KINDS[tag]).astype(np.float32)
    out = np.empty_like(x)
    call(native(ROUND.format(tag=tag, source="f32")), x, out)
    np.testing.assert_array_equal(out, expected)
    few = np.ascontiguousarray(x[-300:])
    slow = np.empty_like(few)
    call(plain.plain_kernel(ROUND.format(tag=tag, source="f32")), few, slow)
    np.testing.assert_array_equal(slow, expected[-300:])


@tags
@pytest.mark.parametrize("source", ["f64", "i64", "i32", "u8"])
def test_other_numbers_go_through_float32(tag, source):
    x = np.array([0, 1, 2.5, 100, 2049, 70000, 1 + 2**-11 + 2**-40]).astype(plain.NUMPY[source])
    out = np.empty(x.size, np.float32)
    call(native(ROUND.format(tag=tag, source=source)), x, out)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, x.astype(np.float32).astype(KINDS[tag]).astype(np.float32))


def _rounded(x: tl.Tensor) -> np.ndarray:
    return x.float().detach().numpy()


ONCE: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "number": lambda x, y: x * 1.1,
    "div": lambda x, y: x / y,
    "pow": lambda x, y: x.abs() ** y,
    "exp": lambda x, y: x.exp(),
    "tanh": lambda x, y: x.tanh(),
    "sigmoid": lambda x, y: x.sigmoid(),
    "maximum": lambda x, y: tl.maximum(x, y),
    "where": lambda x, y: tl.where(x > y, x, y),
    "sum": lambda x, y: x.sum(0),
    "mean": lambda x, y: x.mean(1),
    "var": lambda x, y: x.var(1),
    "std": lambda x, y: x.std(),
    "norm": lambda x, y: x.norm(dim=0),
    "prod": lambda x, y: x.prod(1),
    "max": lambda x, y: x.amax(1),
    "cumsum": lambda x, y: x.cumsum(1),
    "cumprod": lambda x, y: x.cumprod(0),
    "logsumexp": lambda x, y: x.logsumexp(1),
    "softmax": lambda x, y: tl.softmax(x, 1),
    "log_softmax": lambda x, y: tl.log_softmax(x, 1),
    "gelu": lambda x, y: tl.nn.functional.gelu(x),
    "layer_norm": lambda x, y: tl.nn.functional.layer_norm(x, (4,)),
    "cross_entropy": lambda x, y: tl.nn.functional.cross_entropy(x, tl.tensor([0, 3, 1])),
    "mse_loss": lambda x, y: tl.nn.functional.mse_loss(x, y),
    "matmul": lambda x, y: x @ y.T,
    "clamp": lambda x, y: x.clamp(-0.5, 0.5),
    "lgamma": lambda x, y: tl.lgamma(x),
    "cat": lambda x, y: tl.cat([x, y]),
    "index": lambda x, y: x[:, 1:3],
    "flip": lambda x, y: x.flip(0).transpose(0, 1).reshape(-1),
    "gather": lambda x, y: x.gather(1, tl.tensor([[0, 2], [1, 1], [3, 0]])),
}


@tags
@pytest.mark.parametrize("name", ONCE)
def test_computed_in_float32_and_rounded_once(tag, name):
    x, y = (tl.tensor(a).to(DTYPES[tag]) for a in np.random.default_rng(1).normal(size=(2, 3, 4)))
    f = ONCE[name]
    got = f(x, y)
    wide = f(x.float(), y.float())
    assert got.dtype is DTYPES[tag]
    np.testing.assert_array_equal(_rounded(got), _rounded(wide.to(DTYPES[tag])))
    compiled = tl.compile(f)(x, y)
    assert compiled.dtype is DTYPES[tag]
    np.testing.assert_allclose(_rounded(compiled), _rounded(got), rtol=tl.finfo(DTYPES[tag]).eps * 1.01)


@tags
def test_gradients_have_the_dtype(tag):
    x = tl.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]], dtype=DTYPES[tag], requires_grad=True)
    w = tl.tensor([[1.0, 2.0], [0.5, -1.0], [0.25, 0.125]], dtype=DTYPES[tag], requires_grad=True)

    def loss(x, w):
        return ((x @ w).tanh() * x.sum(1, keepdim=True)).mean()

    loss(x, w).backward()
    wide = [t.detach().float().requires_grad_() for t in (x, w)]
    loss(*wide).backward()
    for narrow, exact in zip((x, w), wide, strict=True):
        assert narrow.grad.dtype is DTYPES[tag]
        eps = float(tl.finfo(DTYPES[tag]).eps)
        np.testing.assert_allclose(_rounded(narrow.grad), exact.grad.numpy(), rtol=8 * eps, atol=4 * eps)


@tags
def test_sums_do_not_stall(tag):
    """In 16 bits 1 + 1 + … would stop at 2048 (float16) or 256 (bfloat16)."""
    x = tl.ones(4096, dtype=DTYPES[tag])
    assert x.sum().item() == tl.compile(lambda x: x.sum())(x).item() == 4096
    big = tl.full((1000,), 200.0, dtype=DTYPES[tag])
    assert big.mean().item() == tl.compile(lambda x: x.mean())(big).item() == 200


def test_promotion():
    half, brain = tl.ones(1, dtype=tl.half), tl.ones(1, dtype=tl.bfloat16)
    assert (half + brain).dtype is tl.float32
    assert (half + tl.ones(1)).dtype is tl.float32
    assert (brain + tl.ones(1, dtype=tl.float64)).dtype is tl.float64
    assert (half + tl.ones(1, dtype=tl.int64)).dtype is tl.float16
    assert (half * 2.5).dtype is tl.float16
    assert (half + tl.tensor(1.0)).dtype is tl.float16


@tags
def test_in_place_views_text_and_items(tag):
    x = tl.zeros(2, 3, dtype=DTYPES[tag])
    x[0] += 1.5
    x[:, 1].mul_(2)
    assert x.tolist() == [[1.5, 3.0, 1.5], [0.0, 0.0, 0.0]]
    assert repr(x[0]) == f"tensor([1.5000, 3.0000, 1.5000], dtype={DTYPES[tag]!r})"
    assert isinstance(x[0, 1].item(), float) and math.isclose(x[0, 1].item(), 3.0)
    assert x.element_size() == 2 and x.nbytes == 12


@tags
def test_random_numbers_stay_below_one_and_equal_compiled(tag):
    draw = lambda: tl.rand(4000, dtype=DTYPES[tag])  # noqa: E731
    tl.manual_seed(3)
    eager = _rounded(draw())
    tl.manual_seed(3)
    np.testing.assert_array_equal(_rounded(tl.compile(draw)()), eager)
    assert eager.min() >= 0 and eager.max() < 1 and abs(eager.mean() - 0.5) < 0.03


@tags
def test_training_step(tag):
    """A compiled step on 16-bit parameters does what the eager one does."""
    results = []
    for compiled in (False, True):
        tl.manual_seed(0)
        model = tl.nn.Sequential(tl.nn.Linear(4, 8), tl.nn.Tanh(), tl.nn.Linear(8, 1)).to(DTYPES[tag])
        optimizer = tl.optim.SGD(model.parameters(), lr=0.1)
        x = tl.randn(16, 4, dtype=DTYPES[tag])

        def step(x, model=model, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        run = tl.compile(step) if compiled else step
        results.append([run(x).item() for _ in range(5)])
    np.testing.assert_allclose(*results, rtol=30 * float(tl.finfo(DTYPES[tag]).eps))
    assert results[0][-1] < results[0][0]


@tags
@pytest.mark.parametrize("wanted", [tl.uint8, tl.int8, tl.int16, tl.int32, tl.int64], ids=lambda d: d.name)
def test_integers_are_reached_through_float32(tag, wanted):
    x = tl.tensor([-1.0, 300.0, -300.0, -129.0, 40000.0, 65000.0] * 3).to(DTYPES[tag])
    expected = x.float().to(wanted)
    assert tl.equal(x.to(wanted), expected)
    assert tl.equal(tl.compile(lambda x: x.to(wanted))(x), expected)
