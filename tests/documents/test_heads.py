"""Heads, positions, masks and caches: A §7, §14 and §15."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tinygrad_lite as tl
from tests.documents.helpers import close, count_parameters, jacobian, same_bits, seeded, t
from tinygrad_lite import nn
from tinygrad_lite.models import arithmetic as ar
from tinygrad_lite.models.llama import LlamaConfig
from tinygrad_lite.nn import functional as F
from tinygrad_lite.nn.attention import attention_weights
from tinygrad_lite.nn.positions import RotaryPositions, SinusoidalPositions, sinusoids


def attention(dim=8, heads=2, **options):
    return nn.Attention(dim, heads, **options).double()


def test_MH_01_width_of_a_head():
    assert nn.Attention(64, 4).head_dim == 16
    assert LlamaConfig(n_embd=4096, n_head=32).head_dim == 4096 // 32 == 128


@pytest.mark.parametrize("heads", [1, 32, 4096])
def test_MH_02_heads_cost_no_parameters(heads):
    assert ar.attention_parameters(4096, heads) == 4 * 4096**2 == 67_108_864
    small = heads // 64 or 1
    assert count_parameters(nn.Attention(64, small)) == ar.attention_parameters(64, small) == 4 * 64 * 64


def test_MH_03_all_queries_in_one_product(run):
    layer, x = attention(), seeded(5, 8)
    rows = [layer.q_proj.weight @ x[i] for i in range(5)]
    close(run(layer.q_proj)(x), tl.stack(rows), 1e-12)


def test_MH_04_blind_to_order(run):
    x, order = seeded(1, 6, 8), [3, 0, 5, 1, 4, 2]
    layer, causal = attention(), attention(causal=True)
    forward = run(layer)
    close(forward(x[:, order]), forward(x)[:, order], 1e-12)
    assert (causal(x[:, order]) - causal(x)[:, order]).abs().amax().item() > 1e-3
    positions = t(sinusoids(6, 8))
    assert (layer(x[:, order] + positions) - layer(x + positions)[:, order]).abs().amax().item() > 1e-3


def test_MH_05_rotation_sees_the_offset_alone(run):
    """The library pairs coordinate i with i + d/2, as Llama's weights do: (0, 2, 1, 3) of the neighbours' order."""
    rotary, order = RotaryPositions(4), [0, 2, 1, 3]
    q, k = t([1.0, 2, 0, 1])[order], t([0.0, 1, 0, 1])[order]

    def score(q, k, at):
        turned = [rotary(v.reshape(1, 4), at[i : i + 1])[0] for i, v in enumerate((q, k))]
        return (turned[0] * turned[1]).sum()

    got = [run(score)(q, k, tl.tensor(at)).item() for at in ([5, 3], [12, 10], [2, 0], [5, 4], [7, 7])]
    close(got, [1.0768038, 1.0768038, 1.0768038, 2.9220256, 3.0], 1e-6)


def test_MH_06_sinusoid_row(run):
    row = run(SinusoidalPositions(4, 8))(tl.zeros(1, 4, 4))[0, 3]
    close(row, [0.141120, -0.989992, 0.029996, 0.999550], 1e-5)
    close(row.norm(), math.sqrt(2), 1e-5)


# What part 1 asks of attention


def test_hard_lookup_has_no_gradient():
    keys, values = t([[0.0, 0], [1, 2]]), t([[3.0], [4.0]])
    query = t([1.0, 2.0]).requires_grad_(True)
    match = (keys == query).all(-1).double()
    out = values[match.argmax()]
    assert out.item() == 4.0 and not out.requires_grad


def test_softmax_by_its_properties(run):
    s = seeded(5)
    a = run(lambda s: s.softmax(-1))(s)
    close(a.sum(), 1.0, 1e-15)
    close(run(lambda s: s.softmax(-1))(s + 1000.0), a, 1e-12)
    close(jacobian(lambda s: s.softmax(-1), s), tl.diag(a) - tl.outer(a, a), 1e-15)


def test_a_dot_product_is_alignment():
    q = t([1.0, 2.0, 0.0])
    aligned, crossed, opposed = t([2.0, 4, 0]), t([-2.0, 1, 5]), t([-1.0, -2, 0])
    close([F.cosine_similarity(q, k, 0).item() for k in (aligned, crossed, opposed)], [1.0, 0, -1], 1e-15)
    close(q @ aligned, q.norm() * aligned.norm(), 1e-14)


def test_heads_are_separate_attentions(run):
    layer, x = attention(8, 2), seeded(2, 5, 8)
    q, k, v = (p(x) for p in (layer.q_proj, layer.k_proj, layer.v_proj))
    parts = [F.scaled_dot_product_attention(*(m[..., i : i + 4] for m in (q, k, v))) for i in (0, 4)]
    close(run(layer)(x), layer.o_proj(tl.cat(parts, -1)), 1e-12)


def test_tied_queries_and_keys_make_symmetric_scores():
    x = seeded(5, 8)
    for tied in (True, False):
        layer = attention(8, 1, tie_qk=tied)
        scores = layer.q_proj(x) @ layer.k_proj(x).T
        assert ((scores - scores.T).abs().amax().item() < 1e-12) == tied


def test_future_has_no_gradient(run):
    layer, x = attention(causal=True), seeded(1, 5, 8)
    j = run(lambda x: jacobian(lambda x: layer(x.reshape(1, 5, 8)).sum(-1)[0], x))(x.flatten()).reshape(5, 5, 8)
    for i in range(5):
        assert (j[i, i + 1 :] == 0).all().item() and (j[i, : i + 1] != 0).any(-1).all().item()


def test_padding_is_not_read(run):
    layer, x = attention(), seeded(2, 6, 8)
    padding = tl.tensor([[False] * 4 + [True] * 2] * 2)
    other = x.clone()
    other[:, 4:] = 100.0
    forward = run(lambda x: layer(x, key_padding_mask=padding))
    same_bits(forward(x)[:, :4], forward(other)[:, :4])
    close(forward(x)[:, :4], layer(x[:, :4]), 1e-12)


def test_cross_attention_shapes(run):
    layer, x, memory = attention(memory_dim=6), seeded(2, 5, 8), seeded(2, 7, 6)
    assert run(layer)(x, memory).shape == (2, 5, 8)
    q, k = seeded(2, 2, 5, 4), seeded(2, 2, 7, 4)
    assert attention_weights(q, k).shape == (2, 2, 5, 7)


def test_grouped_and_multi_query(run):
    """Shared key heads equal a full layer whose key and value heads repeat."""
    for kv in (1, 2):
        shared, full = attention(8, 4, kv_heads=kv), attention(8, 4)
        for name in ("q_proj", "o_proj"):
            getattr(full, name).weight.data.copy_(getattr(shared, name).weight.data)
        for name in ("k_proj", "v_proj"):
            heads = getattr(shared, name).weight.data.reshape(kv, 2, 8).repeat_interleave(4 // kv, 0)
            getattr(full, name).weight.data.copy_(heads.reshape(8, 8))
        x = seeded(2, 5, 8)
        close(run(shared)(x), full(x), 1e-12)
        assert count_parameters(shared) == 2 * 64 + 2 * 8 * 2 * kv


def decode(layer, x, cache, run, tokens=1):
    step = run(lambda x, at: layer(x, positions=at, cache=cache))
    at = range(0, x.shape[1], tokens)
    return tl.cat([step(x[:, i : i + tokens], tl.arange(i, i + tokens)) for i in at], 1)


@pytest.mark.parametrize("quantised, atol", [(False, 1e-12), (True, 0.05)])
def test_cache_equals_the_whole(run, quantised, atol):
    layer, x = attention(8, 2, causal=True), seeded(2, 6, 8)
    cache = nn.KVCache(1, 2, 2, 6, 4, quantised=quantised, dtype=tl.float64)
    close(decode(layer, x, cache[0], run), layer(x), atol)


def test_eight_bits_halve_a_sixteen_bit_cache():
    eight = nn.KVCache(1, 1, 4, 64, 32, quantised=True)
    values = sum(s.numel() * s.element_size() for s in (eight[0].keys, eight[0].values))
    assert values * 2 == 2 * 4 * 64 * 32 * 2  # two bytes a number
    assert eight.nbytes() < nn.KVCache(1, 1, 4, 64, 32).nbytes() / 3


def test_queries_and_keys_of_unit_size(run):
    """With QK-norm the scale of the input does not matter, and scores are bounded."""
    layer, x = attention(qk_norm=True), seeded(1, 5, 8)
    close(run(layer)(x * 1000) / 1000, layer(x), 1e-3)
    q = layer.q_norm(layer.q_proj(x).reshape(1, 5, 2, 4))
    assert (q.norm(dim=-1) <= math.sqrt(4) + 1e-9).all().item()


def test_quadratic_scores():
    """Twice the length: four times the work and the memory of the scores."""

    def products(n):
        graph = tl.trace(lambda q, k: attention_weights(q, k), *[tl.zeros(1, 2, n, 4)] * 2)
        scores = next(node for node in graph.nodes if node.op.name == "matmul")
        return scores.op.cost(scores).flops, int(np.prod(scores.shape))

    assert products(64) == tuple(4 * v for v in products(32))


def test_learned_positions(run):
    from tinygrad_lite.nn.positions import LearnedPositions

    layer = LearnedPositions(4, 10)
    assert count_parameters(layer) == 40
    run(lambda x: layer(x).square().sum().backward())(tl.ones(2, 6, 4))
    used = (layer.weight.grad != 0).any(-1)
    assert used.tolist() == [True] * 6 + [False] * 4
    with pytest.raises(ValueError, match="11 positions exceeds the 10"):
        layer(tl.zeros(1, 11, 4))
