"""Layers of this folder against torch: keys, outputs, gradients, on the same weights."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn

pytestmark = pytest.mark.torch
RNG = np.random.default_rng(0)


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def compare(make, inputs, call=lambda m, lib, *x: m(*x)):
    """Same keys, then the same results and gradients from torch's weights."""
    torch = pytest.importorskip("torch")
    theirs = make(torch.nn)
    ours = make(nn)
    state = theirs.state_dict()
    assert list(ours.state_dict()) == list(state)
    ours.load_state_dict({name: tl.from_numpy(np.array(value.numpy())) for name, value in state.items()})
    found = []
    for model, lib in ((theirs, torch), (ours, tl)):
        given = [lib.tensor(x) for x in inputs]
        for x in given:
            if x.is_floating_point():
                x.requires_grad_()
        out = call(model, lib, *given)
        out = out if isinstance(out, tuple) else (out,)
        (sum((y * y).sum() for y in out if y is not None)).backward()
        grads = {name: p.grad for name, p in model.named_parameters()} | {
            f"input {i}": x.grad for i, x in enumerate(given)
        }
        found.append(([y for y in out if y is not None], grads))
    (outs, grads), (own, own_grads) = found
    for a, b in zip(outs, own, strict=True):
        assert tuple(a.shape) == tuple(b.shape)
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=1e-4, atol=2e-5)
    for name, g in grads.items():
        assert (g is None) == (own_grads[name] is None), name
        if g is not None:
            np.testing.assert_allclose(own_grads[name].numpy(), g.numpy(), rtol=1e-3, atol=1e-4, err_msg=name)


PADDING = np.array([[False, False, False, True], [False, False, True, True]])
CAUSAL = np.triu(np.ones((4, 4), bool), 1)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": False},
        {"batch_first": True},
        {"add_bias_kv": True},
        {"add_zero_attn": True},
        {"kdim": 5, "vdim": 7},
    ],
    ids=str,
)
@pytest.mark.parametrize("average", [True, False])
def test_multihead_attention(options, average):
    widths = (6, options.get("kdim", 6), options.get("vdim", 6))
    lengths = ((2, 3), (2, 4), (2, 4)) if options.get("batch_first") else ((3, 2), (4, 2), (4, 2))
    inputs = [draw(*n, w) for n, w in zip(lengths, widths, strict=True)]
    compare(
        lambda lib: lib.MultiheadAttention(6, 2, **options),
        inputs,
        lambda m, lib, q, k, v: m(q, k, v, lib.tensor(PADDING), average_attn_weights=average),
    )


@pytest.mark.parametrize("mask", ["bool", "float", "3d", "causal", "none"])
def test_attention_masks(mask):
    def call(m, lib, x):
        options = {
            "bool": {"attn_mask": lib.tensor(CAUSAL)},
            "float": {"attn_mask": lib.tensor(np.where(CAUSAL, np.float32(-2), np.float32(0.5)))},
            "3d": {"attn_mask": lib.tensor(np.stack([CAUSAL, CAUSAL & False] * 2))},
            "causal": {"attn_mask": lib.tensor(CAUSAL), "is_causal": True, "need_weights": False},
            "none": {},
        }[mask]
        return m(x, x, x, **options)

    compare(lambda lib: lib.MultiheadAttention(6, 2), [draw(4, 2, 6)], call)


def test_unbatched_attention():
    compare(lambda lib: lib.MultiheadAttention(6, 2), [draw(4, 6)], lambda m, lib, x: m(x, x, x))


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_encoder(norm_first, activation):
    def make(lib):
        layer = lib.TransformerEncoderLayer(6, 2, 10, 0.0, activation, norm_first=norm_first, batch_first=True)
        return lib.TransformerEncoder(layer, 2, lib.LayerNorm(6), enable_nested_tensor=False)

    compare(make, [draw(2, 4, 6)], lambda m, lib, x: m(x, src_key_padding_mask=lib.tensor(PADDING)))
    compare(make, [draw(2, 4, 6)], lambda m, lib, x: m(x, lib.tensor(CAUSAL), is_causal=True))


@pytest.mark.parametrize("options", [{}, {"norm_first": True}, {"bias": False}], ids=str)
def test_decoder(options):
    def make(lib):
        return lib.TransformerDecoder(lib.TransformerDecoderLayer(6, 2, 10, 0.0, **options), 2)

    compare(
        make,
        [draw(4, 2, 6), draw(3, 2, 6)],
        lambda m, lib, x, y: m(x, y, lib.tensor(CAUSAL), tgt_key_padding_mask=lib.tensor(PADDING)),
    )


def test_transformer():
    compare(
        lambda lib: lib.Transformer(6, 2, 1, 2, 10, 0.0, batch_first=True),
        [draw(2, 5, 6), draw(2, 4, 6)],
        lambda m, lib, x, y: m(x, y, tgt_mask=m.generate_square_subsequent_mask(4)),
    )


def test_bilinear():
    compare(lambda lib: lib.Bilinear(3, 4, 2), [draw(5, 3), draw(5, 4)])


@pytest.mark.parametrize("options", [{}, {"max_norm": 1.0}, {"max_norm": 2.0, "norm_type": 1.0}], ids=str)
def test_embedding(options):
    torch = pytest.importorskip("torch")
    table, index = draw(6, 4), np.array([[0, 4], [4, 2]])
    found = []
    for lib in (torch, tl):
        layer = lib.nn.Embedding(6, 4, padding_idx=2, _weight=lib.tensor(table), **options)
        out = layer(lib.tensor(index))
        (out * out).sum().backward()
        found.append([x.detach().numpy() for x in (out, layer.weight, layer.weight.grad)] + [repr(layer)])
    for a, b in zip(*found, strict=True):
        assert np.allclose(a, b, rtol=1e-5, atol=1e-6) if isinstance(a, np.ndarray) else a == b


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 1}, {"include_last_offset": True}], ids=str)
def test_embedding_bag(mode, options):
    index = np.array([0, 1, 4, 3, 1, 1, 2])
    compare(
        lambda lib: lib.EmbeddingBag(5, 3, mode=mode, **options),
        [],
        lambda m, lib: m(lib.tensor(index), lib.tensor(np.array([0, 2, 2, 4, 7][: None if len(options) else 4]))),
    )
    if "include_last_offset" not in options:
        compare(
            lambda lib: lib.EmbeddingBag(5, 3, mode=mode, **options),
            [],
            lambda m, lib: m(lib.tensor(np.array([[0, 1, 4], [1, 1, 2]]))),
        )


def test_weighted_bags():
    compare(
        lambda lib: lib.EmbeddingBag(5, 3, mode="sum"),
        [draw(2, 3)],
        lambda m, lib, w: m(lib.tensor(np.array([[0, 1, 4], [1, 1, 2]])), per_sample_weights=w),
    )
