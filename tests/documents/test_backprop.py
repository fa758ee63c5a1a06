"""Backpropagation by hand: B §2 and B §8, problem 1. Two printed values of B §2 carry a rounded 0.5800 along."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

import tinygrad_lite as tl
from tests.documents.helpers import close, t
from tinygrad_lite import Tensor, nn, optim


@dataclass
class Worked:
    """x -> w1 -> tanh -> w2, half the squared error, and one step of gradient descent."""

    x: Tensor
    y: Tensor
    net: nn.Sequential

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        z = self.net[0](x)
        a = self.net[1](z)
        out = self.net[2](a)
        return z, a, out, 0.5 * ((out - self.y) ** 2).sum()

    def adjoints(self, x: Tensor) -> tuple[Tensor, ...]:
        """Of the output, w2, a1, z1, w1, x."""
        x = x.detach().requires_grad_(True)
        z, a, out, loss = self.forward(x)
        w1, w2 = self.net[0].weight, self.net[2].weight
        return tl.autograd.grad(loss, [out, w2, a, z, w1, x])

    def step(self, x: Tensor) -> Tensor:
        loss = self.forward(x)[-1]
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss

    @property
    def weights(self) -> tuple[float, float]:
        return self.net[0].weight.item(), self.net[2].weight.item()


def worked(x: float, w1: float, w2: float, y: float) -> Worked:
    net = nn.Sequential(nn.Linear(1, 1, bias=False), nn.Tanh(), nn.Linear(1, 1, bias=False)).double()
    for layer, weight in ((net[0], w1), (net[2], w2)):
        nn.init.constant_(layer.weight, weight)
    made = Worked(t([[x]]), t([[y]]), net)
    made.optimizer = optim.SGD(net.parameters(), lr=0.1)
    return made


def numbers(tensors: tuple[Tensor, ...]) -> list[float]:
    return [v.item() for v in tensors]


@pytest.fixture
def first() -> Worked:
    return worked(2.0, 0.5, -1.5, 1.0)


@pytest.fixture
def exercise() -> Worked:
    return worked(1.5, 0.8, -1.0, 0.5)


def test_BPX_01_forward(first, run):
    close(numbers(run(first.forward)(first.x)), [1.0, 0.7615942, -1.1423912, 2.2949201], 1e-7)


def test_BPX_02_backward_to_the_hidden_unit(first, run):
    close(numbers(run(first.adjoints)(first.x))[:3], [-2.1423912, -1.6316326, 3.2135869], 1e-7)


def test_BPX_03_backward_to_the_input(first, run):
    _, _, da, dz, dw1, dx = numbers(run(first.adjoints)(first.x))
    close([dz / da, dz, dw1, dx], [0.4199743, 1.3496240, 2.6992480, 0.6748120], 1e-7)


def test_BPX_04_printed_values_within_their_rounding(first, run):
    _, _, _, dz, dw1, _ = numbers(run(first.adjoints)(first.x))
    close([dz, dw1], [1.3497, 2.6994], 3e-4)
    assert abs(dw1 - 2.6994) > 1e-4, "the printed value is off by rounding of intermediates"


def test_BPX_05_weights_after_one_step(first, run):
    run(first.step)(first.x)
    close(first.weights, [0.2300752, -1.3368367], 1e-7)


def test_BPX_06_forward_after_one_step(first, run):
    run(first.step)(first.x)
    after = numbers(run(first.forward)(first.x))
    close(after, [0.4601504, 0.4302068, -0.5751162, 1.2404956], 1e-7)
    close(after, [0.460, 0.4301, -0.5750, 1.2402], 5e-4)


def test_BPX_07_the_loss_falls(first, run):
    step = run(first.step)
    close([step(first.x).item(), first.forward(first.x)[-1].item()], [2.295, 1.240], 1e-3)


def test_BPX_08_exercise_forward(exercise, run):
    close(numbers(run(exercise.forward)(exercise.x)), [1.2, 0.8336546, -0.8336546, 0.8893173], 1e-7)


def test_BPX_09_exercise_backward_to_the_hidden_unit(exercise, run):
    close(numbers(run(exercise.adjoints)(exercise.x))[:3], [-1.3336546, -1.1118073, 1.3336546], 1e-7)


def test_BPX_10_exercise_backward_to_the_input(exercise, run):
    close(numbers(run(exercise.adjoints)(exercise.x))[3:], [0.4067913, 0.6101870, 0.3254331], 1e-7)


def test_BPX_11_exercise_step(exercise, run):
    run(exercise.step)(exercise.x)
    close(exercise.weights, [0.7389813, -0.8888193], 1e-7)


def test_BPX_12_exercise_loss_falls(exercise, run):
    step = run(exercise.step)
    step(exercise.x)
    close(numbers(exercise.forward(exercise.x)), [1.1084720, 0.8035216, -0.7141855, 0.7371232], 1e-7)
