"""graft: one operand's value with another's history, for in-place writes outside autograd to a tensor that has one."""

from __future__ import annotations

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind, Op, only_bytes, register
from tinygrad_lite.ir.record import record
from tinygrad_lite.ir.types import TensorType


def _infer(value: TensorType, history: TensorType) -> TensorType:
    if value != history:
        raise TypeError(f"graft: operands must have one type, got {value} and {history}")
    return value


GRAFT = register(
    Op(
        "graft",
        Kind.ELEMENTWISE,
        _infer,
        lambda value, history: value,
        lambda g, n, i: g if i == 1 else None,
        "{0}",
        only_bytes,
    )
)


def graft(value: Node, history: Node) -> Node:
    """`value`, whose gradient flows to `history` alone."""
    return record(GRAFT, value, history)
