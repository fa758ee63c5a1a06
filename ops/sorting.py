"""Order: where sorted elements come from, and where elements would go in a sorted row, with their kernels.

Only indices are ops: sorted values are taken by them, and gradients follow. Among floats NaN is the greatest.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_lite.ir.native import Native, NativeWord, Operand, Result, Workspace, native
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Cost, Kind, Op, moved_bytes, register
from tinygrad_lite.ir.record import record
from tinygrad_lite.ir.types import TensorType, int64
from tinygrad_lite.ops import indexing, movement

Array = np.ndarray[Any, Any]

# ---- argsort ----------------------------------------------------------------------------------------


def _infer_argsort(x: TensorType, *, descending: bool) -> TensorType:
    if not x.ndim:
        raise RuntimeError(f"argsort: needs a last axis to sort along, got {x}")
    return TensorType(int64, x.shape)


def _argsort(x: Array, *, descending: bool) -> Array:
    if not descending:
        return np.argsort(x, axis=-1, kind="stable")
    # Stable and with NaN first: sort the reversed rows, then reverse the order found.
    order: Array = x.shape[-1] - 1 - np.argsort(x[..., ::-1], axis=-1, kind="stable")
    return np.ascontiguousarray(order[..., ::-1])


def _before(first: str, second: str, floating: bool, descending: bool = False) -> str:
    """Must `first` come before `second`?"""
    sign = ">" if descending else "<"
    less = f"{first} {sign} {second}"
    if not floating:
        return f"({less})"
    a, b = (first, second) if descending else (second, first)  # a may be a NaN that b is to be apart from
    return f"(({less}) or ({a} != {a} and {b} == {b}))"


_MERGE_SORT = """
count = n
for r in range(lo, hi):
    row = {tag}_at(x + {size} * r * n)
    source, target = y + 8 * r * n, space
    order = i64_at(source)
    for i in range(n):
        order[i] = i
    width = 1
    while width < count:
        p, q = i64_at(source), i64_at(target)
        left = 0
        while left < count:
            middle, right = minimum(left + width, count), minimum(left + 2 * width, count)
            i, j = left, middle
            for k in range(left, right):
                second = i >= middle
                if i < middle and j < right:
                    second = {before}
                if second:
                    q[k] = p[j]
                    j += 1
                else:
                    q[k] = p[i]
                    i += 1
            left = right
        source, target = target, source
        width = 2 * width
    p, q = i64_at(source), i64_at(y + 8 * r * n)
    for i in range(n):
        q[i] = p[i]
"""


def _native_argsort(node: Node) -> Native:
    x, n = node.inputs[0].type, node.shape[-1]
    before = _before("row[p[j]]", "row[p[i]]", x.dtype.kind == "f", node.attrs["descending"])
    body = _MERGE_SORT.format(tag=x.dtype.short, size=x.dtype.itemsize, before=before)
    words: dict[str, NativeWord] = {"x": Operand(0), "y": Result(), "n": n, "space": Workspace(8 * n)}
    return native(body, words, math.prod(x.shape[:-1]) if n else 0, 8 * _comparisons(node))


def _comparisons(node: Node) -> int:
    return node.type.size * max(1, node.shape[-1].bit_length())


ARGSORT = register(
    Op(
        "argsort",
        Kind.OPAQUE,
        _infer_argsort,
        _argsort,
        cost=lambda node: Cost(_comparisons(node), moved_bytes(node)),
        native=_native_argsort,
    )
)

# ---- searchsorted -----------------------------------------------------------------------------------


def _infer_searchsorted(edges: TensorType, values: TensorType, *, right: bool) -> TensorType:
    fits = edges.ndim == values.ndim >= 1 and edges.shape[:-1] == values.shape[:-1]
    if not fits or edges.dtype is not values.dtype:
        raise RuntimeError(f"searchsorted: needs rows of one dtype and number, got edges {edges} and values {values}")
    return TensorType(int64, values.shape)


def _searchsorted(edges: Array, values: Array, *, right: bool) -> Array:
    out = np.empty(values.shape, np.int64)
    for row in np.ndindex(values.shape[:-1]):
        out[row] = np.searchsorted(edges[row], values[row], "right" if right else "left")
    return out


_BISECT = """
for t in range(lo, hi):
    row = {tag}_at(x + {size} * (t // m) * n)
    value = {tag}_at(v)[t]
    low, high = 0, n
    while low < high:
        middle = (low + high) // 2
        edge = row[middle]
        if {passed}:
            low = middle + 1
        else:
            high = middle
    i64_at(y)[t] = low
"""


def _native_searchsorted(node: Node) -> Native:
    edges, floating = node.inputs[0].type, node.inputs[0].dtype.kind == "f"
    passed = f"not {_before('value', 'edge', floating)}" if node.attrs["right"] else _before("edge", "value", floating)
    body = _BISECT.format(tag=edges.dtype.short, size=edges.dtype.itemsize, passed=passed)
    words: dict[str, NativeWord] = {
        "x": Operand(0),
        "v": Operand(1),
        "y": Result(),
        "n": edges.shape[-1],
        "m": node.shape[-1],
    }
    return native(body, words, node.type.size, 8 * _bisections(node))


def _bisections(node: Node) -> int:
    return node.type.size * max(1, node.inputs[0].shape[-1].bit_length())


SEARCHSORTED = register(
    Op(
        "searchsorted",
        Kind.OPAQUE,
        _infer_searchsorted,
        _searchsorted,
        cost=lambda node: Cost(_bisections(node), moved_bytes(node)),
        native=_native_searchsorted,
    )
)

# ---- builders ---------------------------------------------------------------------------------------


def argsort(x: Node, axis: int = -1, descending: bool = False) -> Node:
    """int64 indices that sort along `axis`, equals in their order; a scalar's is 0."""
    if not x.type.ndim:
        movement.normalize_axis(axis, 0)
        return movement.reshape(argsort(movement.reshape(x, (1,)), 0, descending), ())
    axis = movement.normalize_axis(axis, x.type.ndim)
    last = x.type.ndim - 1
    return movement.move_axis(record(ARGSORT, movement.move_axis(x, axis, last), descending=descending), last, axis)


def sort(x: Node, axis: int = -1, descending: bool = False) -> tuple[Node, Node]:
    """(values, indices) sorted along `axis`."""
    order = argsort(x, axis, descending)
    if not x.type.ndim:
        return x, order
    return record(indexing.TAKE_ALONG, x, order, axis=movement.normalize_axis(axis, x.type.ndim)), order


def searchsorted(edges: Node, values: Node, right: bool = False) -> Node:
    """How many of the sorted `edges` (one row, or as many as `values`) lie below each value, or with `right` are it."""
    if edges.type.ndim == 1:
        flat = record(SEARCHSORTED, edges, movement.reshape(values, (values.type.size,)), right=right)
        return movement.reshape(flat, values.shape)
    return record(SEARCHSORTED, edges, values, right=right)
