"""Machine code that only has to be mapped: what a linker makes of one kernel's object code, and the loader of it.

LLVM's own loader would hold its library, nearly 50 MB, in every process that runs a kernel; this needs none of
it. Kernels have no writable data, and all addresses in them are words of 64 bits, so that two lists of places suffice.
"""

from __future__ import annotations

import ctypes
import functools
import json
import mmap
import platform
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from io import BytesIO
from typing import Any

ABSOLUTE = 1  # R_X86_64_64
ALLOCATED, WRITABLE = 2, 1  # SHF_ALLOC, SHF_WRITE
NOT_LOADED = ".eh_frame"  # for exceptions, which kernels do not raise
_maps: list[mmap.mmap] = []  # never freed: addresses stay valid


class LinkError(Exception):
    """Object code is not of the one kind that kernels have."""


def supported() -> bool:
    """Does LLVM emit here what `link` reads?"""
    return sys.platform == "linux" and platform.machine() == "x86_64"


@dataclass(frozen=True)
class Image:
    """`code`, with `inside` (place, offset in the code) and `outside` (place, name, addend) to be filled in."""

    code: bytes
    entry: int
    inside: list[tuple[int, int]]
    outside: list[tuple[int, str, int]]

    def to_bytes(self) -> bytes:
        """A line of JSON, then the code."""
        fields = asdict(self)
        del fields["code"]
        return json.dumps(fields).encode() + b"\n" + self.code

    @classmethod
    def from_bytes(cls, data: bytes) -> Image:
        """The image that `to_bytes` wrote."""
        header, _, code = data.partition(b"\n")
        return cls(code, **json.loads(header))


def link(object_code: bytes, symbol: str) -> Image:
    """Put an ELF object's sections one after another. Raises LinkError for what kernels are not made of."""
    from elftools.elf.elffile import ELFFile

    elf = ELFFile(BytesIO(object_code))
    symbols = elf.get_section_by_name(".symtab")
    code, starts = bytearray(), {}
    for index, section in enumerate(elf.iter_sections()):
        flags = section["sh_flags"]
        if not flags & ALLOCATED or section.name == NOT_LOADED:
            continue
        if flags & WRITABLE:
            raise LinkError(f"{symbol} has writable data ({section.name})")
        code += bytes(-len(code) % max(section["sh_addralign"], 1))
        starts[index] = len(code)
        code += section.data()
    inside, outside = [], []
    for place, name, target, addend in _relocations(elf, symbols, starts):
        if target is not None:
            inside.append((place, target + addend))
        else:
            outside.append((place, name, addend))
    entry = symbols.get_symbol_by_name(symbol)
    if not entry:
        raise LinkError(f"no function {symbol} in the object code")
    return Image(bytes(code), starts[entry[0]["st_shndx"]] + entry[0]["st_value"], inside, outside)


def _relocations(elf: Any, symbols: Any, starts: dict[int, int]) -> Iterator[tuple[int, str, int | None, int]]:
    """(place, symbol, its offset in the code or None, addend) of every word that holds an address."""
    for section in elf.iter_sections("SHT_RELA"):
        if section["sh_info"] not in starts:
            continue
        for relocation in section.iter_relocations():
            symbol = symbols.get_symbol(relocation["r_info_sym"])
            if relocation["r_info_type"] != ABSOLUTE:
                raise LinkError(f"relocation {relocation['r_info_type']} of {symbol.name}")
            start = starts.get(symbol["st_shndx"])
            target = None if start is None else start + symbol["st_value"]
            place = starts[section["sh_info"]] + relocation["r_offset"]
            yield place, symbol.name, target, relocation["r_addend"]


def load(image: Image) -> int:
    """Map the code, executable and no longer writable; the address of its kernel."""
    memory = mmap.mmap(-1, len(image.code), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE)
    base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    memory[:] = image.code
    words = [(place, base + offset) for place, offset in image.inside]
    words += [(place, address_of(name) + addend) for place, name, addend in image.outside]
    for place, address in words:
        memory[place : place + 8] = address.to_bytes(8, "little")
    _protect(base, len(image.code))
    _maps.append(memory)
    return base + image.entry


def _protect(base: int, size: int) -> None:
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    if protect(ctypes.c_void_p(base), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError(ctypes.get_errno(), "memory cannot be made executable: this system forbids code made at run time")


@functools.cache
def address_of(name: str) -> int:
    """The address of a function of the C library. Raises LinkError if it has none of that name."""
    for library in (None, "libm.so.6"):
        function = getattr(ctypes.CDLL(library), name, None)
        if function is not None:
            return ctypes.cast(function, ctypes.c_void_p).value or 0
    raise LinkError(f"the C library has no function {name}")
