"""Rows too short for a vector: the innermost loop runs on past a row's end, to whole vectors.

What it writes there is the beginning of rows that come later and are then written rightly. The last rows of a share end
where they should, so that nothing is read or written beyond it. Pooling to 14 columns takes a quarter of the time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

VECTOR = 16  # elements that loops run on to
SHORTEST, LONGEST = 4, 31  # rows for which it pays
MOST = 64  # rows at the end of a share


@dataclass(frozen=True)
class Walk:
    """Strides of a storage along the rows' axes, those written out without a loop, and the innermost."""

    rows: tuple[int, ...]
    within: tuple[int, ...]
    inner: int


def wide(length: int) -> int:
    """Whole vectors."""
    return -(-length // VECTOR) * VECTOR


def last_rows(sizes: Sequence[int], length: int, reads: Sequence[Walk], writes: Sequence[Walk]) -> int | None:
    """How many rows at the end of a share must end where they should; None where all must.

    `sizes` are those of the rows' axes, `length` is that of the innermost.
    """
    if not SHORTEST <= length <= LONGEST or length % VECTOR == 0 or not sizes:
        return None
    if not all(_behind_each_other(sizes, length, walk) for walk in writes):
        return None
    beyond = wide(length) - length
    counts = [_rows_within(sizes, walk.rows, beyond * walk.inner) for walk in (*reads, *writes) if walk.inner]
    found = [c for c in counts if c is not None]
    return max(found) if len(found) == len(counts) else None


def _behind_each_other(sizes: Sequence[int], length: int, walk: Walk) -> bool:
    """Is each row written without gaps, right behind the one before?"""
    following = length
    for stride, size in zip(reversed(walk.rows), reversed(sizes), strict=True):
        if stride != following:
            return False
        following *= size
    return walk.inner == 1 and not any(walk.within)


def _rows_within(sizes: Sequence[int], strides: Sequence[int], elements: int) -> int | None:
    """How many rows begin less than so many elements before the last; None where they lie in no order, or are many."""
    if elements < 0:  # read backwards: what lies before the first row
        return None
    span = 0
    for stride, size in zip(reversed(strides), reversed(sizes), strict=True):
        if stride < span:
            return None
        span += (size - 1) * stride
    counts = range(1, min(math.prod(sizes) - 1, MOST) + 1)
    return next((c for c in counts if _distance(sizes, strides, c) >= elements), None)


def _distance(sizes: Sequence[int], strides: Sequence[int], count: int) -> int:
    """From the start of the row so many before the last to the start of the last."""
    back = 0
    for stride, size in zip(reversed(strides), reversed(sizes), strict=True):
        count, digit = divmod(count, size)
        back += digit * stride
    return back
