"""Native: the hand-written kernel of one opaque node, as data.

A body is kernel source (see tinygrad_lite/backends/numba) over named words, whose values are known once a program is
laid out. `n` is a word's value and `n_at` its address: LAPACK's Fortran convention takes everything by address, 32-bit
integers and characters from a word's low bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import indent


@dataclass(frozen=True)
class Operand:
    """A word: the address of an operand, which lies contiguous in memory."""

    position: int


@dataclass(frozen=True)
class Result:
    """A word: the address of the result, which lies contiguous in memory."""


@dataclass(frozen=True)
class Function:
    """A word: the address of a BLAS or LAPACK function, such as dgesv."""

    name: str


@dataclass(frozen=True)
class Workspace:
    """Two words: the address of the first worker's own bytes, and how many each has."""

    nbytes: int


@dataclass(frozen=True)
class Failure:
    """Two words: the address of the program's error cell, and what to put there where it must raise Op.failure."""


NativeWord = int | Operand | Result | Function | Workspace | Failure


@dataclass(frozen=True)
class Native:
    """`source` defines kernel(args, lo, hi, worker) over `words`; its parallel loop is [0, extent)."""

    source: str
    words: tuple[NativeWord, ...]
    extent: int
    work: int


def native(body: str, words: Mapping[str, NativeWord], extent: int, work: int) -> Native:
    """A Native of a body over named words.

    Of a workspace the name is the worker's own part; of a failure it is the cell, and `name_code` what to put there.
    """
    lines: list[str] = []
    values: list[NativeWord] = []
    used = set(re.findall(r"[A-Za-z_]\w*", body))
    for name, word in words.items():
        at = len(values)
        if name in used:
            each = f" + worker * w[{at + 1}]" if isinstance(word, Workspace) else ""
            lines.append(f"{name} = w[{at}]{each}")
        if f"{name}_at" in used:
            lines.append(f"{name}_at = args + {8 * at}")
        if f"{name}_code" in used:
            lines.append(f"{name}_code = w[{at + 1}]")
        values += [word, 0] if isinstance(word, Workspace | Failure) else [word]
    text = "\n".join(["w = i64_at(args)", *lines, body.strip("\n")])
    return Native(f"def kernel(args, lo, hi, worker):\n{indent(text, '    ')}\n", tuple(values), extent, work)
