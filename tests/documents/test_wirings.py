"""Encoder, decoder, both; whole models: A §0, §3, §4, §8, §9 and §14."""

from __future__ import annotations

import copy
import math

import numpy as np
import pytest

import tinygrad_lite as tl
from tests.documents.helpers import close, count_parameters, gradient, same_bits, seeded
from tinygrad_lite import nn, optim
from tinygrad_lite.models import build
from tinygrad_lite.models.encoder import (
    CrossEncoder,
    EncoderConfig,
    MaskedLM,
    Retriever,
    SequenceClassifier,
    mask_tokens,
)
from tinygrad_lite.models.generate import Decoder, generate
from tinygrad_lite.models.gpt import GPT, GPTConfig
from tinygrad_lite.models.parts import upsample2x
from tinygrad_lite.nn import functional as F
from tinygrad_lite.nn.attention import attention_weights, observe_weights

TINY = EncoderConfig(13, 16, 2, 2, 16, 32, dropout=0.0)


def ids(*shape, high=11, seed=0):
    return tl.tensor(np.random.default_rng(seed).integers(1, high, shape))


def strong(model):
    """Weights large enough for every path to show in float32."""
    tl.manual_seed(1)
    with tl.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.copy_(0.4 * tl.randn(*p.shape))
    return model.eval()


@pytest.fixture
def gpt():
    return strong(GPT(GPTConfig(vocab_size=11, block_size=16, n_layer=2, n_head=2, n_embd=16)))


def test_ARC_01_supervised_part_of_a_masked_model():
    text = ids(100, 100)
    hidden, targets = mask_tokens(text, mask=11, vocab_size=12, keep=())
    share = (targets != -100).mean()
    assert abs(share - 0.15) < 5 * math.sqrt(0.1275 / 10_000)
    assert (hidden[targets == -100] == text.numpy()[targets == -100]).all()


def test_ARC_02_supervised_part_of_a_causal_model(gpt, run):
    """Every position: of n + 1 ids n are targets, and each one's logits carry gradient."""
    text = ids(1, 9)

    def grad(text):
        logits = gpt(text[:, :-1])[0]
        loss = F.cross_entropy(logits[0], text[0, 1:], reduction="sum")
        return tl.autograd.grad(loss, logits)[0]

    assert (run(grad)(text)[0] != 0).any(-1).tolist() == [True] * 8
    close(100 / 15, 6.667, 1e-3)


def hidden_gradients(stack, n, width, run):
    """(n, n): does output i depend on input j?"""
    x = tl.randn(1, n, width)
    rows = []
    for i in range(n):
        grad = run(gradient(lambda x, i=i: (stack(x)[0, i] * tl.arange(1, width + 1)).sum()))(x)
        rows.append((grad[0].abs().amax(-1) > 0).tolist())
    return rows


def test_ARC_03_causal(gpt, run):
    def stack(x):
        for block in gpt.blocks:
            x = block(x)
        return gpt.ln_f(x)

    assert hidden_gradients(stack, 5, 16, run) == [[j <= i for j in range(5)] for i in range(5)]
    q, k = seeded(1, 2, 5, 4), seeded(1, 2, 5, 4, seed=1)
    a = run(lambda q, k: attention_weights(q, k, causal=True))(q, k)
    assert (a.triu(1) == 0).all().item() and (a.tril() != 0).sum().item() == 2 * 15


def test_ARC_04_bidirectional(run):
    model = strong(MaskedLM(TINY)).encoder
    assert hidden_gradients(model.stack, 5, 16, run) == [[True] * 5] * 5


def test_ARC_05_cross_attention(run):
    model, source = strong(build("t5-tiny")), ids(1, 7)
    shapes, calls = [], []
    with observe_weights(lambda path, weights: shapes.append((path, tuple(weights.shape)))), tl.no_grad():
        model(source, ids(1, 5))
    heads = model.config.heads
    assert {shape for path, shape in shapes if "cross" in path} == {(1, heads, 5, 7)}
    model.encoder.register_forward_hook(lambda *_: calls.append(1))
    compiled = run is tl.compile
    out = generate(model, tl.zeros(1, 1, dtype=tl.int64), 5, temperature=0, source=source, compiled=compiled)
    assert out.shape == (1, 6) and len(calls) == 1


def test_encoder_and_decoder_depend_on_all_of_the_source_and_the_past_alone(run):
    model, source, target = strong(build("t5-tiny")), ids(1, 4), ids(1, 4, seed=1)
    logits = run(lambda s, t: model(s, t)[0])

    def moved(change_source):
        """[i][j]: does output i change with id j?"""
        rows = []
        for j in range(4):
            both = [source.clone(), target.clone()]
            changed = both[0 if change_source else 1]
            changed[0, j] = changed[0, j] % 10 + 1
            rows.append((logits(*both) != logits(source, target))[0].any(-1).tolist())
        return np.array(rows).T.tolist()

    assert moved(change_source=True) == [[True] * 4] * 4
    assert moved(change_source=False) == [[j <= i for j in range(4)] for i in range(4)]


def test_ARC_06_prefix(gpt, run):
    """The first four of eight tokens, whatever follows."""
    one, other = ids(1, 8), ids(1, 8, seed=1)
    other = tl.cat([one[:, :4], other[:, 4:]], 1)
    forward = run(lambda x: gpt(x)[0])
    same_bits(forward(one)[:, :4], forward(other)[:, :4])


# Contracts and whole models


def test_image_classifier_contract(run):
    """(B, 224, 224, 3) to (B, 1000) by shapes alone; a small one for real."""
    with nn.init.skip_random():
        large = build("resnet18", channels_last=True).eval()
    assert tl.trace(large, tl.zeros(2, 224, 224, 3)).outputs[0].shape == (2, 1000)
    small = build("resnet-tiny", channels_last=True, in_channels=3).eval()
    assert run(small)(tl.randn(2, 32, 32, 3)).shape == (2, 10)


def test_language_model_contract(gpt, run):
    forward, text = run(lambda x: gpt(x)[0]), ids(2, 6)
    logits = forward(text)
    assert logits.shape == (2, 6, 11)
    later = tl.cat([text[:, :3], ids(2, 3, seed=2)], 1)
    same_bits(forward(later)[:, :3], logits[:, :3])


def test_examples_do_not_depend_on_their_batch(gpt, run):
    text = ids(3, 6)
    exact = copy.deepcopy(gpt).double()  # in float32 sums of other lengths differ by some 2e-6
    forward = run(lambda x: exact(x)[0])
    close(forward(text)[1:2], forward(text[1:2]), 1e-13)
    norm = nn.LayerNorm(8).double()
    x = seeded(3, 4, 8)
    same_bits(run(norm)(x)[1:2], run(norm)(x[1:2]))


def test_every_parameter_has_a_gradient_of_its_shape(gpt, run):
    def step(text):
        loss = gpt(text[:, :-1], text[:, 1:].contiguous())[1]
        loss.backward()
        return loss

    assert run(step)(ids(2, 9)).shape == ()
    assert all(p.grad.shape == p.shape for p in gpt.parameters())
    with pytest.raises(RuntimeError, match="scalar"):
        gpt(ids(1, 4))[0].backward()


def test_a_small_gpt_learns_a_sentence_by_heart(run):
    tl.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=11, block_size=16, n_layer=1, n_head=2, n_embd=32))
    optimizer, text = optim.AdamW(model.parameters(), lr=3e-3), ids(1, 13)

    def step(text):
        loss = model(text[:, :-1], text[:, 1:])[1]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    step = run(step)
    losses = [step(text).item() for _ in range(80)]
    assert losses[0] > 2.0 and losses[-1] < 0.1
    assert (generate(model, text[:, :4], 9, temperature=0)[:, :13] == text).all().item()


def test_final_norm_sets_the_scale_of_the_logits(gpt, run):
    """Before it the stream has grown; after it every token has unit variance."""

    def both(text):
        x = gpt.wte(text) + gpt.wpe(tl.arange(text.shape[1]))
        for block in gpt.blocks:
            x = block(x)
        return x.std(), gpt.ln_f(x).std()

    before, after = run(both)(ids(2, 9))
    assert before.item() > 1.5 and abs(after.item() - 1) < 0.05


def test_tied_and_untied_heads():
    def count(tied):
        return count_parameters(GPT(GPTConfig(vocab_size=50, block_size=8, n_layer=1, n_head=2, n_embd=16, tied=tied)))

    assert count(False) - count(True) == 50 * 16


def test_prefix_cache_serves_several_continuations(gpt, run):
    text = ids(1, 6)
    decoder = Decoder(gpt, 1, compiled=run is tl.compile)
    decoder.feed(text)
    for seed in (3, 4):
        more = ids(1, 3, seed=seed)
        decoder.rewind(6)
        with tl.no_grad():
            close(decoder.feed(more), gpt(tl.cat([text, more], 1))[0][:, 6:], 1e-4)


def test_state_of_a_stream_and_cache_of_a_text():
    lstm, gpt = build("charlstm-tiny").eval(), build("gpt-tiny").eval()
    sizes = []
    for length in (10, 14):
        decoder = Decoder(lstm, 1, compiled=False)
        decoder.feed(ids(1, length))
        sizes.append(decoder.nbytes())
    assert sizes[0] == sizes[1]
    assert gpt.make_cache(1, 8).nbytes() * 2 == gpt.make_cache(1, 16).nbytes()


def test_reranker_reads_both_texts(run):
    """A query's vectors depend on the document in a bidirectional stack, not in a causal one that reads it first."""
    model = strong(CrossEncoder(TINY))
    query, one, other = ids(1, 4), ids(1, 5), ids(1, 5, seed=1)
    score = run(model)
    assert abs((score(query, one) - score(query, other)).item()) > 1e-4
    causal = strong(GPT(GPTConfig(vocab_size=11, block_size=16, n_layer=2, n_head=2, n_embd=16)))
    first = run(lambda q, d: causal(tl.cat([q, d], 1))[0][:, :4])
    same_bits(first(query, one), first(query, other))


def test_pooled_heads(run):
    text = ids(3, 7)
    assert run(strong(SequenceClassifier(TINY, 5)))(text).shape == (3, 5)
    vectors = run(strong(Retriever(TINY)))(text)
    close(vectors.norm(dim=-1), tl.ones(3), 1e-6)
    encoder = strong(MaskedLM(TINY)).encoder
    padded = tl.cat([text, tl.zeros(3, 2, dtype=tl.int64)], 1)
    close(run(lambda x: encoder.pooled(x))(padded), encoder(text).mean(1), 1e-5)


def test_unsupervised_logits_do_not_count(run):
    model = strong(MaskedLM(TINY))
    hidden, targets = mask_tokens(ids(4, 12), mask=12, vocab_size=13, p=0.3)

    def grad(x, y):
        logits, loss = model(x, y)
        return tl.autograd.grad(loss, logits)[0]

    touched = (run(grad)(tl.tensor(hidden), tl.tensor(targets)) != 0).any(-1)
    same_bits(touched, targets != -100)


def test_a_prompt_does_the_encoders_work(run):
    """The source in the prompt: every later position reads it, in one causal stack."""
    gpt = strong(GPT(GPTConfig(vocab_size=11, block_size=16, n_layer=2, n_head=2, n_embd=16)))
    one, other, target = ids(1, 4), ids(1, 4, seed=5), ids(1, 4, seed=6)
    logits = run(lambda s: gpt(tl.cat([s, target], 1))[0][:, 4:])
    assert ((logits(one) - logits(other)).abs().amax(-1) > 1e-4).all().item()


def test_filler_does_not_reach_the_loss(run):
    model = strong(MaskedLM(TINY))
    text = ids(2, 6)
    targets = text.clone()
    padded = tl.cat([text, tl.zeros(2, 3, dtype=tl.int64)], 1)
    ignored = tl.cat([targets, tl.full((2, 3), -100, dtype=tl.int64)], 1)
    loss = run(lambda x, y: model(x, y)[1])
    close(loss(padded, ignored), loss(text, targets), 1e-5)


def test_unet_keeps_where_and_pyramid_sees_all_scales(run):
    unet = strong(build("unet-tiny"))
    x = tl.randn(1, 1, 8, 8)
    assert run(unet)(x).shape[2:] == (8, 8)
    for twice in (nn.Upsample(scale_factor=2), upsample2x):
        close(run(lambda x, f=twice: F.avg_pool2d(f(x), 2))(x), x, 1e-6)
    fpn = strong(build("fpn-tiny"))
    assert [tuple(level.shape[2:]) for level in run(fpn.predictions)(x)] == [(8, 8), (4, 4), (2, 2)]
    assert run(fpn)(x).shape[2:] == (8, 8)


def test_vgg_is_threes_and_pools(run):
    from tinygrad_lite.models.vgg import VGG

    model = build("vgg-tiny").eval()
    assert isinstance(model, VGG)
    kernels = {m.kernel_size for m in model.modules() if isinstance(m, nn.Conv2d)}
    assert kernels == {(3, 3)}
    assert run(model)(tl.randn(2, 1, 8, 8)).shape[0] == 2
