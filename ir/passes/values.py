"""What passes know about a node's value without running it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_lite.ir.equality import value_key
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.rewrite import build
from tinygrad_lite.ir.types import DType, converted, float32
from tinygrad_lite.ops.create import FULL
from tinygrad_lite.ops.leaf import CONSTANT

_KEEPS_UNIFORM = frozenset({"reshape", "expand", "permute", "slice", "flip", "window"})


def uniform(node: Node) -> Any:
    """The Python scalar that every element of `node` is, where that is plain to see; else None."""
    while node.op.name in _KEEPS_UNIFORM:
        node = node.inputs[0]
    if node.op.name == "full":
        return rounded(node.attrs["value"], node.type.dtype)
    if node.op.name == "constant":
        data = node.attrs["data"]
        return data[0] if len({value_key(v) for v in data}) == 1 else None
    return None


def is_uniform(node: Node, value: Any) -> bool:
    """Is every element the number `value`, sign of zero included?"""
    found = uniform(node)
    return found is not None and value_key(found) == value_key(type(found)(value))


def rounded(value: Any, dtype: DType) -> Any:
    """`value` as a Python scalar that `dtype` holds exactly."""
    with np.errstate(all="ignore"):
        return converted(np.asarray(value), dtype).item()


def full(value: Any, shape: tuple[int, ...], dtype: DType) -> Node:
    """The canonical node of a value that is the same throughout: a scalar `constant`, or `full` of any other shape."""
    if shape == ():
        return build(CONSTANT, data=(rounded(value, dtype),), dtype=dtype, shape=())
    return build(FULL, value=_shortest(value, dtype), shape=shape, dtype=dtype)


def _shortest(value: Any, dtype: DType) -> Any:
    """Of the decimals that round to the same float32 the shortest: 0.1, not 0.10000000149011612."""
    if dtype is not float32:
        return rounded(value, dtype)
    with np.errstate(all="ignore"):
        return float(str(np.float32(value)))
