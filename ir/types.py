"""Data types and tensor types: what a node's value is, without the value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np


@dataclass(frozen=True, eq=False)
class DType:
    """An element type. Instances are unique, so `is` compares them."""

    name: str
    short: str
    kind: str  # "b" bool, "u" unsigned, "i" signed, "f" floating
    itemsize: int

    @property
    def numpy(self) -> np.dtype:
        return np.dtype(self.name)

    @property
    def is_floating_point(self) -> bool:
        return self.kind == "f"

    @property
    def is_complex(self) -> bool:
        return False

    @property
    def is_signed(self) -> bool:
        return self.kind in "if"

    @property
    def is_half(self) -> bool:
        """float16 and bfloat16: 16 bits in memory, float32 in arithmetic, rounded once an operation."""
        return self.itemsize == 2 and self.kind == "f"

    @property
    def working(self) -> DType:
        """What arithmetic is done in."""
        return float32 if self.is_half else self

    def __repr__(self) -> str:
        return f"tinygrad_lite.{self.name}"

    def __reduce__(self) -> str | tuple[object, ...]:
        return (dtype_named, (self.name,))


bool_ = DType("bool", "b1", "b", 1)
uint8 = DType("uint8", "u8", "u", 1)
int8 = DType("int8", "i8", "i", 1)
int16 = DType("int16", "i16", "i", 2)
int32 = DType("int32", "i32", "i", 4)
int64 = DType("int64", "i64", "i", 8)
float16 = DType("float16", "f16", "f", 2)
bfloat16 = DType("bfloat16", "bf16", "f", 2)
float32 = DType("float32", "f32", "f", 4)
float64 = DType("float64", "f64", "f", 8)

DTYPES = (bool_, uint8, int8, int16, int32, int64, float16, bfloat16, float32, float64)
_BY_NAME = {d.name: d for d in DTYPES} | {d.short: d for d in DTYPES}


def dtype_named(name: str) -> DType:
    """The dtype called `name` ("float32" or "f32"); TypeError if there is none."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise TypeError(f"no dtype {name!r}; there are {', '.join(d.name for d in DTYPES)}") from None


def dtype_of(array_dtype: object) -> DType:
    """The dtype of a NumPy dtype; TypeError if the project has no counterpart."""
    return dtype_named(np.dtype(array_dtype).name)  # type: ignore[call-overload]


def limits(dtype: DType) -> Any:
    """NumPy's finfo or iinfo of a dtype. TypeError for bool."""
    if dtype is bfloat16:
        finfo: Any = ml_dtypes.finfo  # without type information
        return finfo(ml_dtypes.bfloat16)
    return np.finfo(dtype.numpy) if dtype.kind == "f" else np.iinfo(dtype.numpy)


def wrapped(value: Any, dtype: DType) -> Any:
    """A Python integer modulo 2^bits of an integer dtype, as its arithmetic wraps around; other numbers as they are."""
    if dtype.kind not in "iu" or not isinstance(value, int):
        return value
    bits = 8 * dtype.itemsize
    value &= 2**bits - 1
    return value - 2**bits if dtype.kind == "i" and value >= 2 ** (bits - 1) else value


def filling(value: Any, dtype: DType) -> Any:
    """A Python number as an element of a dtype; small negative ones of unsigned dtypes wrap around.

    RuntimeError for integers out of range.
    """
    if dtype.kind in "iu":
        info = limits(dtype)
        if not (-info.max if dtype.kind == "u" else info.min) <= value <= info.max:
            raise RuntimeError(f"value {value} cannot be converted to type {dtype.name} without overflow")
        value = wrapped(int(value), dtype)
    return dtype.numpy.type(value).item()


def converted(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """`array` in another dtype; 16-bit floats are reached through float32, as in PyTorch and in kernels."""
    if array.dtype == bfloat16.numpy or (dtype.is_half and array.dtype != np.float32):
        array = array.astype(np.float32)  # ml_dtypes makes 0 of what an integer does not hold, NumPy wraps it around
    return array.astype(dtype.numpy)


@dataclass(frozen=True)
class TensorType:
    """dtype and shape; prints as f32[12,64]."""

    dtype: DType
    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.dtype.short}[{','.join(map(str, self.shape))}]"
