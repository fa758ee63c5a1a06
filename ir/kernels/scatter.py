"""Lowering of scatters: the source's elements are added to, or put into, indexed places of the base, in place.

Axes that the index does not choose are free: different positions on them never meet, so one of them is the parallel
loop. The others run in order, which makes sums reproducible and lets the last of repeated assignments stand.
"""

from __future__ import annotations

import math

from tinygrad_lite.ir.kernels.nest import Kernel, Let, Load, Loop, Pointer, Stmt, Store
from tinygrad_lite.ir.kernels.words import Address, Lowered, Word
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.schedule.fuse import Group
from tinygrad_lite.ir.schedule.place import Placement

_COMBINE = {"add": "{0} + {1}", "mul": "{0} * {1}", "max": "maximum({0}, {1})", "min": "minimum({0}, {1})"}


def lower_scatter(group: Group, placement: Placement) -> Lowered:
    """The loop nest of one scatter_add, put, put_along or put_along_…, whose base lies in the result's storage."""
    return _Scatter(group.nodes[0], placement).run()


class _Scatter:
    def __init__(self, node: Node, placement: Placement) -> None:
        self.node = node
        _, index, source = node.inputs
        self.places = {"y": placement[node], "x": placement[source], "i": placement[index]}
        self.tags = {"y": node.dtype.short, "x": source.dtype.short, "i": index.dtype.short}
        self.shape = source.shape or (1,)
        self.params: list[str] = []
        self.words: list[Word] = []
        self.free = self._strides()
        for letter, place in self.places.items():
            self._word(f"{letter}_at", Address(place.owner, place.view.offset))

    def _word(self, name: str, value: Word) -> str:
        self.params.append(name)
        self.words.append(value)
        return name

    def _strides(self) -> set[int]:
        """Strides of result, source and index over the source's axes; returns the free axes."""
        axis = self.node.attrs["axis"]
        out, source, index = (list(self.places[k].view.steps) for k in "yxi")
        self.by = self.places["y"].view.strides[axis]
        if self.node.op.name.startswith("put_along"):
            self.strides = {"y": [0 if a == axis else s for a, s in enumerate(out)], "x": source, "i": index}
            return set(range(len(self.shape))) - {axis}
        wide = len(index)
        tail = len(out) - axis - 1
        along = [0] * axis + index + [0] * tail
        self.strides = {"y": out[:axis] + [0] * wide + out[axis + 1 :], "x": source, "i": along}
        if not self.node.inputs[2].shape:
            self.strides = {k: [0] for k in "yxi"}
            return set()
        return set(range(len(self.shape))) - set(range(axis, axis + wide))

    def run(self) -> Lowered:
        last = len(self.shape) - 1
        parallel = max(self.free, key=lambda a: (self.shape[a], a), default=None)
        index = [f"i{a}" for a in range(last)] + ["j"]
        body: list[Stmt] = [Loop("j", *self._bounds(last, parallel), tuple(self._inner(index)))]
        if not self.strides["i"][last]:  # one index serves the whole inner loop
            loop = Loop("j", *self._bounds(last, parallel), tuple(self._update("j")))
            body = [*self._place(index, inner=False), loop]
        for a in reversed(range(last)):
            if a != parallel:
                body = [Loop(index[a], *self._bounds(a, parallel), tuple(body))]
        if parallel is None:
            body = [Loop("r", "lo", "hi", tuple(body))]
        elif parallel != last:
            body = [Loop(index[parallel], "lo", "hi", tuple(body))]
        extent = 1 if parallel is None else self.shape[parallel]
        kernel = Kernel(tuple(self.params), tuple(body), self.node.op.name)
        owners = {k: p.owner for k, p in self.places.items()}
        reads = (owners["x"], owners["i"], owners["y"])
        return Lowered(kernel, tuple(self.words), extent, reads, (owners["y"],), 3 * math.prod(self.shape))

    def _bounds(self, axis: int, parallel: int | None) -> tuple[str, str]:
        if axis == parallel:
            return "lo", "hi"
        name = f"n{axis}"
        return "0", name if name in self.params else self._word(name, self.shape[axis])

    def _terms(self, letter: str, index: list[str], inner: bool) -> tuple[tuple[str, str], ...]:
        axes = range(len(self.shape) if inner else len(self.shape) - 1)
        return tuple((index[a], self._step(letter, a)) for a in axes if self.strides[letter][a])

    def _step(self, letter: str, axis: int) -> str:
        stride = self.strides[letter][axis]
        name = f"{letter}_step{axis}"
        return "1" if stride == 1 else name if name in self.params else self._word(name, stride)

    def _place(self, index: list[str], inner: bool) -> list[Stmt]:
        """Pointers to the source and to the indexed place of the result."""
        by = "1" if self.by == 1 else "y_by" if "y_by" in self.params else self._word("y_by", self.by)
        return [
            Pointer("p", self.tags["i"], "i_at", self._terms("i", index, inner)),
            Load("at", "p", "0"),
            Pointer("x", self.tags["x"], "x_at", self._terms("x", index, inner)),
            Pointer("y", self.tags["y"], "y_at", (*self._terms("y", index, inner), ("at", by))),
        ]

    def _inner(self, index: list[str]) -> list[Stmt]:
        return [*self._place(index, inner=True), *self._update(None)]

    def _update(self, var: str | None) -> list[Stmt]:
        last = len(self.shape) - 1
        x, y = (self._element(k, last, var) for k in "xy")
        combine = _COMBINE.get(self.node.op.name.rpartition("_")[2])
        if combine is None:
            return [Load("t", "x", x), Store("y", y, "t")]
        new = Let("s", f"{self.tags['y']}({combine})", ("u", "t"))
        return [Load("t", "x", x), Load("u", "y", y), new, Store("y", y, "s")]

    def _element(self, letter: str, axis: int, var: str | None) -> str:
        if var is None or not self.strides[letter][axis]:
            return "0"
        step = self._step(letter, axis)
        return var if step == "1" else f"{var} * {step}"
