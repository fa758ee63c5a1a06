"""Generation: the cache against the whole text, sampling by hand, beams against all candidates, errors."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn
from tinygrad_lite.models import build
from tinygrad_lite.models.generate import Decoder, Sampling, beam_search, generate, log_softmax, pieces

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def _the_same_draws_in_any_order():
    RNG.bit_generator.state = np.random.default_rng(0).bit_generator.state


def ids(*shape: int, high: int = 11) -> tl.Tensor:
    return tl.tensor(RNG.integers(1, high, shape))


def make(name: str) -> nn.Module:
    tl.manual_seed(3)
    model = build(name).eval()
    with tl.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.copy_(tl.randn(*p.shape) * 0.4)
    return model


MODELS = ["gpt-tiny", "llama-tiny", "charlstm-tiny", "chargru-tiny"]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("compiled", [False, True])
def test_steps_equal_the_whole_text(name, compiled):
    model, x = make(name), ids(2, 11)
    decoder = Decoder(model, 2, compiled=compiled)
    with tl.no_grad():
        whole = model(x)[0].numpy()
    parts = [decoder.feed(x[:, :7])] + [decoder.feed(x[:, i : i + 1]) for i in range(7, 11)]
    np.testing.assert_allclose(np.concatenate([p.numpy() for p in parts], 1), whole, rtol=2e-4, atol=2e-5)
    assert decoder.length == 11


@pytest.mark.parametrize("dtype", [tl.float64, tl.float16, tl.bfloat16], ids=lambda d: d.name)
@pytest.mark.parametrize("name, quantised", [("gpt-tiny", False), ("llama-tiny", False), ("gpt-tiny", True)])
def test_a_cache_has_the_models_dtype(name, quantised, dtype):
    """Keys are kept as the model computes them; of the int8 cache the scales are not narrower than float32."""
    model, x = make(name).to(dtype), ids(2, 6)
    decoder = Decoder(model, 2, compiled=False, quantised=quantised)
    layer = decoder.cache[0]
    assert layer.keys.dtype is (tl.int8 if quantised else dtype)
    assert not quantised or layer.key_scale.dtype is (dtype if dtype is tl.float64 else tl.float32)
    found = tl.cat([decoder.feed(x[:, :4]), decoder.feed(x[:, 4:5]), decoder.feed(x[:, 5:])], 1)
    with tl.no_grad():
        whole = model(x)[0]
    assert found.dtype is whole.dtype is dtype
    tolerance = 0.1 if quantised or dtype is tl.bfloat16 else 0.02 if dtype is tl.float16 else 1e-12
    size = whole.abs().max().item()
    np.testing.assert_allclose(found.double().numpy(), whole.double().numpy(), rtol=0, atol=tolerance * size)


def test_source_is_read_once():
    model, source, x = make("t5-tiny"), ids(2, 6), ids(2, 7)
    calls = []
    model.encoder.register_forward_hook(lambda m, args, out: calls.append(1))
    decoder = Decoder(model, 2, source=source)
    parts = [decoder.feed(x[:, i : i + 1]).numpy() for i in range(7)]
    assert len(calls) == 1
    with tl.no_grad():
        np.testing.assert_allclose(np.concatenate(parts, 1), model(source, x)[0].numpy(), rtol=2e-4, atol=2e-5)
    start = tl.zeros(2, 1, dtype=tl.int64)
    out = generate(model, start, 5, temperature=0, source=source)
    assert out.shape == (2, 6)
    best, score = beam_search(model, start[:1], 3, beams=2, source=source[:1])
    assert best.shape == (1, 4) and score.item() < 0


@pytest.mark.parametrize("name", ["gpt-tiny", "llama-tiny"])
def test_int8_cache_is_close(name):
    model, x = make(name), ids(2, 11)
    plain, small = Decoder(model, 2), Decoder(model, 2, quantised=True)
    a, b = plain.feed(x).numpy(), small.feed(x).numpy()
    assert 0 < np.abs(a - b).max() < 0.05 * np.abs(a).max()
    assert small.nbytes() < 0.8 * plain.nbytes()


def test_a_prefix_serves_many_texts():
    model, x = make("gpt-tiny"), ids(1, 8)
    decoder = Decoder(model, 1)
    decoder.feed(x)
    for _ in range(2):
        more = ids(1, 3)
        decoder.rewind(8)
        found = decoder.feed(more).numpy()
        with tl.no_grad():
            np.testing.assert_allclose(found, model(tl.cat([x, more], 1))[0][:, 8:].numpy(), rtol=2e-4, atol=2e-5)


def test_a_row_does_not_depend_on_its_batch():
    model, x = make("llama-tiny"), ids(3, 5)
    together = generate(model, x, 6, temperature=0).numpy()
    alone = generate(model, x[1:2], 6, temperature=0).numpy()
    np.testing.assert_array_equal(together[1:2], alone)


@pytest.mark.parametrize("name", MODELS)
def test_greedy_is_the_argmax_of_the_whole_text(name):
    model, x = make(name), ids(2, 4)
    out = generate(model, x, 6, temperature=0)
    assert out.shape == (2, 10) and out.dtype == tl.int64
    for end in range(4, 10):
        with tl.no_grad():
            expected = model(out[:, :end])[0][:, -1].argmax(dim=-1)
        np.testing.assert_array_equal(out[:, end].numpy(), expected.numpy())
    model.train()
    np.testing.assert_array_equal(generate(model, x, 6, temperature=0, compiled=False).numpy(), out.numpy())
    assert model.training


def test_each_module_is_left_in_its_mode():
    model = make("gpt-tiny").train()
    frozen = next(m for m in model.modules() if isinstance(m, nn.LayerNorm)).eval()
    before = [m.training for m in model.modules()]
    for write in (lambda: generate(model, ids(1, 3), 2, temperature=0), lambda: beam_search(model, ids(1, 3), 2, 2)):
        write()
        assert [m.training for m in model.modules()] == before and not frozen.training


@pytest.mark.parametrize("name", ["gpt-tiny", "llama-tiny"])
def test_greedy_tokens_are_turns_of_one_program(name):
    model, x = make(name), ids(2, 3)
    decoder = Decoder(model, 2)
    text = decoder.greedy(x, 6)
    assert text.shape == (2, 6) and decoder.length == 8
    more = decoder.greedy(text[:, -1:].contiguous(), 4)
    assert decoder.length == 12
    assert sum(map(len, decoder.writer.advance._captures.values())) == 1
    copies = [c for c in decoder.writer.advance._latest().program.calls if c.label == "copy_out"]
    assert all(call.writes[0].type.size <= 2 for call in copies), "the cache is copied"
    eager = Decoder(model, 2, compiled=False).greedy(x, 10)
    np.testing.assert_array_equal(tl.cat([text, more], dim=1).numpy(), eager.numpy())


def test_state_of_fixed_size():
    model = make("charlstm-tiny")
    decoder = Decoder(model, 1)
    decoder.feed(ids(1, 3))
    few = decoder.nbytes()
    decoder.feed(ids(1, 40))
    assert decoder.nbytes() == few == model.state_bytes()


def test_programs_are_few():
    assert list(pieces(13)) == [(0, 8), (8, 12), (12, 13)]
    assert list(pieces(0)) == []
    assert all(b - a in (1, 2, 4, 8, 16) for n in range(32) for a, b in pieces(n))


def test_stop_tokens():
    model, x = make("gpt-tiny"), ids(3, 4)
    free = generate(model, x, 12, temperature=0).numpy()
    stop = int(free[0, 6])
    out = generate(model, x, 12, temperature=0, stop=stop).numpy()
    first = int(np.argmax(free[0, 4:] == stop)) + 4
    np.testing.assert_array_equal(out[0, : first + 1], free[0, : first + 1])
    assert np.all(out[0, first:] == stop)
    alone = generate(model, x[:1], 12, temperature=0, stop=[stop])
    assert alone.shape[1] == first + 1


def test_seeds():
    model, x = make("gpt-tiny"), ids(2, 4)
    one, same, other = (generate(model, x, 8, seed=s).numpy() for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


LOGITS = np.array([[2.0, 1.0, 0.0, -1.0], [0.0, 3.0, 3.0, 1.0]])
BEFORE = np.array([[0, 3], [1, 1]])


def test_adjusted_logits():
    kept = Sampling(top_k=2).adjusted(LOGITS, BEFORE)
    np.testing.assert_array_equal(np.isfinite(kept), [[True, True, False, False], [False, True, True, False]])
    np.testing.assert_array_equal(Sampling(temperature=0.5).adjusted(LOGITS, BEFORE), LOGITS * 2)
    penalised = Sampling(repetition_penalty=2.0).adjusted(LOGITS, BEFORE)
    np.testing.assert_array_equal(penalised, [[1, 1, 0, -2], [0, 1.5, 3, 1]])
    p = np.exp(log_softmax(LOGITS[:1]))[0]
    for top_p, count in ((p[0] - 1e-9, 1), (p[0] + 1e-9, 2), (0.99, 4), (1.0, 4)):
        assert np.isfinite(Sampling(top_p=top_p).adjusted(LOGITS[:1], BEFORE[:1])).sum() == count


def test_draws_follow_the_distribution():
    many = np.repeat(LOGITS[:1], 20000, 0)
    drawn = Sampling(top_p=0.95).choose(many, np.zeros((20000, 1), int), np.random.default_rng(0))
    p = np.exp(LOGITS[0])
    p[3] = 0
    np.testing.assert_allclose(np.bincount(drawn, minlength=4) / 20000, p / p.sum(), atol=0.012)


def test_a_wide_beam_finds_the_best_text():
    model, x, n = make("gpt-tiny"), ids(1, 3), 2
    vocab = model.config.vocab_size
    texts = [(*x.numpy()[0], *tail) for tail in product(range(vocab), repeat=n)]
    with tl.no_grad():
        logp = log_softmax(model(tl.tensor(np.array(texts)))[0].numpy())
    scores = [sum(row[2 + i, text[3 + i]] for i in range(n)) for row, text in zip(logp, texts, strict=True)]
    out, score = beam_search(model, x, n, beams=vocab)
    assert tuple(out.numpy()[0]) == tuple(texts[int(np.argmax(scores))])
    assert score.item() == pytest.approx(max(scores), rel=1e-4)
    greedy = generate(model, x, n, temperature=0)
    np.testing.assert_array_equal(beam_search(model, x, n, beams=1)[0].numpy(), greedy.numpy())


def test_beams_stop():
    model, x = make("gpt-tiny"), ids(1, 3)
    stop = int(generate(model, x, 1, temperature=0).numpy()[0, -1])
    out, _ = beam_search(model, x, 6, beams=3, length_penalty=0.0, stop=stop)
    assert out.numpy()[0, -1] == stop


@pytest.mark.parametrize("penalty", [0.0, 1.0, 2.0])
def test_beams_weigh_what_stopped_and_what_did_not(penalty):
    """Against all texts that stop or have n tokens: a wide beam finds the best, stopped or not."""
    model, x, n, stop = make("gpt-tiny"), ids(1, 3), 2, 4
    vocab = model.config.vocab_size
    best, chosen = -np.inf, ()
    with tl.no_grad():
        first = log_softmax(model(x)[0].numpy())[0, -1]
        texts = tl.cat([x.expand(vocab, 3), tl.arange(vocab).unsqueeze(1)], 1)
        then = log_softmax(model(texts)[0].numpy())[:, -1]
    for a in range(vocab):
        tails = [((a,), first[a])] if a == stop else [((a, b), first[a] + then[a, b]) for b in range(vocab)]
        for tail, score in tails:
            if score / len(tail) ** penalty > best:
                best, chosen = score / len(tail) ** penalty, tail
    out, score = beam_search(model, x, n, beams=vocab * vocab, length_penalty=penalty, stop=stop, compiled=False)
    assert tuple(out.numpy()[0, 3:].tolist()) == chosen
    assert score.item() == pytest.approx(best * len(chosen) ** penalty, rel=1e-4)


def test_past_the_block_size():
    model, x = make("gpt-tiny"), ids(1, 10)
    assert generate(model, x, 7, temperature=0).shape == (1, 17)  # the last token is never read
    with pytest.raises(ValueError, match="10 tokens and 8 more exceed block_size 16"):
        generate(model, x, 8)
    with pytest.raises(ValueError, match="10 tokens and 8 more exceed block_size 16"):
        beam_search(model, x, 8)
    out = generate(model, x, 12, temperature=0, sliding=True)
    for end in range(17, 22):
        with tl.no_grad():
            expected = model(out[:, end - 16 : end])[0][:, -1].argmax(dim=-1)
        np.testing.assert_array_equal(out[:, end].numpy(), expected.numpy())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: generate(m, ids(1, 2), 1, temperature=-1.0), "temperature must be at least 0"),
        (lambda m: generate(m, ids(1, 2), 1, top_k=0), "top_k must be at least 1"),
        (lambda m: generate(m, ids(1, 2), 1, top_p=0.0), r"top_p must lie in \(0, 1\]"),
        (lambda m: generate(m, ids(1, 2), 1, repetition_penalty=0.0), "repetition_penalty"),
        (lambda m: generate(m, ids(2), 1), r"length >= 1\), not \(2,\)"),
        (lambda m: beam_search(m, ids(2, 2), 1), "one row"),
        (lambda m: generate(m, ids(1, 2), -1), "at least 0, not -1"),
        (lambda m: beam_search(m, ids(1, 2), -1), "at least 0, not -1"),
        (lambda m: generate(m, ids(1, 2), 1, source=ids(1, 3)), "GPT reads no source, but one was given"),
        (lambda m: generate(make("t5-tiny"), ids(1, 2), 1), "T5 reads a source, which is missing"),
        (
            lambda m: generate(make("t5-tiny"), ids(1, 2), 1, source=ids(2, 3)),
            r"source has shape \(2, 3\), expected \(1, length\)",
        ),
        (lambda m: Decoder(m, 2).feed(ids(3, 1)), r"batch size 2, got ids of shape \(3, 1\)"),
        (lambda m: Decoder(m, 1, 4).feed(ids(1, 5)), "5 tokens exceed the capacity of 4"),
        (lambda m: Decoder(m, 1, 40), "capacity of 40 tokens exceeds block_size 16"),
        (lambda m: Decoder(m, 1).rewind(3), "cannot go back to 3"),
        (lambda m: Decoder(m, 1).greedy(ids(1, 5), 13), "17 tokens exceed the capacity of 16"),
        (lambda m: Decoder(make("charlstm-tiny"), 1).greedy(ids(1, 5), 2), "greedy needs a model with a cache"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call(make("gpt-tiny"))
