"""function: what autograd.Function records, a value whose gradient is the user's own.

The registered op stands in text and in what is read back from it, where that gradient is not: its rule refuses. Each
call of a Function records under a copy of the op with a rule of its own (tinygrad_lite/autograd/function.py).
"""

from __future__ import annotations

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind, Op, only_bytes, register
from tinygrad_lite.ir.types import TensorType


def _infer(value: TensorType, *read: TensorType, name: str) -> TensorType:
    return value


def _refuse(g: Node, node: Node, i: int) -> Node:
    raise RuntimeError(
        f"function: the gradient of {node.attrs['name']} at {node.location} is Python code, which a graph's text does "
        "not hold"
    )


FUNCTION = register(
    Op("function", Kind.ELEMENTWISE, _infer, lambda value, *read, name: value, _refuse, "{0}", only_bytes)
)
