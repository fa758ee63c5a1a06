"""FloatTensor, LongTensor and the like: what old code calls to make tensors, and asks types by."""

from __future__ import annotations

from typing import Any

from tinygrad_lite import creation
from tinygrad_lite.handle import Tensor, wrap
from tinygrad_lite.ir.types import DTYPES, DType

_NAMES = {
    "bool": "BoolTensor",
    "uint8": "ByteTensor",
    "int8": "CharTensor",
    "int16": "ShortTensor",
    "int32": "IntTensor",
    "int64": "LongTensor",
    "float16": "HalfTensor",
    "bfloat16": "BFloat16Tensor",
    "float32": "FloatTensor",
    "float64": "DoubleTensor",
}

__all__ = list(_NAMES.values())


class _OfDtype(type):
    """Of a class that has tensors of one dtype as instances, and makes them: of sizes (zeros), or of a sequence."""

    dtype: DType

    def __call__(cls, *data: Any) -> Tensor:
        return wrap(creation.legacy(data, cls.dtype))

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Tensor) and value.dtype is cls.dtype


globals().update({_NAMES[d.name]: _OfDtype(_NAMES[d.name], (), {"dtype": d}) for d in DTYPES})
_KINDS = {_NAMES[d.name]: d for d in DTYPES}


def name_of(dtype: DType) -> str:
    """What `Tensor.type()` calls the tensors of a dtype."""
    return f"tinygrad_lite.{_NAMES[dtype.name]}"


def dtype_of_name(kind: Any) -> Any:
    """The dtype behind LongTensor or "torch.LongTensor"; anything else as it is."""
    if isinstance(kind, _OfDtype):
        return kind.dtype
    return _KINDS.get(kind.rpartition(".")[2], kind) if isinstance(kind, str) else kind
