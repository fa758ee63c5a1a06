"""What a kernel is called with: one int64 word a parameter, some of which become known only when memory is laid out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.kernels.nest import Kernel
from tinygrad_lite.ir.node import Node


@dataclass(frozen=True)
class Address:
    """A word: the address of an element of a node's storage."""

    owner: Node
    offset: int


@dataclass(frozen=True, eq=False)
class Frame:
    """A loop: how many steps it has, and its body as scheduled."""

    length: int
    graph: Graph


@dataclass(frozen=True, eq=False)
class Moving:
    """A word: an address that differs from step to step of the loops around, by `moves[turn]` elements for each."""

    owner: Node
    offset: int
    moves: tuple[tuple[Frame, Any], ...]


@dataclass(frozen=True)
class Scratch:
    """Two words: where workers' private rows lie, and the bytes from one worker to the next."""

    nbytes: int


@dataclass(frozen=True)
class Status:
    """A word: the address of the program's error cell."""


@dataclass(frozen=True)
class Check:
    """A word: what goes into the error cell when `node` finds a value it cannot take."""

    node: Node


Word = int | Address | Moving | Scratch | Status | Check


@dataclass(frozen=True)
class Lowered:
    """A kernel, its words, the extent of its parallel loop, what it reads and writes, and its work in FLOPs or so."""

    kernel: Kernel
    words: tuple[Word, ...]
    extent: int
    reads: tuple[Node, ...]  # owners of storages
    writes: tuple[Node, ...]
    work: int
