"""Optimisers inside compiled steps: as eager ones, whatever changes between the calls."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn, optim
from tinygrad_lite.optim import lr_scheduler

X = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)


class Run:
    """A linear model, an optimiser, and a step that is compiled or not."""

    def __init__(self, make, compiled: bool) -> None:
        tl.manual_seed(1)
        self.model = nn.Linear(3, 2)
        self.optimizer = make(list(self.model.parameters()))
        self.compiled = tl.compile(self.step) if compiled else None
        self.run = self.compiled or self.step

    def step(self, x):
        loss = (self.model(x) ** 2).mean()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    def losses(self, steps: int = 4) -> list[float]:
        return [self.run(tl.tensor(X)).item() for _ in range(steps)]


MAKERS = {
    "adamw": lambda p: optim.AdamW(p, lr=0.05, weight_decay=0.1),
    "groups": lambda p: optim.Adam(
        [{"params": p[:1], "lr": 0.1}, {"params": p[1:], "betas": (0.5, 0.6)}], amsgrad=True
    ),
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.01),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True, weight_decay=0.01),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.1, initial_accumulator_value=0.1),
    "adadelta": lambda p: optim.Adadelta(p, lr=0.5, eps=1e-3),
    "adamax": lambda p: optim.Adamax(p, lr=0.01),
    "nadam": lambda p: optim.NAdam(p, lr=0.01, weight_decay=0.1, decoupled_weight_decay=True),
    "muon": lambda p: optim.Muon(p[:1], lr=1e-4),  # in bfloat16, of which a last digit must not show
    "rprop": lambda p: optim.Rprop(p, lr=0.01),
    "asgd": lambda p: optim.ASGD(p, lr=0.1, lambd=0.1, t0=2),
    "radam": lambda p: optim.RAdam(p, lr=0.01, betas=(0.9, 0.95)),
}


@pytest.mark.parametrize("name", MAKERS)
def test_as_eager(name):
    eager, compiled = (Run(MAKERS[name], kind) for kind in (False, True))
    np.testing.assert_allclose(compiled.losses(8), eager.losses(8), rtol=4e-6)


def test_a_schedule_does_not_capture_again():
    found = []
    for kind in (False, True):
        run = Run(MAKERS["adamw"], kind)
        schedule = lr_scheduler.CosineAnnealingLR(run.optimizer, 6)
        losses = []
        for _ in range(6):
            losses += run.losses(1)
            schedule.step()
        found.append(losses)
    np.testing.assert_allclose(found[1], found[0], rtol=2e-6)
    assert sum(map(len, run.compiled._captures.values())) == 1


def test_changed_choices_groups_and_state_are_noticed():
    found = []
    for kind in (False, True):
        run = Run(MAKERS["adamw"], kind)
        losses = run.losses(2)
        kept = copy.deepcopy(run.optimizer.state_dict())
        losses += run.losses(2)
        run.optimizer.load_state_dict(kept)
        losses += run.losses(2)
        run.optimizer.param_groups[0]["maximize"] = True
        losses += run.losses(2)
        found.append(losses)
    np.testing.assert_allclose(found[1], found[0], rtol=2e-6)


def test_a_parameter_that_rests_keeps_its_count():
    found = []
    for kind in (False, True):
        run = Run(MAKERS["adamw"], kind)
        losses = run.losses(2)
        run.model.bias.requires_grad_(False)
        losses += run.losses(2)
        run.model.bias.requires_grad_(True)
        losses += run.losses(2)
        counts = [run.optimizer.state[p]["step"].item() for p in run.model.parameters()]
        assert counts == [6, 4]
        found.append(losses)
    np.testing.assert_allclose(found[1], found[0], rtol=2e-6)


def test_two_optimisers_in_one_step():
    found = []
    for kind in (False, True):
        tl.manual_seed(1)
        model = nn.Linear(3, 2)
        first, second = optim.AdamW([model.weight], lr=0.1), optim.AdamW([model.bias], lr=0.01)

        def step(x, model=model, first=first, second=second):
            loss = (model(x) ** 2).mean()
            loss.backward()
            for optimizer in (first, second):
                optimizer.step()
                optimizer.zero_grad()
            return loss

        run = tl.compile(step) if kind else step
        losses = []
        for _ in range(4):
            losses.append(run(tl.tensor(X)).item())
            second.param_groups[0]["lr"] *= 0.5
        found.append([*losses, *model.bias.detach().numpy()])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-5)


def test_training_mode_is_part_of_the_key():
    model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))
    compiled = tl.compile(lambda x: model(x))
    model.eval()
    quiet = compiled(tl.tensor(X)).detach().numpy()
    model.train()
    assert not np.array_equal(compiled(tl.tensor(X)).detach().numpy(), quiet)
    model.eval()
    np.testing.assert_array_equal(compiled(tl.tensor(X)).detach().numpy(), quiet)
    assert sum(map(len, compiled._captures.values())) == 2
