"""Leaves: arguments, states and constants of a graph."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Cost, Kind, Op, register
from tinygrad_lite.ir.record import record
from tinygrad_lite.ir.types import DType, TensorType


def _free(node: Node) -> Cost:
    return Cost(0, 0)


def _named_type(*, name: str, dtype: DType, shape: tuple[int, ...]) -> TensorType:
    return TensorType(dtype, tuple(shape))


def _no_value(**attrs: Any) -> None:
    raise RuntimeError("an input's value comes from the caller")


def _constant_type(*, data: tuple[Any, ...], dtype: DType, shape: tuple[int, ...]) -> TensorType:
    if len(data) != math.prod(shape):
        raise ValueError(f"constant: {len(data)} values do not fill shape {tuple(shape)}")
    return TensorType(dtype, tuple(shape))


def _constant_value(*, data: tuple[Any, ...], dtype: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.array(data, dtype.numpy).reshape(shape)


INPUT = register(Op("input", Kind.LEAF, _named_type, _no_value, cost=_free))
STATE = register(Op("state", Kind.LEAF, _named_type, _no_value, cost=_free))
CONSTANT = register(Op("constant", Kind.LEAF, _constant_type, _constant_value, cost=_free))


def input(name: str, dtype: DType, shape: tuple[int, ...]) -> Node:
    """An argument of a graph."""
    return Node(INPUT, (), {"name": name, "dtype": dtype, "shape": tuple(shape)}, TensorType(dtype, tuple(shape)))


def state(name: str, dtype: DType, shape: tuple[int, ...]) -> Node:
    """A value that outlives the run: a parameter, a buffer, optimiser or generator state."""
    return Node(STATE, (), {"name": name, "dtype": dtype, "shape": tuple(shape)}, TensorType(dtype, tuple(shape)))


def constant(value: Any, dtype: DType) -> Node:
    """A small constant (a Python scalar or array), kept in the graph as data."""
    array = np.asarray(value, dtype.numpy)
    return record(CONSTANT, data=tuple(array.ravel().tolist()), dtype=dtype, shape=array.shape)
