"""Groups as calls: for each the kernel's source, its words, and what it touches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from tinygrad_lite.backends.numba import blas, cpu, packed
from tinygrad_lite.backends.numba.emit import emit
from tinygrad_lite.ir.kernels.attention import lower_attention, merged_batch
from tinygrad_lite.ir.kernels.convolution import lower_convolution
from tinygrad_lite.ir.kernels.loop import lower_loop
from tinygrad_lite.ir.kernels.lower import lower
from tinygrad_lite.ir.kernels.nest import Kernel
from tinygrad_lite.ir.kernels.opaque import lower_opaque
from tinygrad_lite.ir.kernels.overlap import lower_unwindow
from tinygrad_lite.ir.kernels.scatter import lower_scatter
from tinygrad_lite.ir.kernels.words import Address, Check, Frame, Lowered, Scratch, Word
from tinygrad_lite.ir.native import Function
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.schedule.fuse import Group
from tinygrad_lite.ir.schedule.place import Place, Placement, is_virtual, root_of
from tinygrad_lite.ir.schedule.schedule import Schedule

GRAIN = 16  # flat loops are cut at whole cache lines of float32
SMALL_PRODUCT = 32 * 32 * 32  # below it packing costs more than it brings


@dataclass
class Call:
    """One instruction before it has addresses: a kernel's source, its words, and what it touches."""

    source: str
    words: tuple[Word, ...]
    extent: int
    reads: tuple[Node, ...]
    writes: tuple[Node, ...]
    work: int
    group: Group
    label: str
    grain: int = 1
    kernel: Kernel | None = None  # the loop nest that `source` was emitted from
    divisible: bool = True  # wherever it is cut at multiples of `grain`, its bits are the same
    parts: tuple[tuple[int, int], ...] = ()
    barrier: bool = False
    stop: bool = False  # after its barrier the run ends if the error cell is set
    frames: tuple[Frame, ...] = ()  # the loops it is in, from the outside in
    loop: Group | None = None  # the group of the outermost of them
    scratch: list[int] = field(default_factory=list)  # offsets in the arena

    @property
    def can_fail(self) -> bool:
        """May it set the error cell?"""
        return any(isinstance(w, Check) for w in self.words)


def products(group: Group, placement: Placement) -> Iterator[Call]:
    """A matrix product on the register tile, through BLAS, or by plain loops for integers.

    Several calls where there are more batch axes than a kernel has loops.
    """
    node = group.nodes[0]
    places = [placement[n] for n in (*node.inputs, node)]
    (m, k), n = node.inputs[0].shape[-2:], node.shape[-1]
    batch, strides = merged_batch([p.view.strides[:-2] for p in places], node.shape[:-2])
    outer = max(0, len(batch) - blas.BATCH_AXES)
    for index in np.ndindex(batch[:outer]):
        moves = [sum(i * s for i, s in zip(index, each, strict=False)) for each in strides]
        offsets = [p.view.offset + move for p, move in zip(places, moves, strict=True)]
        addresses = tuple(Address(p.owner, o) for p, o in zip(places, offsets, strict=True))
        yield _product(group, places, (m, n, k), addresses, batch[outer:], tuple(s[outer:] for s in strides))


def _product(
    group: Group,
    places: list[Place],
    shape: tuple[int, int, int],
    addresses: tuple[Any, ...],
    batch: tuple[int, ...],
    strides: Any,
) -> Call:
    node = group.nodes[0]
    matrix: Any = tuple(p.view.strides[-2:] for p in places)
    tag = node.dtype.short
    work = math.prod(node.shape) * shape[2] // 2  # BLAS does 100 FLOPs in a nanosecond
    owners = tuple(p.owner for p in places)
    words, sizes, kernel = _product_words(tag, shape, addresses, matrix, batch, strides)
    split, extent = _split_of(math.prod(batch), *sizes)
    ours = kernel is packed.packed_kernel
    return Call(
        kernel(split), tuple(words), extent, owners[:2], owners[2:], work, group, f"matmul_{split}",
        grain=packed.grain(split) if ours else 1, divisible=ours,
    )  # fmt: skip


def _product_words(
    tag: str, shape: tuple[int, int, int], addresses: tuple[Any, ...], matrix: Any, batch: tuple[int, ...], strides: Any
) -> tuple[list[Any], tuple[int, int], Callable[[str], str]]:
    """Words, rows and columns, and source by split of the fastest kernel that takes these strides."""
    m, n, k = shape
    if tag == "f32" and m * n * k >= SMALL_PRODUCT:
        packed_words = packed.packed_words(shape, addresses, matrix, batch, strides, Scratch)
        if packed_words is not None:
            return *packed_words, packed.packed_kernel
    if tag in ("f32", "f64"):
        gemm = blas.blas_address("sgemm" if tag == "f32" else "dgemm")
        found = blas.gemm_words(gemm, shape, addresses, matrix, batch, strides)
        if found is not None:
            words = found[0]
            return words, (words[3], words[4]), partial(blas.matmul_kernel, tag)
    words = blas.strided_words(shape, addresses, matrix, batch, strides)
    return words, (m, n), partial(blas.strided_matmul_kernel, tag)


def _split_of(batch: int, rows: int, columns: int) -> tuple[str, int]:
    """Whole products where there are many, else the longer side of the result."""
    if batch >= 8:
        return "batch", batch
    return ("rows", rows) if rows >= columns else ("cols", columns)


def calls_of(plan: Schedule) -> list[Call]:
    """Every group as a call."""
    calls: list[Call] = []
    for group in plan.groups:
        if group.kind == "matmul":
            calls += products(group, plan.placement)
            continue
        if group.kind in ("attention", "convolution"):
            calls.append(_written(group, plan.placement))
            continue
        if group.kind == "scan":
            calls += _loop(group, plan.placement)
            continue
        if group.kind == "opaque":
            calls.append(_opaque(group, plan.placement))
            continue
        calls.append(_call(_lowered(group, plan), group))
    return [c for c in calls if c.extent]


def _written(group: Group, placement: Placement) -> Call:
    """A kernel that is source already."""
    is_attention = group.kind == "attention"
    low = lower_attention(group, placement) if is_attention else lower_convolution(group, placement, cpu.lanes())
    return Call(low.source, low.words, low.extent, low.reads, low.writes, low.work, group, low.label)


def _loop(group: Group, placement: Placement) -> list[Call]:
    """The calls of a loop's body, in terms of the storages around the loop."""
    body = lower_loop(group.nodes[0], placement)
    if not body.frame.length:
        return []
    return [
        replace(
            call,
            words=tuple(map(body.word, call.words)),
            reads=tuple(map(body.owner, call.reads)),
            writes=tuple(map(body.owner, call.writes)),
            frames=(body.frame, *call.frames),
            loop=group,
        )
        for call in calls_of(body.schedule)
    ]


def _opaque(group: Group, placement: Placement) -> Call:
    """The op's own kernel, with the addresses of the library functions that it calls."""
    node = group.nodes[0]
    kernel, words = lower_opaque(node, placement)
    known = tuple(blas.library_address(w.name) if isinstance(w, Function) else w for w in words)
    reads = tuple({id(p.owner): p.owner for p in (placement[i] for i in node.inputs)}.values())
    writes = (placement[node].owner,)
    return Call(kernel.source, known, kernel.extent, reads, writes, kernel.work, group, node.op.name)


def _lowered(group: Group, plan: Schedule) -> Lowered:
    if group.kind != "scatter":
        return lower(group, plan.placement, plan.home | plan.over)
    return (lower_unwindow if group.nodes[0].op.name == "unwindow" else lower_scatter)(group, plan.placement)


def _call(low: Lowered, group: Group) -> Call:
    source = emit(low.kernel)
    grain = GRAIN if "for r in" not in source else 1
    return Call(
        source, low.words, low.extent, low.reads, low.writes, low.work, group, low.kernel.label, grain, low.kernel
    )


def costs_of(call: Call) -> tuple[int, int]:
    """FLOPs of a call's group, and the bytes that cross its border: each operand and each stored result once.

    What it reads of a larger storage is what its operands hold, at most the storage; a gather reads its result's size.
    """
    group = call.group
    inside = {id(n) for n in group.nodes}
    read: dict[int, int] = {}
    for node, operand in _outside(group.nodes, inside):
        root = root_of(operand)
        size = min(operand.type.nbytes, root.type.nbytes)
        if node.op.name in ("gather", "take_along") and operand is node.inputs[0]:
            size = min(size, node.type.nbytes)
        read[id(root)] = max(size, read.get(id(root), 0))
    written = sum(n.type.nbytes for n in group.stored or group.nodes[-1:])
    return sum(n.op.cost(n).flops for n in group.nodes), sum(read.values()) + written


def _outside(nodes: list[Node], inside: set[int]) -> Iterator[tuple[Node, Node]]:
    for node in nodes:
        for operand in node.inputs:
            root = root_of(operand)
            if id(root) not in inside and not is_virtual(root):
                yield node, operand
