"""Initial scales: B §6 and B §8 problem 3."""

from __future__ import annotations

import math

import pytest

import tinygrad_lite as tl
from tests.documents.helpers import close, seeded
from tinygrad_lite import nn
from tinygrad_lite.nn import init

WIDTH = 512
HE, XAVIER = math.sqrt(2 / WIDTH), math.sqrt(2 / (2 * WIDTH))


def drawn(fill, *shape):
    return fill(tl.empty(*shape)).std().item()


def test_INI_01_variance_law(run):
    weight, x = seeded(WIDTH, WIDTH) / math.sqrt(WIDTH), seeded(1000, WIDTH, seed=1)
    y = run(lambda x: x @ weight.T)(x)
    assert y.var().item() == pytest.approx(1.0, rel=0.05)


def test_INI_02_he():
    close([HE**2, HE], [0.00390625, 0.0625], 1e-12)
    assert drawn(lambda w: init.kaiming_normal_(w, nonlinearity="relu"), WIDTH, WIDTH) == pytest.approx(HE, rel=0.01)


def test_INI_03_xavier():
    close([XAVIER**2, XAVIER], [0.001953125, 0.04419417], 1e-8)
    assert drawn(init.xavier_normal_, WIDTH, WIDTH) == pytest.approx(XAVIER, rel=0.01)


def test_INI_04_ratio():
    close([HE**2 / XAVIER**2, XAVIER / HE], [2.0, 0.7071068], 1e-7)


def relu_stack(scale, x):
    for i in range(10):
        x = (x @ (scale * seeded(WIDTH, WIDTH, seed=i + 1)).T).relu()
    return x.square().mean()


def test_INI_05_ten_layers_apart(run):
    """The same draws under both scales: the second moment is halved a layer."""
    x = seeded(32, WIDTH)
    both = run(lambda x: tl.stack([relu_stack(HE, x), relu_stack(XAVIER, x)]))(x)
    close(both[0] / both[1], 1024.0, rtol=1e-9)


@pytest.mark.parametrize("depth, residual", [(12, 0.00408248), (24, 0.00288675), (32, 0.0025)])
def test_INI_06_gpt2_style(depth, residual):
    close(0.02 / math.sqrt(2 * depth), residual, 1e-8)
    from tinygrad_lite.models.gpt import GPT, GPTConfig

    model = GPT(GPTConfig(vocab_size=65, block_size=16, n_layer=depth, n_head=2, n_embd=128))
    scaled = [p for name, p in model.named_parameters() if name.endswith("proj.weight")]
    others = [
        p
        for name, p in model.named_parameters()
        if p.dim() > 1 and p.numel() >= 1e4 and not name.endswith("proj.weight")
    ]
    assert len(scaled) == 2 * depth
    assert all(p.std().item() == pytest.approx(residual, rel=0.05) for p in scaled)
    assert all(p.std().item() == pytest.approx(0.02, rel=0.05) for p in others)
    assert all((p == 0).all().item() for name, p in model.named_parameters() if name.endswith("bias"))


def test_INI_07_lecun():
    close([1 / WIDTH, math.sqrt(1 / WIDTH)], [0.001953125, 0.04419417], 1e-8)
    for fill in (init.lecun_normal_, init.lecun_uniform_):
        assert drawn(fill, WIDTH, WIDTH) == pytest.approx(math.sqrt(1 / WIDTH), rel=0.01)


def test_INI_08_branch_factor():
    assert 1 / math.sqrt(2 * 32) == 0.125


def test_INI_09_he_keeps_and_xavier_halves(run):
    layers = [nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(10)]

    def moment(x):
        for layer in layers:
            x = layer(x).relu()
        return x.square().mean()

    x = tl.randn(128, WIDTH)
    for fill, want in ((lambda w: init.kaiming_normal_(w, nonlinearity="relu"), 1.0), (init.xavier_normal_, 2.0**-10)):
        for layer in layers:
            fill(layer.weight)
        assert want / 2.5 < run(moment)(x).item() < want * 2.5


def test_orthogonal_and_truncated(run):
    w = init.orthogonal_(tl.empty(16, 16))
    close(w @ w.T, tl.eye(16), 1e-5)
    w = init.trunc_normal_(tl.empty(100, 100), std=1.0)
    assert w.abs().amax().item() <= 2


def test_scales_are_of_the_fans():
    """A convolution's fan in counts its window."""
    w = init.kaiming_normal_(tl.empty(256, 32, 3, 3), nonlinearity="relu")
    assert w.std().item() == pytest.approx(math.sqrt(2 / (32 * 9)), rel=0.02)
