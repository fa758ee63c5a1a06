"""Strided views: what a movement op does to addresses instead of to data."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tinygrad_lite.ir.node import Node


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides, in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


@dataclass(frozen=True)
class View:
    """Element (i0, i1, …) lies at offset + Σ i·stride of its storage; all in elements."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> View:
        return cls(shape, contiguous_strides(shape))

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def steps(self) -> tuple[int, ...]:
        """Strides; axes of size 1 do not move."""
        return tuple(0 if n == 1 else s for n, s in zip(self.shape, self.strides, strict=True))

    def is_same(self, other: View) -> bool:
        """Do the same indices lead to the same elements?"""
        return (self.shape, self.steps, self.offset) == (other.shape, other.steps, other.offset)

    @property
    def is_contiguous(self) -> bool:
        step = 1
        for size, stride in zip(reversed(self.shape), reversed(self.strides), strict=True):
            if size != 1 and stride != step:
                return False
            step *= size
        return True

    def permute(self, axes: tuple[int, ...]) -> View:
        return View(tuple(self.shape[a] for a in axes), tuple(self.strides[a] for a in axes), self.offset)

    def inverse_permute(self, axes: tuple[int, ...]) -> View:
        back = [0] * len(axes)
        for i, a in enumerate(axes):
            back[a] = i
        return self.permute(tuple(back))

    def expand(self, shape: tuple[int, ...]) -> View:
        strides = tuple(0 if old != new else s for old, new, s in zip(self.shape, shape, self.strides, strict=True))
        return View(shape, strides, self.offset)

    def slice(self, starts: tuple[int, ...], stops: tuple[int, ...], steps: tuple[int, ...]) -> View:
        shape = tuple(max(0, -(-(b - a) // s)) for a, b, s in zip(starts, stops, steps, strict=True))
        offset = self.offset + sum(a * s for a, s in zip(starts, self.strides, strict=True))
        return View(shape, tuple(s * k for s, k in zip(self.strides, steps, strict=True)), offset)

    def flip(self, axes: tuple[int, ...]) -> View:
        offset = self.offset + sum((self.shape[a] - 1) * self.strides[a] for a in axes)
        return View(self.shape, tuple(-s if a in axes else s for a, s in enumerate(self.strides)), offset)

    def window(
        self, shape: tuple[int, ...], axes: tuple[int, ...], steps: tuple[int, ...], dilations: tuple[int, ...]
    ) -> View:
        strides = list(self.strides)
        within = [strides[a] * d for a, d in zip(axes, dilations, strict=True)]
        for axis, step in zip(axes, steps, strict=True):
            strides[axis] *= step
        return View(shape, (*strides, *within), self.offset)

    def reshape(self, shape: tuple[int, ...]) -> View | None:
        """The same elements in another shape, or None where strides cannot say it."""
        if self.size == 0:
            return View(shape, contiguous_strides(shape), self.offset)
        old = [(n, s) for n, s in zip(self.shape, self.strides, strict=True) if n != 1]
        strides: list[int] = []
        at, block, step = len(old), 1, 1  # from the right: `block` elements of the current run are left to cover
        for size in reversed(shape):
            if size == 1:
                strides.append(0)
                continue
            if block == 1:
                at -= 1
                block, step = old[at]
            while block % size and at and old[at - 1][1] == block * step:
                at -= 1
                block *= old[at][0]
            if block % size:
                return None
            strides.append(step)
            block, step = block // size, step * size
        return View(shape, tuple(reversed(strides)), self.offset)

    def apply(self, node: Node) -> View | None:
        """This view of node.inputs[0] seen through `node`; None where only a copy can."""
        name, attrs = node.op.name, node.attrs
        if name == "reshape":
            return self.reshape(node.shape)
        if name == "permute":
            return self.permute(attrs["axes"])
        if name == "expand":
            return self.expand(node.shape)
        if name == "slice":
            return self.slice(attrs["starts"], attrs["stops"], attrs["steps"])
        if name == "flip":
            return self.flip(attrs["axes"])
        if name == "window":
            return self.window(node.shape, attrs["axes"], attrs["steps"], attrs["dilations"])
        return None

    def undo(self, node: Node) -> View | None:
        """Where node.inputs[0] must lie for `node`'s result to lie in this view."""
        if node.op.name == "reshape":
            return self.reshape(node.inputs[0].shape)
        if node.op.name == "permute":
            return self.inverse_permute(node.attrs["axes"])
        return None
