"""Sampling, apart from training."""

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite.cli.sampling import choose, next_logits, write_on
from tinygrad_lite.data import CharVocabulary
from tinygrad_lite.models.gpt import GPT, GPTConfig

LOGITS = np.array([0.0, 2.0, 1.0, -1.0], dtype=np.float32)


@pytest.fixture(scope="module")
def model():
    tl.manual_seed(0)
    return GPT(GPTConfig(vocab_size=4, block_size=6, n_layer=1, n_head=1, n_embd=8)).eval()


def test_draws_follow_the_softmax():
    rng = np.random.default_rng(0)
    counts = np.bincount([choose(LOGITS, 0.5, None, rng) for _ in range(20_000)], minlength=4)
    expected = np.exp(LOGITS / 0.5) / np.exp(LOGITS / 0.5).sum()
    np.testing.assert_allclose(counts / counts.sum(), expected, atol=0.01)


def test_top_k_and_temperature_zero_leave_the_rest_out():
    rng = np.random.default_rng(0)
    assert {choose(LOGITS, 5.0, 2, rng) for _ in range(200)} == {1, 2}
    assert {choose(np.zeros(4), 1.0, 1, rng) for _ in range(50)} == {0}
    assert choose(LOGITS, 0, None, rng) == 1
    assert {choose(LOGITS, 5.0, 9, rng) for _ in range(300)} == {0, 1, 2, 3}


@pytest.mark.parametrize("ids", [[1], [1, 2, 3], [0, 1, 2, 3, 0, 1], [3, 3, 0, 1, 2, 3, 0, 1]])
def test_logits_are_the_models(model, ids):
    with tl.no_grad():
        expected = model(tl.tensor([ids[-6:]]))[0][0, -1].numpy()
    np.testing.assert_allclose(next_logits(model)(ids), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("characters", "prompt"), [("\nabc", ""), ("abcd", ""), ("abcd", "abcdabcdab")])
def test_text_has_the_prompt_and_the_length(model, characters, prompt):
    text = write_on(model, CharVocabulary(characters), prompt, length=9)
    assert text.startswith(prompt)
    assert len(text) == len(prompt) + 9
    assert write_on(model, CharVocabulary(characters), prompt, length=0) == prompt
