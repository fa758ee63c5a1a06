"""What the figures' tests share. Tests are named by the figure's id: test_ATT_03_… holds ATT-03."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

import tinygrad_lite as tl
from tinygrad_lite import Tensor, nn


def t(values: Any) -> Tensor:
    """A float64 tensor."""
    return tl.tensor(values, dtype=tl.float64)


def seeded(*shape: int, seed: int = 0) -> Tensor:
    """Standard normal numbers in float64, the same at every call."""
    return t(np.random.default_rng(seed).standard_normal(shape))


def value(x: Any) -> np.ndarray[Any, Any]:
    """As a NumPy array, from a tensor or anything else."""
    return x.detach().numpy() if isinstance(x, Tensor) else np.asarray(x)


def close(got: Any, want: Any, atol: float = 0.0, rtol: float = 0.0) -> None:
    """Equal in shape, and in value within the tolerance; exactly, if none is given."""
    got, want = value(got), value(want)
    assert got.shape == want.shape, f"shape {got.shape}, expected {want.shape}"
    np.testing.assert_allclose(got, want, rtol=rtol, atol=atol)


def same_bits(got: Any, want: Any) -> None:
    np.testing.assert_array_equal(value(got), value(want))


def gradient(fn: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """x -> d(sum of fn(x)) / dx."""

    def of(x: Tensor) -> Tensor:
        x = x.detach().requires_grad_(True)
        return tl.autograd.grad(fn(x).sum(), x)[0]

    return of


def jacobian(fn: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The matrix d fn(x)_i / dx_j of vectors, one backward pass a row."""
    x = x.detach().requires_grad_(True)
    y = fn(x)
    rows = [tl.autograd.grad(y[i], x, retain_graph=True)[0] for i in range(y.numel())]
    return tl.stack(rows)


def count_parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def pieces(values: list[Fraction] | np.ndarray[Any, Any]) -> int:
    """Straight pieces of a function whose kinks lie on the (even) grid of the given values."""
    slopes = [b - a for a, b in itertools.pairwise(values)]
    return 1 + sum(a != b for a, b in itertools.pairwise(slopes))
