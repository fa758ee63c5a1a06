"""Gradient-boosted stumps, the baseline on tables of A §1: each is fitted to what those before leave over."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from show import trained

import tinygrad_lite as tl
from tinygrad_lite.models.mlp import MLP, MLPConfig
from tinygrad_lite.nn import functional as F

Array = np.ndarray


class Stump(NamedTuple):
    """One question: is the column above the threshold?"""

    column: int
    threshold: float
    below: float
    above: float

    def __call__(self, x: Array) -> Array:
        return np.where(x[:, self.column] > self.threshold, self.above, self.below)


def fit_stump(x: Array, residual: Array, candidates: int = 16) -> Stump:
    """The stump that leaves the least squared error."""
    best, least = Stump(0, np.inf, float(residual.mean()), 0.0), np.inf
    for column in range(x.shape[1]):
        for threshold in np.quantile(x[:, column], np.linspace(0.05, 0.95, candidates)):
            above = x[:, column] > threshold
            if above.all() or not above.any():
                continue
            stump = Stump(column, float(threshold), float(residual[~above].mean()), float(residual[above].mean()))
            error = float(((residual - stump(x)) ** 2).sum())
            if error < least:
                best, least = stump, error
    return best


def fit(x: Array, y: Array, rounds: int = 40, rate: float = 0.5) -> tuple[list[Stump], list[float]]:
    """Stumps, and the mean squared error after each."""
    stumps, errors, left = [], [], y.copy()
    for _ in range(rounds):
        stumps.append(fit_stump(x, left))
        left = left - rate * stumps[-1](x)
        errors.append(float((left**2).mean()))
    return stumps, errors


def predict(stumps: list[Stump], x: Array, rate: float = 0.5) -> Array:
    """The sum of all stumps."""
    return rate * sum(stump(x) for stump in stumps)


def toy(n: int, seed: int) -> tuple[Array, Array]:
    """Columns of very different scales, and a target of thresholds on them."""
    rng = np.random.default_rng(seed)
    days, country, spend = rng.integers(0, 400, n), rng.integers(0, 30, n), rng.lognormal(3, 2, n)
    y = 1.0 * (days > 30) + 0.5 * (country > 12) - 1.0 * (spend > 40)
    return np.column_stack([days, country, spend]).astype(float), y + 0.05 * rng.standard_normal(n)


def boosted() -> tuple[list[Stump], list[float]]:
    """Fitted to the toy table."""
    return fit(*toy(300, 0))


def grown(steps: int = 150) -> list[tuple[str, float]]:
    """Test errors of the trees, and of a dense net on standardised columns."""
    (x, y), (x_test, y_test) = toy(300, 0), toy(300, 1)
    error = float(((predict(boosted()[0], x_test) - y_test) ** 2).mean())
    mean, spread = x.mean(0), x.std(0)
    tl.manual_seed(0)
    net = MLP(MLPConfig((3, 16, 16, 1)))
    data = [tl.tensor((x - mean) / spread).float(), tl.tensor(y).float()]
    trained(net, lambda a, b: F.mse_loss(net(a)[:, 0], b), lambda _: data, steps)
    with tl.no_grad():
        guess = net(tl.tensor((x_test - mean) / spread).float())[:, 0].numpy()
    return [("boosted trees", error), ("dense net", float(((guess - y_test) ** 2).mean()))]
