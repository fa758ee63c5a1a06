"""Initial distributions by their moments and bounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.nn import init


@pytest.fixture(autouse=True)
def seed():
    tl.manual_seed(3)


def drawn(fill, *shape: int, **options) -> np.ndarray:
    tensor = tl.zeros(*(shape or (200, 100)))
    assert fill(tensor, **options) is tensor
    return tensor.numpy()


def same_distribution(values: np.ndarray, distribution) -> bool:
    return stats.kstest(values.ravel(), distribution.cdf).pvalue > 1e-3


def uniform(bound: float):
    return stats.uniform(-bound, 2 * bound)


@pytest.mark.parametrize(
    ("values", "distribution"),
    [
        (lambda: drawn(init.uniform_, a=-3.0, b=1.0), stats.uniform(-3, 4)),
        (lambda: drawn(init.normal_, mean=2.0, std=0.5), stats.norm(2, 0.5)),
        (lambda: drawn(init.trunc_normal_, std=2.0, a=-1.0, b=3.0), stats.truncnorm(-0.5, 1.5, scale=2)),
        (lambda: drawn(init.xavier_uniform_, gain=2.0), uniform(2 * math.sqrt(6 / 300))),
        (lambda: drawn(init.xavier_normal_), stats.norm(0, math.sqrt(2 / 300))),
        (lambda: drawn(init.kaiming_uniform_, a=math.sqrt(5)), uniform(1 / math.sqrt(100))),
        (lambda: drawn(init.kaiming_normal_, mode="fan_out", nonlinearity="relu"), stats.norm(0, math.sqrt(2 / 200))),
        (lambda: drawn(init.kaiming_normal_, 20, 10, 3, 3), stats.norm(0, math.sqrt(2 / 90))),
        (lambda: nn.Linear(100, 200).weight.detach().numpy(), uniform(0.1)),
        (lambda: nn.Linear(100, 5000).bias.detach().numpy(), uniform(0.1)),
        (lambda: nn.Embedding(200, 100).weight.detach().numpy(), stats.norm()),
    ],
)
def test_distribution(values, distribution):
    assert same_distribution(values(), distribution)


def test_constants():
    assert np.all(drawn(init.zeros_) == 0) and np.all(drawn(init.ones_) == 1)
    assert np.all(drawn(init.constant_, val=2.5) == 2.5)
    np.testing.assert_array_equal(drawn(init.eye_, 3, 5), np.eye(3, 5))


@pytest.mark.parametrize("shape", [(8, 20), (20, 8), (6, 2, 3)])
def test_orthogonal(shape):
    q = drawn(init.orthogonal_, *shape, gain=2.0).reshape(shape[0], -1)
    small = q @ q.T if q.shape[0] <= q.shape[1] else q.T @ q
    np.testing.assert_allclose(small, 4 * np.eye(len(small)), atol=1e-5)


def test_gains():
    assert init.calculate_gain("linear") == init.calculate_gain("conv2d") == init.calculate_gain("sigmoid") == 1
    assert init.calculate_gain("tanh") == 5 / 3
    assert init.calculate_gain("relu") == math.sqrt(2)
    assert init.calculate_gain("leaky_relu", 1.0) == 1
    with pytest.raises(ValueError, match="swish"):
        init.calculate_gain("swish")


def test_errors():
    for fill in (init.xavier_uniform_, init.kaiming_normal_, init.orthogonal_, init.eye_):
        with pytest.raises(ValueError, match=r"axes|matrices"):
            fill(tl.zeros(3))
    with pytest.raises(ValueError, match="mode"):
        init.kaiming_uniform_(tl.zeros(3, 3), mode="fan")


def test_parameters_stay_leaves_that_require_gradients():
    layer = nn.Linear(3, 4)
    init.normal_(layer.weight)
    assert layer.weight.is_leaf and layer.weight.requires_grad


def test_random_draws_can_be_skipped():
    with init.skip_random():
        layer, norm = nn.Linear(3, 4), nn.LayerNorm(3)
    assert np.all(layer.weight.detach().numpy() == 0) and np.all(norm.weight.detach().numpy() == 1)
    assert not np.all(nn.Linear(3, 4).weight.detach().numpy() == 0)


@pytest.mark.parametrize(("shape", "groups"), [((4, 3, 3), 1), ((2, 5, 2, 3), 1), ((6, 2, 1, 3, 3), 3)])
def test_dirac_passes_channels_on(shape, groups):
    weight = tl.tensor(drawn(init.dirac_, *shape, groups=groups))
    window = shape[2:]
    x = tl.randn(1, shape[1] * groups, *(7,) * len(window))
    padding = tuple(n // 2 for n in window)
    y = getattr(nn.functional, f"conv{len(window)}d")(x, weight, padding=padding, groups=groups)
    kept = tuple(slice(0, 7) for _ in window)
    for channel in range(shape[0]):
        group, place = divmod(channel, shape[0] // groups)
        expected = x.numpy()[0, group * shape[1] + place] if place < shape[1] else np.zeros((7,) * len(window))
        np.testing.assert_allclose(y.numpy()[0, channel][kept], expected, rtol=1e-6)


@pytest.mark.torch
def test_dirac_is_torchs():
    torch = pytest.importorskip("torch")
    for shape, groups in (((4, 3, 3), 1), ((2, 5, 2, 3), 2), ((6, 2, 1, 4, 3), 3)):
        expected = torch.nn.init.dirac_(torch.empty(*shape), groups).numpy()
        np.testing.assert_array_equal(drawn(init.dirac_, *shape, groups=groups), expected)


def test_sparse_leaves_out_a_share_of_each_column():
    values = drawn(init.sparse_, 11, 300, sparsity=0.25, std=2.0)
    np.testing.assert_array_equal((values == 0).sum(0), 3)
    assert same_distribution(values[values != 0], stats.norm(0, 2))
    assert len({tuple(column) for column in (values == 0).T}) > 50
    assert np.all(drawn(init.sparse_, 4, 3, sparsity=1.0) == 0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: init.dirac_(tl.zeros(3, 3)), "3, 4 or 5 axes, not with 2"),
        (lambda: init.dirac_(tl.zeros(3, 3, 1), groups=2), "groups=2"),
        (lambda: init.sparse_(tl.zeros(3), 0.1), "1 axes"),
        (lambda: init.sparse_(tl.zeros(3, 3), 1.5), "not 1.5"),
    ],
)
def test_dirac_and_sparse_refuse(call, message):
    with pytest.raises(ValueError, match=message):
        call()
