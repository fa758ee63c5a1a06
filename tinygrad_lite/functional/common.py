"""What the functions share: reading arguments, and making tensors of results."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from tinygrad_lite.handle import Tensor, node_of, unwrap, wrap
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import record
from tinygrad_lite.ir.types import DType, bool_, float64, int64
from tinygrad_lite.ops.elementwise import CAST

__all__ = ["Scalar", "as_dtype", "axis_list", "fresh", "node_of", "numpy_names", "sizes", "unary", "unwrap", "wrap"]

Scalar = bool | int | float
_BUILTIN = {float: float64, int: int64, bool: bool_}


def as_dtype(dtype: Any, default: DType | None = None) -> DType:
    """A dtype argument: a DType, float, int or bool, or None for the default."""
    if dtype is None and default is not None:
        return default
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, type) and dtype in _BUILTIN:
        return _BUILTIN[dtype]
    raise TypeError(f"dtype must be a tinygrad_lite dtype such as tinygrad_lite.float32, not {dtype!r}")


def sizes(args: tuple[Any, ...], name: str = "size", named: Any = None) -> tuple[int, ...]:
    """Sizes given one by one, as one sequence, or `named` by keyword. TypeError unless all are integers."""
    if named is not None:
        if args:
            raise TypeError(f"{name} is given both by position, {args}, and by keyword, {named}")
        args = (named,)
    given = args[0] if len(args) == 1 and isinstance(args[0], Sequence | np.ndarray) else args
    return tuple(_integer(n, name) for n in given)


def _integer(n: Any, name: str) -> int:
    if isinstance(n, bool) or not hasattr(n, "__index__"):
        raise TypeError(f"{name} must be made of integers, got {type(n).__name__}")
    return int(n.__index__())


def axis_list(dim: Any) -> int | tuple[int, ...] | None:
    """A `dim` argument that may name several axes; an empty sequence means all, as in PyTorch."""
    if dim is None:
        return None
    if isinstance(dim, Sequence):
        return tuple(_integer(d, "dim") for d in dim) or None
    return _integer(dim, "dim")


def numpy_names(function: Any) -> Any:
    """`function`, that also takes `axis` for `dim` and `keepdims` for `keepdim`, as PyTorch's functions do."""
    if not isinstance(function, FunctionType):
        return function
    code = function.__code__
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    names = {other: name for other, name in (("axis", "dim"), ("keepdims", "keepdim")) if name in known}
    names = {other: name for other, name in names.items() if other not in known}
    if not names:
        return function

    @functools.wraps(function)
    def renaming(*args: Any, **kwargs: Any) -> Any:
        for other in names.keys() & kwargs.keys():
            if names[other] in kwargs:
                raise TypeError(f"{function.__name__}() got both {names[other]!r} and {other!r}, which mean the same")
            kwargs[names[other]] = kwargs.pop(other)
        return function(*args, **kwargs)

    return renaming


def fresh(node: Node, *sources: Any) -> Tensor:
    """A tensor on `node`, on a copy where it lies in the memory of one of the arguments."""
    if any(node is s or (isinstance(s, Node) and node.storage is s.storage) for s in sources):
        node = record(CAST, node, dtype=node.dtype)
    return wrap(node)


def unary(build: Callable[[Node], Node], name: str, doc: str) -> Callable[[Tensor], Tensor]:
    """The public function of a builder with one operand."""

    def function(input: Tensor) -> Tensor:
        node = node_of(input, "input")
        return fresh(build(node), node)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function
