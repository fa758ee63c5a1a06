"""Loops on the tape: calls that run once a step, written out row by row, without any Python between steps.

A call says by `frames` which loops it is in, from the outside in. Everything here is vectorised over the steps, so that
compiling a loop does not take longer the longer it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from tinygrad_lite.ir.kernels.words import Frame, Moving

Array = np.ndarray[Any, Any]


class Framed(Protocol):
    """What is in loops."""

    @property
    def frames(self) -> tuple[Frame, ...]: ...


def trips(frames: Sequence[Frame]) -> int:
    """How often a call in these loops runs."""
    return math.prod(f.length for f in frames)


def rounds(calls: Sequence[Framed]) -> Iterator[int]:
    """Numbers of the calls in run order, every loop gone through twice: what repeats shows the second time."""
    yield from _rounds(calls, 0, len(calls), 0)


def _rounds(calls: Sequence[Framed], first: int, last: int, depth: int) -> Iterator[int]:
    for low, high, frame in _runs(calls, first, last, depth):
        if frame is None:
            yield low
            continue
        for _ in range(2):
            yield from _rounds(calls, low, high, depth + 1)


def _runs(calls: Sequence[Framed], first: int, last: int, depth: int) -> Iterator[tuple[int, int, Frame | None]]:
    """[low, high) of each loop at this depth, and of each call that is in none."""
    i = first
    while i < last:
        frame = calls[i].frames[depth] if len(calls[i].frames) > depth else None
        j = i + 1
        while frame is not None and j < last and len(calls[j].frames) > depth and calls[j].frames[depth] is frame:
            j += 1
        yield i, j, frame
        i = j


def spans(calls: Sequence[Framed]) -> dict[int, tuple[int, int]]:
    """id(loop) → the first and the last of its calls."""
    found: dict[int, tuple[int, int]] = {}
    for i, call in enumerate(calls):
        for frame in call.frames:
            found[id(frame)] = (found.get(id(frame), (i, i))[0], i)
    return found


def life(calls: Sequence[Framed], at: Sequence[int], span: dict[int, tuple[int, int]]) -> tuple[int, int]:
    """The first and the last call during which a storage is in use that the calls `at` touch.

    What is also used outside a loop lives through all its steps.
    """
    depth = 0
    frames = [calls[i].frames for i in at]
    while all(len(f) > depth and f[depth] is frames[0][depth] for f in frames):
        depth += 1
    ends = [span[id(f[depth])] if len(f) > depth else (i, i) for i, f in zip(at, frames, strict=True)]
    return min(low for low, _ in ends), max(high for _, high in ends)


def rows(calls: Sequence[Framed]) -> tuple[Array, Array]:
    """The tape's rows: the call's number, and which of its runs it is."""
    return _rows(calls, 0, len(calls), 0)


def _rows(calls: Sequence[Framed], first: int, last: int, depth: int) -> tuple[Array, Array]:
    numbers, runs = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for low, high, frame in _runs(calls, first, last, depth):
        if frame is None:
            number, run = np.array([low]), np.array([0])
        else:
            number, run = _rows(calls, low, high, depth + 1)
            each = np.array([trips(calls[i].frames[depth + 1 :]) for i in range(low, high)])
            steps = np.arange(frame.length)[:, None] * each[number - low]
            number, run = np.tile(number, frame.length), (steps + run).ravel()
        numbers.append(number)
        runs.append(run)
    return np.concatenate(numbers), np.concatenate(runs)


def offsets(word: Moving, frames: Sequence[Frame]) -> Array:
    """The element that a moving word points to, relative to its storage, in each run of a call in `frames`."""
    total = np.full([f.length for f in frames], word.offset, np.int64)
    for frame, moves in word.moves:
        axis = next(i for i, f in enumerate(frames) if f is frame)
        total += moves.reshape([-1 if i == axis else 1 for i in range(len(frames))])
    return total.ravel()
