"""What the code generator asks of the CPU."""

from __future__ import annotations

import functools

import llvmlite.binding as llvm


@functools.cache
def lanes() -> int:
    """Floats in its widest vector."""
    return 16 if llvm.get_host_cpu_features().get("avx512f") else 8
