"""What an op's inference rule takes, read from its signature: how many operands, which attributes."""

from __future__ import annotations

import inspect
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from tinygrad_lite.ir.op import Op


class Signature(NamedTuple):
    """Operand counts low..high (None: no limit), attribute names in order, and those without a default."""

    low: int
    high: int | None
    attrs: tuple[str, ...]
    required: frozenset[str]
    open: bool  # takes any attribute


_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


_known: WeakKeyDictionary[Op, Signature] = WeakKeyDictionary()  # the ops of user functions come and go


def signature(op: Op) -> Signature:
    """The signature of `op`; a rule written over *types gets its operand count from the NumPy rule."""
    if op not in _known:
        _known[op] = _read(op)
    return _known[op]


def _read(op: Op) -> Signature:
    parameters = list(inspect.signature(op.infer).parameters.values())
    named = [p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    low, high = _operands(parameters)
    if high is None:
        low, high = _numpy_operands(op)
    return Signature(
        low,
        high,
        tuple(p.name for p in named),
        frozenset(p.name for p in named if p.default is inspect.Parameter.empty),
        any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters),
    )


def _operands(parameters: list[inspect.Parameter]) -> tuple[int, int | None]:
    positional = [p for p in parameters if p.kind in _POSITIONAL]
    low = sum(p.default is inspect.Parameter.empty for p in positional)
    endless = any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
    return low, None if endless else len(positional)


def _numpy_operands(op: Op) -> tuple[int, int | None]:
    if isinstance(op.numpy, np.ufunc):
        return op.numpy.nin, op.numpy.nin
    try:
        return _operands(list(inspect.signature(op.numpy).parameters.values()))
    except (TypeError, ValueError):  # a builtin without a signature
        return 0, None
