"""What backward computes again by itself, because that takes no time: fewer arrays, the same bits."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tests.compile.test_kept import kept, train
from tinygrad_lite import nn
from tinygrad_lite.ir.schedule import again


@pytest.fixture
def any_size(monkeypatch):
    """Small arrays too are worth a copy."""
    monkeypatch.setattr(again, "WORTH", 1)


def feed_forward():
    return nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32))


def gated():
    class Gated(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.wide, self.gate, self.back = nn.Linear(32, 64), nn.Linear(32, 64), nn.Linear(64, 32)

        def forward(self, x):
            return self.back(nn.functional.silu(self.gate(x)) * self.wide(x))

    return Gated()


def normalised(norm):
    return nn.Sequential(nn.Linear(32, 32), norm, nn.Linear(32, 8))


def convolutions():
    first, second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
    return nn.Sequential(first, nn.BatchNorm2d(8), nn.ReLU(), second, nn.Flatten())


ROWS = (64, 32)
MODELS = {  # how many arrays are kept, and how many where nothing is computed twice; the loss has one of most
    "gelu": (feed_forward, ROWS, (2, 3)),  # what goes in, in place of value and slope
    "layer norm": (lambda: normalised(nn.LayerNorm(32)), ROWS, (1, 2)),
    "rms norm": (lambda: normalised(nn.RMSNorm(32)), ROWS, (1, 2)),
    "batch norm": (convolutions, (4, 3, 8, 8), (2, 3)),
    "gated": (gated, ROWS, (4, 6)),  # both factors and their product, in place of silu, its slope and their like
}


def gradients(build, shape, **options):
    """Gradients and buffers after two compiled steps."""
    tl.manual_seed(0)
    model, x = build(), tl.randn(*shape)

    @tl.compile(**options)
    def step(x):
        model.zero_grad()
        (model(x) ** 2).sum().backward()
        for p in model.parameters():
            p.data -= 0.01 * p.grad

    step(x)
    step(x)
    return [p.grad.numpy().copy() for p in model.parameters()] + [b.numpy() for b in model.buffers()], step


def inner(step) -> list[str]:
    """What is kept, but for parameters."""
    return [name for name in kept(step) if name != "weight"]


@pytest.mark.parametrize("name", MODELS)
def test_one_array_is_kept_and_the_bits_stay(any_size, name):
    build, shape, count = MODELS[name]
    got, step = gradients(build, shape)
    want, whole = gradients(build, shape, memory_budget=1.0)
    for a, b in zip(got, want, strict=True):
        if name == "batch norm":  # channels' sums are in other kernels, which add them up in another order
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-3)
        else:
            np.testing.assert_array_equal(a, b)
    assert (len(inner(step)), len(inner(whole))) == count, (inner(step), inner(whole))


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_eager_mode(any_size, name):
    build, shape, _ = MODELS[name]
    tl.manual_seed(0)
    train(build(), tl.randn(*shape))


@pytest.mark.parametrize("name", MODELS)
def test_copies_are_in_no_kernel_of_forward(any_size, name):
    build, shape, _ = MODELS[name]
    _, step = gradients(build, shape)
    groups = step._latest().program.schedule.groups
    mixed = [g for g in groups if any(n.late for n in g.nodes) and any(n.location.phase == "forward" for n in g.nodes)]
    assert any(n.late for g in groups for n in g.nodes)
    assert not mixed


def test_copies_of_two_layers_are_made_at_two_times(any_size):
    tl.manual_seed(0)
    model = nn.Sequential(*[feed_forward() for _ in range(3)])
    step = train(model, tl.randn(*ROWS))
    groups = step._latest().program.schedule.groups
    assert sum(any(n.late and n.op.name == "erf" for n in g.nodes) for g in groups) == 3


def test_explain_names_them(any_size):
    _, step = gradients(feed_forward, ROWS)
    found = step.explain().recomputed["in passing"]
    assert found["values"] >= 5 and any("erf" in name for name in found["names"])


def test_what_is_small_is_kept():
    _, step = gradients(feed_forward, ROWS)
    assert not any(n.late for g in step._latest().program.schedule.groups for n in g.nodes)


def test_what_is_returned_is_not_computed_again(any_size):
    tl.manual_seed(0)
    first, second, x = nn.Linear(32, 64), nn.Linear(64, 32), tl.randn(*ROWS)

    @tl.compile
    def step(x):
        first.zero_grad(), second.zero_grad()
        hidden = nn.functional.gelu(first(x))
        (second(hidden) ** 2).sum().backward()
        return hidden.detach()

    step(x)
    copies = [n.op.name for g in step._latest().program.schedule.groups for n in g.nodes if n.late]
    assert "erf" not in copies


def test_what_saves_less_than_half_is_kept(any_size):
    """A relu's mask takes a byte an element: its input in place of mask and value would save one of five."""
    _, step = gradients(lambda: nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)), ROWS)
    assert not any(n.late for g in step._latest().program.schedule.groups for n in g.nodes)


def test_a_budget_starts_from_what_nothing_is_computed_twice_for(any_size):
    _, plain = gradients(feed_forward, (512, 32))
    _, whole = gradients(feed_forward, (512, 32), memory_budget=1.0)
    least, most = plain.memory().arena, whole.memory().arena
    assert least < most
    _, same = gradients(feed_forward, (512, 32), memory_budget=least)
    assert same.memory().arena == least
    assert same._latest().choice.plain == most
