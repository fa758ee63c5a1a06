"""Random tensors: distributions, one stream eager and compiled, generators, errors; and the default dtype."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinygrad_lite as tl

FILLERS = {
    "normal_": (lambda x: x.normal_(1, 2), 1.0, 2.0),
    "uniform_": (lambda x: x.uniform_(-1, 3), 1.0, 4 / math.sqrt(12)),
    "exponential_": (lambda x: x.exponential_(2.0), 0.5, 0.5),
    "log_normal_": (lambda x: x.log_normal_(0.0, 0.25), math.exp(1 / 32), 0.262),
    "geometric_": (lambda x: x.geometric_(0.25), 4.0, math.sqrt(12)),
    "bernoulli_": (lambda x: x.bernoulli_(0.3), 0.3, math.sqrt(0.21)),
    "random_": (lambda x: x.random_(10, 20), 14.5, math.sqrt(99 / 12)),
}
MAKERS = {
    "rand": (lambda: tl.rand(20000), 0.5, 1 / math.sqrt(12)),
    "randn": (lambda: tl.randn(20000), 0.0, 1.0),
    "normal": (lambda: tl.normal(2.0, 0.5, (20000,)), 2.0, 0.5),
    "randint": (lambda: tl.randint(-3, 7, (20000,)), 1.5, math.sqrt(99 / 12)),
    "randint_like": (lambda: tl.randint_like(tl.zeros(20000), 0, 10), 4.5, math.sqrt(99 / 12)),
    "rand_like": (lambda: tl.rand_like(tl.zeros(20000, dtype=tl.float64)), 0.5, 1 / math.sqrt(12)),
    "bernoulli": (lambda: tl.bernoulli(tl.full((20000,), 0.3)), 0.3, math.sqrt(0.21)),
    "multinomial": (lambda: tl.multinomial(tl.tensor([1.0, 0.0, 3.0]), 20000, True), 1.5, math.sqrt(0.75)),
    "randperm": (lambda: tl.randperm(20000), 9999.5, 20000 / math.sqrt(12)),
}
CALLS = {name: (lambda f=f: f(tl.empty(20000)), mean, std) for name, (f, mean, std) in FILLERS.items()} | MAKERS


@pytest.mark.parametrize("name", CALLS)
def test_distribution_and_one_stream(name):
    draw, mean, std = CALLS[name]
    tl.manual_seed(5)
    eager = draw()
    x = eager.double().numpy()
    assert abs(x.mean() - mean) < 5 * std / math.sqrt(x.size) and abs(x.std() - std) < 0.05 * std + 1e-9
    tl.manual_seed(5)
    compiled = tl.compile(draw)
    np.testing.assert_allclose(compiled().double().numpy(), x, rtol=2e-5, atol=1e-6)
    assert not np.array_equal(compiled().double().numpy(), x)


def test_permutations_hold_every_number_once():
    assert sorted(tl.randperm(100).tolist()) == list(range(100))
    assert tl.randperm(5, dtype=tl.int32).dtype is tl.int32 and tl.randperm(0).shape == (0,)


def test_samples_without_replacement_differ():
    weights = tl.tensor([[0.1, 0.0, 0.5, 0.4], [1.0, 1.0, 1.0, 1.0]])
    found = tl.multinomial(weights, 3)
    assert found.shape == (2, 3) and found.dtype is tl.int64
    assert sorted(found[0].tolist()) == [0, 2, 3] and len(set(found[1].tolist())) == 3


def test_multinomial_without_replacement_compiles():
    weights = tl.tensor([0.1, 0.2, 0.3, 0.4])
    tl.manual_seed(1)
    eager = [tl.multinomial(weights, 3).tolist() for _ in range(4)]
    tl.manual_seed(1)
    compiled = tl.compile(lambda w: tl.multinomial(w, 3))
    assert [compiled(weights).tolist() for _ in range(4)] == eager


def test_generators_and_states():
    g = tl.Generator().manual_seed(7)
    first = tl.randn(3, generator=g).tolist()
    assert tl.randn(3, generator=tl.Generator().manual_seed(7)).tolist() == first
    state = tl.get_rng_state()
    a = tl.rand(4).tolist()
    tl.set_rng_state(state)
    assert tl.rand(4).tolist() == a
    assert g.initial_seed() == 7 and isinstance(tl.seed(), int)
    assert tl.initial_seed() >= 0


def test_poisson():
    tl.manual_seed(0)
    x = tl.poisson(tl.full((20000,), 3.0))
    assert x.dtype is tl.float32 and abs(x.mean().item() - 3) < 0.06 and abs(x.var().item() - 3) < 0.2
    with pytest.raises(tl.CaptureError):
        tl.compile(tl.poisson)(tl.ones(2))


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bool"])
def test_random_fills_every_dtype(dtype):
    kind = getattr(tl, dtype)
    x = tl.empty(500, dtype=kind).random_().double()
    assert x.min().item() >= 0 and len(set(x.tolist())) > (1 if dtype == "bool" else 50)


ERRORS = {
    "std": (lambda: tl.empty(2).normal_(0, -1), RuntimeError, "std -1"),
    "range": (lambda: tl.empty(2).uniform_(2, 1), RuntimeError, "from=2"),
    "integers": (lambda: tl.empty(2, dtype=tl.int64).normal_(), RuntimeError, r"normal_.*i64\[2\]"),
    "rate": (lambda: tl.empty(2).exponential_(0), RuntimeError, "lambda=0"),
    "p": (lambda: tl.empty(2).geometric_(1.5), RuntimeError, "p=1.5"),
    "bounds": (lambda: tl.randint(5, 5, (2,)), RuntimeError, "from=5"),
    "permutation": (lambda: tl.randperm(-1), RuntimeError, "non-negative"),
    "size": (lambda: tl.rand(-1), RuntimeError, "-1"),
    "samples": (lambda: tl.multinomial(tl.ones(2), 3), RuntimeError, "cannot sample"),
    "weights": (lambda: tl.multinomial(tl.tensor([-1.0, 1.0]), 1), RuntimeError, "< 0"),
    "generator": (lambda: tl.rand(2, generator=3), TypeError, "Generator"),
    "steps": (lambda: tl.linspace(0, 1, -1), RuntimeError, "linspace.*-1"),
    "eye": (lambda: tl.eye(-1), RuntimeError, "-1"),
    "overflow": (lambda: tl.tensor([300], dtype=tl.uint8), RuntimeError, "without overflow"),
    "chance": (lambda: tl.bernoulli(tl.tensor([0.5, 2.0])), RuntimeError, "bernoulli.*2.0"),
    "randint": (lambda: tl.randint(high=5), TypeError, "randint"),
    "float steps": (lambda: tl.linspace(0, 1, 3.0), TypeError, "linspace.*3.0"),
    "arange": (lambda: tl.arange(math.inf), RuntimeError, "arange.*inf"),
    "sizes twice": (lambda: tl.zeros(2, size=(3,)), TypeError, "keyword"),
    "full": (lambda: tl.full(2, 3), TypeError, r"full\(\): size"),
    "keepdim": (lambda: tl.sum(tl.ones(2, 2), 0, 1), TypeError, "sum.*keepdim"),
    "axis": (lambda: tl.sum(tl.ones(2, 2), dim=0, axis=1), TypeError, "'dim' and 'axis'"),
    "number": (lambda: tl.maximum(tl.ones(1), 0), TypeError, r"maximum\(\): other"),
    "number first": (lambda: tl.eq(0, tl.ones(1)), TypeError, r"eq\(\): input"),
    "numbers": (lambda: tl.remainder(2, 3), TypeError, "remainder.*2 and 3"),
    "hypot": (lambda: tl.hypot(tl.tensor([1]), tl.tensor([1])), RuntimeError, r"hypot.*i64\[1\]"),
    "integer lerp": (lambda: tl.lerp(tl.tensor([1]), tl.tensor([1]), 0.5), RuntimeError, r"lerp.*i64\[1\]"),
    "median": (lambda: tl.tensor([True]).median(), RuntimeError, r"median.*b1\[1\]"),
    "negative weights": (lambda: tl.cov(tl.ones(2), aweights=-tl.ones(2)), RuntimeError, "aweights.*-1"),
    "finfo": (lambda: tl.finfo(tl.int32), TypeError, "int32"),
    "iinfo": (lambda: tl.iinfo(tl.float32), TypeError, "float32"),
    "default": (lambda: tl.set_default_dtype(tl.int32), TypeError, "int32"),
    "rounding": (lambda: tl.div(tl.ones(1), 2, rounding_mode="up"), RuntimeError, "'up'"),
    "clamp": (lambda: tl.ones(1).clamp(), RuntimeError, "clamp"),
    "lerp": (lambda: tl.lerp(tl.ones(1), tl.ones(1, dtype=tl.float64), 0.5), RuntimeError, "lerp.*f64"),
    "bits": (lambda: tl.ones(1) & 1, TypeError, r"bitwise_and.*f32\[1\]"),
    "polygamma": (lambda: tl.polygamma(-1, tl.ones(1)), RuntimeError, "-1"),
    "frac": (lambda: tl.frac(tl.tensor([1])), RuntimeError, r"frac.*i64\[1\]"),
    "quantile": (lambda: tl.quantile(tl.ones(2), 1.5), RuntimeError, "range"),
    "interpolation": (lambda: tl.quantile(tl.ones(2), 0.5, interpolation="x"), ValueError, "'x'"),
    "norm": (lambda: tl.norm(tl.tensor([1])), RuntimeError, r"i64\[1\]"),
    "logcumsumexp": (lambda: tl.logcumsumexp(tl.tensor([1]), 0), RuntimeError, r"i64\[1\]"),
    "cumsum": (lambda: tl.cumsum(tl.ones(2), 1), IndexError, "1"),
    "var": (lambda: tl.var(tl.tensor([1, 2])), RuntimeError, "floating"),
    "dims": (lambda: tl.sum(tl.ones(2, 2), (0, 0)), RuntimeError, "twice"),
    "shapes": (lambda: tl.ones(2) + tl.ones(3), RuntimeError, r"\[2\] and \[3\]"),
    "alpha": (lambda: tl.add(tl.tensor([1]), tl.tensor([1]), alpha=0.5), RuntimeError, "alpha"),
    "isclose": (lambda: tl.isclose(tl.ones(1), tl.ones(1), rtol=-1), RuntimeError, "rtol=-1"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_what_is_wrong(name):
    run, kind, message = ERRORS[name]
    with pytest.raises(kind, match=message):
        run()


def test_default_dtype():
    assert tl.get_default_dtype() is tl.float32
    compiled = tl.compile(lambda x: x * 2.5)
    try:
        tl.set_default_dtype(tl.float64)
        made = [
            tl.tensor(1.5),
            tl.zeros(2),
            tl.rand(2),
            tl.randn(2),
            tl.arange(0, 1, 0.5),
            tl.linspace(0, 1, 2),
            tl.eye(2),
        ]
        assert all(x.dtype is tl.float64 for x in made)
        assert (tl.tensor([1]) / 2).dtype is tl.tensor([1]).exp().dtype is tl.float64
        assert (tl.tensor([1]) * 2.5).dtype is compiled(tl.tensor([1])).dtype is tl.float64
    finally:
        tl.set_default_dtype(tl.float32)
    assert compiled(tl.tensor([1])).dtype is tl.float32


def test_limits():
    assert tl.finfo(tl.float32).eps == 2**-23 and tl.finfo(tl.bfloat16).bits == 16
    assert type(tl.finfo().eps) is float and tl.finfo().dtype == "float32" and tl.finfo(tl.float64).resolution == 1e-15
    assert tl.finfo(tl.float16).max == 65504 and tl.iinfo(tl.int8).min == -128
    assert tl.can_cast(tl.int32, tl.float16) and not tl.can_cast(tl.float32, tl.int64)
    assert tl.promote_types(tl.uint8, tl.int8) is tl.int16 and tl.result_type(tl.tensor([1]), 2.5) is tl.float32
    assert tl.is_tensor(tl.ones(1)) and tl.numel(tl.ones(2, 3)) == 6 and tl.is_floating_point(tl.ones(1))
