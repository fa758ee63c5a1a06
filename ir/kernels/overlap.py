"""Lowering of `unwindow`: windows are added to the base, in place, where they were taken from.

An axis with windows has two loops: over the places in a window, outside, and over the positions, inside, so that the
innermost loop adds a row to a row. The other axes are free: different positions on them never meet, so the longest is
the parallel loop. The order of additions is fixed.
"""

from __future__ import annotations

import math

from tinygrad_lite.ir.kernels.nest import Kernel, Let, Load, Loop, Pointer, Stmt, Store
from tinygrad_lite.ir.kernels.words import Address, Lowered, Word
from tinygrad_lite.ir.schedule.fuse import Group
from tinygrad_lite.ir.schedule.place import Placement


def lower_unwindow(group: Group, placement: Placement) -> Lowered:
    """The loop nest of one `unwindow`; its base already lies in the result's storage."""
    return _Overlap(group, placement).run()


class _Overlap:
    """Axes are the source's: the base's, then the windows' own."""

    def __init__(self, group: Group, placement: Placement) -> None:
        (self.node,) = group.nodes
        source = self.node.inputs[1]
        self.places = {"y": placement[self.node], "x": placement[source]}
        self.tag = self.node.dtype.short
        self.shape = source.shape
        ndim, axes = self.node.type.ndim, self.node.attrs["axes"]
        self.free = [a for a in range(ndim) if a not in axes]
        self.order = [*self.free, *range(ndim, len(self.shape)), *axes]
        self.strides = {"y": self._base_strides(), "x": list(self.places["x"].view.steps)}
        self.params: list[str] = []
        self.words: list[Word] = []
        for letter, place in self.places.items():
            self._word(f"{letter}_at", Address(place.owner, place.view.offset))

    def _base_strides(self) -> list[int]:
        attrs, strides = self.node.attrs, list(self.places["y"].view.strides)
        windows = []
        for axis, step, dilation in zip(attrs["axes"], attrs["steps"], attrs["dilations"], strict=True):
            windows.append(strides[axis] * dilation)
            strides[axis] *= step
        return [0 if n == 1 else s for n, s in zip(self.shape, [*strides, *windows], strict=True)]

    def _word(self, name: str, value: Word) -> str:
        self.params.append(name)
        self.words.append(value)
        return name

    def run(self) -> Lowered:
        parallel = max(self.free, key=lambda a: (self.shape[a], a), default=None)
        inner = max(self.node.attrs["axes"], key=lambda a: (self.strides["x"][a] == 1, a))
        outer = [a for a in self.order if a not in (inner, parallel)]
        body: list[Stmt] = [*self._pointers(inner), Loop("j", "0", self._size(inner), tuple(self._update(inner)))]
        for axis in reversed(outer):
            body = [Loop(f"i{axis}", "0", self._size(axis), tuple(body))]
        body = [Loop("r" if parallel is None else f"i{parallel}", "lo", "hi", tuple(body))]
        extent = 1 if parallel is None else self.shape[parallel]
        kernel = Kernel(tuple(self.params), tuple(body), "unwindow")
        x, y = self.places["x"].owner, self.places["y"].owner
        return Lowered(kernel, tuple(self.words), extent, (x, y), (y,), 3 * math.prod(self.shape))

    def _size(self, axis: int) -> str:
        return self._word(f"n{axis}", self.shape[axis])

    def _step(self, letter: str, axis: int) -> str:
        stride = self.strides[letter][axis]
        name = f"{letter}_step{axis}"
        return "1" if stride == 1 else name if name in self.params else self._word(name, stride)

    def _pointers(self, inner: int) -> list[Stmt]:
        pointers: list[Stmt] = []
        for letter in "xy":
            axes = [a for a in range(len(self.shape)) if a != inner and self.strides[letter][a]]
            terms = tuple((f"i{a}", self._step(letter, a)) for a in axes)
            pointers.append(Pointer(letter, self.tag, f"{letter}_at", terms))
        return pointers

    def _update(self, inner: int) -> list[Stmt]:
        x, y = (self._element(letter, inner) for letter in "xy")
        add = Let("s", f"{self.tag}({{0}} + {{1}})", ("u", "t"))
        return [Load("t", "x", x), Load("u", "y", y), add, Store("y", y, "s")]

    def _element(self, letter: str, axis: int) -> str:
        if not self.strides[letter][axis]:
            return "0"
        step = self._step(letter, axis)
        return "j" if step == "1" else f"j * {step}"
