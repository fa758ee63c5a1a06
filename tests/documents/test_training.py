"""Regularisation, optimisers, memory: B §2 and §7; A §5, §9, §14 and §15."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinygrad_lite as tl
from tests.documents.helpers import close, same_bits, seeded, t
from tinygrad_lite import nn, optim
from tinygrad_lite.models import arithmetic
from tinygrad_lite.nn import functional as F
from tinygrad_lite.utils.checkpoint import checkpoint_sequential


def test_RNN_07_clipping_by_the_global_norm(run):
    def clipped(*gradients):
        params = [nn.Parameter(tl.zeros_like(g)) for g in gradients]

        def step(*gradients):
            for p, g in zip(params, gradients, strict=True):
                (p * g).sum().backward()
            return nn.utils.clip_grad_norm_(params, 1.0)

        norm = run(step)(*gradients)
        return [p.grad for p in params], norm

    (g,), norm = clipped(t([3.0, 4.0]))
    close(g, [0.6, 0.8], 1e-6)
    close(norm, 5.0, 1e-12)
    (g,), norm = clipped(t([0.3, 0.4]))
    close(g, [0.3, 0.4], 1e-6)
    close(norm, 0.5, 1e-12)
    (a, b), _ = clipped(t([3.0]), t([4.0]))
    close(tl.cat([a, b]), [0.6, 0.8], 1e-6)


def test_clipping_revives_nothing(run):
    p = nn.Parameter(t([1.0, 2.0]))

    def step():
        (p * 0).sum().backward()
        nn.utils.clip_grad_norm_([p], 1.0)
        return p.grad

    close(run(step)(), [0.0, 0.0])


def test_REG_01_conventional_clip():
    from tinygrad_lite.cli.options import TrainOptions

    assert TrainOptions().clip == 1.0


def test_REG_02_conventional_decay():
    from tinygrad_lite.cli.options import TrainOptions

    assert TrainOptions().weight_decay == 0.1


def first_step(run, make, g):
    w = nn.Parameter(t([1.0]))
    optimizer = make([w])

    def step(g):
        (w * g).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    run(step)(t([g]))
    return w.item()


@pytest.mark.parametrize("g, want", [(0.01, 0.8900001), (10.0, 0.89), (0.0, 0.99)])
def test_REG_03_decoupled_decay(run, g, want):
    close(first_step(run, lambda p: optim.AdamW(p, lr=0.1, weight_decay=0.1), g), want, 1e-6)


@pytest.mark.parametrize("g", [0.01, 10.0, 0.0])
def test_REG_04_decay_in_the_gradient_is_absorbed(run, g):
    close(first_step(run, lambda p: optim.Adam(p, lr=0.1, weight_decay=0.1), g), 0.9, 1e-6)


def test_sgd_decay_is_l2(run):
    """Of the gradient g + λw plain descent makes the same step as decay beside it; Adam does not."""
    got = first_step(run, lambda p: optim.SGD(p, lr=0.1, weight_decay=0.1), 10.0)
    close(got, 1.0 - 0.1 * 10.0 - 0.1 * 0.1 * 1.0, 1e-6)


@pytest.mark.parametrize("g", [1e-3, -7.0])
def test_adams_first_step_is_the_sign(run, g):
    close(first_step(run, lambda p: optim.Adam(p, lr=0.1), g), 1.0 - 0.1 * np.sign(g), 1e-5)


def test_REG_05_label_smoothing(run):
    """The library spreads ε over all V classes, as PyTorch does: 1 - ε + ε/V on the true one."""
    logits, target = seeded(3, 4), tl.tensor([0, 3, 1])
    loss = run(lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1))(logits, target)
    smoothed = np.full((3, 4), 0.025)
    smoothed[np.arange(3), [0, 3, 1]] = 0.925
    close(loss, -(t(smoothed) * logits.log_softmax(-1)).sum(-1).mean(), 1e-12)
    others = np.array([0.9] + [0.1 / 3] * 3)  # the other convention: the rest over the other classes
    close(others, [0.9, 0.03333, 0.03333, 0.03333], 1e-5)
    close(others.sum(), 1.0, 1e-12)


def micro_gradients(run, norm, parts):
    """The summed gradient of one loss over the given parts of a batch."""
    tl.manual_seed(3)
    first, last = nn.Linear(6, 6).double(), nn.Linear(6, 1).double()

    def step(*parts):
        for part in parts:
            last(norm(first(part))).square().sum().backward()
        return first.weight.grad

    return run(step)(*parts)


def test_REG_06_accumulation(run):
    x = seeded(2, 4, 6)
    layer = nn.LayerNorm(6).double()
    close(micro_gradients(run, layer, [x[:1], x[1:]]), micro_gradients(run, layer, [x]), 1e-12)
    batch = nn.BatchNorm1d(6).double()

    def channels(h):
        return batch(h.reshape(-1, 6))

    apart, whole = micro_gradients(run, channels, [x[:1], x[1:]]), micro_gradients(run, channels, [x])
    assert (apart - whole).abs().amax().item() > 1e-3


def test_REG_07_cross_entropy_of_uniform_logits(run):
    loss = run(F.cross_entropy)(tl.zeros(2, 128_000, dtype=tl.float64), tl.tensor([5, 127_999]))
    close(loss, 11.759786, 1e-6)


def flops(graph):
    return sum(node.op.cost(node).flops for node in graph.nodes if node.op.name == "matmul")


def test_MEM_01_backward_costs_twice_forward():
    """Of matrix products alone; recomputing adds a forward: 8N / 6N."""
    layers = nn.Sequential(*[nn.Linear(16, 16, bias=False) for _ in range(4)])

    def step(x):
        x = x.detach().requires_grad_(True)
        return tl.autograd.grad(layers(x).square().sum(), [x, *layers.parameters()])

    x = tl.randn(8, 16)
    forward = flops(tl.trace(lambda x: layers(x), x))
    total = flops(tl.trace(step, x, train=True))
    assert forward == 4 * 2 * 8 * 16 * 16
    assert (total - forward) / forward == 2
    close((total + forward) / total, 1.3333, 1e-4)


def chain_of_64():
    layers = nn.Sequential(*[nn.Linear(4, 4, bias=False) for _ in range(64)])
    for layer in layers:
        nn.init.orthogonal_(layer.weight)
    return layers


def test_MEM_02_checkpointing(run):
    """A chain of 64 in segments of 8: the same gradients, to the bit, of 16 stored values in place of 64."""
    layers, x = chain_of_64(), tl.ones(2, 4)

    def gradients(forward):
        return run(lambda x: tl.autograd.grad(forward(x).square().sum(), list(layers.parameters())))(x)

    plain = gradients(layers)
    for segments in (8, 64):
        again = gradients(lambda x, n=segments: checkpoint_sequential(list(layers), n, x))
        for a, b in zip(plain, again, strict=True):
            same_bits(a, b)
    assert arithmetic.checkpoint_cost(64)["alive"] == 2 * math.isqrt(64) == 16


def test_checkpointing_keeps_the_borders():
    """Of the layers' outputs 64 wait for backward, 16 at most once they stand in segments of 8."""
    layers, x, kept = chain_of_64(), tl.ones(2, 4, requires_grad=True), []
    for layer in layers:
        layer.register_forward_hook(lambda module, args, out: kept.append(out._read()))

    def alive(forward):
        kept.clear()
        out = forward(x)
        assert len(kept) == 64
        left = sum(node.value is not None for node in kept)
        out.square().sum().backward()
        return left

    assert alive(layers) == 64
    assert alive(lambda x: checkpoint_sequential(list(layers), 8, x)) <= 2 * 8


def test_warmup_raises_the_rate_in_equal_steps():
    p = nn.Parameter(tl.zeros(1))
    optimizer = optim.SGD([p], lr=0.3)
    schedule = optim.lr_scheduler.LambdaLR(optimizer, lambda k: min(1.0, (k + 1) / 5))
    rates = []
    for _ in range(7):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    close(rates, [0.06, 0.12, 0.18, 0.24, 0.3, 0.3, 0.3], 1e-12)
