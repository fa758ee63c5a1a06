"""Tensors of random numbers. Every function draws the same ones eagerly and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_lite.creation import _made
from tinygrad_lite.functional.common import as_dtype, node_of, sizes, unwrap, wrap
from tinygrad_lite.generator import Generator, default_generator
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import leaf, mode
from tinygrad_lite.ir.types import DType, float64, int64
from tinygrad_lite.ops import composite, create, movement, random, reduce, sorting
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops.promote import get_default_dtype

__all__ = [
    "bernoulli",
    "multinomial",
    "normal",
    "poisson",
    "rand",
    "rand_like",
    "randint",
    "randint_like",
    "randn",
    "randn_like",
    "randperm",
]


def _source(generator: Generator | None) -> Generator:
    if generator is not None and not isinstance(generator, Generator):
        raise TypeError(f"generator must be a Generator, not {type(generator).__name__}")
    return generator or default_generator


def rand(
    *args: Any,
    size: Any = None,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform in [0, 1)."""
    node = _source(generator).draw(random.uniform, sizes(args, named=size), as_dtype(dtype, get_default_dtype()))
    return _made(node, device, requires_grad)


def randn(
    *args: Any,
    size: Any = None,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Standard normal."""
    node = _source(generator).draw(random.normal, sizes(args, named=size), as_dtype(dtype, get_default_dtype()))
    return _made(node, device, requires_grad)


def rand_like(input: Tensor, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Uniform in [0, 1), of another tensor's shape and dtype."""
    return rand(input.shape, dtype=as_dtype(dtype, input.dtype), device=device, requires_grad=requires_grad)


def randn_like(input: Tensor, *, dtype: DType | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Standard normal, of another tensor's shape and dtype."""
    return randn(input.shape, dtype=as_dtype(dtype, input.dtype), device=device, requires_grad=requires_grad)


def randint(
    low: Any = None,
    high: Any = None,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Integers in [low, high); `randint(high, size)` starts at 0."""
    if size is None:
        low, high, size = None, low, high
    if high is None:  # randint(5, size=…)
        low, high = None, low
    low = 0 if low is None else low
    if not isinstance(low, int) or not isinstance(high, int) or size is None:
        raise TypeError(f"randint() takes low, high and size, or high and size; got {low}, {high} and {size}")
    if high <= low:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    shares = _source(generator).draw(random.uniform, sizes((size,)), float64)
    whole = ew.add(ew.cast(ew.floor(ew.mul(shares, float(high - low))), int64), low)
    return _made(ew.cast(whole, as_dtype(dtype, int64)), device, requires_grad)


def randint_like(
    input: Tensor,
    low: int,
    high: int | None = None,
    *,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Integers in [low, high), or in [0, low), of another tensor's shape and dtype."""
    low, high = (0, low) if high is None else (low, high)
    kind = as_dtype(dtype, input.dtype)
    return randint(low, high, input.shape, dtype=kind, device=device, requires_grad=requires_grad)


def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """0 … n - 1 in random order. RuntimeError for a negative n."""
    if n < 0:
        raise RuntimeError(f"n must be non-negative, got {n}")
    if not n:
        return _made(create.zeros((0,), as_dtype(dtype, int64)), device, requires_grad)
    keys = _source(generator).draw(random.uniform, (n,), float64)
    order = sorting.argsort(keys, -1)
    return _made(ew.cast(order, as_dtype(dtype, int64)), device, requires_grad)


def normal(
    mean: float | Tensor = 0.0,
    std: float | Tensor = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: DType | None = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal numbers; the shape is `size`, or that of the tensors given. RuntimeError for a negative std."""
    given = [x for x in (mean, std) if isinstance(x, Tensor)]
    if size is None and not given:
        raise TypeError("normal() needs a size where mean and std are numbers")
    shape = sizes((size,)) if size is not None else ew.broadcast_shapes("normal", [tuple(x.shape) for x in given])
    if not isinstance(std, Tensor) and std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
    kind = as_dtype(dtype, given[0].dtype if given else get_default_dtype())
    node = _source(generator).draw(random.normal, shape, kind)
    return _made(ew.add(ew.mul(node, unwrap(std)), unwrap(mean)), device, requires_grad)


def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Poisson numbers with the elements as rates. Reads values: how many draws it takes depends on them.

    RuntimeError: not floating, or a negative rate.
    """
    rates = input._values("poisson()")
    if input.dtype.kind != "f" or (rates < 0).any():
        raise RuntimeError(f"poisson: needs rates >= 0 in a floating tensor, got {input._node.type}")
    seed, offset = _source(generator).take(2)
    words = [int(n.value) & (2**64 - 1) for n in (seed, offset)]
    drawn = np.random.Generator(np.random.Philox(words)).poisson(rates.astype(np.float64))
    return wrap(leaf(drawn.astype(np.float32).astype(input.dtype.numpy)))


def bernoulli(input: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that the element (or p) is, else 0, in the input's dtype."""
    chance = node_of(input, "input") if p is None else float(p)
    if isinstance(chance, Node) and chance.dtype.kind != "f":
        raise RuntimeError(f"bernoulli: expected a floating tensor of probabilities, got {chance.type}")
    known = chance.value if isinstance(chance, Node) else np.float64(chance)
    if known is not None and not ((known >= 0) & (known <= 1)).all():
        raise RuntimeError(f"bernoulli: expected probabilities from 0 to 1, got {_outside(known)}")
    seed, offset = _source(generator).take(input.numel())
    with mode.set(grad_enabled=False):
        mask = composite.bernoulli_mask(chance, seed, offset, input.shape)
        return wrap(ew.cast(mask, input.dtype))


def _outside(chances: Any) -> float:
    """The first that is no probability."""
    flat = np.ravel(chances)
    return float(flat[~((flat >= 0) & (flat <= 1))][0])


def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """Indices drawn in proportion to the rows of `input`, (C,) to (n,) or (N, C) to (N, n), int64.

    The element with the largest p / E, E exponential, is found with probability proportional to p; the n largest are
    draws without replacement.

    Raises:
        RuntimeError: not floating, negative or all-zero probabilities, more samples than categories.
    """
    weights = node_of(input, "input")
    if weights.type.ndim not in (1, 2) or weights.dtype.kind != "f":
        raise RuntimeError(f"multinomial: probabilities must be a floating tensor of 1 or 2 axes, got {weights.type}")
    if num_samples < 1 or (not replacement and num_samples > weights.shape[-1]):
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement, nor less than 1")
    if weights.value is not None:
        _check_probabilities(weights.value)
    draws = num_samples if replacement else 1
    shape = (*weights.shape[:-1], draws, weights.shape[-1])
    with mode.set(grad_enabled=False):
        share = _source(generator).draw(random.uniform, shape, float64)
        wait = ew.neg(ew.log(ew.sub(1.0, share)))
        scores = ew.div(movement.unsqueeze(ew.cast(weights, float64), -2), wait)
        if replacement or num_samples == 1:
            return wrap(reduce.argmax(scores, -1))
        order = sorting.argsort(movement.squeeze(scores, -2), -1, True)
        return wrap(movement.narrow(order, -1, 0, num_samples))


def _check_probabilities(weights: np.ndarray[Any, Any]) -> None:
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if (weights.sum(-1) <= 0).any():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
