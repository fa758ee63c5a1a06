"""Depth against width: A §1 and A §13. Piece counts are exact: grid points and values are dyadic, or Fractions."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import tinygrad_lite as tl
from tests.documents.helpers import close, count_parameters, pieces, same_bits, seeded, t, value
from tinygrad_lite import nn
from tinygrad_lite.models.mlp import fold_network, shallow_network
from tinygrad_lite.nn import functional as F


def mlp(*sizes):
    """Linear layers with biases, ReLU between."""
    layers = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        layers += [nn.Linear(fan_in, fan_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1]).double()


def fill(net, *values):
    linear = [layer for layer in net if isinstance(layer, nn.Linear)]
    with tl.no_grad():
        for layer, (weight, bias) in zip(linear, values, strict=True):
            layer.weight.copy_(t(weight))
            layer.bias.copy_(t(bias))
    return net


def folds(depth):
    """|2x - 1| applied `depth` times: two units a hidden layer."""
    return fold_network(depth).double()


def on(net, points, run):
    return value(run(net)(t(points).reshape(-1, 1)))[:, 0]


def test_DEP_01_fold(run):
    y = run(lambda x: (2 * x - 1).abs())(t([0.0, 0.25, 0.5, 0.75, 1.0]))
    close(y, [1.0, 0.5, 0, 0.5, 1])


def test_DEP_02_fold_of_a_fold(run):
    x = np.arange(9) / 8
    inner, outer = run(lambda x: ((2 * x - 1).abs(), (2 * (2 * x - 1).abs() - 1).abs()))(t(x))
    close(inner, [1.0, 0.75, 0.5, 0.25, 0, 0.25, 0.5, 0.75, 1])
    close(outer, [1.0, 0.5, 0, 0.5, 1, 0.5, 0, 0.5, 1])


def test_DEP_03_two_units_make_a_fold(run):
    x = np.arange(65) / 64
    same_bits(on(folds(1), x, run), abs(2 * x - 1))


@pytest.mark.parametrize("depth, count", [(1, 2), (2, 4), (3, 8), (5, 32), (10, 1024)])
def test_DEP_04_composition_doubles(run, depth, count):
    step = 2.0 ** -(depth + 1)
    x = np.arange(2 ** (depth + 1) + 1) * step
    y = on(folds(depth), x, run)
    assert pieces(y) == count
    wide = np.arange(-(2 ** (depth + 1)), 2 ** (depth + 2) + 1) * step
    assert pieces(on(folds(depth), wide, run)) == count
    kinks = x[1:-1][np.diff(y, 2) != 0]
    assert kinks.tolist() == [k / count for k in range(1, count)]


def test_DEP_05_every_value_twice(run):
    """But 0, which is taken once: the document counts it twice."""
    x = np.arange(257) / 256
    values, counts = np.unique(on(folds(1), x, run), return_counts=True)
    assert counts[values == 0].tolist() == [1] and (counts[values > 0] == 2).all()


@pytest.mark.parametrize("width", [1, 3, 7, 1023])
def test_DEP_06_width_adds(run, width):
    """Kinks at i / (w + 1), w + 1 a power of two: a grid of quarters of their distance."""
    net = shallow_network(width).double()
    assert pieces(on(net, np.arange(4 * (width + 1) + 1) / (4 * (width + 1)), run)) == width + 1


def test_DEP_07_shallow_parameters():
    assert count_parameters(mlp(1, 1023, 1)) == 3070


def test_DEP_08_deep_parameters():
    assert count_parameters(mlp(1, *[2] * 10, 1)) == 61


def test_DEP_09_price_ratio():
    close(3070 / 61, 50.33, 0.01)


def test_DEP_10_twenty_folds(run):
    net = folds(20)
    assert count_parameters(net) == 121
    x = np.arange(2**21 + 1) / 2**21  # two steps a piece: every slope is seen
    y = on(net, x, run)
    assert 1 + np.count_nonzero(np.diff(y, 2)) == 2**20 == 1_048_576


def test_DEP_13_more_than_the_simplified_bound(run):
    """Nine folds, then a valley in every piece: 1,536 pieces, as the bound says before it is simplified."""

    def valley_count(fold_count):
        grid = [Fraction(i, 6 * 2**fold_count) for i in range(6 * 2**fold_count + 1)]

        def relu(z):
            return max(z, Fraction(0))

        values = []
        for x in grid:
            for _ in range(fold_count):
                x = abs(2 * x - 1)
            values.append(relu(Fraction(2, 3) - x) + relu(x - Fraction(1, 3)))
        return pieces(values)

    assert valley_count(9) == 2**9 * 3 == 1536
    assert valley_count(4) == 48
    # The same function as a network, on the same grid, to rounding.
    net = folds(4)
    last = fill(mlp(1, 2, 1), ([[-1.0], [1.0]], [2 / 3, -1 / 3]), ([[1.0, 1.0]], [0.0]))
    y = on(nn.Sequential(net, last), np.arange(97) / 96, run)
    assert 1 + (np.abs(np.diff(y, 2)) > 1e-9).sum() == 48


def test_DEP_14_linear_layers_collapse(run):
    first, second, x = nn.Linear(5, 7).double(), nn.Linear(7, 3).double(), seeded(4, 5)
    together = run(nn.Sequential(first, second))(x)
    weight, bias = second.weight @ first.weight, second.weight @ first.bias + second.bias
    close(together, F.linear(x, weight, bias), 1e-12)


def test_wide_enough_fits_anything():
    """Least squares on random ReLU features: the error of sin falls with the width."""
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 200)
    a, b = rng.choice([-4.0, 4.0], 256), rng.uniform(-4, 4, 256)
    errors = []
    for width in (4, 16, 64, 256):
        features = tl.relu(t(x).reshape(-1, 1) * t(a[:width]) + t(b[:width])).numpy()
        design = np.column_stack([features, x, np.ones_like(x)])
        fit = design @ np.linalg.lstsq(design, np.sin(2 * np.pi * x), rcond=None)[0]
        errors.append(np.abs(fit - np.sin(2 * np.pi * x)).max())
    assert all(b <= a for a, b in itertools.pairwise(errors)) and errors[-1] < 0.01
