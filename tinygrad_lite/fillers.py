"""Tensor methods that fill a tensor with random numbers, in place: eager and compiled draw the same."""

from __future__ import annotations

import math

from tinygrad_lite.generator import Generator, default_generator
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.types import bool_, float32, float64, limits
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops import random, special

__all__ = ["cauchy_", "exponential_", "geometric_", "log_normal_", "normal_", "random_", "uniform_"]


def _floating(self: Tensor, name: str) -> None:
    if self.dtype.kind != "f":
        raise RuntimeError(f"{name}: needs a floating tensor, got {self._node.type}")


def _uniform(self: Tensor, generator: Generator | None) -> Node:
    """In [0, 1), float32 for 16-bit floats."""
    return (generator or default_generator).draw(random.uniform, self.shape, self.dtype.working)


def normal_(self: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with normal numbers. RuntimeError for a negative std."""
    _floating(self, "normal_")
    if std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    draws = (generator or default_generator).draw(random.normal, self.shape, self.dtype.working)
    return self._write(ew.add(ew.mul(draws, float(std)), float(mean)))


def log_normal_(self: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers whose logarithm is normal. RuntimeError unless std > 0."""
    _floating(self, "log_normal_")
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    draws = (generator or default_generator).draw(random.normal, self.shape, self.dtype.working)
    return self._write(ew.exp(ew.add(ew.mul(draws, float(std)), float(mean))))


def uniform_(self: Tensor, a: float = 0.0, b: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers uniform in [a, b). RuntimeError where a > b."""
    _floating(self, "uniform_")
    if a > b:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={a} > to={b}")
    draws = (generator or default_generator).draw(random.uniform, self.shape, self.dtype)
    return self._write(ew.add(ew.mul(draws, float(b) - float(a)), float(a)))


def exponential_(self: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with exponential numbers of rate `lambd`. RuntimeError unless lambd > 0."""
    _floating(self, "exponential_")
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    return self._write(ew.mul(special.log1p(ew.neg(_uniform(self, generator))), -1.0 / lambd))


def cauchy_(self: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers of a Cauchy distribution. RuntimeError unless sigma > 0."""
    _floating(self, "cauchy_")
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    angle = ew.mul(ew.sub(_uniform(self, generator), 0.5), math.pi)
    return self._write(ew.add(ew.mul(special.tan(angle), float(sigma)), float(median)))


def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with the number of trials up to the first success at probability p. RuntimeError unless 0 < p < 1."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    share = (generator or default_generator).draw(random.uniform, self.shape, float64)
    trials = special.ceil(ew.div(special.log1p(ew.neg(share)), math.log1p(-p)))
    return self._write(ew.cast(ew.maximum(trials, 1.0), self.dtype))


def random_(self: Tensor, from_: int = 0, to: int | None = None, *, generator: Generator | None = None) -> Tensor:
    """random_(to), random_(from, to): integers in [from, to). Without bounds, all that the dtype holds exactly.

    RuntimeError where from >= to.
    """
    low, high = (0, from_) if to is None and from_ else (from_, to)
    if high is None:
        high = _count(self)
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    share = (generator or default_generator).draw(random.uniform, self.shape, float64)
    whole = ew.add(ew.floor(ew.mul(share, float(high - low))), float(low))
    return self._write(ew.cast(whole, self.dtype))


def _count(self: Tensor) -> int:
    if self.dtype is bool_:
        return 2
    if self.dtype.kind == "f":
        return 2 ** (int(limits(self.dtype).nmant) + 1) if self.dtype is not float32 else 2**24
    return min(int(limits(self.dtype).max) + 1, 2**53)
