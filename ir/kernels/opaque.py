"""Lowering of opaque nodes: the op's own kernel, its words put in terms of places."""

from __future__ import annotations

from collections.abc import Iterator

from tinygrad_lite.ir.kernels.words import Address, Check, Scratch, Status, Word
from tinygrad_lite.ir.native import Failure, Function, Native, Operand, Result, Workspace
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.schedule.place import Place, Placement


def lower_opaque(node: Node, placement: Placement) -> tuple[Native, tuple[Word | Function, ...]]:
    """The kernel of an opaque node, and its words; functions of BLAS and LAPACK are left to the backend."""
    assert node.op.native is not None, f"{node.op.name} has no kernel"
    kernel = node.op.native(node)
    return kernel, tuple(_words(kernel, node, placement))


def _words(kernel: Native, node: Node, placement: Placement) -> Iterator[Word | Function]:
    words = iter(kernel.words)
    for word in words:
        if isinstance(word, Operand):
            yield _address(placement[node.inputs[word.position]])
        elif isinstance(word, Result):
            yield _address(placement[node])
        elif isinstance(word, Workspace):
            nbytes = -(-max(word.nbytes, 1) // 64) * 64
            yield from (Scratch(nbytes), nbytes)
            next(words)
        elif isinstance(word, Failure):
            yield from (Status(), Check(node))
            next(words)
        else:
            yield word


def _address(place: Place) -> Address:
    assert place.view.is_contiguous
    return Address(place.owner, place.view.offset)
