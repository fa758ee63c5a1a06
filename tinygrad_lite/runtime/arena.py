"""Memory that tapes point into."""

from __future__ import annotations

import numpy as np

ALIGNMENT = 64  # a cache line, and the widest vector


def aligned(nbytes: int) -> np.ndarray:
    """`nbytes` zeroed bytes (uint8) at an address that is a multiple of 64. The array keeps the memory alive."""
    memory = np.zeros(nbytes + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + nbytes]


def poison(memory: np.ndarray) -> None:
    """Fill with a pattern that reads as NaN in every float dtype, so that use before a write shows."""
    memory.reshape(-1).view(np.uint8)[...] = 0xFF
