"""A sample of an op, and the random operands it is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygrad_lite.ir.node import Node

Array = np.ndarray[Any, Any]
Make = Callable[[np.random.Generator], list[Array]]


@dataclass(frozen=True)
class Sample:
    """Arrays, the nodes built of them, and what should come out."""

    id: str
    make: Make
    build: Callable[..., Node]
    reference: Callable[..., Any]
    wrt: tuple[int, ...] = ()


def reals(*shapes: Sequence[int], low: float = -2.0, high: float = 2.0, dtype: str = "float64") -> Make:
    """Uniform reals, at least 0.05 away from integers: out of reach of the kinks of abs, sign, floor, max(x, 0)."""

    def draw(rng: np.random.Generator, shape: Sequence[int]) -> Array:
        x = np.asarray(rng.uniform(low, high, tuple(shape)))
        whole = np.floor(x)
        return (whole + 0.05 + 0.9 * (x - whole)).astype(dtype)

    return lambda rng: [draw(rng, s) for s in shapes]


def integers(*shapes: Sequence[int], low: int = -5, high: int = 6, dtype: str = "int64") -> Make:
    return lambda rng: [np.asarray(rng.integers(low, high, tuple(s))).astype(dtype) for s in shapes]


def bools(*shapes: Sequence[int]) -> Make:
    return lambda rng: [np.asarray(rng.integers(0, 2, tuple(s))).astype(bool) for s in shapes]


def both(*makes: Make) -> Make:
    """The operands of several makers, in order."""
    return lambda rng: [a for make in makes for a in make(rng)]


def fixed(*values: Any) -> Make:
    return lambda rng: [np.array(v) for v in values]
