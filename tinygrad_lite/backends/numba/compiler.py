"""Kernel sources to native addresses: from this process, from the disk cache, or by compiling.

A warm start maps what the cache holds, a tenth of a millisecond a kernel; Numba and LLVM stay out.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

from . import cpu, image
from .apart import Apart, processes
from .cache import Cache

HELPERS = ("values.py", "intrinsics.py", "scalars.py", "tile.py", "frontend.py", "engine.py", "image.py")
_lock = threading.RLock()
_addresses: dict[str, int] = {}


def _new_lock() -> None:
    """In a forked child the thread that held the lock is gone."""
    global _lock
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_new_lock)


@dataclass(frozen=True)
class KernelReport:
    """How a kernel came to be: `origin` is "memory", "disk" or "compiled"."""

    name: str
    key: str
    origin: str
    seconds: float


@dataclass(frozen=True)
class Kernels(Mapping[str, int]):
    """Native addresses by kernel name; they stay valid for the life of the process."""

    addresses: dict[str, int]
    report: list[KernelReport] = field(default_factory=list)

    def __getitem__(self, name: str) -> int:
        return self.addresses[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.addresses)

    def __len__(self) -> int:
        return len(self.addresses)

    @property
    def compiled(self) -> int:
        """How many were compiled, rather than found."""
        return sum(r.origin == "compiled" for r in self.report)

    @property
    def seconds(self) -> float:
        return sum(r.seconds for r in self.report)


@functools.cache
def environment() -> str:
    """What object code depends on besides its source: helpers, versions, CPU."""
    folder = Path(__file__).parent
    helpers = hashlib.sha256(b"".join((folder / name).read_bytes() for name in HELPERS)).hexdigest()
    versions = [metadata.version(package) for package in ("numba", "llvmlite")]
    return "\n".join([helpers, *versions, sys.platform, platform.machine(), *cpu.description()])


def kernel_key(source: str) -> str:
    return hashlib.sha256(f"{environment()}\n{source}".encode()).hexdigest()


def compile_code(source: str, symbol: str) -> bytes:
    """What is kept of a kernel: an image, or object code where LLVM has to load it."""
    from .engine import engine
    from .frontend import compile_source

    code = compile_source(source, symbol, engine().machine_for(source))[1]
    return image.link(code, symbol).to_bytes() if image.supported() else code


def _place(symbol: str, code: bytes) -> int:
    """The address of a kernel that is now ready to run."""
    if image.supported():
        return image.load(image.Image.from_bytes(code))
    from .engine import engine

    return engine().load(symbol, code)


def load_kernels(
    sources: Mapping[str, str], cache: Cache | None = None, beside: Mapping[str, str] | None = None
) -> Kernels:
    """Native addresses of kernels by name; each source defines `kernel(args, lo, hi, worker)`.

    Equal sources are one kernel. Those `beside` will be asked for soon: they are compiled in the same processes.
    Raises frontend.CompileError, with the source in it, where one cannot be compiled.
    """
    kernels = Kernels({})
    asked, sources = sources.keys(), {**(beside or {}), **sources}
    with _lock:
        cache = cache or Cache()
        keys = {name: kernel_key(source) for name, source in sources.items()}
        wanted = {keys[name]: source for name, source in sources.items() if keys[name] not in _addresses}
        found = {key: cache.get(key) for key in wanted}
        elsewhere = _elsewhere({key: wanted[key] for key, code in found.items() if code is None})
        for name in sorted(sources, key=lambda name: keys[name] in elsewhere.processes):
            start = time.perf_counter()
            origin = _load(keys[name], sources[name], found, elsewhere, cache)
            if name in asked:
                kernels.report.append(KernelReport(name, keys[name], origin, time.perf_counter() - start))
        kernels.addresses.update({name: _addresses[keys[name]] for name in asked})
        cache.trim()
    return kernels


class _Elsewhere(NamedTuple):
    """The processes that compile kernels, by key."""

    processes: Mapping[str, Apart]

    def code(self, key: str) -> bytes | None:
        """What a process made of a kernel, once it is done; None if none was asked to, or none could."""
        process = self.processes.get(key)
        return process.codes().get(_symbol(key)) if process else None


def _elsewhere(missing: Mapping[str, str]) -> _Elsewhere:
    """Deal the missing kernels out to processes, the longest first; one share is this process's if it has Numba.

    Without Numba it had better stay so: compiling would leave a hundred megabytes in it.
    """
    shares = processes(len(missing))
    by_length = sorted(missing, key=lambda key: -len(missing[key]))
    dealt: dict[str, Apart] = {}
    for share in range(int("numba" in sys.modules), shares):
        keys = by_length[share::shares]
        dealt |= dict.fromkeys(keys, Apart({_symbol(key): missing[key] for key in keys}))
    return _Elsewhere(dealt)


def _symbol(key: str) -> str:
    return "kernel_" + key[:24]


def _load(key: str, source: str, found: Mapping[str, bytes | None], elsewhere: _Elsewhere, cache: Cache) -> str:
    if key in _addresses:
        return "memory"
    code, symbol, origin = found[key], _symbol(key), "disk"
    if code is None:
        origin = "compiled"
        code = elsewhere.code(key) or compile_code(source, symbol)
        cache.put(key, code)
    _addresses[key] = _place(symbol, code)
    return origin


def inspect(source: str) -> tuple[str, str]:
    """Optimised LLVM and assembly text of a kernel, for people and tests; nothing is loaded or cached."""
    from .engine import engine
    from .frontend import compile_source

    module, _ = compile_source(source, "kernel_inspected", engine().machine_for(source))
    return str(module), engine().machine_for(source).emit_assembly(module)
