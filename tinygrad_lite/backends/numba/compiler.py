"""Kernel sources to native addresses: from this process, from the disk cache, or by compiling.

A warm start imports llvmlite only: object code is added to a JIT engine of our own (about 1 ms), and Numba stays out.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding as llvm

from .apart import Apart, worthwhile
from .cache import Cache

HELPERS = ("values.py", "intrinsics.py", "scalars.py", "tile.py", "frontend.py")
LIBM_SYMBOLS = ("exp", "expm1", "log", "log1p", "tanh", "sin", "cos", "erf", "pow", "fmod", "fma")
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
    return "\n".join([helpers, *versions, llvm.get_process_triple(), *_cpu()])


@functools.cache
def _cpu() -> tuple[str, str]:
    try:
        return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    except RuntimeError:  # no feature list on this platform
        return llvm.get_host_cpu_name(), ""


def kernel_key(source: str) -> str:
    return hashlib.sha256(f"{environment()}\n{source}".encode()).hexdigest()


class _Engine:
    """A target machine for this CPU, and the JIT engine that holds all object code. Made once, never freed."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        name, features = _cpu()
        triple = llvm.get_process_triple()
        reloc = "static" if triple.startswith(("x86", "i686")) else "default"

        def machine() -> llvm.TargetMachine:
            return llvm.Target.from_triple(triple).create_target_machine(
                cpu=name, features=features, opt=3, reloc=reloc, codemodel="jitdefault", jit=True
            )

        self.machine = machine()
        self._jit = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine())
        self._define_libm()

    def _define_libm(self) -> None:
        """Resolve libm's functions even where the interpreter does not export them."""
        library = None
        for name in (n + s for n in LIBM_SYMBOLS for s in ("", "f")):
            if llvm.address_of_symbol(name) is None:
                library = library or ctypes.CDLL(_libm_name())
                llvm.add_symbol(name, ctypes.cast(getattr(library, name), ctypes.c_void_p).value)

    def load(self, symbol: str, code: bytes) -> int:
        self._jit.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._jit.finalize_object()
        address: int = self._jit.get_function_address(symbol)
        if not address:
            raise RuntimeError(f"no function {symbol} in the object code")
        return address


def _libm_name() -> str:
    import ctypes.util
    import sys

    return "libm.so.6" if sys.platform == "linux" else ctypes.util.find_library("m") or "libm.so"


@functools.cache
def engine() -> _Engine:
    return _Engine()


def _compile(source: str, symbol: str) -> tuple[Any, bytes]:
    from .frontend import compile_source

    return compile_source(source, symbol, engine().machine)


def load_kernels(sources: Mapping[str, str], cache: Cache | None = None) -> Kernels:
    """Native addresses of kernels by name; each source defines `kernel(args, lo, hi, worker)`.

    Equal sources are one kernel. Raises frontend.CompileError, with the source in it, where one cannot be compiled.
    """
    kernels = Kernels({})
    with _lock:
        cache = cache or Cache()
        keys = {name: kernel_key(source) for name, source in sources.items()}
        wanted = {keys[name]: source for name, source in sources.items() if keys[name] not in _addresses}
        found = {key: cache.get(key) for key in wanted}
        elsewhere = _elsewhere({key: wanted[key] for key, code in found.items() if code is None})
        for name in sorted(sources, key=lambda name: keys[name] in elsewhere.keys):
            start = time.perf_counter()
            origin = _load(keys[name], sources[name], found, elsewhere, cache)
            kernels.report.append(KernelReport(name, keys[name], origin, time.perf_counter() - start))
        kernels.addresses.update({name: _addresses[key] for name, key in keys.items()})
        cache.trim()
    return kernels


class _Elsewhere(NamedTuple):
    """Kernels that another process compiles."""

    keys: frozenset[str]
    process: Apart | None


def _elsewhere(missing: Mapping[str, str]) -> _Elsewhere:
    """Let another process compile every other one of the missing kernels, by length, if they are many."""
    if not worthwhile(len(missing)):
        return _Elsewhere(frozenset(), None)
    half = sorted(missing, key=lambda key: -len(missing[key]))[1::2]
    return _Elsewhere(frozenset(half), Apart({_symbol(key): missing[key] for key in half}))


def _symbol(key: str) -> str:
    return "kernel_" + key[:24]


def _load(
    key: str, source: str, found: Mapping[str, tuple[str, bytes] | None], elsewhere: _Elsewhere, cache: Cache
) -> str:
    if key in _addresses:
        return "memory"
    code, origin = found[key], "disk"
    if code is None:
        symbol, origin = _symbol(key), "compiled"
        ready = elsewhere.process.codes().get(symbol) if elsewhere.process and key in elsewhere.keys else None
        code = symbol, ready or _compile(source, symbol)[1]
        cache.put(key, *code)
    _addresses[key] = engine().load(*code)
    return origin


def inspect(source: str) -> tuple[str, str]:
    """Optimised LLVM and assembly text of a kernel, for people and tests; nothing is loaded or cached."""
    module, _ = _compile(source, "kernel_inspected")
    return str(module), engine().machine.emit_assembly(module)
