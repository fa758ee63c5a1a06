"""The larger and the smaller of numbers, as IEEE 754-2019 has them: NaN wins, and -0 lies below 0.

NumPy gives either of two zeros, by dtype, machine and order; compiled reductions take their values in another order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Extremum:
    """`select` is NumPy's choice; a zero it gives is negative where `negative` of the signs of its operands is true.

    The other operands of a maximum that is 0 are below it and so have the sign themselves, and the other way round.
    """

    select: np.ufunc
    negative: np.ufunc

    def of(self, a: Array, b: Array) -> Any:
        """Element by element."""
        best = self.select(a, b)
        return best if _plain(best) else _signed(best, self.negative(np.signbit(a), np.signbit(b)))

    def along(self, x: Array, axes: tuple[int, ...]) -> Any:
        """Over `axes`, which stay with size 1."""
        best = self.select.reduce(x, axes, keepdims=True)
        return best if _plain(best) else _signed(best, self.negative.reduce(np.signbit(x), axes, keepdims=True))

    def put(self, base: Array, places: tuple[Array, ...], source: Array) -> Array:
        """`base` with each element of `source` taken in at its place, where others may have come before it."""
        best = base.copy()
        self.select.at(best, places, source)
        if _plain(best):
            return best
        negative = np.signbit(base)
        self.negative.at(negative, places, np.signbit(source))
        return _signed(best, negative)


def _plain(best: Any) -> bool:
    """Has no zero that could have had another sign."""
    return best.dtype.kind in "biu" or bool(np.all(best))


def _signed(best: Any, negative: Any) -> Array:
    zero = best.dtype.type(0)
    result: Array = np.where(best == 0, np.where(negative, -zero, zero), best)
    return result


MAXIMUM = Extremum(np.maximum, np.logical_and)
MINIMUM = Extremum(np.minimum, np.logical_or)
