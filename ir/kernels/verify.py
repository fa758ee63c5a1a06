"""Kernel verifier: every name is defined before its use, on every path, and once unless it is an accumulator; pointers
are used as pointers only."""

from __future__ import annotations

import re

from tinygrad_lite.ir.kernels.nest import Kernel, Let, Load, Loop, Pointer, Stmt, Store

_NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?!\w*\()")
_GLOBAL = frozenset({"inf", "nan", "lo", "hi", "worker"})


class KernelError(Exception):
    """A kernel that breaks the rules of its IR; the message names the statement."""


def verify_kernel(kernel: Kernel) -> None:
    """Raise KernelError unless `kernel` is well formed."""
    if len(set(kernel.params)) != len(kernel.params):
        raise KernelError(f"{kernel.label}: a parameter is named twice")
    _block(kernel.body, {*_GLOBAL, *kernel.params}, set())


def _block(body: tuple[Stmt, ...], values: set[str], pointers: set[str]) -> None:
    values, pointers = set(values), set(pointers)
    for stmt in body:
        _statement(stmt, values, pointers)


def _statement(stmt: Stmt, values: set[str], pointers: set[str]) -> None:
    match stmt:
        case Let(target, template, args):
            for arg in (*args, template):
                _defined(arg, values, stmt)
            _new(target, values, pointers, stmt)
            values.add(target)
        case Pointer(target, _, base, terms):
            for name in (base, *(n for term in terms for n in term)):
                _defined(name, values, stmt)
            _new(target, values, pointers, stmt)
            pointers.add(target)
        case Load(target, pointer, index):
            _pointer(pointer, pointers, stmt)
            _defined(index, values, stmt)
            _new(target, values, pointers, stmt)
            values.add(target)
        case Store(pointer, index, value):
            _pointer(pointer, pointers, stmt)
            _defined(index, values, stmt)
            _defined(value, values, stmt)
        case Loop(var, start, stop, body, step):
            for name in (start, stop, step):
                _defined(name, values, stmt)
            _new(var, values, pointers, stmt)
            _block(body, {*values, var}, pointers)


def _defined(text: str, values: set[str], stmt: Stmt) -> None:
    for name in _NAME.findall(text):
        if name not in values:
            raise KernelError(f"{name} is not defined in {stmt}")


def _new(name: str, values: set[str], pointers: set[str], stmt: Stmt) -> None:
    """Accumulators, which begin with an a, are the names that may be assigned again."""
    if name in pointers or (name in values and not name.startswith("a")):
        raise KernelError(f"{name} is assigned a second time in {stmt}")


def _pointer(name: str, pointers: set[str], stmt: Stmt) -> None:
    if name not in pointers:
        raise KernelError(f"{name} is not a pointer in {stmt}")
