"""Tensors as text, the way PyTorch prints them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tinygrad_lite.ir.types import bool_, float32, int64

if TYPE_CHECKING:
    from tinygrad_lite.handle import Tensor

_PRECISION = 4
_THRESHOLD = 1000
_EDGE = 3


def to_text(x: Tensor) -> str:
    """tensor([[1., 2.]], dtype=…, requires_grad=True); a symbolic tensor shows its type."""
    node = x._current()
    if node.value is None:
        return f"tensor(<symbolic {node.type}>)"
    body = _body(node.value)
    notes = [f"size={tuple(node.shape)}"] if node.value.size == 0 and node.shape != (0,) else []
    if node.dtype not in (bool_, float32, int64) or (node.value.size == 0 and node.dtype is not float32):
        notes.append(f"dtype={node.dtype!r}")
    if x.grad_fn is not None:
        notes.append(f"grad_fn={x.grad_fn!r}")
    elif node.grad is not None:
        notes.append("requires_grad=True")
    return f"tensor({', '.join([body, *notes])})"


def _body(array: np.ndarray[Any, Any]) -> str:
    if array.size == 0:
        return "[]"
    if array.dtype.itemsize == 2 and array.dtype.kind in "fV":  # 16-bit floats
        array = array.astype(np.float32)
    shown = _formatter(array)
    if array.ndim == 0:
        return shown(array.item()).strip()
    text = np.array2string(
        array,
        separator=", ",
        prefix="tensor(",
        max_line_width=80,
        threshold=_THRESHOLD,
        edgeitems=_EDGE,
        formatter={"all": shown},
    )
    return text.replace(", ...,", ",  ...,")


def _formatter(array: np.ndarray[Any, Any]) -> Callable[[Any], str]:
    form = _float_form(array) if array.dtype.kind == "f" else str
    width = max((len(form(v)) for v in _visible(array) if array.dtype.kind != "f" or (np.isfinite(v) and v)), default=1)
    return lambda v: form(v).rjust(width)


def _visible(array: np.ndarray[Any, Any]) -> list[Any]:
    """The elements that will be printed."""
    if array.size > _THRESHOLD:
        for axis, size in enumerate(array.shape):
            if size > 2 * _EDGE:
                array = np.take(array, [*range(_EDGE), *range(size - _EDGE, size)], axis)
    return array.ravel().tolist()


def _float_form(array: np.ndarray[Any, Any]) -> Callable[[float], str]:
    """Whole numbers as 1., extreme ranges as 1.0000e-05, others with four decimals."""
    sizes = np.abs(np.array([v for v in _visible(array) if np.isfinite(v) and v != 0], np.float64))
    if sizes.size and (sizes.max() / sizes.min() > 1000 or sizes.max() > 1e8 or sizes.min() < 1e-4):
        scientific = not (np.all(sizes == np.floor(sizes)) and sizes.max() <= 1e8)
        if scientific:
            return lambda v: f"{v:.{_PRECISION}e}"
    if np.all(sizes == np.floor(sizes)):
        return lambda v: f"{v:.0f}." if np.isfinite(v) else str(v)
    return lambda v: f"{v:.{_PRECISION}f}" if np.isfinite(v) else str(v)
