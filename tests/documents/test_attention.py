"""Attention by hand, why its scores are scaled, heads and positions: A §7."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinygrad_lite as tl
from tests.documents.helpers import close, gradient, seeded, t
from tinygrad_lite.nn import functional as F

# The four tokens of the worked lookup; the third asks.
QUERY = [[1.0, 2, 0, 1]]
KEYS = [[0.0, 0, 1, 0], [1, 2, 0, 1], [0, 1, 0, 1], [1, 0, 0, 0]]
VALUES = [[0.1, 0.0, 0.2, 0.0], [0.9, 0.2, 0.1, 0.4], [0.2, 0.8, 0.0, 0.3], [0.0, 0.1, 0.7, 0.1]]
WEIGHTS = [0.0367432, 0.7380062, 0.1646714, 0.0605792]
OUT = [0.7008142, 0.2853963, 0.1235547, 0.3506618]


@pytest.fixture
def qkv():
    return t(QUERY), t(KEYS), t(VALUES)


def weights(q, k, scale=None):
    """The row of attention weights, and what it was made of: scores, scaled scores."""
    raw = (q @ k.T)[0]
    scaled = raw / (math.sqrt(q.shape[-1]) if scale is None else scale)
    return raw, scaled, scaled.softmax(-1)


def test_ATT_01_scores(qkv, run):
    raw, scaled, _ = run(weights)(*qkv[:2])
    close(raw, [0.0, 6, 3, 1])
    close(scaled, [0, 3, 1.5, 0.5])


def test_ATT_02_exponentials(qkv, run):
    exps = run(lambda q, k: weights(q, k)[1].exp())(*qkv[:2])
    close(exps, [1, 20.085537, 4.481689, 1.648721], 1e-6)
    close(exps.sum(), 27.215947, 1e-6)


def test_ATT_03_weights(qkv, run):
    a = run(weights)(*qkv[:2])[2]
    close(a, WEIGHTS, 1e-6)
    close(a.sum(), 1.0, 1e-12)


def test_ATT_04_output(qkv, run):
    close(run(F.scaled_dot_product_attention)(*qkv), [OUT], 1e-6)
    rounded = np.array([0.037, 0.738, 0.165, 0.061]) @ np.array(VALUES)
    close(rounded, [0.7009, 0.2857, 0.1239, 0.3508], 5e-5)


def test_ATT_05_shares(qkv, run):
    a = run(weights)(*qkv[:2])[2]
    close([a[1].item(), a[2].item(), a[0].item()], [0.738, 0.165, 0.037], 5e-4)


def test_ATT_06_causal_mask_before_the_softmax(qkv, run):
    allowed = tl.tensor([[True, True, True, False]])

    def masked(q, k, v):
        scaled = weights(q, k)[1].masked_fill(~allowed[0], -math.inf)
        return scaled.exp().sum(), scaled.softmax(-1), F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)

    total, a, out = run(masked)(*qkv)
    close(total, 25.567226, 1e-6)
    close(a, [0.0391126, 0.7855970, 0.1752904, 0], 1e-6)
    assert a[3].item() == 0
    close(out, [[0.7460067, 0.2973517, 0.0863822, 0.3668259]], 1e-6)


def test_ATT_07_mask_after_the_softmax_falls_short(qkv, run):
    def wrong(q, k, v):
        a = weights(q, k)[2] * t([1.0, 1, 1, 0])
        return a.sum(), a @ v

    total, out = run(wrong)(*qkv)
    close(total, 0.9394208, 1e-6)
    close(out, [0.7008142, 0.2793384, 0.0811493, 0.3446039], 1e-6)


def test_ATT_08_unscaled(qkv, run):
    raw, _, a = run(lambda q, k: weights(q, k, scale=1.0))(*qkv[:2])
    close(raw.exp(), [1, 403.428793, 20.085537, 2.718282], 1e-6)
    close(raw.exp().sum(), 427.232612, 1e-6)
    close(a, [0.0023407, 0.9442837, 0.0470131, 0.0063625], 1e-6)
    q, k, v = qkv
    close(F.scaled_dot_product_attention(q, k, v, scale=1.0), (a @ v).reshape(1, 4), 1e-12)


def test_ATT_09_scaled_too_far(qkv, run):
    close(run(lambda q, k: weights(q, k, scale=4.0)[2])(*qkv[:2]), [0.1125782, 0.5045405, 0.2383281, 0.1445533], 1e-6)


def test_ATT_10_every_score_has_a_gradient(qkv, run):
    row = run(gradient(lambda s: s.softmax(-1)[1]))(t([0.0, 3, 1.5, 0.5]))
    close(row, [-0.0271167, 0.1933531, -0.1215285, -0.0447079], 1e-6)
    assert (row != 0).all().item()
    close(row.sum(), 0.0, 1e-12)


def test_ATT_11_convex_combination(qkv, run):
    q, k, v = qkv
    out = run(F.scaled_dot_product_attention)(q, k, v)[0]
    assert ((v.amin(0) <= out) & (out <= v.amax(0))).all().item()
    close(v.amin(0), [0.0, 0, 0, 0])
    close(v.amax(0), [0.9, 0.8, 0.7, 0.4])


def test_ATT_12_causal_triangle(run):
    blocked = run(lambda: tl.ones(4, 4, dtype=tl.bool).triu(1))()
    assert blocked.sum().item() == 6 and (~blocked).sum().item() == 10
    for i in range(4):
        assert [j for j in range(4) if not blocked[i, j].item()] == list(range(i + 1))


# Why the square root


def two_keys(s):
    """Weight of the winner among two keys a separation s apart."""
    return tl.stack([s, tl.zeros_like(s)]).softmax(0)[0]


def test_SQ_01_spread_of_a_score(run):
    q, k = seeded(4000, 128), seeded(4000, 128, seed=1)
    score = run(lambda q, k: (q * k).sum(-1))(q, k)
    assert abs(score.mean().item()) < 5 * math.sqrt(128 / 4000)
    assert abs(score.var().item() / 128 - 1) < 5 * math.sqrt(2.1 / 4000)
    close(math.sqrt(128), 11.313708, 1e-6)


def test_SQ_02_a_matching_key(run):
    q = seeded(10_000, 128)
    norms = run(lambda q: (q * q).sum(-1))(q)
    assert abs(norms.mean().item() - 128) < 0.8
    assert abs(norms.std().item() - 16) < 5 * 16 / math.sqrt(2 * 10_000)


def test_SQ_03_gap_of_two_scores(run):
    variance = 128 + 128
    assert (variance, math.sqrt(variance)) == (256, 16.0)
    close(run(gradient(two_keys))(t(16.0)), 1.125e-7, rtol=1e-3)


@pytest.fixture
def slopes(run):
    """At a separation of √128, and of 1."""
    slope = run(gradient(two_keys))
    return slope(t(math.sqrt(128))).item(), slope(t(1.0)).item()


def test_SQ_04_saturated_softmax(run, slopes):
    close(run(two_keys)(t(math.sqrt(128))), 0.99998780, 1e-8)
    close(slopes[0], 1.220417e-5, rtol=1e-5)


def test_SQ_05_unit_separation(run, slopes):
    close(run(two_keys)(t(1.0)), 0.7310586, 1e-7)
    close(slopes[1], 0.1966119, 1e-7)


def test_SQ_06_ratio_of_slopes(slopes):
    close(slopes[1] / slopes[0], 16_110, 1)


def test_SQ_07_ratio_by_the_raw_score(run, slopes):
    """Through the scaling the raw score's slope keeps a factor 1/√128: the ratio is 1,424, not 16,110."""
    scaled = run(gradient(lambda s: two_keys(s / math.sqrt(128))))(t(math.sqrt(128))).item()
    close(scaled, 0.01737820, rtol=1e-4)
    close(scaled / slopes[0], 1424.0, rtol=1e-4)


def test_SQ_08_dividing_by_the_width():
    close(math.sqrt(128 / 128**2), 0.08838835, 1e-8)
    assert 128 / math.sqrt(128) ** 2 == pytest.approx(1.0, abs=1e-12)


def test_SQ_09_saturation_demonstration(run):
    def demo(q, k):
        raw = (q * k).sum(-1)
        return raw.std(), (raw / math.sqrt(128)).std()

    raw, scaled = run(demo)(tl.randn(1000, 128), tl.randn(1000, 128))
    assert abs(raw.item() - 11.314) < 1.28 and abs(scaled.item() - 1) < 0.113
    assert raw.item() / scaled.item() == pytest.approx(math.sqrt(128), rel=1e-5)
