"""finfo and iinfo: the limits of dtypes as Python numbers."""

from __future__ import annotations

from dataclasses import dataclass

from tinygrad_lite.ir.types import DType
from tinygrad_lite.ir.types import limits as numpy_limits
from tinygrad_lite.ops.promote import get_default_dtype

__all__ = ["finfo", "iinfo"]


@dataclass(frozen=True, init=False)
class finfo:
    """Limits of a floating dtype, the default one if not given: numbers, and its name as `dtype`. TypeError for others.

    `tiny` and `smallest_normal` are one; `resolution` is the decimal step that the dtype surely tells apart.
    """

    resolution: float
    min: float
    max: float
    eps: float
    smallest_normal: float
    tiny: float
    bits: int
    dtype: str

    def __init__(self, type: DType | None = None) -> None:
        kind = get_default_dtype() if type is None else type
        if not isinstance(kind, DType) or kind.kind != "f":
            raise TypeError(f"finfo() requires a floating point input type, not {kind!r}")
        found = numpy_limits(kind)
        for name in ("min", "max", "eps", "smallest_normal", "tiny"):
            object.__setattr__(self, name, float(getattr(found, name)))
        object.__setattr__(self, "resolution", float(f"1e{-int(found.precision)}"))
        object.__setattr__(self, "bits", int(found.bits))
        object.__setattr__(self, "dtype", kind.name)


@dataclass(frozen=True, init=False)
class iinfo:
    """Limits of an integer dtype: numbers, and its name as `dtype`. TypeError for others."""

    min: int
    max: int
    bits: int
    dtype: str

    def __init__(self, type: DType) -> None:
        if not isinstance(type, DType) or type.kind not in "iu":
            raise TypeError(f"iinfo() requires an integer input type, not {type!r}")
        found = numpy_limits(type)
        for name in ("min", "max", "bits"):
            object.__setattr__(self, name, int(getattr(found, name)))
        object.__setattr__(self, "dtype", type.name)
