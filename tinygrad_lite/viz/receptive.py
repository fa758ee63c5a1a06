"""Receptive fields over a graph: how far the windows behind each value reach, and how far apart they lie.

After Araujo, Norris and Sim, "Computing Receptive Fields of Convolutional Neural Networks", Distill 2019.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node


class Field(NamedTuple):
    """Elements of the input that one element sees, and the input's elements from one to the next; one entry an axis."""

    size: tuple[int, ...]
    jump: tuple[float, ...]

    def __str__(self) -> str:
        sizes, jumps = set(self.size), set(self.jump)
        size = str(self.size[0]) if len(sizes) == 1 else "×".join(map(str, self.size))
        jump = f"{self.jump[0]:g}" if len(jumps) == 1 else "×".join(f"{j:g}" for j in self.jump)
        return f"{size} / {jump}"


class Step(NamedTuple):
    """How a module's windows move over its input; one entry an axis. `up`: the transpose of that."""

    source: Node
    sizes: tuple[int, ...]
    steps: tuple[int, ...]
    dilations: tuple[int, ...]
    up: bool = False


def fields(graph: Graph, known: dict[int, Step] | None = None) -> dict[int, Field]:
    """id(node) → its Field, for what lies behind a window of a convolution or pool. Where branches meet: the larger.

    `known` has the results of modules that say themselves how their windows move: id(result) → Step.
    """
    found: dict[int, Field] = {}
    for node in graph.nodes:
        step = (known or {}).get(id(node))
        behind = [found[id(i)] for i in node.inputs if id(i) in found]
        field = _largest(behind) if behind else None
        if step is not None:
            field = _moved(found.get(id(step.source)), step)
        elif node.op.name in ("window", "unwindow"):
            attrs = node.attrs
            moves = (attrs["sizes"], attrs["steps"], attrs["dilations"])
            field = _moved(field, Step(node, *moves, up=node.op.name == "unwindow"))
        if field is not None:
            found[id(node)] = field
    return found


def _largest(known: list[Field]) -> Field:
    rank = max(len(f.size) for f in known)
    fitting = [f for f in known if len(f.size) == rank]
    sizes = zip(*(f.size for f in fitting), strict=True)
    return Field(tuple(map(max, sizes)), tuple(map(max, zip(*(f.jump for f in fitting), strict=True))))


def _moved(field: Field | None, step: Step) -> Field:
    """Through a window the field grows by its reach; through overlap-add the steps get finer first."""
    rank = len(step.sizes)
    if field is None or len(field.size) != rank:
        field = Field((1,) * rank, (1.0,) * rank)
    jump = tuple(j / s for j, s in zip(field.jump, step.steps, strict=True)) if step.up else field.jump
    reach = [(k - 1) * d * j for k, d, j in zip(step.sizes, step.dilations, jump, strict=True)]
    size = tuple(int(f + r) for f, r in zip(field.size, reach, strict=True))
    return Field(size, jump if step.up else tuple(j * s for j, s in zip(jump, step.steps, strict=True)))


def step_of(module: Any, source: Node, rank: int) -> Step | None:
    """The Step of a convolution or pool, by its attributes; None for other modules."""
    sizes = _each(getattr(module, "kernel_size", None), rank)
    if sizes is None:
        return None
    steps = _each(getattr(module, "stride", None), rank) or sizes
    dilations = _each(getattr(module, "dilation", 1), rank) or (1,) * rank
    return Step(source, sizes, steps, dilations, "Transpose" in type(module).__name__)


def _each(value: Any, rank: int) -> tuple[int, ...] | None:
    if isinstance(value, int):
        return (value,) * rank
    if isinstance(value, tuple) and len(value) == rank and all(isinstance(v, int) for v in value):
        return value
    return None
