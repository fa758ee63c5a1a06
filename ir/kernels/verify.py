"""Kernel verifier: every name is defined before it is used, on every path; pointers are used as pointers only."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tinygrad_lite.ir.kernels.nest import Kernel, Let, Load, Loop, Pointer, Stmt, Store

_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?!\w*\()")
_GLOBAL = frozenset({"inf", "nan", "lo", "hi", "worker"})


class KernelError(Exception):
    """A kernel that breaks the rules of its IR; the message names the statement."""


def verify_kernel(kernel: Kernel) -> None:
    """Raise KernelError unless `kernel` is well formed."""
    if len(set(kernel.params)) != len(kernel.params):
        raise KernelError(f"{kernel.label}: a parameter is named twice")
    taken = {*_GLOBAL, *kernel.params} & set(_assigned(kernel.body))
    if taken:
        raise KernelError(f"{kernel.label}: parameters are assigned to: {', '.join(sorted(taken))}")
    _block(kernel.body, {*_GLOBAL, *kernel.params}, set())


def _assigned(body: tuple[Stmt, ...]) -> Iterator[str]:
    """Every name that is given a value, loop variables included."""
    for stmt in body:
        if isinstance(stmt, Loop):
            yield stmt.var
            yield from _assigned(stmt.body)
        elif not isinstance(stmt, Store):
            yield stmt.target


def _block(body: tuple[Stmt, ...], values: set[str], pointers: set[str]) -> None:
    values, pointers = set(values), set(pointers)
    for stmt in body:
        _statement(stmt, values, pointers)


def _statement(stmt: Stmt, values: set[str], pointers: set[str]) -> None:
    match stmt:
        case Let(target, template, args):
            for arg in (*args, template):
                _defined(arg, values, stmt)
            values.add(target)
        case Pointer(target, _, base, terms):
            for name in (base, *(n for term in terms for n in term)):
                _defined(name, values, stmt)
            pointers.add(target)
        case Load(target, pointer, index):
            _pointer(pointer, pointers, stmt)
            _defined(index, values, stmt)
            values.add(target)
        case Store(pointer, index, value):
            _pointer(pointer, pointers, stmt)
            _defined(index, values, stmt)
            _defined(value, values, stmt)
        case Loop(var, start, stop, body, step):
            for name in (start, stop, step):
                _defined(name, values, stmt)
            _block(body, {*values, var}, pointers)


def _defined(text: str, values: set[str], stmt: Stmt) -> None:
    for name in _NAME.findall(text):
        if name not in values:
            raise KernelError(f"{name} is not defined in {stmt}")


def _pointer(name: str, pointers: set[str], stmt: Stmt) -> None:
    if name not in pointers:
        raise KernelError(f"{name} is not a pointer in {stmt}")
