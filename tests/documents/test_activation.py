"""Activations, units that die, gated feed-forwards: A §13, B §1 and §3."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import tinygrad_lite as tl
from tests.documents.helpers import close, count_parameters, gradient, same_bits, seeded, t
from tinygrad_lite import diagnostics, nn, optim
from tinygrad_lite.nn import functional as F


def slopes(fn, points):
    return gradient(fn)(t(points))


def test_ACT_01_slopes_at_zero(run):
    slope = run(gradient(tl.sigmoid))
    close(slope(t([0.0])), [0.25], 1e-12)
    close(run(gradient(tl.tanh))(t([0.0])), [1.0], 1e-12)
    assert slope(t(np.linspace(-8, 8, 1001))).amax().item() == pytest.approx(0.25, abs=1e-12)


def test_ACT_02_relu(run):
    """0 on the left, 1 on the right; at the kink the library takes 0, as PyTorch does."""
    close(run(gradient(F.relu))(t([-1e-9, 1e-9, 0.0])), [0.0, 1, 0])


def test_ACT_03_leaky_relu(run):
    """At 0 there are two one-sided derivatives and no derivative; the library takes the left one."""
    slope = run(gradient(lambda x: F.leaky_relu(x, 0.01)))
    close(slope(t([-1.0, 1.0])), [0.01, 1.0], 1e-12)
    close(slope(t([-1e-9, 1e-9])), [0.01, 1.0], 1e-12)
    assert slope(t([0.0])).item() in (0.01, 1.0)


def test_ACT_04_smooth_slopes_at_zero(run):
    for fn in (F.gelu, F.silu):
        close(run(gradient(fn))(t([0.0])), [0.5], 1e-9)


def minimum(fn):
    found = minimize_scalar(lambda x: fn(t([x])).item(), bounds=(-3, 0), method="bounded", options={"xatol": 1e-9})
    return found.x, found.fun


def test_ACT_05_lowest_point_of_gelu(run):
    where, lowest = minimum(run(F.gelu))
    close([lowest, run(F.gelu)(t([-0.7517915])).item()], [-0.1699712] * 2, 1e-6)
    close(where, -0.7517915, 1e-5)
    where, lowest = minimum(run(lambda x: F.gelu(x, approximate="tanh")))
    close(lowest, -0.1700408, 1e-6)
    close(where, -0.75246, 1e-5)


def test_ACT_06_lowest_point_of_silu(run):
    where, lowest = minimum(run(F.silu))
    close([lowest, where], [-0.2784645, -1.2784645], 1e-6)


def test_ACT_07_gradient_on_the_negative_side(run):
    close(run(gradient(F.gelu))(t([-1.0, -3.0])), [-0.0833155, -0.0119456], 1e-6)
    close(run(gradient(F.silu))(t([-1.0, -3.0])), [0.0723295, -0.0881041], 1e-6)
    close(run(gradient(F.relu))(t([-1.0])), [0.0])


def test_sigmoid_is_finite_at_the_ends(run):
    for x, want in ((1e3, 1.0), (-1e3, 0.0)):
        y = run(tl.sigmoid)(t([x]))
        close(y, [want])


def test_a_stack_of_sigmoids_starves(run):
    def stack(x):
        for _ in range(10):
            x = x.sigmoid()
        return x

    assert 0 < run(gradient(stack))(t([0.3])).item() <= 0.25**10


def test_gelu_is_an_expected_gate(run):
    """x · 1[Z ≤ x] averages to GELU(x)."""
    x, z = t([-1.0, -0.3, 0.5, 2.0]), seeded(100_000, 1)
    close(run(lambda x, z: (x * (z <= x).double()).mean(0))(x, z), F.gelu(x), 5 * 2 * 0.5 / math.sqrt(100_000))


def test_selu_keeps_a_standard_normal(run):
    x = seeded(200_000)
    y = run(nn.SELU())(x)
    # the constants are of Klambauer et al. 2017, in neither document
    close(y, 1.0507009873554805 * tl.where(x > 0, x, 1.6732632423543772 * (x.clamp(max=0).exp() - 1)), 1e-12)
    assert abs(y.mean().item()) < 0.02 and abs(y.var().item() - 1) < 0.02


# Units that die


def normal_cdf(x):
    return 0.5 * (1 + tl.erf(t(x / math.sqrt(2))).item())


def test_DIE_01_alive_before(run):
    close(0.5 * (1 + run(tl.erf)(t([0.5 / math.sqrt(2)])).item()), 0.6914625, 1e-7)


def test_DIE_02_one_oversized_step(run):
    bias = nn.Parameter(t([0.5]))
    optimizer = optim.SGD([bias], lr=0.5)

    def step():
        (5 * bias).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    run(step)()
    close(bias, [-2.0])


def test_DIE_03_alive_after():
    close(normal_cdf(-2.0), 0.0227501, 1e-7)


def test_DIE_04_sampled(run):
    z = seeded(100_000)
    alive = run(lambda z: tl.stack([(z + 0.5 > 0).double().mean(), (z - 2.0 > 0).double().mean()]))(z)
    assert abs(alive[0].item() - 0.6915) < 0.0073 and abs(alive[1].item() - 0.0228) < 0.0024


@pytest.mark.parametrize(
    "activation, dead", [(F.relu, True), (lambda z: F.leaky_relu(z, 0.01), False), (F.gelu, False)]
)
def test_DIE_05_absorbing_state(run, activation, dead):
    """z < 0 on all data: no gradient, no change; an activation with a slope there climbs on."""
    unit = nn.Linear(2, 1).double()
    nn.init.constant_(unit.bias, -10.0 if dead else -2.0)
    with tl.no_grad():
        unit.weight.copy_(t([[1.0, -1.0]]))
    before = unit.weight.detach().clone()
    optimizer = optim.SGD(unit.parameters(), lr=0.1)
    x = t(np.random.default_rng(0).uniform(size=(64, 2)))

    def step(x):
        loss = (activation(unit(x)) - 3.0).square().mean()
        loss.backward()
        total = sum((p.grad.abs().sum() for p in unit.parameters()), t(0.0))
        optimizer.step()
        optimizer.zero_grad()
        return total

    step = run(step)
    gradients = [step(x).item() for _ in range(5)]
    assert all((g == 0) == dead for g in gradients)
    assert (unit.weight == before).all().item() == dead


def test_DIE_06_measuring_dead_units(run):
    layer = nn.Linear(3, 4).double()
    with tl.no_grad():
        layer.bias.copy_(t([0.0, -100.0, 0.0, -100.0]))
    x = seeded(256, 3)
    y = run(lambda x: F.relu(layer(x)))(x)
    share = (y == 0).double().mean(0)
    close(share[1::2], [1.0, 1.0])
    assert (share[::2] < 1).all().item()
    assert (share == 1).double().mean().item() == 0.5
    (measured,) = diagnostics.dead_units(nn.Sequential(layer, nn.ReLU()), [x[:100], x[100:]]).values()
    close(measured, share, 1e-15)


# Gated feed-forwards


def gated(layer, gate, up, down):
    """A gated layer in float64 with these weights, (outputs, inputs) each."""
    layer = layer.double()
    with tl.no_grad():
        for part, weight in ((layer.gate_proj, gate), (layer.up_proj, up), (layer.down_proj, down)):
            part.weight.copy_(t(weight))
    return layer


def test_GLU_03_three_matrices_cost_what_two_did():
    d = 24
    plain, three = nn.FeedForward(d, bias=False), nn.SwiGLU(d, 8 * d // 3)
    assert (plain.d_ff, three.d_ff) == (4 * d, 8 * d // 3)
    assert count_parameters(plain) == count_parameters(three) == 8 * d * d


def test_GLU_06_by_hand(run):
    """Three matrices; the document's formula ends at the product."""
    for kind, want in ((nn.SwiGLU, 4.3863515), (nn.GeGLU, 5.0480685)):
        layer = gated(kind(1, 1), [[1.0]], [[2.0]], [[3.0]])
        close(run(layer)(t([[1.0]])), [[want]], 1e-6)


def test_a_gate_multiplies_two_features(run):
    """With a linear gate one unit is exactly x1·x2."""
    x = seeded(50, 2)
    layer = gated(nn.GatedFeedForward(2, 1, "identity"), [[1.0, 0.0]], [[0.0, 1.0]], [[1.0], [0.0]])
    same_bits(run(layer)(x)[:, 0], x[:, 0] * x[:, 1])
    close(run(F.glu)(x)[:, 0], x[:, 0] * x[:, 1].sigmoid(), 1e-15)  # one half gates the other
    # without the product: the best sum of eight random ReLU units still errs
    features = F.relu(x @ seeded(2, 8, seed=1) + seeded(8, seed=2)).numpy()
    fit = features @ np.linalg.lstsq(features, (x[:, 0] * x[:, 1]).numpy(), rcond=None)[0]
    assert np.abs(fit - (x[:, 0] * x[:, 1]).numpy()).max() > 1e-3
