"""Which axis the statistics are taken over: A §9, B §4, B §8 problem 2. BatchNorm pools batch and time."""

from __future__ import annotations

import math

import pytest

import tinygrad_lite as tl
from tests.documents.helpers import close, count_parameters, gradient, same_bits, seeded, t
from tinygrad_lite import nn
from tinygrad_lite.nn import functional as F

NUMBERS = [[[4, 1, -1, 4], [1, 0, 3, 0], [3, 0, 6, 3]], [[2, 2, 4, 0], [0, 3, 0, 1], [2, 0, 6, 4]]]


@pytest.fixture
def x():
    """The 24 numbers: 2 examples of 3 tokens of 4 channels."""
    return t(NUMBERS)


@pytest.fixture
def changed(x):
    x[0, 2, 2] = 12.0
    return x


def layer(x):
    return F.layer_norm(x, (4,), eps=0.0)


def batch(x):
    """Per channel over all tokens of all examples."""
    return F.batch_norm(x.reshape(-1, 4), None, None, training=True, eps=0.0).reshape(x.shape)


def rms(x):
    return F.rms_norm(x, (x.shape[-1],), eps=0.0)


def statistics(x, dims):
    return x.mean(dims), x.std(dims, correction=0)


def test_NRM_01_layer_means(x, run):
    close(run(lambda x: statistics(x, -1))(x)[0], [[2.0, 1, 3], [2, 1, 3]])


def test_NRM_02_layer_deviations(x, run):
    deviations = [[2.12132, 1.22474, 2.12132], [1.41421, 1.22474, 2.23607]]
    close(run(lambda x: statistics(x, -1))(x)[1], deviations, 1e-5)


def test_NRM_03_batch_statistics(x, run):
    mean, deviation = run(lambda x: statistics(x, (0, 1)))(x)
    close(mean, [2.0, 1, 3, 2], 1e-15)
    close(deviation, [1.29099, 1.15470, 2.70801, 1.73205], 1e-5)


def test_NRM_04_number_of_statistics(x):
    assert statistics(x, -1)[0].numel() == 6
    assert statistics(x, (0, 1))[0].numel() == 4


def test_NRM_05_one_column_one_row(x):
    assert x[:, :, 0].flatten().tolist() == [4, 1, 3, 2, 0, 2]
    column, row = statistics(x[:, :, 0].flatten(), 0), statistics(x[0, 0], 0)
    close([v.item() for v in (*column, *row)], [2, 1.29, 2, 2.12], 1e-2)


def test_NRM_06_layer_norm_of_one_token(x, run):
    close(run(layer)(x)[1, 0], [0, 0, 1.414214, -1.414214], 1e-6)


def test_NRM_07_batch_norm_of_one_token(x, run):
    close(run(batch)(x)[1, 0], [0, 0.866025, 0.369274, -1.154701], 1e-6)


def test_NRM_08_another_example_moves_the_column(x, changed, run):
    before, after = run(lambda x: statistics(x, (0, 1)))(t(NUMBERS)), statistics(changed, (0, 1))
    close([before[0][2].item(), before[1][2].item()], [3.0, 2.70801], 1e-5)
    close([after[0][2].item(), after[1][2].item()], [4.0, 4.28174], 1e-5)


def test_NRM_09_batch_mates_change_batch_norm_alone(changed, run):
    same_bits(run(layer)(changed)[1], run(layer)(t(NUMBERS))[1])
    close(run(batch)(changed)[1, 0], [0, 0.866025, 0, -1.154701], 1e-6)


def test_NRM_10_layer_norm_by_hand(run):
    x = t([2.0, -1, 3, 0])
    mean, variance = x.mean(), x.var(correction=0)
    close([mean.item(), variance.item(), variance.sqrt().item()], [1, 2.5, 1.581139], 1e-6)
    close(x - mean, [1.0, -2, 2, -1])
    close(run(layer)(x), [0.632456, -1.264911, 1.264911, -0.632456], 1e-6)


def test_NRM_11_rms_norm_by_hand(run):
    x = t([2.0, -1, 3, 0])
    y = run(rms)(x)
    close(x.square().mean().sqrt(), 1.870829, 1e-6)
    close(y, [1.069045, -0.534522, 1.603567, 0], 1e-6)
    close(y.mean(), 0.534522, 1e-6)


def test_NRM_12_exercise_layer_norm(run):
    x = t([3.0, -2, 1, 4])
    close([x.mean().item(), x.var(correction=0).item(), x.std(correction=0).item()], [1.5, 5.25, 2.291288], 1e-6)
    y = run(layer)(x)
    close(y, [0.654654, -1.527525, -0.218218, 1.091089], 1e-6)
    close(y.mean(), 0.0, 1e-15)


def test_NRM_13_exercise_rms_norm(run):
    x = t([3.0, -2, 1, 4])
    y = run(rms)(x)
    close(x.square().mean().sqrt(), 2.738613, 1e-6)
    close(y, [1.095445, -0.730297, 0.365148, 1.460593], 1e-6)
    close(y.mean(), 0.547723, 1e-6)


def test_NRM_14_group_norm(run):
    y = run(lambda x: F.group_norm(x, 2, eps=0.0))(t([[4.0, 1, -1, 4]]))
    close(y, [[1.0, -1, -1, 1]], 1e-9)


def test_NRM_15_backward_by_hand(run):
    x = t([2.0, -1, 3, 0])
    close(run(gradient(lambda x: layer(x)[0]))(x), [0.4110961, -0.0316228, -0.2846050, -0.0948683], 1e-6)
    close(run(gradient(lambda x: rms(x)[0]))(x), [0.3818018, 0.0763604, -0.2290811, 0], 1e-6)


def test_NRM_16_alone_in_its_micro_batch(x, run):
    alone = x[1:]
    close(statistics(alone, (0, 1))[0], [1.33333, 1.66667, 3.33333, 1.66667], 1e-5)
    close(run(batch)(alone)[0, 0], [0.707107, 0.267261, 0.267261, -0.980581], 1e-5)
    same_bits(run(layer)(alone)[0], run(layer)(x)[1])


def test_NRM_17_parameters():
    assert count_parameters(nn.LayerNorm(4096)) == 8192
    assert count_parameters(nn.RMSNorm(4096)) == 4096


def test_NRM_18_rms_norm_of_the_first_token(x, run):
    close(x[0, 0].square().mean().sqrt(), 2.915476, 1e-6)
    close(run(rms)(x)[0, 0], [1.371989, 0.342997, -0.342997, 1.371989], 1e-6)


# What part 1 asks of the layers


def test_modules_agree_with_the_formula(x, run):
    """One formula, three sets of axes: population variance, gain and bias."""
    layer_norm, batch_norm = nn.LayerNorm(4).double(), nn.BatchNorm1d(4).double()
    close(run(layer_norm)(x), (x - x.mean(-1, True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt(), 1e-12)
    flat = x.reshape(6, 4)
    close(run(batch_norm)(flat), (flat - flat.mean(0)) / (flat.var(0, correction=0) + 1e-5).sqrt(), 1e-12)


def test_running_statistics_converge_and_serve_a_batch_of_one(run):
    norm = nn.BatchNorm1d(3).double()
    data = seeded(64, 3) * 2 + 5
    train = run(norm)
    for _ in range(200):
        train(data)
    close(norm.running_mean, data.mean(0), 1e-6)
    close(norm.running_var, data.var(0), 1e-6)
    norm.eval()
    one = run(norm)(data[:1])
    close(one, (data[:1] - norm.running_mean) / (norm.running_var + norm.eps).sqrt(), 1e-12)


def test_why_transformers_do_not_use_batch_norm(x, run):
    """Padding moves its statistics, and of one value a channel only the bias would be left."""
    padded = tl.cat([x, tl.zeros(2, 2, 4, dtype=tl.float64)], 1)
    same_bits(run(layer)(padded)[:, :3], run(layer)(x))
    assert (run(batch)(padded)[:, :3] - batch(x)).abs().amax().item() > 0.05
    with pytest.raises(ValueError, match="Expected more than 1 value"):
        batch(x[:1, :1])


@pytest.mark.parametrize("filler", [0.0, 100.0, math.nan])
def test_masked_statistics_are_those_of_the_unpadded_tokens(run, filler):
    """Of lengths 5 and 3: outputs, gradients and running statistics, filler and all."""
    tokens = seeded(8, 4)
    real = tl.tensor([[True] * 5, [True] * 3 + [False] * 2])
    place = [(0, i) for i in range(5)] + [(1, i) for i in range(3)]
    padded = tl.full((2, 5, 4), filler, dtype=tl.float64)
    for token, (row, column) in zip(tokens, place, strict=True):
        padded[row, column] = token

    def trained(norm, x, mask):
        x = x.detach().requires_grad_()
        y = norm(x.transpose(1, 2), mask).transpose(1, 2) if mask is not None else norm(x)
        return y.detach(), tl.autograd.grad((y**3).sum(), x)[0]

    norms = [nn.BatchNorm1d(4).double() for _ in range(2)]
    want, slopes = run(lambda x: trained(norms[0], x, None))(tokens)
    got, masked_slopes = run(lambda x, m: trained(norms[1], x, m))(padded, real)
    close(got[real], want, 1e-14)
    close(masked_slopes[real], slopes, 1e-13)
    assert (masked_slopes[~real] == 0).all()
    for name in ("running_mean", "running_var"):
        close(getattr(norms[1], name), getattr(norms[0], name), 1e-15)


def test_masks_of_batch_norm():
    norm, x = nn.BatchNorm1d(4), seeded(2, 4, 5).float()
    with pytest.raises(ValueError, match=r"mask must be bool of shape \[2, 5\] for f32\[2,4,5\], got b1\[2,4,5\]"):
        norm(x, tl.ones(2, 4, 5, dtype=tl.bool))
    norm.bias.data.fill_(0.25)
    assert (norm(x, tl.zeros(2, 5, dtype=tl.bool)) == 0.25).all()
    norm.eval()
    same_bits(norm(x, tl.ones(2, 5, dtype=tl.bool)), norm(x))
    first = tl.arange(5) < tl.tensor([[5], [2]])
    same_bits(norm(x, first)[0], norm(x)[0])
    assert (norm(x, first)[1, :, 2:] == 0.25).all()


def test_one_reduction_fewer_in_rms_norm():
    """The optimised graphs: two means against one."""

    def sums(norm):
        graph = tl.trace(lambda x: norm(x), tl.randn(8, 16))
        return sum(node.op.name == "sum" for node in graph.nodes)

    assert (sums(nn.LayerNorm(16)), sums(nn.RMSNorm(16))) == (2, 1)


def test_group_norm_between_layer_and_instance_norm(run):
    x = seeded(2, 6, 5)
    whole = run(lambda x: F.group_norm(x, 1))(x)
    close(whole, F.layer_norm(x, (6, 5)), 1e-12)
    close(run(lambda x: F.group_norm(x, 6))(x), F.instance_norm(x), 1e-12)
    close(run(lambda x: F.group_norm(x, 3))(x[:1]), F.group_norm(x, 3)[:1], 1e-12)


def test_accumulated_gradients_equal_one_batch_for_layer_norm_alone(x, run):
    def gradients(norm, batches):
        weight = t([[0.3, -0.2, 0.5, 0.1]] * 4).requires_grad_(True)
        for b in batches:
            (norm(b) @ weight).pow(3).sum().backward()
        return weight.grad

    for norm, equal in ((layer, True), (batch, False)):
        whole = run(lambda x, norm=norm: gradients(norm, [x]))(x)
        parts = run(lambda x, norm=norm: gradients(norm, [x[:1], x[1:]]))(x)
        assert ((whole - parts).abs().amax().item() < 1e-11) == equal
