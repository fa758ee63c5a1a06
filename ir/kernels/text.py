"""Kernels as text: what a person reads. Sizes and strides are named as the parameters they come from."""

from __future__ import annotations

from collections.abc import Iterator

from tinygrad_lite.ir.kernels.nest import Kernel, Let, Load, Loop, Pointer, Stmt, Store


def kernel_text(kernel: Kernel) -> str:
    """`kernel label(params)` and its statements, indented."""
    lines = [f"kernel {kernel.label}({', '.join(kernel.params)})"]
    lines += [f"  {line}" for stmt in kernel.body for line in _lines(stmt)]
    return "\n".join(lines) + "\n"


def _lines(stmt: Stmt) -> Iterator[str]:
    match stmt:
        case Let(target, template, args):
            yield f"{target} = {template.format(*args)}"
        case Pointer(target, tag, base, terms):
            steps = "".join(f" + {i}" if s == "1" else f" + {i}·{s}" for i, s in terms)
            yield f"{target}: {tag}* = {base}{steps}"
        case Load(target, pointer, index):
            yield f"{target} = load {pointer}[{index}]"
        case Store(pointer, index, value):
            yield f"store {pointer}[{index}] = {value}"
        case Loop(var, start, stop, body, step):
            yield f"for {var} in {start}..{stop}" + (f" by {step}" if step != "1" else "")
            for inner in body:
                yield from (f"  {line}" for line in _lines(inner))
