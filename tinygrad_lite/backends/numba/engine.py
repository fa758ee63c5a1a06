"""LLVM for this CPU: the target machine that kernels are compiled by and, where `image` cannot, the loader of them."""

from __future__ import annotations

import ctypes
import ctypes.util
import functools

import llvmlite.binding as llvm

from .cpu import WIDEST, lanes

LIBM_SYMBOLS = ("exp", "expm1", "log", "log1p", "tanh", "sin", "cos", "erf", "pow", "fmod", "fma")


class Engine:
    """A target machine, and the JIT engine that holds object code. Made once, never freed."""

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        self.machine = self._machine(_features())

    def machine_for(self, source: str) -> llvm.TargetMachine:
        """LLVM halves vectors of 16 floats by default, lest loops leave many elements over; some do not."""
        return self._widest if WIDEST in source and lanes() == 16 else self.machine

    @functools.cached_property
    def _widest(self) -> llvm.TargetMachine:
        return self._machine(f"{_features()},-prefer-256-bit")

    def _machine(self, features: str) -> llvm.TargetMachine:
        triple = llvm.get_process_triple()
        reloc = "static" if triple.startswith(("x86", "i686")) else "default"
        return llvm.Target.from_triple(triple).create_target_machine(
            cpu=llvm.get_host_cpu_name(),
            features=features,
            opt=3,
            reloc=reloc,
            codemodel="jitdefault",
            jit=True,
        )

    @functools.cached_property
    def _jit(self) -> llvm.ExecutionEngine:
        _define_libm()
        return llvm.create_mcjit_compiler(llvm.parse_assembly(""), self._machine(_features()))

    def load(self, symbol: str, code: bytes) -> int:
        """The address of a function of some object code."""
        self._jit.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._jit.finalize_object()
        address: int = self._jit.get_function_address(symbol)
        if not address:
            raise RuntimeError(f"no function {symbol} in the object code")
        return address


def _features() -> str:
    try:
        return llvm.get_host_cpu_features().flatten()
    except RuntimeError:  # no feature list on this platform
        return ""


def description() -> tuple[str, ...]:
    """The system and CPU, as LLVM names them."""
    return llvm.get_process_triple(), llvm.get_host_cpu_name(), _features()


def _define_libm() -> None:
    """Resolve libm's functions even where the interpreter does not export them."""
    library = None
    for name in (n + s for n in LIBM_SYMBOLS for s in ("", "f")):
        if llvm.address_of_symbol(name) is None:
            library = library or ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
            llvm.add_symbol(name, ctypes.cast(getattr(library, name), ctypes.c_void_p).value)


@functools.cache
def engine() -> Engine:
    """The one of this process."""
    return Engine()
