"""Attention layers, positions and caches: against explicit sums, each other, and compiled."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.nn.attention import attend, attention_weights, causal_mask, observe_weights
from tinygrad_lite.nn.positions import distance_buckets, sinusoids

RNG = np.random.default_rng(0)


def draw(*shape: int) -> tl.Tensor:
    return tl.tensor(RNG.standard_normal(shape).astype(np.float32))


def close(a: tl.Tensor, b: tl.Tensor | np.ndarray, tol: float = 1e-5) -> None:
    b = b.detach().numpy() if isinstance(b, tl.Tensor) else b
    np.testing.assert_allclose(a.detach().numpy(), b, rtol=tol, atol=tol)


def test_multihead_attention_is_the_loop_over_heads():
    layer = nn.MultiheadAttention(6, 3, batch_first=True)
    x = draw(2, 4, 6)
    out, weights = layer(x, x, x, average_attn_weights=False)
    w, b = layer.in_proj_weight.detach().numpy(), layer.in_proj_bias.detach().numpy()
    q, k, v = np.split(x.numpy() @ w.T + b, 3, -1)
    each = []
    for h in range(3):
        part = slice(2 * h, 2 * h + 2)
        p = softmax(q[..., part] @ k[..., part].swapaxes(1, 2) / np.sqrt(2), -1)
        close(weights[:, h], p)
        each.append(p @ v[..., part])
    expected = np.concatenate(each, -1) @ layer.out_proj.weight.detach().numpy().T
    close(out, expected + layer.out_proj.bias.detach().numpy())
    close(layer(x, x, x, need_weights=False)[0], out)


def test_heads_are_free_of_parameters():
    counts = {sum(p.numel() for p in nn.MultiheadAttention(12, h).parameters()) for h in (1, 2, 3, 4, 6, 12)}
    assert counts == {4 * 12 * 12 + 4 * 12}
    assert sum(p.numel() for p in nn.Attention(12, 4).parameters()) == 4 * 12 * 12


def test_grouped_heads_equal_full_ones_with_repeated_weights():
    grouped, full = nn.Attention(8, 4, kv_heads=2, causal=True), nn.Attention(8, 4, causal=True)
    state = grouped.state_dict()
    for name in ("k_proj.weight", "v_proj.weight"):
        state[name] = state[name].reshape(2, 2, 8).repeat_interleave(2, dim=0).reshape(8, 8)
    full.load_state_dict(state)
    x = draw(2, 5, 8)
    close(grouped(x), full(x))
    assert nn.Attention(8, 4, kv_heads=1)(x).shape == (2, 5, 8)


def test_tied_queries_and_keys_make_symmetric_scores():
    layer = nn.Attention(6, 1, tie_qk=True)
    k, _ = layer.project(draw(1, 4, 6))
    scores = (k @ k.transpose(-2, -1)).detach().numpy()
    np.testing.assert_allclose(scores, scores.swapaxes(-1, -2))
    assert [n for n, _ in layer.named_parameters()] == ["q_proj.weight", "v_proj.weight", "o_proj.weight"]


def test_causal_attention_has_no_gradient_from_later_positions():
    layer = nn.Attention(8, 2, causal=True, rotary=nn.RotaryPositions(4))
    x = draw(1, 6, 8).requires_grad_()
    layer(x)[0, 2].sum().backward()
    found = x.grad.numpy()[0]
    assert np.all(found[3:] == 0) and np.all(np.abs(found[:3]).sum(1) > 0)


def test_filler_does_not_matter():
    layer, padding = nn.Attention(8, 2), np.zeros((2, 5), bool)
    padding[1, 3:] = True
    x = draw(2, 5, 8)
    other = x.numpy().copy()
    other[1, 3:] = 100
    one, two = (layer(tl.tensor(np.asarray(a)), key_padding_mask=tl.tensor(padding)) for a in (x.numpy(), other))
    close(one[1, :3], two[1, :3])
    close(one[0], two[0])


def test_cross_attention():
    layer = nn.Attention(8, 2, memory_dim=5, qk_norm=True)
    x, memory = draw(2, 3, 8), draw(2, 7, 5)
    seen: list[tuple[str, tl.Tensor]] = []
    with observe_weights(lambda path, w: seen.append((path, w))):
        out = layer(x, memory)
    assert out.shape == (2, 3, 8) and seen[0][1].shape == (2, 2, 3, 7)
    close(layer(x, projected=layer.project(memory)), out)


def test_qk_norm_ignores_the_scale_of_its_input():
    layer = nn.Attention(8, 2, qk_norm=True)
    x = draw(1, 4, 8)
    seen: list[tl.Tensor] = []
    with observe_weights(lambda path, w: seen.append(w)):
        layer(x)
        layer(x * 50)
    close(seen[0], seen[1], 1e-4)


@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
def test_cache_equals_the_whole_sequence(quantised, compiled):
    layer = nn.Attention(16, 4, kv_heads=2, causal=True, rotary=nn.RotaryPositions(4, 16)).eval()
    x = draw(2, 7, 16)
    cache = nn.KVCache(1, 2, 2, 8, 4, quantised=quantised)

    def step(part: tl.Tensor, positions: tl.Tensor) -> tl.Tensor:
        return layer(part, positions=positions, cache=cache[0])

    run = tl.compile(step) if compiled else step
    with tl.no_grad():
        parts = [run(x[:, :4], tl.arange(4))]
        parts += [run(x[:, i : i + 1], tl.tensor([i])) for i in range(4, 7)]
        whole = layer(x)
    close(tl.cat(parts, 1), whole, 0.02 if quantised else 1e-5)


def test_cache_bytes():
    plain, small = (nn.KVCache(3, 2, 4, 10, 8, quantised=q) for q in (False, True))
    assert plain.nbytes() == 2 * 3 * 2 * 4 * 10 * 8 * 4
    assert small.nbytes() == 2 * 3 * 2 * 4 * 10 * (8 + 4)


def test_cache_rows_can_be_exchanged():
    cache = nn.KVCache(1, 3, 1, 2, 2)
    cache[0].update(draw(3, 1, 2, 2), draw(3, 1, 2, 2), tl.arange(2))
    before = cache[0].keys.numpy().copy()
    cache.reorder(tl.tensor([2, 0, 0]))
    np.testing.assert_array_equal(cache[0].keys.numpy(), before[[2, 0, 0]])


def test_rotary_scores_depend_on_the_offset_only():
    rotary = nn.RotaryPositions(8, 64)
    q, k = draw(1, 8), draw(1, 8)
    scores = [(rotary(q, tl.tensor([i + 5])) * rotary(k, tl.tensor([i]))).sum().item() for i in (0, 3, 40)]
    np.testing.assert_allclose(scores, scores[0], rtol=1e-4)
    close(rotary(q.expand(3, 8))[:1], q)
    np.testing.assert_allclose((rotary(q.expand(3, 8)).numpy() ** 2).sum(1), (q.numpy() ** 2).sum(), rtol=1e-5)


def test_positions():
    table = sinusoids(50, 16)
    np.testing.assert_allclose((table**2).sum(1), 8, rtol=1e-5)  # norm sqrt(d/2)
    x = draw(2, 5, 16)
    close(nn.SinusoidalPositions(16)(x), x.numpy() + table[:5], 1e-6)
    learned = nn.LearnedPositions(16, 9)
    learned(x).sum().backward()
    assert np.all(learned.weight.grad.numpy()[5:] == 0) and learned.weight.numel() == 9 * 16
    close(learned(x, tl.tensor([3, 1, 4, 1, 5])), x + learned.weight[tl.tensor([3, 1, 4, 1, 5])])


def test_distance_buckets_are_t5s():
    # by hand from the formula: exact below 8, logarithmic up to 128, halves for the two directions
    far = distance_buckets(np.array([-1, 0, 7, 8, 20, 127, 500]), 32, 128, two_sided=True)
    assert far.tolist() == [1, 0, 16 + 7, 16 + 8, 16 + 10, 16 + 15, 16 + 15]
    one = distance_buckets(np.array([3, 0, -15, -16, -30, -127, -999]), 32, 128, two_sided=False)
    assert one.tolist() == [0, 0, 15, 16, 20, 31, 31]
    bias = nn.RelativePositionBias(2, two_sided=False)
    whole = bias(6, 6)
    assert whole.shape == (2, 6, 6)
    close(bias(1, 6, tl.tensor([4]))[:, 0], whole[:, 4])


def test_second_derivatives_reach_through_attention():
    layer = nn.Attention(4, 2, causal=True, qk_norm=True, rotary=nn.RotaryPositions(2)).double()
    x = tl.tensor(RNG.standard_normal((1, 3, 4))).requires_grad_()
    (g,) = tl.autograd.grad((layer(x) ** 2).sum(), [x], create_graph=True)
    (gg,) = tl.autograd.grad((g * g).sum(), [x])
    eps, d = 1e-5, RNG.standard_normal((1, 3, 4))
    moved = []
    for sign in (1, -1):
        y = tl.tensor(x.detach().numpy() + sign * eps * d).requires_grad_()
        (h,) = tl.autograd.grad((layer(y) ** 2).sum(), [y])
        moved.append((h.numpy() ** 2).sum())
    assert (moved[0] - moved[1]) / (2 * eps) == pytest.approx((gg.numpy() * d).sum(), rel=1e-5)


def test_weights_under_a_mask():
    q, k = draw(1, 1, 3, 4), draw(1, 1, 3, 4)
    mask = causal_mask(3)
    weights = attention_weights(q, k, mask).numpy()[0, 0]
    assert np.all(np.triu(weights, 1) == 0)
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-6)
    close(attend(q, k, k, causal=True), attend(q, k, k, mask))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.MultiheadAttention(10, 3), ValueError, "num_heads 3 does not divide embed_dim 10"),
        (lambda: nn.Attention(10, 3), ValueError, "heads 3 does not divide dim 10"),
        (lambda: nn.Attention(12, 4, kv_heads=3), ValueError, "kv_heads 3 does not divide heads 4"),
        (lambda: nn.RotaryPositions(5), ValueError, "even, not 5"),
        (lambda: nn.RotaryPositions(4, 3)(draw(5, 4)), ValueError, "5 positions exceeds the 3"),
        (lambda: nn.LearnedPositions(4, 3)(draw(5, 4)), ValueError, "5 positions exceeds the 3"),
        (lambda: nn.SinusoidalPositions(4, 3)(draw(5, 4)), ValueError, "5 positions exceeds the 3"),
        (
            lambda: nn.Attention(4, 2)(draw(2, 3, 4), key_padding_mask=tl.zeros(2, 4, dtype=tl.bool)),
            ValueError,
            r"key_padding_mask has shape \(2, 4\), expected \(2, 3\)",
        ),
        (
            lambda: nn.Attention(4, 2)(draw(2, 3, 4), mask=tl.ones(4, 3, dtype=tl.bool)),
            ValueError,
            r"mask has shape \(4, 3\)",
        ),
        (
            lambda: nn.Attention(4, 2)(draw(3, 1, 4), positions=tl.arange(1), cache=nn.LayerCache(2, 2, 5, 2)),
            ValueError,
            "made for batch size 2, used with 3",
        ),
        (lambda: nn.Attention(4, 2)(draw(2, 1, 4), cache=nn.LayerCache(2, 2, 5, 2)), ValueError, "positions"),
        (
            lambda: nn.MultiheadAttention(4, 2)(*[draw(3, 2, 4)] * 3, key_padding_mask=tl.zeros(3, 2, dtype=tl.bool)),
            RuntimeError,
            r"key_padding_mask has shape \(3, 2\), expected \(2, 3\)",
        ),
        (
            lambda: nn.MultiheadAttention(4, 2)(*[draw(3, 2, 4)] * 3, attn_mask=tl.zeros(2, 2)),
            RuntimeError,
            r"attn_mask has shape \(2, 2\), expected \(3, 3\)",
        ),
        (lambda: nn.MultiheadAttention(4, 2)(*[draw(3, 2, 5)] * 3), RuntimeError, "query has width 5"),
        (lambda: nn.MultiheadAttention(4, 2)(*[draw(3, 2, 4)] * 3, is_causal=True), RuntimeError, "is_causal"),
        (lambda: nn.Attention(4, 2)(draw(2, 3, 5)), ValueError, "x has width 5, the layer takes 4"),
        (
            lambda: nn.Attention(4, 2)(draw(2, 3, 4), draw(3, 5, 4)),
            ValueError,
            r"memory has shape \(3, 5, 4\), expected \(2, keys, 4\)",
        ),
        (
            lambda: nn.Attention(4, 2)(draw(2, 2, 4), positions=tl.arange(1), cache=nn.LayerCache(2, 2, 5, 2)),
            ValueError,
            r"positions have shape \(1,\), expected \(2,\)",
        ),
        (lambda: nn.KVCache(1, 2, 2, 5, 2)[1], IndexError, "made for 1 layers, layer 1"),
    ],
)
def test_bad_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


INTEGERS = tl.ones(3, 3, dtype=tl.int64)
COUNTED = {
    "mask": (lambda x: nn.Attention(4, 2)(x, mask=INTEGERS), "mask must be bool or floating, not int64"),
    "cached mask": (
        lambda x: nn.Attention(4, 2)(x, mask=INTEGERS, positions=tl.arange(3), cache=nn.LayerCache(3, 2, 3, 2)),
        "mask must be bool or floating, not int64",
    ),
    "padding": (lambda x: nn.Attention(4, 2)(x, key_padding_mask=INTEGERS), "key_padding_mask must be bool, not int64"),
    "torch's mask": (
        lambda x: nn.MultiheadAttention(4, 2)(x, x, x, attn_mask=INTEGERS),
        "attn_mask must be bool or floating, not int64",
    ),
    "torch's padding": (
        lambda x: nn.MultiheadAttention(4, 2)(x, x, x, key_padding_mask=INTEGERS, need_weights=False),
        "key_padding_mask must be bool or floating, not int64",
    ),
    "encoder": (
        lambda x: nn.TransformerEncoderLayer(4, 2, 4)(x, src_key_padding_mask=INTEGERS),
        "key_padding_mask must be bool or floating, not int64",
    ),
    "function": (
        lambda x: nn.functional.scaled_dot_product_attention(x, x, x, INTEGERS),
        r"attn_mask must be bool or floating, not i64\[3,3\]",
    ),
}


@pytest.mark.parametrize("name", COUNTED)
def test_masks_of_integers_are_refused(name):
    """Ones for tokens and zeros for filler, as tokenizers give them, would be added to the scores."""
    call, message = COUNTED[name]
    with pytest.raises((ValueError, RuntimeError), match=message):
        call(draw(3, 3, 4))
