"""Where views lie in the memory of what they view: strides, in elements."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Ints = tuple[int, ...]

VIEWING = frozenset({"reshape", "permute", "expand", "slice", "window", "detach"})  # ops whose result may be a view


def contiguous_strides(shape: Sequence[int]) -> Ints:
    """Row-major strides, in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def view_strides(op: str, attrs: Mapping[str, Any], shape: Ints, strides: Ints, result: Ints) -> Ints | None:
    """Strides of the view of shape `result` that the op makes of memory of these strides; None where it must copy."""
    if op == "reshape":
        return reshaped_strides(shape, strides, result)
    if op == "permute":
        return tuple(strides[a] for a in attrs["axes"])
    if op == "expand":
        return tuple(0 if n != o else s for n, o, s in zip(result, shape, strides, strict=True))
    if op == "slice":
        return tuple(s * k for s, k in zip(strides, attrs["steps"], strict=True))
    if op == "window":
        steps = dict(zip(attrs["axes"], attrs["steps"], strict=True))
        inside = (strides[a] * d for a, d in zip(attrs["axes"], attrs["dilations"], strict=True))
        return (*(s * steps.get(a, 1) for a, s in enumerate(strides)), *inside)
    return strides


def is_contiguous(shape: Ints, strides: Ints) -> bool:
    """Row-major without gaps; axes of size 1 do not matter."""
    wanted = contiguous_strides(shape)
    return math.prod(shape) == 0 or all(n == 1 or s == w for n, s, w in zip(shape, strides, wanted, strict=True))


def reshaped_strides(shape: Ints, strides: Ints, new: Ints) -> Ints | None:
    """Strides under which the same memory has shape `new`; None where only a copy can have it."""
    if math.prod(shape) == 0:
        return contiguous_strides(new)
    blocks = _dense_blocks(shape, strides)
    result: list[int] = []
    size, step = blocks.pop() if blocks else (1, 1)
    left = size
    for wanted in reversed(new):
        if wanted == 1:
            result.append(step * (size // left) if left else step)
            continue
        if left == 1:
            if not blocks:
                return None
            size, step = blocks.pop()
            left = size
        if left % wanted:
            return None
        result.append(step * (size // left))
        left //= wanted
    return tuple(reversed(result))


def _dense_blocks(shape: Ints, strides: Ints) -> list[tuple[int, int]]:
    """(size, innermost stride) of the runs of axes that can be merged, outermost first."""
    blocks: list[tuple[int, int]] = []
    for n, s in zip(shape, strides, strict=True):
        if n == 1:
            continue
        if blocks and blocks[-1][1] == n * s:
            blocks[-1] = (blocks[-1][0] * n, s)
        else:
            blocks.append((n, s))
    return blocks
