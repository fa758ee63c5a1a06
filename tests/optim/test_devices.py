"""Averages, early stopping and accumulation."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn, optim
from tinygrad_lite.nn import functional as F
from tinygrad_lite.optim.swa_utils import EMA, AveragedModel, get_ema_avg_fn
from tinygrad_lite.utils.training import EarlyStopping, accumulate

RNG = np.random.default_rng(0)


def draw(*shape: int) -> tl.Tensor:
    return tl.tensor(RNG.standard_normal(shape).astype(np.float32))


def values(model: nn.Module) -> np.ndarray:
    return np.concatenate([p.detach().numpy().ravel() for p in model.parameters()])


def shift(model: nn.Module) -> None:
    with tl.no_grad():
        for p in model.parameters():
            p.copy_(p + 1.0)


def test_exponential_average():
    model = nn.Linear(2, 3)
    ema = EMA(model, 0.75)
    assert not any(p.requires_grad for p in ema.parameters())
    expected = values(model)
    for step in range(4):
        shift(model)
        ema.update_parameters(model)
        expected = values(model) if step == 0 else 0.75 * expected + 0.25 * values(model)
    np.testing.assert_allclose(values(ema), expected, rtol=1e-6)
    x = draw(4, 2)
    np.testing.assert_allclose(ema(x).numpy(), ema.module(x).numpy())
    with pytest.raises(ValueError, match="decay"):
        get_ema_avg_fn(1.5)


def test_equal_average():
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    average = AveragedModel(model)
    seen = []
    for _ in range(5):
        shift(model)
        model(draw(8, 2))
        seen.append(values(model))
        average.update_parameters(model)
    np.testing.assert_allclose(values(average), np.mean(seen, 0), rtol=1e-6)
    np.testing.assert_array_equal(average.module[1].running_mean.numpy(), model[1].running_mean.numpy())


@pytest.mark.torch
@pytest.mark.parametrize("use_buffers", [False, True])
def test_averages_against_torch(use_buffers):
    torch = pytest.importorskip("torch")
    found = []
    for lib in (torch, tl):
        model = lib.nn.Sequential(lib.nn.Linear(2, 2, bias=False), lib.nn.BatchNorm1d(2))
        with lib.no_grad():
            model[0].weight.copy_(lib.tensor([[1.0, 2.0], [3.0, 4.0]]))
        average = lib.optim.swa_utils.AveragedModel(model, use_buffers=use_buffers)
        for i in range(3):
            model(lib.tensor([[1.0, i], [2.0, 3.0]]))
            with lib.no_grad():
                model[0].weight.add_(0.5)
            average.update_parameters(model)
        state = average.state_dict()
        found.append(
            {k: v.numpy() for k, v in state.items() if "bias" not in k and "tracked" not in k}
        )  # torch averages counts
    assert found[0].keys() == found[1].keys()
    for key, value in found[0].items():
        np.testing.assert_allclose(found[1][key], value, rtol=1e-5, err_msg=key)


def test_average_in_a_compiled_step():
    tl.manual_seed(0)
    x, y = draw(8, 2), draw(8, 1)
    found = []
    for wrap in (lambda f: f, tl.compile):
        tl.manual_seed(1)
        model = nn.Linear(2, 1)
        ema, optimizer = EMA(model, 0.9), optim.SGD(model.parameters(), lr=0.1)

        def step(x, y, model=model, ema=ema, optimizer=optimizer):
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            ema.update_parameters(model)
            return loss

        run = wrap(step)
        for _ in range(4):
            run(x, y)
        found.append(values(ema))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_early_stopping():
    model = nn.Linear(1, 1)
    stopping = EarlyStopping(patience=2, min_delta=0.1, model=model)
    losses = [3.0, 2.0, 1.95, 1.5, 1.6, float("nan"), 0.1]
    for step, loss in enumerate(losses):
        with tl.no_grad():
            model.weight.copy_(tl.full((1, 1), float(step)))
        if stopping.step(loss):
            break
    assert (step, stopping.best, stopping.best_step, stopping.stopped) == (5, 1.5, 3, True)
    stopping.restore()
    assert model.weight.item() == 3.0
    assert not EarlyStopping(mode="max").step(tl.tensor(0.5))
    with pytest.raises(ValueError, match="patience 0"):
        EarlyStopping(patience=0)
    with pytest.raises(RuntimeError, match="nothing to restore"):
        EarlyStopping().restore()


@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_accumulated_gradients(norm):
    """Equal to the large batch's where examples do not see each other, and only there."""
    tl.manual_seed(0)
    layer = nn.LayerNorm(4) if norm == "layer" else nn.BatchNorm1d(4)
    model = nn.Sequential(nn.Linear(3, 4), layer, nn.Linear(4, 2)).double()
    x, y = tl.tensor(RNG.standard_normal((12, 3))), tl.tensor(RNG.integers(0, 2, 12))

    def loss_of(x, y):
        return F.cross_entropy(model(x), y)

    grads = []
    for pieces in (1, 3):
        model.zero_grad()
        loss = accumulate(loss_of, (x, y), pieces)
        grads.append(np.concatenate([p.grad.numpy().ravel() for p in model.parameters()]))
    assert (np.abs(grads[0] - grads[1]).max() < 1e-12) == (norm == "layer")
    if norm == "layer":
        assert loss.item() == pytest.approx(loss_of(x, y).item(), rel=1e-6)
    with pytest.raises(ValueError, match="5 pieces do not divide batches of 12"):
        accumulate(loss_of, (x, y), 5)
