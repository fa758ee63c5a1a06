"""Fifty compiled training steps of a GPT: the same loss as eager, the same bits again, and NumPy's curve in float64."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn, optim
from tinygrad_lite.models.gpt import GPT, GPTConfig, param_groups

STEPS, ROWS = 50, 4
SIZES = [
    pytest.param(GPTConfig(17, 16, 2, 2, 32), id="small"),
    pytest.param(GPTConfig(103, 64, 4, 4, 128), id="gpt-nano", marks=pytest.mark.slow),
]


def batches(config: GPTConfig) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [tuple(rng.integers(0, config.vocab_size, (2, ROWS, config.block_size))) for _ in range(STEPS)]


def trainer(config: GPTConfig, compiled: bool) -> tuple[GPT, Callable[..., tl.Tensor]]:
    tl.manual_seed(0)
    model = GPT(config)
    optimizer = optim.AdamW(param_groups(model, 0.1), lr=1e-3, betas=(0.9, 0.99))

    def step(idx: tl.Tensor, targets: tl.Tensor) -> tl.Tensor:
        optimizer.zero_grad()
        _, loss = model(idx, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return model, tl.compile(step) if compiled else step


def losses(config: GPTConfig, compiled: bool) -> list[float]:
    _, step = trainer(config, compiled)
    return [step(tl.tensor(idx), tl.tensor(targets)).item() for idx, targets in batches(config)]


def with_dropout(config: GPTConfig) -> GPTConfig:
    return GPTConfig(**{**config.__dict__, "dropout": 0.1})


@pytest.mark.parametrize("config", SIZES)
def test_dropout_training_is_eager_training_and_gives_the_same_bits_again(config: GPTConfig) -> None:
    config = with_dropout(config)
    native = losses(config, compiled=True)
    np.testing.assert_allclose(native, losses(config, compiled=False), rtol=1e-4)
    assert native == losses(config, compiled=True)


@pytest.mark.parametrize("config", SIZES)
def test_the_loss_curve_is_that_of_numpy_in_float64(config: GPTConfig, reference: ModuleType) -> None:
    model, step = trainer(config, compiled=True)
    weights = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    found = [step(tl.tensor(idx), tl.tensor(targets)).item() for idx, targets in batches(config)]
    expected = reference.reference_losses(
        config, weights, batches(config), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, max_norm=1.0
    )
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert np.ptp(expected) > 0.01
