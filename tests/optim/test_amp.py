"""Loss scaling: small gradients survive float16, and a step that overflowed leaves no trace. Eager and compiled."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import diagnostics, nn, optim
from tinygrad_lite.amp import GradScaler

OPTIMIZERS = {
    "sgd": lambda params: optim.SGD(params, lr=0.1),
    "momentum": lambda params: optim.SGD(params, lr=0.1, momentum=0.9, dampening=0.1),
    "adamw": lambda params: optim.AdamW(params, lr=0.1, amsgrad=True),
    "nadam": lambda params: optim.NAdam(params, lr=0.1),
    "adagrad": lambda params: optim.Adagrad(params, lr=0.1, lr_decay=0.1),
}


@pytest.fixture(params=["eager", "compiled"])
def run(request):
    return (lambda f: f) if request.param == "eager" else tl.compile


def values(model, optimizer):
    states = [v for state in optimizer.state.values() for v in state.values() if isinstance(v, tl.Tensor)]
    return [t.detach().numpy().copy() for t in [*model.parameters(), *states]]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_that_overflow_are_undone(name, run):
    tl.manual_seed(0)
    models = [nn.Linear(3, 2) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    plain, scaled = (OPTIMIZERS[name](m.parameters()) for m in models)
    scaler = GradScaler(init_scale=8.0, growth_interval=2)

    @run
    def step(x):
        scaled.zero_grad()
        scaler.scale((models[1](x) ** 2).sum()).backward()
        scaler.step(scaled)
        scaler.update()

    scales = []
    batches = [tl.full((4, 3), v) for v in (float("inf"), 0.5, float("nan"), 1.0, -0.5, 0.25, float("inf"))]
    for x in batches:
        step(x)
        scales.append(scaler.get_scale())
        if np.isfinite(x.numpy()).all():
            plain.zero_grad()
            (models[0](x) ** 2).sum().backward()
            plain.step()
        for a, b in zip(values(models[1], scaled), values(models[0], plain) or [], strict=False):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7)
    assert scales == [4.0, 4.0, 2.0, 2.0, 4.0, 4.0, 2.0]


def test_small_gradients_pass_through_float16(run):
    x, weight = tl.full((4,), 1e-3), tl.ones(4, requires_grad=True)

    def gradient(scale):
        loss = (diagnostics.rounded(weight * x, tl.float16) * 1e-6).sum()
        return tl.autograd.grad(loss * scale, weight)[0] / scale

    assert (run(lambda: gradient(1.0 / 64))() == 0).all()
    np.testing.assert_allclose(run(lambda: gradient(2.0**14))().numpy(), 1e-9, rtol=1e-3)


def test_clipping_sees_unscaled_gradients():
    model = nn.Linear(2, 1, bias=False)
    optimizer, scaler = optim.SGD(model.parameters(), lr=1.0), GradScaler(init_scale=1024.0)
    scaler.scale(model(tl.tensor([[3.0, 4.0]])).sum()).backward()
    scaler.unscale_(optimizer)
    assert nn.utils.clip_grad_norm_(model.parameters(), 1.0).item() == pytest.approx(5.0)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)
    before = model.weight.detach().clone()
    scaler.step(optimizer)
    np.testing.assert_allclose((before - model.weight).detach().numpy(), [[0.6, 0.8]], rtol=1e-5)
    scaler.update(new_scale=2.0)
    assert scaler.get_scale() == 2.0
    with pytest.raises(RuntimeError, match="No inf checks"):
        scaler.update()


def test_state_and_options():
    scaler = GradScaler(init_scale=4.0)
    other = GradScaler(growth_interval=7)
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict() and other.growth_interval == 2000
    off = GradScaler(enabled=False)
    loss = tl.ones(())
    assert off.scale(loss) is loss and off.get_scale() == 1.0 and off.state_dict() == {} and not off.is_enabled()
    off.update()
    with pytest.raises(ValueError, match="growth_factor must exceed 1"):
        GradScaler(growth_factor=1.0)
    with pytest.raises(RuntimeError, match="source state dict is empty"):
        scaler.load_state_dict({})
    weight = tl.ones(2, dtype=tl.float16).requires_grad_()
    scaler.scale(weight.sum()).backward()
    with pytest.raises(ValueError, match="unscale FP16"):
        scaler.step(optim.SGD([weight], lr=0.1))


@pytest.mark.torch
def test_the_factor_moves_as_pytorch_s():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    ours, theirs = GradScaler(init_scale=64.0, growth_interval=3), torch.amp.GradScaler("cpu", 64.0, growth_interval=3)
    w, v = tl.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    a, b = optim.Adam([w], lr=0.1), torch.optim.Adam([v], lr=0.1)
    for _ in range(40):
        x = float("inf") if rng.random() < 0.2 else float(rng.standard_normal())
        for scaler, weight, optimizer in ((ours, w, a), (theirs, v, b)):
            optimizer.zero_grad()
            scaler.scale((weight * x).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        assert ours.get_scale() == theirs.get_scale()
        np.testing.assert_allclose(w.detach().numpy(), v.detach().numpy(), rtol=1e-5)
