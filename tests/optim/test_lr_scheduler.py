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


SCHEDULES = {
    "LambdaLR": lambda s, o: s.LambdaLR(o, lambda epoch: 0.9**epoch),
    "LambdaLR, two": lambda s, o: s.LambdaLR(o, [lambda epoch: 1 / (epoch + 1), lambda epoch: 2.0]),
    "StepLR": lambda s, o: s.StepLR(o, 3, gamma=0.5),
    "MultiStepLR": lambda s, o: s.MultiStepLR(o, [2, 7, 7], gamma=0.5),
    "ConstantLR": lambda s, o: s.ConstantLR(o, 0.5, total_iters=4),
    "LinearLR": lambda s, o: s.LinearLR(o, 0.1, 0.8, total_iters=6),
    "ExponentialLR": lambda s, o: s.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda s, o: s.CosineAnnealingLR(o, 5, eta_min=0.01),
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
