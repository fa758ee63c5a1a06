"""Functions made of several ops that round 16-bit floats once, at their end, rather than after each op."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ops.elementwise import cast
from tinygrad_lite.ops.promote import result_type

P = ParamSpec("P")


def rounded_once(build: Callable[P, Node]) -> Callable[P, Node]:
    """`build` on float32 copies of its float16 and bfloat16 operands, its result cast back."""

    @functools.wraps(build)
    def wide(*args: P.args, **kwargs: P.kwargs) -> Node:
        halves = [x for x in (*args, *kwargs.values()) if isinstance(x, Node) and x.dtype.is_half]
        if not halves:
            return build(*args, **kwargs)
        given: list[Any] = [_widened(x) for x in args]
        named: dict[str, Any] = {name: _widened(x) for name, x in kwargs.items()}
        result = build(*given, **named)
        floats = [x for x in (*args, *kwargs.values()) if isinstance(x, Node) and x.dtype.kind == "f"]
        dtype = result_type(floats)
        return cast(result, dtype) if dtype.is_half and result.dtype.kind == "f" else result

    return wide


def _widened(x: Any) -> Any:
    return cast(x, x.dtype.working) if isinstance(x, Node) and x.dtype.is_half else x
