"""Padding layers: `padding` is one amount for every side, or (before, after) pairs, the last axis first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygrad_lite import functional as F
from tinygrad_lite.nn.module import Module
from tinygrad_lite.tensor import Tensor


class _Pad(Module):
    """Pads the last `dims` axes."""

    dims: int
    mode: str

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        amounts = (padding,) * (2 * self.dims) if isinstance(padding, int) else tuple(padding)
        if len(amounts) != 2 * self.dims:
            raise ValueError(f"{type(self).__name__}: padding must be an int or {2 * self.dims} ints, got {padding}")
        self.padding = amounts

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: int | Sequence[int], value: Any) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_Pad):
    mode = "constant"


class _ReflectionPad(_Pad):
    mode = "reflect"


class _ReplicationPad(_Pad):
    mode = "replicate"


class _CircularPad(_Pad):
    mode = "circular"


class ConstantPad1d(_ConstantPad):
    """`value` around (N, C, L) or (C, L)."""

    dims = 1


class ConstantPad2d(_ConstantPad):
    """`value` around (N, C, H, W) or (C, H, W)."""

    dims = 2


class ConstantPad3d(_ConstantPad):
    """`value` around (N, C, D, H, W) or (C, D, H, W)."""

    dims = 3


class ZeroPad1d(_ZeroPad):
    """Zeros around (N, C, L) or (C, L)."""

    dims = 1


class ZeroPad2d(_ZeroPad):
    """Zeros around (N, C, H, W) or (C, H, W)."""

    dims = 2


class ZeroPad3d(_ZeroPad):
    """Zeros around (N, C, D, H, W) or (C, D, H, W)."""

    dims = 3


class ReflectionPad1d(_ReflectionPad):
    """Mirror images, without the edges, around (N, C, L) or (C, L)."""

    dims = 1


class ReflectionPad2d(_ReflectionPad):
    """Mirror images, without the edges, around (N, C, H, W) or (C, H, W)."""

    dims = 2


class ReflectionPad3d(_ReflectionPad):
    """Mirror images, without the edges, around (N, C, D, H, W) or (C, D, H, W)."""

    dims = 3


class ReplicationPad1d(_ReplicationPad):
    """The edges repeated around (N, C, L) or (C, L)."""

    dims = 1


class ReplicationPad2d(_ReplicationPad):
    """The edges repeated around (N, C, H, W) or (C, H, W)."""

    dims = 2


class ReplicationPad3d(_ReplicationPad):
    """The edges repeated around (N, C, D, H, W) or (C, D, H, W)."""

    dims = 3


class CircularPad1d(_CircularPad):
    """The other ends around (N, C, L) or (C, L)."""

    dims = 1


class CircularPad2d(_CircularPad):
    """The other ends around (N, C, H, W) or (C, H, W)."""

    dims = 2


class CircularPad3d(_CircularPad):
    """The other ends around (N, C, D, H, W) or (C, D, H, W)."""

    dims = 3
