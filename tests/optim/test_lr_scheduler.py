"""Schedules against torch's, and their state."""

from __future__ import annotations

import math

import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn, optim
from tinygrad_lite.optim import lr_scheduler


def optimizer() -> optim.Optimizer:
    a, b = nn.Parameter(tl.ones(1)), nn.Parameter(tl.ones(1))
    return optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.02}], lr=0.1)


def rates(scheduler: lr_scheduler.LRScheduler, steps: int = 12) -> list[float]:
    """The first group's rate over the epochs."""
    found = []
    for _ in range(steps):
        found.append(scheduler.optimizer.param_groups[0]["lr"])
        scheduler.step()
    return found


def at_epochs(o: optim.Optimizer, *epochs: int) -> list[lr_scheduler.LRScheduler]:
    """Schedules that were stepped before."""
    return [lr_scheduler.StepLR(o, 3, last_epoch=epoch - 1) for epoch in epochs]


SCHEDULES = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda epoch: 0.9**epoch),
    "LambdaLR, two": lambda s, o: s.LambdaLR(o, [lambda epoch: 1 / (epoch + 1), lambda epoch: 2.0]),
    "StepLR": lambda s, o: s.StepLR(o, 3, gamma=0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 7, 7], gamma=0.5),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.5, total_iters=4),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.1, 0.8, total_iters=6),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 5, eta_min=0.01),
    "PolynomialLR": lambda s, o: s.PolynomialLR(o, 6, power=2.0),
    "CosineAnnealingWarmRestarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 3, 2, eta_min=0.01),
    "OneCycleLR": lambda s, o: s.OneCycleLR(o, [0.3, 0.5], total_steps=13),
    "OneCycleLR, linear": lambda s, o: s.OneCycleLR(o, 0.3, epochs=3, steps_per_epoch=5, anneal_strategy="linear"),
    "OneCycleLR, three": lambda s, o: s.OneCycleLR(o, 0.3, 20, three_phase=True, cycle_momentum=False),
    "MultiplicativeLR": lambda s, o: s.MultiplicativeLR(o, lambda epoch: 1 - 0.1 / (epoch + 1)),
    "MultiplicativeLR, two": lambda s, o: s.MultiplicativeLR(o, [lambda epoch: 0.9, lambda epoch: 2.0]),
    "CyclicLR": lambda s, o: s.CyclicLR(o, 0.01, 0.1, step_size_up=3, step_size_down=2),
    "CyclicLR, halved": lambda s, o: s.CyclicLR(o, [0.01, 0.02], [0.1, 0.4], 2, mode="triangular2"),
    "CyclicLR, shrinking": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 4, mode="exp_range", gamma=0.9, cycle_momentum=False),
    "CyclicLR, own": lambda s, o: s.CyclicLR(o, 0.01, 0.1, 4, scale_fn=lambda x: 1 / x, scale_mode="cycle"),
    "ChainedScheduler": lambda s, o: s.ChainedScheduler(
        [s.ConstantLR(o, 0.1, total_iters=3), s.ExponentialLR(o, 0.9), s.LinearLR(o, 0.5, 0.0, total_iters=9)]
    ),
    "ChainedScheduler, cosine": lambda s, o: s.ChainedScheduler(
        [s.LinearLR(o, 0.2, total_iters=4), s.CosineAnnealingLR(o, 5, eta_min=0.01), s.PolynomialLR(o, 20, power=0.5)]
    ),
    "ChainedScheduler, absolute": lambda s, o: s.ChainedScheduler(
        [s.LambdaLR(o, lambda epoch: 1 / (epoch + 1)), s.StepLR(o, 20), s.MultiplicativeLR(o, lambda epoch: 0.9)]
    ),
    "SequentialLR": lambda s, o: s.SequentialLR(
        o, [s.LinearLR(o, 0.1, total_iters=3), s.CosineAnnealingLR(o, 6), s.ConstantLR(o, 0.3)], [3, 9]
    ),
}


@pytest.mark.torch
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SCHEDULES)
def test_against_torch(name):
    torch = pytest.importorskip("torch")
    a, b = torch.nn.Parameter(torch.ones(1)), torch.nn.Parameter(torch.ones(1))
    other = torch.optim.SGD([{"params": [a]}, {"params": [b], "lr": 0.02}], lr=0.1)
    expected = rates(SCHEDULES[name](torch.optim.lr_scheduler, other))
    assert rates(SCHEDULES[name](lr_scheduler, optimizer())) == pytest.approx(expected, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("StepLR", [0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025]),
        ("ConstantLR", [0.05, 0.05, 0.05, 0.05, 0.1, 0.1, 0.1]),
        ("LinearLR", [0.1 * (0.1 + 0.7 * i / 6) for i in range(7)]),
        ("CosineAnnealingLR", [0.01 + 0.045 * (1 + math.cos(math.pi * i / 5)) for i in range(7)]),
        ("MultiplicativeLR", [0.1, 0.095, 0.095 * (1 - 0.1 / 3)]),
        ("CyclicLR", [0.01, 0.04, 0.07, 0.1, 0.055, 0.01, 0.04]),
        ("CyclicLR, halved", [0.01, 0.055, 0.1, 0.055, 0.01, 0.0325, 0.055, 0.0325, 0.01, 0.02125]),
        ("CyclicLR, shrinking", [0.01, 0.01 + 0.0225 * 0.9, 0.01 + 0.045 * 0.81]),
        (
            "ChainedScheduler",
            [0.01 * 0.9**i * (0.5 - i / 18) for i in range(3)] + [0.1 * 0.9**3 / 3, 0.1 * 0.9**4 * 5 / 18],
        ),
        ("SequentialLR", [0.01, 0.04, 0.07, 0.1, 0.05 * (1 + math.cos(math.pi / 6))]),
    ],
)
def test_formulas(name, expected):
    assert rates(SCHEDULES[name](lr_scheduler, optimizer()), len(expected)) == pytest.approx(expected)


def test_every_group_follows_its_own_base():
    scheduler = SCHEDULES["ExponentialLR"](lr_scheduler, optimizer())
    scheduler.step()
    assert scheduler.get_last_lr() == pytest.approx([0.09, 0.018])
    assert scheduler.base_lrs == [0.1, 0.02]


@pytest.mark.parametrize("name", SCHEDULES)
def test_state_dict_resumes(name):
    whole, half, resumed = (SCHEDULES[name](lr_scheduler, optimizer()) for _ in range(3))
    expected = rates(whole, 10)
    found = rates(half, 5)
    resumed.load_state_dict(half.state_dict())
    resumed.optimizer.load_state_dict(half.optimizer.state_dict())
    assert resumed.last_epoch == 5 and found + rates(resumed, 5) == expected


def test_errors():
    with pytest.raises(TypeError):
        lr_scheduler.StepLR(nn.Identity(), 3)
    with pytest.raises(ValueError, match="2 parameter groups"):
        lr_scheduler.LambdaLR(optimizer(), [lambda e: 1.0])
    with pytest.raises(ValueError, match="start_factor"):
        lr_scheduler.LinearLR(optimizer(), 0.0)
    with pytest.raises(ValueError, match="end_factor"):
        lr_scheduler.LinearLR(optimizer(), end_factor=2.0)
    with pytest.raises(ValueError, match="factor"):
        lr_scheduler.ConstantLR(optimizer(), 2.0)
    with pytest.raises(KeyError, match="initial_lr"):
        lr_scheduler.StepLR(optimizer(), 3, last_epoch=4)
    one, other = optimizer(), optimizer()
    with pytest.raises(ValueError, match="milestones"):
        lr_scheduler.SequentialLR(one, [lr_scheduler.StepLR(one, 3)], [1])
    with pytest.raises(ValueError, match="same optimizer"):
        lr_scheduler.SequentialLR(one, [lr_scheduler.StepLR(other, 3)], [])
    with pytest.raises(TypeError, match="ReduceLROnPlateau cannot be chained"):
        lr_scheduler.ChainedScheduler([lr_scheduler.ReduceLROnPlateau(one)], one)


@pytest.mark.torch
@pytest.mark.parametrize(
    "options",
    [
        {"patience": 1},
        {"patience": 0, "cooldown": 2, "factor": 0.5},
        {"mode": "max", "patience": 1},
        {"threshold_mode": "abs", "threshold": 0.3, "patience": 1, "min_lr": 0.004},
    ],
    ids=str,
)
def test_plateau_against_torch(options):
    torch = pytest.importorskip("torch")
    other = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    metrics = [3.0, 2.0, 2.0, 2.1, 1.9, 1.9, 1.9, 1.9, 1.0, 1.2, 1.2, 1.2, float("nan"), 1.2]
    found = []
    for own, lib in ((other, torch.optim.lr_scheduler), (optimizer(), lr_scheduler)):
        scheduler = lib.ReduceLROnPlateau(own, **options)
        found.append([scheduler.step(m) or own.param_groups[0]["lr"] for m in metrics])
    assert found[1] == pytest.approx(found[0], rel=1e-12)


def test_plateau():
    own = optimizer()
    scheduler = lr_scheduler.ReduceLROnPlateau(own, patience=1, factor=0.5)
    found = []
    for metric in (1.0, 0.5, 0.5, 0.5, 0.5, 0.4, tl.tensor(0.3)):
        scheduler.step(metric)
        found.append(own.param_groups[0]["lr"])
    assert found == [0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05]
    again = lr_scheduler.ReduceLROnPlateau(own)
    again.load_state_dict(scheduler.state_dict())
    assert again.best == scheduler.best and again.get_last_lr() == [0.05, 0.01]


@pytest.mark.parametrize("make", [optim.SGD, optim.Adam])
def test_momentum_goes_the_other_way(make):
    own = make([nn.Parameter(tl.ones(1))], lr=0.1)
    scheduler = lr_scheduler.CyclicLR(own, 0.01, 0.1, 2, base_momentum=0.5)
    found = []
    for _ in range(5):
        group = own.param_groups[0]
        found.append(group["betas"][0] if make is optim.Adam else group["momentum"])
        scheduler.step()
    assert found == pytest.approx([0.9, 0.7, 0.5, 0.7, 0.9])


def test_a_chain_moves_its_schedules():
    own = optimizer()
    parts = [lr_scheduler.StepLR(own, 2, 0.5), lr_scheduler.CyclicLR(own, 0.01, 0.1, 2, base_momentum=0.5)]
    chain = lr_scheduler.ChainedScheduler(parts)
    for _ in range(2):
        chain.step()
    assert [s.last_epoch for s in parts] == [2, 2] and own.param_groups[0]["momentum"] == pytest.approx(0.5)
    assert lr_scheduler.SequentialLR(own, [chain, parts[0]], [3]).get_last_lr() == pytest.approx([0.01, 0.01])


def test_one_cycle():
    own = optim.AdamW([nn.Parameter(tl.ones(1))], betas=(0.9, 0.99))
    scheduler = lr_scheduler.OneCycleLR(own, 1.0, total_steps=11, pct_start=0.4, anneal_strategy="linear")
    rates, betas = [], []
    for _ in range(10):
        rates.append(own.param_groups[0]["lr"])
        betas.append(own.param_groups[0]["betas"][0])
        scheduler.step()
    assert max(rates) == pytest.approx(1.0 - 0.96 * 0.4 / 3.4, abs=0.2) and rates[0] == pytest.approx(0.04)
    assert own.param_groups[0]["lr"] == pytest.approx(0.04 / 1e4) and own.param_groups[0]["betas"][1] == 0.99
    assert betas[0] == 0.95 and min(betas) < 0.87
    scheduler.step()
    with pytest.raises(ValueError, match="11 total steps"):
        scheduler.step()


def test_warmup_and_cosine():
    own = optimizer()
    found = rates(lr_scheduler.WarmupCosineLR(own, 4, 10, floor=0.2), 13)
    assert found[:4] == pytest.approx([0.025, 0.05, 0.075, 0.1])
    assert (
        found[4] == pytest.approx(0.1) and found[7] == pytest.approx(0.06) and found[10:] == pytest.approx([0.02] * 3)
    )
    constant = rates(lr_scheduler.WarmupCosineLR(optimizer(), 4, 10, decay=False), 8)
    assert constant[4:] == pytest.approx([0.1] * 4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda o: lr_scheduler.OneCycleLR(o, 0.1), "total_steps, or epochs"),
        (lambda o: lr_scheduler.OneCycleLR(o, 0.1, 0), "positive, not 0"),
        (lambda o: lr_scheduler.OneCycleLR(o, 0.1, 5, pct_start=2.0), "pct_start"),
        (lambda o: lr_scheduler.OneCycleLR(o, 0.1, 5, anneal_strategy="step"), "step"),
        (lambda o: lr_scheduler.OneCycleLR(o, [0.1], 5), "1 max_lr for 2"),
        (lambda o: lr_scheduler.CyclicLR(o, [0.1], 0.2), "1 base_lr for 2"),
        (lambda o: lr_scheduler.CyclicLR(o, 0.1, 0.2, mode="square"), "square"),
        (lambda o: lr_scheduler.CyclicLR(o, 0.1, 0.2, scale_mode="epochs"), "epochs"),
        (lambda o: lr_scheduler.CyclicLR(optim.Adagrad(o.param_groups[0]["params"]), 0.1, 0.2), "momentum or betas"),
        (lambda o: lr_scheduler.MultiplicativeLR(o, [abs]), "1 functions for 2"),
        (lambda o: lr_scheduler.ChainedScheduler([]), "empty"),
        (lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.StepLR(o, 3)], optimizer()), "same optimizer"),
        (lambda o: lr_scheduler.ChainedScheduler(at_epochs(o, 0, 2)), r"\[0, 2\]"),
        (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 0), "T_0"),
        (lambda o: lr_scheduler.WarmupCosineLR(o, 5, 4), "warmup must lie"),
        (lambda o: lr_scheduler.WarmupCosineLR(o, 1, 4, floor=2.0), "floor"),
        (lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=1.0), "factor"),
        (lambda o: lr_scheduler.ReduceLROnPlateau(o, mode="best"), "best"),
        (lambda o: lr_scheduler.ReduceLROnPlateau(o, min_lr=[0.0]), "1 min_lr for 2"),
    ],
)
def test_schedules_refuse(make, message):
    with pytest.raises(ValueError, match=message):
        make(optimizer())
