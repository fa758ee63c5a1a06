"""What the code generator and the cache ask of the CPU; on Linux without LLVM, whose library is large."""

from __future__ import annotations

import functools
from pathlib import Path

WIDEST = "# the widest vectors"  # in a kernel's source: few elements are left over where a loop ends
CPUINFO = Path("/proc/cpuinfo")
IDENTITY = ("vendor_id", "cpu family", "model", "model name", "stepping", "flags")


@functools.cache
def lanes() -> int:
    """Floats in its widest vector."""
    return 16 if "avx512f" in _cpuinfo().get("flags", "").split() else 8


@functools.cache
def description() -> tuple[str, ...]:
    """All that decides which instructions LLVM chooses."""
    known = _cpuinfo()
    if "flags" in known:
        return tuple(known.get(name, "") for name in IDENTITY)
    from .engine import description

    return description()


def _cpuinfo() -> dict[str, str]:
    """What Linux tells of the first core, by name; nothing elsewhere."""
    if not CPUINFO.exists():
        return {}
    first = CPUINFO.read_text().partition("\n\n")[0]
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}
