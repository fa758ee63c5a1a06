"""PyTorch's type promotion: bool < integer < float; tensors with axes outrank 0-d ones, and those Python scalars."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.types import DType, bool_, dtype_of, float32, int64

Scalar = bool | int | float
Operand = Node | Scalar

_RANK = {"b": 0, "u": 1, "i": 1, "f": 2}


_default: list[DType] = [float32]


def get_default_dtype() -> DType:
    """What Python floats become, and integers where a function needs floats: float32 unless set otherwise."""
    return _default[0]


def set_default_dtype(d: DType) -> None:
    """Let Python floats become `d`. TypeError unless it is a floating dtype."""
    if not isinstance(d, DType) or d.kind != "f":
        raise TypeError(f"only floating-point types are supported as the default type, got {d!r}")
    _default[0] = d


def promote_types(a: DType, b: DType) -> DType:
    """The smallest dtype to which both convert without changing category; floats outrank integers of any width."""
    if a is b:
        return a
    if _RANK[a.kind] != _RANK[b.kind]:
        return a if _RANK[a.kind] > _RANK[b.kind] else b
    if a.is_half or b.is_half:  # float16 and bfloat16 do not hold each other
        return float32 if a.is_half and b.is_half else (b if a.is_half else a)
    return dtype_of(np.promote_types(a.numpy, b.numpy))


def scalar_dtype(value: Scalar) -> DType:
    """The default dtype of a Python scalar."""
    if isinstance(value, bool):
        return bool_
    return int64 if isinstance(value, int) else _default[0]


def result_type(operands: Sequence[Operand]) -> DType:
    """The dtype that an operation on `operands` computes in."""
    tiers: list[DType | None] = [None, None, None]  # dimensioned, 0-d, Python scalar
    for operand in operands:
        if isinstance(operand, Node):
            tier, dtype = int(operand.type.ndim == 0), operand.dtype
        else:
            tier, dtype = 2, scalar_dtype(operand)
        known = tiers[tier]
        tiers[tier] = dtype if known is None else promote_types(known, dtype)
    result: DType | None = None
    for found in tiers:
        if found is not None and (result is None or _RANK[found.kind] > _RANK[result.kind]):
            result = found
    if result is None:
        raise TypeError("result_type of no operands")
    return result
