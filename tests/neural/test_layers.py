"""What neural layers do beyond their formulas: running moments, randomness, bad input."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
import tinygrad_lite.nn.functional as F
from tinygrad_lite import nn

RNG = np.random.default_rng(0)


def draw(*shape: int) -> tl.Tensor:
    return tl.tensor(RNG.standard_normal(shape).astype(np.float32))


# ---- batch norm ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("momentum", [0.1, None])
def test_running_moments_move_alike_in_compiled_steps(momentum):
    layers = [nn.BatchNorm2d(3, momentum=momentum) for _ in range(2)]
    compiled = tl.compile(layers[1])
    for _ in range(3):
        x = draw(4, 3, 5, 5)
        np.testing.assert_allclose(compiled(x).detach().numpy(), layers[0](x).detach().numpy(), rtol=1e-5, atol=1e-6)
    for a, b in zip(*(layer.state_dict().items() for layer in layers), strict=True):
        assert a[0] == b[0]
        np.testing.assert_allclose(a[1].numpy(), b[1].numpy(), rtol=1e-6, atol=1e-8)
    assert layers[1].num_batches_tracked.item() == 3
    for layer in layers:
        layer.eval()
    x = draw(4, 3, 5, 5)
    before = layers[1].running_mean.tolist()
    np.testing.assert_allclose(compiled(x).detach().numpy(), layers[0](x).detach().numpy(), rtol=1e-5, atol=1e-6)
    assert layers[1].running_mean.tolist() == before


def test_running_moments_have_no_history():
    layer = nn.BatchNorm1d(3)
    layer(draw(4, 3).requires_grad_()).sum().backward()
    assert not layer.running_mean.requires_grad and not layer.running_var.requires_grad
    layer.reset_running_stats()
    assert layer.running_mean.tolist() == [0, 0, 0] and layer.running_var.tolist() == [1, 1, 1]


def test_plain_mean_of_batches():
    layer = nn.BatchNorm1d(2, momentum=None)
    batches = [draw(5, 2) for _ in range(4)]
    for x in batches:
        layer(x)
    means = np.mean([x.numpy().mean(0) for x in batches], 0)
    np.testing.assert_allclose(layer.running_mean.numpy(), means, rtol=1e-5, atol=1e-6)


# ---- dropout ------------------------------------------------------------------------------------------------------

FAMILY = ["dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"]
SHAPES = {"dropout1d": (60, 50, 4), "dropout3d": (60, 50, 2, 2, 2)}


@pytest.mark.parametrize("name", FAMILY)
def test_dropout_rates(name):
    tl.manual_seed(0)
    x = tl.ones(*SHAPES.get(name, (60, 50, 2, 2)))
    out = getattr(F, name)(x, 0.3, training=True)
    kept = np.sort(np.unique(out.numpy().round(5)))
    assert len(kept) == 2 and out.shape == x.shape
    share = (out.numpy() == out.numpy().max()).mean()
    assert abs(share - 0.7) < 0.03
    by_channel = out.numpy().reshape(60, 50, -1)
    whole = (by_channel == by_channel[:, :, :1]).all()
    assert whole == (name not in ("dropout", "alpha_dropout"))


@pytest.mark.parametrize("name", FAMILY)
def test_dropout_limits(name):
    x = draw(*SHAPES.get(name, (2, 3, 2, 2)))
    function = getattr(F, name)
    assert function(x, 0.5, training=False) is x
    np.testing.assert_array_equal(function(x, 1.0, training=True).numpy(), 0 * x.numpy())
    with pytest.raises(ValueError, match=r"between 0 and 1, but got -0\.1"):
        function(x, -0.1)


def test_alpha_dropout_keeps_moments():
    tl.manual_seed(0)
    out = F.alpha_dropout(tl.randn(200, 200), 0.2, training=True).numpy()
    assert abs(out.mean()) < 0.02 and abs(out.std() - 1) < 0.02


def test_the_same_dropout_compiled():
    def forward(x):
        return (
            F.dropout2d(x, 0.5),
            F.alpha_dropout(x, 0.5, training=True),
            F.rrelu(x, training=True),
            F.gumbel_softmax(x, dim=1),
        )

    x, compiled = draw(4, 5, 3, 3), tl.compile(forward)
    tl.manual_seed(3)
    expected = forward(x)
    tl.manual_seed(3)
    for a, b in zip(compiled(x), expected, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


def test_rrelu_draws_slopes():
    tl.manual_seed(0)
    out = F.rrelu(tl.full((10000,), -1.0), 0.2, 0.6, training=True).numpy()
    assert -0.6 <= out.min() < -0.58 and -0.22 < out.max() <= -0.2 and abs(out.mean() + 0.4) < 0.01


def test_gumbel_softmax_samples_the_softmax():
    tl.manual_seed(0)
    logits = tl.tensor([0.0, 1.0, 2.0]).expand(20000, 3)
    hard = F.gumbel_softmax(logits, tau=0.5, hard=True)
    np.testing.assert_array_equal(hard.numpy().sum(1), 1)
    np.testing.assert_allclose(hard.numpy().mean(0), tl.softmax(logits[0], 0).numpy(), atol=0.015)
    x = draw(4, 3).requires_grad_()
    (F.gumbel_softmax(x, hard=True) * tl.arange(3.0)).sum().backward()
    assert float(x.grad.abs().sum()) > 0


# ---- bad input ------------------------------------------------------------------------------------------------------

X3, X4 = draw(2, 4, 6), draw(2, 4, 6, 6)
BAD = {
    "conv rank": (lambda: F.conv2d(draw(4, 6), draw(3, 4, 2, 2)), RuntimeError, "conv2d"),
    "conv channels": (lambda: F.conv2d(X4, draw(3, 5, 2, 2)), RuntimeError, "to have 5 channels, but got 4"),
    "conv dtype": (lambda: F.conv2d(X4, draw(3, 4, 2, 2).double()), RuntimeError, "one number dtype"),
    "conv bias": (lambda: F.conv2d(X4, draw(3, 4, 2, 2), draw(4)), RuntimeError, r"bias of shape \[3\]"),
    "conv groups": (lambda: F.conv2d(X4, draw(3, 2, 2, 2), groups=2), RuntimeError, "divided into 2 groups"),
    "conv too large": (lambda: F.conv2d(X4, draw(3, 4, 9, 2)), RuntimeError, "greater than actual input size"),
    "conv stride": (lambda: F.conv2d(X4, draw(3, 4, 2, 2), stride=0), RuntimeError, "non-positive stride"),
    "conv padding": (lambda: F.conv2d(X4, draw(3, 4, 2, 2), padding=-1), RuntimeError, "negative padding"),
    "conv options": (lambda: F.conv2d(X4, draw(3, 4, 2, 2), stride=(1, 2, 3)), RuntimeError, "expected stride"),
    "conv same": (lambda: F.conv2d(X4, draw(3, 4, 2, 2), stride=2, padding="same"), RuntimeError, "strided"),
    "conv word": (lambda: F.conv2d(X4, draw(3, 4, 2, 2), padding="full"), RuntimeError, "'full'"),
    "transposed output padding": (
        lambda: F.conv_transpose2d(X4, draw(4, 3, 2, 2), output_padding=1),
        RuntimeError,
        "smaller than either stride",
    ),
    "fold rows": (lambda: F.fold(draw(2, 7, 4), (3, 3), 2), RuntimeError, "cannot be divided by 4"),
    "fold count": (lambda: F.fold(draw(2, 8, 5), (3, 3), 2), RuntimeError, "4, 5|has 5|windows"),
    "pool rank": (lambda: F.max_pool2d(draw(6, 6), 2), RuntimeError, "max_pool2d"),
    "pool padding": (lambda: F.max_pool2d(X4, 2, padding=2), RuntimeError, "at most half"),
    "pool size": (lambda: F.avg_pool2d(X4, 7), RuntimeError, "too small"),
    "pool stride": (lambda: F.max_pool2d(X4, 2, 0), RuntimeError, "stride should be greater than zero"),
    "pool divisor": (lambda: F.avg_pool2d(X4, 2, divisor_override=0), RuntimeError, "divisor"),
    "pool integers": (lambda: F.avg_pool2d(tl.ones(1, 4, 4, dtype=tl.int64), 2), RuntimeError, "floating"),
    "adaptive": (lambda: F.adaptive_avg_pool2d(X4, (1, 2, 3)), RuntimeError, "output_size"),
    "unpool": (lambda: F.max_unpool2d(X4, tl.full((2, 4, 6, 6), 999), 2), IndexError, "999"),
    "batch norm of one": (lambda: F.batch_norm(draw(1, 3), None, None, training=True), ValueError, "more than 1 value"),
    "batch norm eval": (lambda: F.batch_norm(X3, None, None), RuntimeError, "running_mean"),
    "batch norm sizes": (lambda: F.batch_norm(X3, draw(3), draw(3)), RuntimeError, "should contain 4 elements"),
    "batch norm rank": (lambda: nn.BatchNorm2d(4)(X3), ValueError, r"expected 4D input \(got 3D input\)"),
    "group norm": (lambda: F.group_norm(X3, 3), RuntimeError, "divisible by num_groups"),
    "group norm module": (lambda: nn.GroupNorm(3, 4), ValueError, "divisible"),
    "instance norm": (lambda: F.instance_norm(draw(2, 3, 1)), ValueError, "more than 1 spatial element"),
    "hardtanh": (lambda: F.hardtanh(X3, 2, 1), ValueError, "min_val"),
    "celu": (lambda: F.celu(X3, 0), RuntimeError, "alpha cannot be 0"),
    "prelu": (lambda: F.prelu(X3, draw(3)), RuntimeError, "channel size = 4"),
    "rrelu": (lambda: F.rrelu(X3, 0.5, 0.1), RuntimeError, "Lower bound"),
    "softshrink": (lambda: F.softshrink(X3, -1), RuntimeError, "-1"),
    "glu": (lambda: F.glu(draw(3)), RuntimeError, "must be even"),
    "reduction": (lambda: F.mse_loss(X3, X3, reduction="avg"), ValueError, "'avg'"),
    "mse weight": (lambda: F.mse_loss(X3, X3, weight=draw(2)), ValueError, "same size"),
    "multi margin p": (lambda: F.multi_margin_loss(draw(2, 3), tl.tensor([0, 1]), p=3), ValueError, "got 3"),
    "multi margin target": (lambda: F.multi_margin_loss(draw(2, 3), tl.tensor([0, 3])), IndexError, "3"),
    "triplet margin": (lambda: nn.TripletMarginLoss(margin=0), ValueError, "greater than 0"),
    "cosine target": (lambda: F.cosine_embedding_loss(X3, X3, tl.ones(2, 2)), RuntimeError, "multi-target"),
    "gaussian var": (lambda: F.gaussian_nll_loss(X3, X3, -X3.abs()), ValueError, "negative"),
    "ctc blank": (lambda: F.ctc_loss(draw(5, 1, 3), tl.tensor([[1]]), [5], [1], blank=3), RuntimeError, r"\[0, 3\)"),
    "ctc lengths": (lambda: F.ctc_loss(draw(5, 1, 3), tl.tensor([[1]]), [6], [1]), RuntimeError, "input_lengths"),
    "ctc label": (lambda: F.ctc_loss(draw(5, 1, 3), tl.tensor([[7]]), [5], [1]), IndexError, "7"),
    "bag mode": (lambda: F.embedding_bag(tl.tensor([[0]]), draw(3, 2), mode="min"), ValueError, "min"),
    "bag offsets": (lambda: F.embedding_bag(tl.tensor([0]), draw(3, 2)), ValueError, "offsets"),
    "interpolate size": (lambda: F.interpolate(X4), ValueError, "one must be"),
    "interpolate mode": (lambda: F.interpolate(X4, 2, mode="cubic"), NotImplementedError, "cubic"),
    "interpolate rank": (lambda: F.interpolate(X4, 2, mode="linear"), NotImplementedError, "4D"),
    "interpolate align": (lambda: F.interpolate(X4, 2, align_corners=True), ValueError, "align_corners"),
    "grid mode": (lambda: F.grid_sample(X4, draw(2, 3, 3, 2), "cubic"), ValueError, "cubic"),
    "grid shape": (lambda: F.grid_sample(X4, draw(2, 3, 3, 3)), RuntimeError, "grid_sample"),
    "affine grid": (lambda: F.affine_grid(draw(2, 2, 2), (2, 3, 4, 4)), ValueError, "theta"),
    "pixel shuffle": (lambda: F.pixel_shuffle(draw(1, 6, 2, 2), 2), RuntimeError, "not divisible by 4"),
    "pixel unshuffle": (lambda: F.pixel_unshuffle(draw(1, 6, 3, 2), 2), RuntimeError, "divisible"),
    "channel shuffle": (lambda: F.channel_shuffle(X3, 3), RuntimeError, "3 groups"),
    "padding layer": (lambda: nn.ZeroPad2d((1, 2)), ValueError, "ZeroPad2d"),
    "conv module groups": (lambda: nn.Conv2d(4, 6, 3, groups=4), ValueError, "out_channels must be divisible"),
    "conv module mode": (lambda: nn.Conv2d(4, 6, 3, padding_mode="wrap"), ValueError, "wrap"),
    "transposed module mode": (lambda: nn.ConvTranspose2d(4, 6, 3, padding_mode="reflect"), ValueError, "reflect"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(name):
    call, error, match = BAD[name]
    with pytest.raises(error, match=match):
        call()


def test_a_bad_label_in_a_compiled_loss_names_the_line():
    loss = tl.compile(lambda x, y: F.multi_margin_loss(x, y))
    loss(draw(2, 3), tl.tensor([0, 1]))
    with pytest.raises(IndexError, match=r"test_layers\.py"):
        loss(draw(2, 3), tl.tensor([0, 5]))


# ---- 16-bit floats --------------------------------------------------------------------------------------------------

NORMS = {
    "rms_norm": lambda x: F.rms_norm(x, (64,)),
    "layer_norm": lambda x: F.layer_norm(x, (64,)),
    "batch_norm": lambda x: F.batch_norm(x, tl.zeros(4), tl.ones(4), training=True),
    "instance_norm": lambda x: F.instance_norm(x),
    "group_norm": lambda x: F.group_norm(x, 2),
}


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("dtype", [tl.float16, tl.bfloat16])
def test_squares_of_16_bit_floats_do_not_overflow(name, dtype):
    x = (draw(3, 4, 64) * 500).to(dtype)
    result = NORMS[name](x)
    assert result.dtype is dtype
    tolerance = 2e-3 if dtype is tl.float16 else 2e-2
    np.testing.assert_allclose(result.float().numpy(), NORMS[name](x.float()).numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [False, True])
def test_images_of_bytes_are_rounded(mode, antialias):
    x = tl.tensor(np.random.default_rng(3).integers(0, 256, (1, 2, 4, 4)).astype(np.uint8))
    small = F.interpolate(x, size=(5, 3), mode=mode, antialias=antialias)
    exact = F.interpolate(x.float(), size=(5, 3), mode=mode, antialias=antialias)
    assert small.dtype is tl.uint8 and (small.float() - exact.clamp(0, 255)).abs().max().item() <= 0.5


def test_halves_stay_halves_in_grid_sample():
    x, grid = tl.ones(1, 1, 3, 3).half(), tl.zeros(1, 2, 2, 2).half()
    for padding in ("zeros", "border", "reflection"):
        assert F.grid_sample(x, grid, padding_mode=padding).dtype is tl.float16


def test_bags_scaled_by_frequency():
    w = tl.ones(5, 2, requires_grad=True)
    F.embedding_bag(tl.tensor([[0, 1], [1, 1], [4, 4]]), w, scale_grad_by_freq=True, mode="sum").sum().backward()
    np.testing.assert_allclose(w.grad.numpy()[:, 0], [1, 1, 0, 0, 1])
