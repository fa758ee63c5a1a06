"""PyTorch's words for memory layouts. No value depends on them; tensors keep the layout that operations give."""

from __future__ import annotations

import enum


class _Named(enum.Enum):
    def __repr__(self) -> str:
        return f"tinygrad_lite.{self.name}"

    __str__ = __repr__


class layout(_Named):
    """How elements are kept: one by one, at strides."""

    strided = enum.auto()


class memory_format(_Named):
    """The order of axes that `contiguous`, `clone` and `to` may be asked for: they take it, and change nothing."""

    contiguous_format = enum.auto()
    preserve_format = enum.auto()
    channels_last = enum.auto()
    channels_last_3d = enum.auto()
