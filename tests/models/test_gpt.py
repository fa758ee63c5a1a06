"""The GPT against NumPy: logits, gradients, a run of training steps; sizes, presets, sampling."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn, optim
from tinygrad_lite.models import MODELS, build
from tinygrad_lite.models.gpt import GPT, PRESETS, GPTConfig, generate, param_groups

VARIANTS = {
    "plain": GPTConfig(11, 8, 2, 2, 12),
    "untied, no bias, tanh": GPTConfig(11, 8, 2, 3, 12, bias=False, gelu="tanh", tied=False),
    "one of each": GPTConfig(3, 2, 1, 1, 4),
}


def make(config: GPTConfig, spread: float = 0.5) -> tuple[GPT, dict[str, np.ndarray]]:
    """A model with weights large enough that every path matters, and the weights."""
    model = GPT(config)
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(0.1, spread, p.shape).astype(np.float32) for name, p in model.named_parameters()}
    model.load_state_dict({name: tl.tensor(value) for name, value in weights.items()}, strict=False)
    return model, {name: value.numpy().copy() for name, value in model.state_dict().items()}


def batch(config: GPTConfig, seed: int, rows: int = 3) -> tuple[np.ndarray, np.ndarray]:
    drawn = np.random.default_rng(seed).integers(0, config.vocab_size, (2, rows, config.block_size))
    return drawn[0], drawn[1]


@pytest.mark.parametrize("variant", VARIANTS)
def test_logits(variant, reference):
    config = VARIANTS[variant]
    model, weights = make(config)
    idx, _ = batch(config, 1)
    for length in (1, config.block_size):
        logits, loss = model(tl.tensor(idx[:, :length]))
        assert loss is None and logits.shape == (3, length, config.vocab_size)
        expected = reference.reference_logits(config, weights, idx[:, :length])
        np.testing.assert_allclose(logits.detach().numpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients(variant, reference):
    config = VARIANTS[variant]
    model, weights = make(config)
    model.double()
    idx, targets = batch(config, 2)
    _, loss = model(tl.tensor(idx), tl.tensor(targets))
    loss.backward()
    expected, gradients = reference.reference_gradients(config, weights, idx, targets)
    assert loss.item() == pytest.approx(expected, rel=1e-10)
    found = {name: p.grad.numpy() for name, p in model.named_parameters()}
    assert found.keys() == gradients.keys()
    for name, value in gradients.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-8, atol=1e-10, err_msg=name)


def test_reference_gradients_by_differences(reference):
    """The reference is only as good as its own derivatives."""
    config = VARIANTS["plain"]
    _, weights = make(config)
    weights = {name: value.astype(np.float64) for name, value in weights.items()}
    idx, targets = batch(config, 3)
    _, gradients = reference.reference_gradients(config, weights, idx, targets)
    rng = np.random.default_rng(4)
    for name, gradient in gradients.items():
        direction = rng.standard_normal(gradient.shape)
        losses = []
        for sign in (1, -1):
            moved = weights | {name: weights[name] + sign * 1e-5 * direction}
            if name == "wte.weight":
                moved["head.weight"] = moved[name]
            losses.append(reference.reference_gradients(config, moved, idx, targets)[0])
        slope = (losses[0] - losses[1]) / 2e-5
        assert slope == pytest.approx((gradient * direction).sum(), rel=1e-5, abs=1e-8), name


@pytest.mark.parametrize("variant", ["plain", "untied, no bias, tanh"])
def test_training_steps(variant, reference):
    config = VARIANTS[variant]
    model, weights = make(config, spread=0.2)
    optimizer = optim.AdamW(param_groups(model, 0.1), lr=1e-2, betas=(0.9, 0.99))
    batches = [batch(config, seed) for seed in range(12)]

    def rate(step: int) -> float:
        return 1e-2 / (1 + step)

    found = []
    for step, (idx, targets) in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        _, loss = model(tl.tensor(idx), tl.tensor(targets))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    expected = reference.reference_losses(config, weights, batches, lr=rate, betas=(0.9, 0.99), weight_decay=0.1)
    np.testing.assert_allclose(found, expected, rtol=2e-5)


def count(c: GPTConfig) -> int:
    """Parameters of a tied GPT with biases."""
    block = 12 * c.n_embd**2 + 13 * c.n_embd
    return (c.vocab_size + c.block_size) * c.n_embd + c.n_layer * block + 2 * c.n_embd


@pytest.mark.parametrize("name", ["gpt-nano", "gpt-small"])
def test_parameter_counts(name):
    assert build(name).num_parameters() == count(PRESETS[name])


def test_gpt2_has_124_million_parameters():
    with nn.init.skip_random():
        assert count(PRESETS["gpt2"]) == build("gpt2").num_parameters() == 124_439_808


def test_registry():
    assert set(MODELS) >= {"gpt-nano", "gpt-small", "gpt-mid", "gpt2"}
    assert build("gpt-nano", n_layer=1, dropout=0.1).config == GPTConfig(65, 64, 1, 4, 128, dropout=0.1)
    with pytest.raises(ValueError, match="gpt-nano"):
        build("gtp-nano")


def test_initial_weights():
    tl.manual_seed(1)
    model = build("gpt-nano", n_layer=2)
    for name, p in model.named_parameters():
        values = p.detach().numpy()
        if p.dim() > 1:
            expected = 0.02 / math.sqrt(4) if name.endswith("proj.weight") else 0.02
            assert values.std() == pytest.approx(expected, rel=0.05), name
        else:
            assert np.all(values == (0 if name.endswith("bias") else 1)), name
    assert model.head.weight is model.wte.weight


def test_only_matrices_decay():
    model = GPT(VARIANTS["plain"])
    decayed, others = param_groups(model, 0.1)
    assert (decayed["weight_decay"], others["weight_decay"]) == (0.1, 0.0)
    assert all(p.dim() == 2 for p in decayed["params"]) and all(p.dim() == 1 for p in others["params"])
    assert len(decayed["params"]) + len(others["params"]) == len(list(model.parameters()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_layer": 0}, "n_layer"),
        ({"n_head": 3}, "n_head 3"),
        ({"dropout": 1.0}, "dropout"),
        ({"gelu": "relu"}, "gelu"),
    ],
)
def test_bad_configuration(options, message):
    with pytest.raises(ValueError, match=message):
        GPTConfig(**options)


def test_dropout_only_in_training():
    tl.manual_seed(0)
    model = GPT(GPTConfig(11, 8, 1, 2, 12, dropout=0.5))
    idx = tl.tensor(batch(model.config, 0)[0])
    one, other = (model(idx)[0].detach().numpy() for _ in range(2))
    assert not np.array_equal(one, other)
    model.eval()
    one, other = (model(idx)[0].detach().numpy() for _ in range(2))
    np.testing.assert_array_equal(one, other)


def test_too_long_a_sequence():
    with pytest.raises(ValueError, match="block_size 8"):
        GPT(VARIANTS["plain"])(tl.zeros(1, 9, dtype=tl.int64))


def test_greedy_generation():
    model, _ = make(VARIANTS["plain"])
    idx = tl.tensor(batch(model.config, 5)[0][:2, :6])
    found = generate(model, idx, 5, temperature=0)
    assert found.shape == (2, 11) and found.dtype == tl.int64 and model.training
    np.testing.assert_array_equal(found[:, :6].numpy(), idx.numpy())
    for end in range(6, 11):
        logits = model(found[:, max(0, end - 8) : end])[0][:, -1]
        np.testing.assert_array_equal(found[:, end].numpy(), logits.argmax(dim=-1).numpy())


def test_sampling_follows_the_distribution():
    tl.manual_seed(2)
    model, _ = make(VARIANTS["plain"], spread=0.2)
    idx = tl.tensor(np.zeros((4000, 1), np.int64))
    logits = model(idx[:1])[0][0, -1].detach().numpy().astype(np.float64)
    for temperature, top_k in product((1.0, 0.5), (None, 4, 50)):
        kept = logits / temperature
        if top_k == 4:
            kept = np.where(kept >= np.sort(kept)[-4], kept, -np.inf)
        expected = np.exp(kept - kept.max()) / np.exp(kept - kept.max()).sum()
        drawn = generate(model, idx, 1, temperature, top_k)[:, 1].numpy()
        found = np.bincount(drawn, minlength=11) / len(drawn)
        assert np.all(found[expected == 0] == 0)
        np.testing.assert_allclose(found, expected, atol=0.035)


def test_sampling_errors():
    model = GPT(VARIANTS["one of each"])
    for options in ({"temperature": -1.0}, {"top_k": 0}):
        with pytest.raises(ValueError, match="must be at least"):
            generate(model, tl.zeros(1, 1, dtype=tl.int64), 1, **options)
