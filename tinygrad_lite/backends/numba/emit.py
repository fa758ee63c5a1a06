"""Kernel → readable Python source, for Numba or for plain Python."""

from __future__ import annotations

from collections.abc import Iterator

from tinygrad_lite.backends.numba.cpu import WIDEST
from tinygrad_lite.ir.kernels.nest import Kernel, Let, Load, Loop, Pointer, Stmt, Store

_HALVES = ("f16", "bf16")
_BYTES = {"f16": 2, "bf16": 2, "b1": 1, "u8": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "f32": 4, "f64": 8}


def emit(kernel: Kernel) -> str:
    """The text of `def kernel(args, lo, hi, worker)`. Equal loop nests give equal texts."""
    lines = ["def kernel(args, lo, hi, worker):", "    w = i64_at(args)"]
    if kernel.long:
        lines.insert(1, f"    {WIDEST}")
    lines += [f"    {name} = w[{i}]" for i, name in enumerate(kernel.params)]
    halves = dict(_half_pointers(kernel.body))
    lines += [f"    {line}" for stmt in kernel.body for line in _lines(stmt, halves)]
    return "\n".join(lines) + "\n"


def _half_pointers(body: tuple[Stmt, ...]) -> Iterator[tuple[str, str]]:
    """(pointer, tag) of the 16-bit floats, which are converted as they are read and written."""
    for stmt in body:
        if isinstance(stmt, Pointer) and stmt.tag in _HALVES:
            yield stmt.target, stmt.tag
        elif isinstance(stmt, Loop):
            yield from _half_pointers(stmt.body)


def _lines(stmt: Stmt, halves: dict[str, str]) -> Iterator[str]:
    match stmt:
        case Let(target, template, args):
            yield f"{target} = {template.format(*args)}"
        case Pointer(target, tag, base, terms):
            yield f"{target} = {tag}_at({base}{_offset(terms, _BYTES[tag])})"
        case Load(target, pointer, index) if pointer in halves:
            yield f"{target} = load_{halves[pointer]}({pointer}, {index})"
        case Store(pointer, index, value) if pointer in halves:
            yield f"store_{halves[pointer]}({pointer}, {index}, {value})"
        case Load(target, pointer, index):
            yield f"{target} = {pointer}[{index}]"
        case Store(pointer, index, value):
            yield f"{pointer}[{index}] = {value}"
        case Loop(var, start, stop, body, step):
            yield f"for {var} in range({_range(start, stop, step)}):"
            for inner in body or (Let("_", "0"),):
                yield from (f"    {line}" for line in _lines(inner, halves))


def _offset(terms: tuple[tuple[str, str], ...], nbytes: int) -> str:
    if not terms:
        return ""
    text = " + ".join(index if stride == "1" else f"{index} * {stride}" for index, stride in terms)
    return f" + {text}" if nbytes == 1 else f" + {nbytes} * ({text})"


def _range(start: str, stop: str, step: str) -> str:
    if step != "1":
        return f"{start}, {stop}, {step}"
    return stop if start == "0" else f"{start}, {stop}"
