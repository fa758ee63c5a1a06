"""Tensors as text, the way PyTorch prints them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tinygrad_lite.ir.types import bool_, float32, int64

if TYPE_CHECKING:
    from tinygrad_lite.handle import Tensor

_START = "tensor("
_WIDTH = 80
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
    return _annotated(_START + body, notes) + ")"


def _annotated(text: str, notes: list[str]) -> str:
    """Notes behind the elements, on a line of their own where the last is full."""
    used = len(text) - text.rfind("\n") + 1
    for note in notes:
        if used + len(note) + 2 > _WIDTH:
            text, used = f"{text},\n{' ' * len(_START)}{note}", len(_START) + len(note)
        else:
            text, used = f"{text}, {note}", used + len(note) + 2
    return text


def _body(array: np.ndarray[Any, Any]) -> str:
    if array.size == 0:
        return "[]"
    if array.dtype.itemsize == 2 and array.dtype.kind in "fV":  # 16-bit floats
        array = array.astype(np.float32)
    shown, width = _formatter(array)
    if array.ndim == 0:
        return shown(array.item()).strip()
    return _rows(array, shown, width, len(_START), array.size > _THRESHOLD)


def _rows(array: np.ndarray[Any, Any], shown: Callable[[Any], str], width: int, indent: int, long: bool) -> str:
    """Nested brackets; as many elements a line as fit, and of long axes the ends only."""
    short = long and len(array) > 2 * _EDGE
    ends = [*array[:_EDGE], *array[-_EDGE:]] if short else array
    if array.ndim == 1:
        texts = [shown(v) for v in np.asarray(ends).tolist()]
        texts = [*texts[:_EDGE], " ...", *texts[_EDGE:]] if short else texts
        fit = max(1, (_WIDTH - indent) // (width + 2))
        parts = [", ".join(texts[i : i + fit]) for i in range(0, len(texts), fit)]
        between = ",\n" + " " * (indent + 1)
    else:
        parts = [_rows(row, shown, width, indent + 1, long) for row in ends]
        parts = [*parts[:_EDGE], "...", *parts[_EDGE:]] if short else parts
        between = "," + "\n" * (array.ndim - 1) + " " * (indent + 1)
    return "[" + between.join(parts) + "]"


def _formatter(array: np.ndarray[Any, Any]) -> tuple[Callable[[Any], str], int]:
    """How an element is written, and its width."""
    form = _float_form(array) if array.dtype.kind == "f" else str
    width = max((len(form(v)) for v in _visible(array) if array.dtype.kind != "f" or (np.isfinite(v) and v)), default=1)
    return lambda v: form(v).rjust(width), width


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
    whole = bool(np.all(sizes == np.floor(sizes)))
    if sizes.size and (sizes.max() / sizes.min() > 1000 or sizes.max() > 1e8 or (not whole and sizes.min() < 1e-4)):
        return lambda v: f"{v:.{_PRECISION}e}"
    if whole:
        return lambda v: f"{v:.0f}." if np.isfinite(v) else str(v)
    return lambda v: f"{v:.{_PRECISION}f}" if np.isfinite(v) else str(v)
