"""Convolution's op against the composite: first and second derivatives, and both in a compiled program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tinygrad_lite as tl
import tinygrad_lite.nn.functional as F
from tests.ops.convolution_samples import CASES


def operands(case: tuple[Any, ...], dtype: Any = np.float32) -> list[tl.Tensor]:
    rng = np.random.default_rng(0)
    return [tl.tensor(rng.standard_normal(shape).astype(dtype), requires_grad=True) for shape in case[:2]]


def symmetric(case: tuple[Any, ...]) -> bool:
    return all(a == b for a, b in case[3])


def convolve(x: tl.Tensor, w: tl.Tensor, case: tuple[Any, ...]) -> tl.Tensor:
    return F.conv2d(x, w, stride=case[2], padding=[a for a, _ in case[3]], dilation=case[4])


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if symmetric(case)])
def test_derivatives_agree_with_those_in_float64_which_go_through_windows(name: str) -> None:
    found = []
    for dtype in (np.float32, np.float64):
        x, w = operands(CASES[name], dtype)
        loss = (convolve(x, w, CASES[name]) ** 2).sum()
        first = tl.autograd.grad(loss, [x, w], create_graph=True)
        second = tl.autograd.grad(sum((g**2).sum() for g in first), [x, w])
        x.grad = w.grad = None
        (convolve(x, w, CASES[name]) ** 2).sum().backward()
        found.append([loss, *first, *second, x.grad, w.grad])
    for a, b in zip(*found, strict=True):
        scale = float(b.detach().abs().max())
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-3, atol=1e-5 * scale)


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if symmetric(case)])
def test_a_compiled_step_agrees_with_eager(name: str) -> None:
    def step(x: tl.Tensor, w: tl.Tensor) -> tl.Tensor:
        out = convolve(x, w, CASES[name])
        (out**2).sum().backward()
        return out.detach()

    eager, native = operands(CASES[name]), operands(CASES[name])
    expected = step(*eager)
    np.testing.assert_allclose(tl.compile(step)(*native).numpy(), expected.numpy(), rtol=1e-4, atol=1e-4)
    for a, b in zip(native, eager, strict=True):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-3, atol=1e-3)
