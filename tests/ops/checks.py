"""Gradient checks: random projections against central differences in float64, to second order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygrad_lite.autodiff import gradients
from tinygrad_lite.ir.node import GradMeta, Node
from tinygrad_lite.ir.record import leaf
from tinygrad_lite.ops import elementwise, reduce

Array = np.ndarray[Any, Any]
STEP = 1e-3


def differentiable(x: Array) -> Node:
    return leaf(x, GradMeta(leaf=True))


def dot(a: Node, b: Array) -> Node:
    return reduce.sum(elementwise.mul(a, leaf(b)))


def slope(f: Callable[..., Any], point: Sequence[Array], direction: Sequence[Array]) -> float:
    """The derivative of f along a direction, by differences of fourth order."""

    def at(t: float) -> float:
        return float(f(*[x + t * STEP * v for x, v in zip(point, direction, strict=True)]))

    return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * STEP)


class Projected:
    """<build(…), p> as a function of the inputs `wrt` and p, with its first and second directional derivatives."""

    def __init__(self, build: Callable[..., Node], arrays: Sequence[Array], wrt: Sequence[int], seed: int = 0) -> None:
        self.build, self.arrays, self.wrt = build, list(arrays), list(wrt)
        rng = np.random.default_rng(seed)
        shape = build(*[leaf(a) for a in arrays]).shape
        self.point = [*(arrays[i] for i in wrt), rng.normal(size=shape)]
        self.v, self.w = ([rng.normal(size=x.shape) for x in self.point] for _ in range(2))

    def result(self, nodes: Sequence[Node]) -> Node:
        """build(…) with the differentiable inputs replaced."""
        inputs = [leaf(a) for a in self.arrays]
        for i, node in zip(self.wrt, nodes, strict=False):
            inputs[i] = node
        return self.build(*inputs)

    def value(self, *point: Array) -> Any:
        *xs, p = point
        return np.sum(self.result([leaf(x) for x in xs]).value * p)

    def first(self, nodes: Sequence[Node]) -> Node:
        """Σ <gradient in x, v> over the inputs, as a node that can be differentiated."""
        *xs, p = nodes
        found = gradients([self.result(xs)], [p], xs, create_graph=True)
        total: Node | None = None
        for g, v in zip(found, self.v, strict=False):
            term = None if g is None else dot(g, v)
            total = term if total is None or term is None else elementwise.add(total, term)
        assert total is not None, "no gradient reached the inputs"
        return total

    def first_value(self, *point: Array) -> Any:
        return self.first([differentiable(x) for x in point]).value

    def check(self, tolerance: float = 1e-7) -> None:
        fixed_p = [*self.v[:-1], np.zeros_like(self.v[-1])]
        close(self.first_value(*self.point), slope(self.value, self.point, fixed_p), tolerance, "first order")
        nodes = [differentiable(x) for x in self.point]
        found = gradients([self.first(nodes)], [leaf(np.ones(()))], nodes)
        exact = sum(float(np.sum(g.value * w)) for g, w in zip(found, self.w, strict=True) if g is not None)
        close(exact, slope(self.first_value, self.point, self.w), tolerance, "second order")


def close(found: float, expected: float, tolerance: float, what: str) -> None:
    assert abs(found - expected) <= tolerance * (1 + abs(expected)), f"{what}: {found} instead of {expected}"
