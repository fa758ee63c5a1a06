"""What a capture takes for granted: when it is replayed, when the function is captured again, and why."""

from __future__ import annotations

import dataclasses
import types

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite import nn, optim

SCALE = 2.0
TABLE = {"scale": 2.0, "tensors": []}
settings = types.ModuleType("user_settings")
settings.SCALE = 2.0


def captures(compiled) -> int:
    return sum(map(len, compiled._captures.values()))


def same(compiled, fn, *args):
    """One call of each; the values agree."""
    got, expected = compiled(*args), fn(*args)
    np.testing.assert_array_equal(got.numpy(), expected.numpy())
    assert got.dtype is expected.dtype


def test_shapes_dtypes_and_static_arguments():
    def fn(x, factor, mode="a", *, shift=0):
        return x * factor + shift if mode == "a" else x - factor

    compiled = tl.compile(fn)
    calls = [(tl.ones(3), 2), (tl.ones(4), 2), (tl.ones(3, dtype=tl.float64), 2), (tl.ones(3), 3), (tl.ones(3), 3.0)]
    calls += [(tl.ones(3), 2, "b"), (tl.ones(3), True)]
    for count, args in enumerate(calls, 1):
        same(compiled, fn, *args)
        assert captures(compiled) == count
    for args in calls:
        same(compiled, fn, *args)
    assert captures(compiled) == len(calls)
    np.testing.assert_array_equal(compiled(tl.ones(3), 2, shift=5).numpy(), [7, 7, 7])
    assert "new arguments" in compiled.explain()


@pytest.mark.parametrize("values", [(0.0, -0.0), (1, True), (1, 1.0), ("a", b"a"), ((1,), [1]), (slice(1), slice(2))])
def test_static_values_that_are_told_apart(values):
    compiled = tl.compile(lambda x, static: x + 1)
    for value in (*values, *values):
        compiled(tl.ones(2), value)
    assert captures(compiled) == 2


@pytest.mark.parametrize("value", [float("nan"), slice(0, 2), np.float32(3), range(4), (1, (2, None)), {"a": 1}])
def test_equal_static_values_are_one(value):
    import copy

    compiled = tl.compile(lambda x, static: x + 1)
    compiled(tl.ones(2), value)
    compiled(tl.ones(2), copy.deepcopy(value))
    assert captures(compiled) == 1


def test_globals_closures_and_comprehensions(monkeypatch):
    factor, container, offset = 3.0, {"list": [1.0]}, types.SimpleNamespace()
    del offset

    def fn(x):
        parts = [x * SCALE for _ in range(2)]
        return parts[0] + parts[1] * factor + container["list"][0] + TABLE["scale"] + settings.SCALE

    compiled = tl.compile(fn)
    x = tl.ones(3)
    same(compiled, fn, x)
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    same(compiled, fn, x)
    factor = 4.0
    same(compiled, fn, x)
    container["list"][0] = 2.0
    same(compiled, fn, x)
    monkeypatch.setitem(TABLE, "scale", 3.0)
    same(compiled, fn, x)
    monkeypatch.setattr(settings, "SCALE", 7.0)
    same(compiled, fn, x)
    assert captures(compiled) == 6
    assert "SCALE was 2.0, is 5.0" in compiled.explain() and "settings.SCALE was 2.0, is 7.0" in compiled.explain()
    same(compiled, fn, x)
    assert captures(compiled) == 6


@dataclasses.dataclass
class Config:
    scale: float = 2.0
    unused: int = 0


class Trainer:
    def __init__(self):
        self.config, self.steps, self.weight = Config(), 0, tl.ones(3)

    def step(self, x):
        return self.helper(x) + self.weight

    def helper(self, x):
        return x * self.config.scale


def test_attributes_of_objects_that_the_code_mentions():
    trainer = Trainer()
    compiled = tl.compile(trainer.step)
    x = tl.ones(3)
    same(compiled, trainer.step, x)
    trainer.steps += 1
    trainer.config.unused = 5
    same(compiled, trainer.step, x)
    assert captures(compiled) == 1
    trainer.config.scale = 4.0
    same(compiled, trainer.step, x)
    trainer.weight = tl.zeros(3)
    same(compiled, trainer.step, x)
    assert captures(compiled) == 3


def test_decorated_method():
    class Model:
        def __init__(self, scale):
            self.scale = scale

        @tl.compile
        def apply(self, x):
            return x * self.scale

    a, b = Model(2.0), Model(3.0)
    for model in (a, b, a):
        assert model.apply(tl.ones(2)).tolist() == [model.scale] * 2


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.drop = nn.Dropout(0.5)
        self.scale = 2.0
        self.config = Config()

    def forward(self, x):
        return self.drop(self.inner(x)) * self.scale * self.config.scale * SCALE


def test_modules(monkeypatch):
    model = Scaled().eval()
    compiled = tl.compile(model)
    x = tl.ones(2, 3)

    def check(count):
        tl.manual_seed(0)
        got = compiled(x)
        tl.manual_seed(0)
        np.testing.assert_allclose(got.detach().numpy(), model(x).detach().numpy(), rtol=1e-6)
        assert captures(compiled) == count

    check(1)
    model.train()
    check(2)
    model.eval()
    check(2)
    model.scale = 3.0
    check(3)
    model.config.scale = 3.0
    check(4)
    monkeypatch.setitem(globals(), "SCALE", 6.0)
    check(5)
    model.inner = nn.Linear(3, 3)
    check(6)
    with tl.no_grad():
        model.inner.weight.fill_(0.5)
    check(6)
    model.inner.weight.requires_grad_(False)
    check(7)
    model.load_state_dict({k: tl.ones(*v.shape) for k, v in model.state_dict().items()})
    check(7)
    assert "requires_grad of inner.weight changed" in compiled.explain()


def test_counting_in_forward_is_never_replayed_wrongly():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x * self.calls

    model = Counting()
    compiled = tl.compile(model)
    assert [compiled(tl.ones(1)).item() for _ in range(3)] == [1, 2, 3]


def test_grad_mode_and_requires_grad():
    def fn(x):
        return x * 2

    compiled = tl.compile(fn)
    x = tl.ones(2)
    assert not compiled(x).requires_grad
    x.requires_grad_()
    assert compiled(x).requires_grad
    with tl.no_grad():
        assert not compiled(x).requires_grad
    assert captures(compiled) == 3


def test_learning_rate_changes_without_a_capture():
    def run(wrap):
        w = tl.ones(3, requires_grad=True)
        opt = optim.SGD([w], lr=0.1, momentum=0.9)

        def step(x):
            opt.zero_grad()
            (w * x).sum().backward()
            opt.step()

        call = wrap(step)
        for i in range(4):
            opt.param_groups[0]["lr"] = 0.1 / (i + 1)
            call(tl.ones(3))
        return w, call

    (w, compiled), (expected, _) = run(tl.compile), run(lambda f: f)
    np.testing.assert_allclose(w.detach().numpy(), expected.detach().numpy(), rtol=1e-6)
    assert captures(compiled) <= 2


def test_many_captures_warn_once():
    compiled = tl.compile(lambda x, n: x + 1)
    with pytest.warns(tl.CaptureWarning, match="captured and compiled 16 times"):
        for n in range(17):
            compiled(tl.ones(1), n)
    compiled(tl.ones(1), 18)


def test_nested_functions_are_watched(monkeypatch):
    inner = tl.compile(lambda x: x * SCALE)
    outer = tl.compile(lambda x: inner(x) + 1)
    assert outer(tl.ones(1)).item() == 3
    monkeypatch.setitem(globals(), "SCALE", 4.0)
    assert outer(tl.ones(1)).item() == 5
    assert captures(inner) == 0


def test_numpy_arguments_are_refused():
    with pytest.raises(TypeError, match="tensors, not NumPy arrays"):
        tl.compile(lambda x: x)(np.ones(3))
    with pytest.raises(TypeError, match="takes a function or a Module, not int"):
        tl.compile(3)
