"""compiled.repeat: many calls, one after another, without Python between them."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite.nn import functional as F


def counting():
    total, calls = tl.zeros(3), tl.zeros((), dtype=tl.int64)

    @tl.compile
    def advance(x):
        calls.add_(1)
        total.mul_(0.5).add_(x)
        return total * 1

    return advance, total, calls


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("times", [1, 2, 9])
def test_as_many_calls(times, workers, monkeypatch):
    monkeypatch.setattr("tinygrad_lite.program.SMALL_STEP", 0 if workers == 2 else 10**9)
    advance, total, calls = counting()
    other, wanted, _ = counting()
    x = tl.tensor([1.0, 2.0, 3.0])
    result = advance.repeat(times, x)
    for _ in range(times):
        last = other(x)
    np.testing.assert_array_equal(result.numpy(), last.numpy())
    np.testing.assert_array_equal(total.numpy(), wanted.numpy())
    assert calls.item() == times


def test_only_the_first_two_calls_meet_python(monkeypatch):
    advance, _, calls = counting()
    runs = []
    advance(tl.ones(3))
    program = advance._latest().program
    execute = program.execute
    monkeypatch.setattr(program, "execute", lambda turns=1: (runs.append(turns), execute(turns)))
    advance.repeat(50, tl.ones(3))
    assert runs == [1, 49] and calls.item() == 51


def training():
    tl.manual_seed(0)
    model = tl.nn.Sequential(tl.nn.Linear(4, 8), tl.nn.Dropout(0.2), tl.nn.Tanh(), tl.nn.Linear(8, 2))
    optimizer = tl.optim.AdamW(model.parameters(), lr=1e-2)

    @tl.compile
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return model, step


def test_training_steps_repeat_with_their_noise():
    x, y = tl.linspace(-1, 1, 24).reshape(6, 4), tl.tensor([0, 1, 0, 1, 1, 0])
    many, step = training()
    loss = step.repeat(20, x, y)
    one, other = training()
    for _ in range(20):
        wanted = other(x, y)
    assert loss.item() == wanted.item()
    for a, b in zip(many.parameters(), one.parameters(), strict=True):
        np.testing.assert_array_equal(a.numpy(force=True), b.numpy(force=True))
        np.testing.assert_array_equal(a.grad.numpy(), b.grad.numpy())


def test_gradients_that_accumulate_are_captured_again():
    w = tl.ones(3, requires_grad=True)

    @tl.compile
    def accumulate(x):
        (w * x).sum().backward()

    accumulate.repeat(5, tl.tensor([1.0, 2.0, 3.0]))
    np.testing.assert_array_equal(w.grad.numpy(), [5.0, 10.0, 15.0])


def test_an_argument_that_is_written_to():
    x = tl.zeros(4)
    tl.compile(lambda x: x.add_(1)).repeat(6, x)
    np.testing.assert_array_equal(x.numpy(), [6.0] * 4)


def test_verified_and_traced():
    total = tl.zeros(2)
    tl.compile(lambda: total.add_(1), verify=True).repeat(4)
    inner = tl.compile(lambda: total.add_(1))
    tl.compile(lambda: inner.repeat(3))()
    np.testing.assert_array_equal(total.numpy(), [7.0, 7.0])


@pytest.mark.parametrize("workers", [1, 2])
def test_a_failure_stops_it(workers, monkeypatch):
    monkeypatch.setattr("tinygrad_lite.program.SMALL_STEP", 0 if workers == 2 else 10**9)
    monkeypatch.setattr("tinygrad_lite.program.SMALL_CALL", 0)
    at, seen, table = tl.tensor([0]), tl.zeros(64), tl.arange(5, dtype=tl.float32)

    @tl.compile
    def advance():
        seen.add_(table.index_select(0, at))
        at.add_(1)

    with pytest.raises(IndexError, match="dimension of size 5"):
        advance.repeat(100)
    assert at.item() == 5
    np.testing.assert_array_equal(seen.numpy(), [10.0] * 64)


def test_no_call_at_all():
    with pytest.raises(ValueError, match="at least 1 call, not 0"):
        tl.compile(lambda: None).repeat(0)
