"""Ops that make values from attributes alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind, Op, only_bytes, register
from tinygrad_lite.ir.record import record
from tinygrad_lite.ir.types import DType, TensorType, converted, float32
from tinygrad_lite.ops.promote import Scalar, scalar_dtype

Array = np.ndarray[Any, Any]


def _infer_full(*, value: Scalar, shape: tuple[int, ...], dtype: DType) -> TensorType:
    if any(s < 0 for s in shape):
        raise RuntimeError(f"full: negative size in shape {list(shape)}")
    return TensorType(dtype, shape)


def _full(*, value: Scalar, shape: tuple[int, ...], dtype: DType) -> Array:
    return converted(np.full(shape, value, dtype.working.numpy), dtype)


def _infer_arange(*, start: Scalar, step: Scalar, size: int, dtype: DType) -> TensorType:
    if size < 0 or dtype.kind == "b":
        raise ValueError(f"arange: size {size} and dtype {dtype!r} do not make a range")
    return TensorType(dtype, (size,))


def _arange(*, start: Scalar, step: Scalar, size: int, dtype: DType) -> Array:
    """start + i step, in int64 or float64, rounded once."""
    return converted(start + step * np.arange(size), dtype)


FULL = register(Op("full", Kind.CREATE, _infer_full, _full, cost=only_bytes))
ARANGE = register(Op("arange", Kind.CREATE, _infer_arange, _arange, cost=only_bytes))


def full(shape: Sequence[int], value: Scalar, dtype: DType | None = None) -> Node:
    """A tensor of one value; the dtype defaults to the value's."""
    return record(FULL, value=value, shape=tuple(map(int, shape)), dtype=dtype or scalar_dtype(value))


def zeros(shape: Sequence[int], dtype: DType = float32) -> Node:
    return full(shape, dtype.numpy.type(0).item(), dtype)


def ones(shape: Sequence[int], dtype: DType = float32) -> Node:
    return full(shape, dtype.numpy.type(1).item(), dtype)


def zeros_like(x: Node) -> Node:
    return zeros(x.shape, x.dtype)


def arange(start: Scalar, stop: Scalar | None = None, step: Scalar = 1, dtype: DType | None = None) -> Node:
    """start, start + step, … before stop; arange(n) counts from 0. int64 unless a float is given."""
    start, stop = (0, start) if stop is None else (start, stop)
    if step == 0:
        raise RuntimeError("arange: step must be nonzero")
    if not all(map(math.isfinite, (start, stop, step))):
        raise RuntimeError(f"arange: start, stop and step must be finite, got {start}, {stop} and {step}")
    if (stop - start) * step < 0:
        raise RuntimeError(f"arange: {start} to {stop} is not reached by steps of {step}")
    if dtype is None:
        dtype = scalar_dtype(start + stop + step)
    return record(ARANGE, start=start, step=step, size=math.ceil((stop - start) / step), dtype=dtype)
