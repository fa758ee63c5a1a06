"""Kernel: a loop nest over addresses. Straight-line assignments, loads and stores inside counted loops.

Every kernel has the arguments (args, lo, hi, worker): `args` points at int64 words (`params`, in order), [lo, hi) is
this worker's share of the parallel loop. Names are plain strings; a template's {0} {1} stand for its arguments.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Let:
    """target = template.format(*args); a target assigned twice is an accumulator, whose dtype is `tag`."""

    target: str
    template: str
    args: tuple[str, ...] = ()
    tag: str = ""


@dataclass(frozen=True)
class Pointer:
    """target = the address of element Σ index·stride from the one at `base`."""

    target: str
    tag: str
    base: str
    terms: tuple[tuple[str, str], ...] = ()  # (index, stride); a stride of "1" or "-1" is written so


@dataclass(frozen=True)
class Load:
    target: str
    pointer: str
    index: str


@dataclass(frozen=True)
class Store:
    pointer: str
    index: str
    value: str


@dataclass(frozen=True)
class Loop:
    """for var in range(start, stop, step)"""

    var: str
    start: str
    stop: str
    body: tuple[Stmt, ...]
    step: str = "1"


Stmt = Let | Pointer | Load | Store | Loop


@dataclass(frozen=True)
class Kernel:
    """`label` is for people; equal kernels are compiled once whatever their labels."""

    params: tuple[str, ...]
    body: tuple[Stmt, ...]
    label: str = ""
    long: bool = False  # innermost loops leave few elements over, whatever the vectors
