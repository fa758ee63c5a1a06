"""Running a graph in every way there is: interpreted, compiled, and by un-jitted kernels in shuffled order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_lite.backends.numba.compiler import Kernels
from tinygrad_lite.backends.numba.plain import plain_kernel
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.kernels.verify import verify_kernel
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.schedule.memory import verify_plan
from tinygrad_lite.program import Program

Array = np.ndarray[Any, Any]


class PlainProgram(Program):
    """A Program whose kernels are Python functions. Between barriers the workers take turns in random order.

    Any interleaving that keeps each worker's own order may happen on real threads; a missing barrier shows as a wrong
    result under one of them.
    """

    def __init__(self, graph: Graph, workers: int | None = None, seed: int = 0) -> None:
        self.random = random.Random(seed)
        super().__init__(graph, workers)

    def _load(self) -> None:
        self.kernels = Kernels({c.source: 0 for c in self.calls})
        self.functions = {source: plain_kernel(source) for source in self.kernels}

    def _run_tape(self, turns: int) -> None:
        for _ in range(turns):
            self._turn()

    def _turn(self) -> None:
        waiting: list[list[int]] = [[] for _ in range(self.workers)]
        for row, (number, last) in enumerate(zip(self.tape.order[0], self.tape.order[2], strict=True)):
            call = self.calls[number]
            for queue in waiting:
                queue.append(row)
            if call.barrier:
                self._interleave(waiting)
            if call.stop and last and self.status[0]:
                return

    def _interleave(self, waiting: list[list[int]]) -> None:
        while any(waiting):
            worker = self.random.choice([w for w, queue in enumerate(waiting) if queue])
            row = waiting[worker].pop(0)
            i, further = self.tape.order[0][row], self.tape.order[1][row]
            low, high = self.calls[i].parts[worker]
            if low < high:
                words = self.tape.instructions[i].args_address + int(further)
                self.functions[self.calls[i].source](words, low, high, worker)


def verify_program(program: Program) -> None:
    """Kernels are well formed, and overlapping lives share no byte of the arena."""
    for call in program.calls:
        if call.kernel is not None:
            verify_kernel(call.kernel)
    verify_plan(program.lives, program.plan.offsets)


def is_exact(node: Node) -> bool:
    """Does the node's kernel give NumPy's bits? Dear functions are approximated, sums are taken in another order."""
    op = node.op
    if op.name == "scan":
        return all(is_exact(n) for n in node.attrs["body"].nodes)
    if node.dtype.kind != "f" and all(i.dtype.kind != "f" for i in node.inputs):
        return True
    if op.kind in (Kind.ELEMENTWISE, Kind.RANDOM):
        return op.name == "uniform" or "expensive" not in op.traits
    if op.kind is Kind.REDUCE:
        return op.name not in ("sum", "prod")
    moves = (Kind.LEAF, Kind.MOVEMENT, Kind.GATHER, Kind.CREATE)
    return op.kind in moves or op.name in ("put", "put_along", "slice_update")


def assert_same(graph: Graph, got: Sequence[Array], want: Sequence[Array]) -> None:
    """Equal bits (any NaN equals any other) if every op of the graph is exact, else close."""
    exact = all(is_exact(n) for n in graph.nodes)
    coarse = any(n.dtype.kind == "f" and n.dtype.itemsize <= 4 for n in graph.nodes)
    for g, w in zip(got, want, strict=True):
        assert (g.dtype, g.shape) == (w.dtype, w.shape)
        if exact or w.dtype.kind != "f":
            np.testing.assert_array_equal(g, w)
            if w.dtype.kind == "f":
                numbers = ~np.isnan(w)
                np.testing.assert_array_equal(np.signbit(g)[numbers], np.signbit(w)[numbers])
        else:
            rtol = 1e-5 if coarse else 1e-11
            finite = np.abs(w[np.isfinite(w)]).max(initial=1.0)
            np.testing.assert_allclose(g, w, rtol=rtol, atol=rtol * finite)
