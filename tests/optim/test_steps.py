"""Steps against independent NumPy optimisers, against torch, and inside a stand-in for a capture."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn, optim
from tinygrad_lite.ir.record import mode

STEPS = 12
CASES = {
    "sgd": ("SGD", {"lr": 0.1}),
    "sgd, momentum": ("SGD", {"lr": 0.1, "momentum": 0.9}),
    "sgd, dampening": ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.4}),
    "sgd, nesterov": ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
    "sgd, maximize": ("SGD", {"lr": 0.1, "weight_decay": 0.1, "maximize": True}),
    "adam": ("Adam", {"lr": 0.01}),
    "adam, decay": ("Adam", {"lr": 0.01, "betas": (0.8, 0.95), "eps": 1e-3, "weight_decay": 0.1}),
    "adam, amsgrad": ("Adam", {"lr": 0.01, "betas": (0.5, 0.6), "amsgrad": True}),
    "adam, no memory": ("Adam", {"lr": 0.01, "betas": (0.0, 0.0)}),
    "adamw": ("AdamW", {"lr": 0.01}),
    "adamw, all": ("AdamW", {"lr": 0.01, "betas": (0.9, 0.99), "weight_decay": 0.3, "amsgrad": True, "maximize": True}),
    "rmsprop": ("RMSprop", {"lr": 0.01}),
    "rmsprop, centered": ("RMSprop", {"lr": 0.01, "alpha": 0.9, "centered": True, "eps": 1e-2}),
    "rmsprop, all": ("RMSprop", {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1, "maximize": True}),
    "adagrad": ("Adagrad", {"lr": 0.1}),
    "adagrad, all": (
        "Adagrad",
        {"lr": 0.1, "lr_decay": 0.3, "weight_decay": 0.1, "initial_accumulator_value": 0.5, "maximize": True},
    ),
    "adadelta": ("Adadelta", {"lr": 1.0}),
    "adadelta, all": ("Adadelta", {"lr": 0.5, "rho": 0.8, "eps": 1e-2, "weight_decay": 0.1, "maximize": True}),
    "adamax": ("Adamax", {"lr": 0.01}),
    "adamax, all": ("Adamax", {"lr": 0.01, "betas": (0.5, 0.6), "eps": 1e-2, "weight_decay": 0.1, "maximize": True}),
    "nadam": ("NAdam", {"lr": 0.01}),
    "nadam, all": ("NAdam", {"lr": 0.01, "betas": (0.8, 0.9), "momentum_decay": 0.3, "weight_decay": 0.1}),
    "nadam, decoupled": ("NAdam", {"lr": 0.01, "weight_decay": 0.3, "decoupled_weight_decay": True, "maximize": True}),
    "rprop": ("Rprop", {"lr": 0.01}),
    "rprop, all": ("Rprop", {"lr": 0.01, "etas": (0.3, 2.0), "step_sizes": (0.005, 0.03), "maximize": True}),
    "asgd": ("ASGD", {"lr": 0.1}),
    "asgd, all": ("ASGD", {"lr": 0.1, "lambd": 0.1, "alpha": 0.5, "t0": 3, "weight_decay": 0.1, "maximize": True}),
    "radam": ("RAdam", {"lr": 0.01}),
    "radam, short memory": ("RAdam", {"lr": 0.01, "betas": (0.5, 0.6), "weight_decay": 0.1}),
    "radam, decoupled": ("RAdam", {"lr": 0.01, "weight_decay": 0.3, "decoupled_weight_decay": True, "maximize": True}),
}
START = [np.linspace(-1, 1, 6).reshape(2, 3), np.array([0.5, -0.25])]


def gradients(step: int) -> list[np.ndarray]:
    rng = np.random.default_rng(step)
    return [rng.standard_normal(p.shape) * 3.0 for p in START]


def parameters(dtype=np.float32) -> list[nn.Parameter]:
    return [nn.Parameter(tl.tensor(p.astype(dtype))) for p in START]


def train(optimizer: optim.Optimizer, steps=range(STEPS)) -> list[np.ndarray]:
    """Run steps on fixed gradients; the parameters after them."""
    params = [p for group in optimizer.param_groups for p in group["params"]]
    for step in steps:
        for p, g in zip(params, gradients(step), strict=True):
            p.grad = tl.tensor(g).to(p.dtype)
        optimizer.step()
    return [p.detach().numpy().copy() for p in params]


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float32, 3e-6), (np.float64, 1e-12)])
@pytest.mark.parametrize("case", CASES)
def test_against_numpy(case, dtype, rtol, reference):
    name, options = CASES[case]
    if name in ("NAdam", "ASGD"):  # keep numbers of theirs in float32, as torch does
        rtol = max(rtol, 1e-6)
    found = train(getattr(optim, name)(parameters(dtype), **options))
    for p, value in zip(START, found, strict=True):
        rule = getattr(reference, name)(**options)
        for step in range(STEPS):
            p = rule.step(p, gradients(step)[0 if p.ndim == 2 else 1])
        assert value.dtype == dtype
        np.testing.assert_allclose(value, p, rtol=rtol, atol=rtol)


@pytest.mark.torch
@pytest.mark.parametrize("case", CASES)
def test_against_torch(case):
    torch = pytest.importorskip("torch")
    name, options = CASES[case]
    found = train(getattr(optim, name)(parameters(), **options))
    params = [torch.nn.Parameter(torch.tensor(p, dtype=torch.float32)) for p in START]
    other = getattr(torch.optim, name)(params, **options)
    for step in range(STEPS):
        for p, g in zip(params, gradients(step), strict=True):
            p.grad = torch.tensor(g, dtype=torch.float32)
        other.step()
    for p, value in zip(params, found, strict=True):
        np.testing.assert_allclose(value, p.detach().numpy(), rtol=2e-6, atol=2e-6)


def test_bias_correction_is_exact_to_float32_after_many_steps():
    p = nn.Parameter(tl.zeros(1))
    optimizer = optim.Adam([p], lr=1.0)
    p.grad = tl.ones(1)
    optimizer.step()
    np.testing.assert_allclose(p.detach().numpy(), -1, rtol=1e-6)
    optimizer.state[p]["step"].copy_(tl.tensor(5000.0))
    rate, root = optimizer._corrections(0, optimizer.param_groups[0], optimizer.state[p]["step"])
    assert rate.item() == pytest.approx(1 / (1 - 0.9**5000), rel=1e-12)
    assert root.item() == pytest.approx((1 - 0.999**5000) ** -0.5, rel=1e-12)


def test_the_average_of_asgd():
    (p,) = params = [nn.Parameter(tl.ones(1))]
    optimizer = optim.ASGD(params, lr=0.1, lambd=0.0, t0=2)
    seen = []
    for _ in range(6):
        p.grad = tl.ones(1)
        optimizer.step()
        seen.append(p.item())
    assert optimizer.state[p]["ax"].item() == pytest.approx(np.mean(seen[3:]))


MUON = {"plain": {}, "wide": {"nesterov": False, "weight_decay": 0.0}, "rms": {"adjust_lr_fn": "match_rms_adamw"}}


@pytest.mark.parametrize("name", MUON)
@pytest.mark.parametrize("shape", [(6, 4), (3, 5)])
def test_muon_steps_are_nearly_orthogonal(name, shape):
    options = {"lr": 0.1, "weight_decay": 0.2, **MUON[name]}
    start, grad = (np.random.default_rng(i).standard_normal(shape) for i in range(2))
    p = nn.Parameter(tl.tensor(start.astype(np.float32)))
    optimizer = optim.Muon([p], **options)
    p.grad = tl.tensor(grad.astype(np.float32))
    optimizer.step()
    scale = 0.2 * max(shape) ** 0.5 if name == "rms" else max(1, shape[0] / shape[1]) ** 0.5
    step = (start * (1 - 0.1 * options["weight_decay"]) - p.detach().numpy()) / (0.1 * scale)
    assert np.all(np.abs(np.linalg.svd(step)[1] - 1) < 0.45)
    u, _, v = np.linalg.svd(grad, full_matrices=False)
    assert np.abs(u.T @ step @ v.T - np.diag(np.diag(u.T @ step @ v.T))).max() < 0.05


@pytest.mark.torch
@pytest.mark.parametrize("name", MUON)
@pytest.mark.parametrize("shape", [(6, 4), (3, 5)])
def test_muon_against_torch(name, shape):
    torch = pytest.importorskip("torch")
    start = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    found = []
    for lib, make, parameter in ((tl, optim.Muon, nn.Parameter), (torch, torch.optim.Muon, torch.nn.Parameter)):
        p = parameter(lib.tensor(start))
        optimizer = make([p], lr=0.1, **MUON[name])
        for step in range(5):
            p.grad = lib.tensor(np.random.default_rng(step).standard_normal(shape).astype(np.float32))
            optimizer.step()
        found.append((p.detach().numpy(), optimizer.state[p]["momentum_buffer"].numpy()))
    np.testing.assert_allclose(found[0][0], found[1][0], atol=0.02)  # bfloat16's digits
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-5, atol=1e-6)


def test_a_scalar_parameter():
    p = nn.Parameter(tl.tensor(2.0))
    p.grad = tl.tensor(1.0)
    optim.AdamW([p], lr=0.1, weight_decay=0.0).step()
    assert p.dtype == tl.float32 and p.item() == pytest.approx(1.9)


def test_rates_are_read_at_each_step():
    (p,) = params = [nn.Parameter(tl.zeros(1))]
    optimizer = optim.SGD(params, lr=1.0)
    for rate in (1.0, 0.5, 0.25):
        optimizer.param_groups[0]["lr"] = rate
        p.grad = tl.ones(1)
        optimizer.step()
    np.testing.assert_allclose(p.detach().numpy(), -1.75)


def test_groups_have_their_own_options():
    a, b = parameters()
    optimizer = optim.SGD([{"params": [a], "lr": 1.0}, {"params": b}], lr=0.1)
    found = train(optimizer, range(1))
    np.testing.assert_allclose(found[0], START[0] - gradients(0)[0], rtol=1e-5)
    np.testing.assert_allclose(found[1], START[1] - 0.1 * gradients(0)[1], rtol=1e-5)


def test_parameters_without_gradient_rest(reference):
    a, b = parameters()
    optimizer = optim.Adam([a, b], lr=0.1)
    for step in range(6):
        for p, g in zip((a, b), gradients(step), strict=True):
            p.grad = tl.tensor(g).to(p.dtype) if p is a or step % 3 else None
        optimizer.step()
    assert optimizer.state[a]["step"].item() == 6 and optimizer.state[b]["step"].item() == 4
    rule, value = reference.Adam(lr=0.1), START[1]
    for step in (1, 2, 4, 5):
        value = rule.step(value, gradients(step)[1])
    np.testing.assert_allclose(b.detach().numpy(), value, rtol=1e-5)


def test_parameters_that_step_together_share_their_count():
    optimizer = optim.AdamW(parameters())
    train(optimizer, range(2))
    first, second = (state["step"] for state in optimizer.state.values())
    assert first is second and first.item() == 2 and first.dtype == tl.float32


def test_zero_grad():
    optimizer = optim.SGD(parameters())
    train(optimizer, range(1))
    a, b = optimizer.param_groups[0]["params"]
    optimizer.zero_grad(set_to_none=False)
    assert np.all(a.grad.numpy() == 0)
    optimizer.zero_grad()
    assert a.grad is None and b.grad is None


def test_closure():
    p = nn.Parameter(tl.tensor([3.0]))
    optimizer = optim.SGD([p], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with tl.no_grad():
        assert optimizer.step(closure).item() == 9
    assert p.item() == pytest.approx(2.4)


class Trace:
    """What an optimiser asks of a capture, answered at once."""

    def __init__(self) -> None:
        self.scalars: dict[str, float] = {}
        self.statics: dict[str, object] = {}

    def runtime_scalar(self, label, read):
        assert mode.phase == "optimiser"
        self.scalars[label] = read()
        with mode.eager():
            return tl.tensor(read())

    def name(self, tensor, of, suffix):
        assert tensor.shape in (of.shape, ())

    def static_value(self, label, read):
        return self.statics.setdefault(label, read())


@pytest.mark.parametrize("case", CASES)
def test_a_capture_reads_numbers_at_run_time_and_choices_at_capture(case, monkeypatch):
    """Scalars that a capture rounds to float32 give the same results to float32's precision."""
    name, options = CASES[case]
    eager = train(getattr(optim, name)(parameters(), **options))
    optimizer, trace = getattr(optim, name)(parameters(), **options), Trace()
    for attribute in ("_hyper", "_static"):
        monkeypatch.setattr(optimizer, attribute, answered_by(trace, getattr(optimizer, attribute)))
    for one, other in zip(eager, train(optimizer), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
    if name != "Rprop":  # its rate is where the state starts
        assert trace.scalars[f"{name}.0.lr"] == options["lr"] or f"{name}.0.1 - lr * weight_decay" in trace.scalars
    assert f"{name}.0.uses" in trace.statics


def answered_by(trace: Trace, method):
    def answer(*args):
        with mode.set(trace=trace):
            return method(*args)

    return answer
