"""Dense layers, convolution, receptive field, pooling: A §2, §3 and §4."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tests.documents.helpers import close, count_parameters, gradient, same_bits, seeded, t
from tinygrad_lite import nn
from tinygrad_lite.nn import functional as F

# kernel, stride of eleven layers: pairs of 3×3 convolutions, 2×2 pools between them
STACK = [(3, 1), (3, 1), (2, 2)] * 3 + [(3, 1), (3, 1)]


def integers(*shape, seed=0):
    return t(np.random.default_rng(seed).integers(-9, 10, shape))


# Dense


@pytest.mark.parametrize("fan_in, fan_out", [(3, 5), (512, 1), (1, 1)])
def test_DEN_01_parameters(fan_in, fan_out):
    assert count_parameters(nn.Linear(fan_in, fan_out)) == fan_in * fan_out + fan_out


def test_DEN_02_pixels():
    assert tl.trace(lambda x: x.flatten(1), tl.zeros(1, 224, 224, 3)).outputs[0].shape == (1, 224 * 224 * 3)
    assert 224 * 224 * 3 == 150_528


def test_DEN_04_a_shifted_pattern_meets_other_weights(run):
    layer = nn.Linear(16, 4).double()

    def columns(x):
        grad = run(lambda x: tl.autograd.grad(layer(x)[1], layer.weight)[0])(x)
        return set((grad != 0).any(0).nonzero()[:, 0].tolist())

    image = np.zeros(16)
    image[2:5] = [1.0, 2, 3]
    assert columns(t(image)) == {2, 3, 4}
    assert columns(t(np.roll(image, 3))) == {5, 6, 7}


def test_columns_of_a_table_may_be_permuted(run):
    """With its weights: no order is assumed."""
    layer, x, order = nn.Linear(6, 2).double(), seeded(5, 6), [4, 0, 5, 2, 1, 3]
    moved = run(lambda x: F.linear(x, layer.weight[:, order], layer.bias))(x[:, order])
    close(moved, layer(x), 1e-14)


# Convolution


def test_CNV_01_parameters():
    conv = nn.Conv2d(3, 64, 3)
    assert (conv.weight.numel(), conv.bias.numel(), count_parameters(conv)) == (1728, 64, 1792)


def test_CNV_02_against_dense():
    close(150_529_000 / count_parameters(nn.Conv2d(3, 64, 3)), 84_000.56, 0.01)


def test_CNV_04_by_hand(run):
    x, w = t([0.0, 0, 1, 2, 3, 0, 0, 0]), t([1.0, -1, 2]).reshape(1, 1, 3)
    conv = run(lambda x: F.conv1d(x.reshape(1, 1, -1), w).flatten())
    close(conv(x), [2.0, 3, 5, -1, 3, 0])
    close(conv(x.roll(1)), [0.0, 2, 3, 5, -1, 3])


def shape(layer, *size):
    return tuple(tl.trace(lambda x: layer(x), tl.zeros(*size)).outputs[0].shape)


def test_CNV_05_stride():
    assert shape(nn.Conv2d(3, 8, 3, stride=2, padding=1), 1, 3, 224, 224) == (1, 8, 112, 112)


def test_CNV_06_padding():
    assert shape(nn.Conv2d(1, 1, 3, padding=1), 1, 1, 224, 224)[2:] == (224, 224)
    assert shape(nn.Conv2d(1, 1, 3, padding="same"), 1, 1, 224, 224)[2:] == (224, 224)
    assert shape(nn.Conv2d(1, 1, 3), 1, 1, 224, 224)[2:] == (222, 222)


@pytest.mark.parametrize("dilation, span", [(1, 3), (2, 5), (4, 9), (8, 17)])
def test_CNV_07_dilation(run, dilation, span):
    conv = nn.Conv1d(1, 1, 3, dilation=dilation, bias=False).double()
    assert conv.weight.numel() == 3
    nn.init.ones_(conv.weight)
    touched = run(gradient(lambda x: conv(x)[0, 0, 10]))(t(np.zeros((1, 1, 40))))[0, 0].nonzero()[:, 0].tolist()
    assert touched[-1] - touched[0] + 1 == span and len(touched) == 3


@pytest.mark.parametrize("s", range(1, 7))
def test_CNV_08_equivariance(run, s):
    x, w, dense = integers(64), integers(1, 1, 5, seed=1), integers(64, 64, seed=2)

    def conv(x):
        return F.conv1d(x.reshape(1, 1, -1), w).flatten()

    moved, still = run(conv)(x.roll(s)), run(conv)(x)
    same_bits(moved[s:], still[:-s])
    assert (dense @ x.roll(s) != (dense @ x).roll(s)).any().item()


def naive(x, w, b, stride, padding, dilation):
    x, (cout, _cin, kh, kw) = np.pad(x, ((0, 0), (0, 0), (padding,) * 2, (padding,) * 2)), w.shape
    rows = (x.shape[2] - dilation * (kh - 1) - 1) // stride + 1
    columns = (x.shape[3] - dilation * (kw - 1) - 1) // stride + 1
    y = np.zeros((x.shape[0], cout, rows, columns))
    for i in range(rows):
        for j in range(columns):
            rows_of = slice(i * stride, i * stride + dilation * (kh - 1) + 1, dilation)
            columns_of = slice(j * stride, j * stride + dilation * (kw - 1) + 1, dilation)
            y[:, :, i, j] = np.einsum("bchw,ochw->bo", x[:, :, rows_of, columns_of], w) + b
    return y


@pytest.mark.parametrize("stride, padding, dilation", [(1, 0, 1), (2, 1, 1), (1, 2, 2), (3, 1, 1)])
def test_convolution_against_a_loop(run, stride, padding, dilation):
    conv, x = nn.Conv2d(3, 4, 3, stride, padding, dilation).double(), seeded(2, 3, 9, 8)
    close(
        run(conv)(x),
        naive(x.numpy(), conv.weight.detach().numpy(), conv.bias.detach().numpy(), stride, padding, dilation),
        1e-12,
    )


def test_feature_map_peaks_at_the_pattern(run):
    pattern, x = seeded(1, 1, 3, 3), 0.1 * seeded(1, 1, 12, 12, seed=1)
    x[:, :, 5:8, 2:5] = pattern
    match = run(lambda x: F.conv2d(x, pattern))(x)
    assert divmod(match.argmax().item(), 10) == (5, 2)


def test_shared_weights_add_their_gradients(run):
    """One weight at every position: its gradient is the sum over copies of its own."""
    x, w = seeded(1, 1, 8), seeded(1, 1, 3, seed=1)
    shared = run(gradient(lambda w: F.conv1d(x, w).square()))(w)
    copies = run(gradient(lambda w: (x.unfold(2, 3, 1) * w.reshape(1, 1, 1, 3)).sum(-1).square()))
    apart = gradient(lambda ws: (x.unfold(2, 3, 1)[0, 0] * ws).sum(-1).square())(w.expand(1, 6, 3)[0])
    close(shared, apart.sum(0).reshape(1, 1, 3), 1e-12)
    close(shared, copies(w), 1e-12)


def test_invariance_comes_from_averaging(run):
    """A convolution with circular padding moves its map; the mean of the map stays."""
    conv, x = nn.Conv2d(1, 4, 3, padding=1, padding_mode="circular").double(), seeded(1, 1, 8, 8)
    still, moved = run(conv)(x), run(conv)(x.roll(3, 2))
    close(moved, still.roll(3, 2), 1e-14)
    close(moved.mean((2, 3)), still.mean((2, 3)), 1e-14)


def test_rotation_shares_nothing(run):
    x, w = integers(1, 1, 6, 6), integers(1, 1, 3, 3, seed=1)
    conv = run(lambda x: F.conv2d(x, w))
    assert (conv(tl.rot90(x, 1, (2, 3))) != tl.rot90(conv(x), 1, (2, 3))).any().item()
    twice = nn.Upsample(scale_factor=2)
    larger, inner = conv(twice(x)), twice(conv(x))  # 10 × 10 and 8 × 8
    assert (larger[..., 1:-1, 1:-1] != inner).any().item()


# Receptive field


class Chain(nn.Module):
    """The stack in one dimension, all weights positive, means for pools."""

    def __init__(self, padded):
        super().__init__()
        self.layers = nn.Sequential(
            *[nn.AvgPool1d(2) if k == 2 else nn.Conv1d(1, 1, k, s, padding=padded, bias=False) for k, s in STACK]
        ).double()
        for p in self.parameters():
            nn.init.constant_(p, 0.5)

    def forward(self, x):
        return self.layers(x)


@pytest.mark.parametrize("padded", [True, False])
def test_RF_11_padding_leaves_the_field_alone(run, padded):
    net = Chain(int(padded))

    def middle(x):
        y = net(x)
        return y[0, 0, y.shape[2] // 2]

    support = run(gradient(middle))(t(np.zeros((1, 1, 256))))[0, 0].nonzero()[:, 0]
    assert support.numel() == 68 == support[-1].item() - support[0].item() + 1


def test_outside_the_field_nothing_matters(run):
    net, x = Chain(1), seeded(1, 1, 256)
    other = x.clone()
    other[0, 0, :40] += 100.0
    middle = run(lambda x: net(x)[0, 0, 16])
    same_bits(middle(x), middle(other))


# Pooling


def test_POOL_01_flattened_head():
    with nn.init.skip_random():
        head = nn.Linear(25_088, 1000)
    assert 7 * 7 * 512 == 25_088 and head.weight.numel() == 25_088_000
    assert count_parameters(head) == 25_089_000


def test_POOL_02_averaged_head():
    head = nn.Linear(512, 1000)
    assert head.weight.numel() == 512_000 and count_parameters(head) == 513_000


def test_POOL_03_ratio():
    assert 25_088_000 / 512_000 == 49 == 7 * 7


def test_POOL_04_any_image_size(run):
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)).double()
    for size in ((7, 7), (9, 5)):
        assert run(head)(seeded(1, 512, *size)).shape == (1, 1000)
    close(run(head[0])(tl.full((1, 2, 9, 5), 3.7, dtype=tl.float64)), np.full((1, 2, 1, 1), 3.7), 1e-12)
    with pytest.raises(RuntimeError):
        nn.Sequential(nn.Flatten(), nn.Linear(25_088, 10))(tl.zeros(1, 512, 9, 5))


def test_POOL_05_the_peak_may_move_inside_the_window(run):
    windows = t([[[[9, 1], [0, 0]]], [[[0, 9], [1, 0]]], [[[0, 0], [1, 9]]]])
    close(run(nn.MaxPool2d(2))(windows).flatten(), [9.0, 9, 9])
    close(run(nn.AvgPool2d(2))(windows).flatten(), [2.5, 2.5, 2.5])


def test_POOL_06_a_quarter_of_the_memory():
    before = (1, 16, 112, 112)
    assert int(np.prod(shape(nn.MaxPool2d(2), *before))) * 4 == int(np.prod(before))


def test_POOL_07_learned_pooling():
    conv = nn.Conv2d(64, 64, 3, stride=2, padding=1, bias=False)
    assert count_parameters(conv) == 36_864 == 3 * 3 * 64 * 64
    size = (1, 64, 56, 56)
    for pool in (nn.MaxPool2d(2), nn.AvgPool2d(2)):
        assert count_parameters(pool) == 0 and shape(pool, *size) == shape(conv, *size) == (1, 64, 28, 28)


def test_pooling_forgets_where(run):
    x = t(np.arange(16.0).reshape(1, 1, 4, 4))
    other = x.flip(2, 3).roll((2, 2), (2, 3))
    pool = run(nn.MaxPool2d(2))
    other = tl.where(other == pool(x).repeat_interleave(2, 2).repeat_interleave(2, 3), other, 0.0)
    same_bits(pool(other), pool(x))
    assert (other != x).any().item()


def test_mean_pool_shares_its_gradient(run):
    close(run(gradient(nn.AvgPool2d(2)))(t(np.zeros((1, 1, 4, 4)))), np.full((1, 1, 4, 4), 0.25))


def test_flips_and_turns_come_back(run):
    x = seeded(2, 3, 5, 5)
    same_bits(run(lambda x: x.flip(3).flip(3))(x), x)
    turned = x
    for _ in range(4):
        turned = tl.rot90(turned, 1, (2, 3))
    same_bits(turned, x)
