"""Variable, what old code wraps tensors in."""

from __future__ import annotations

from typing import Any

from tinygrad_lite.handle import Tensor


class _Any(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, Tensor)


class Variable(metaclass=_Any):
    """`Variable(tensor, requires_grad)` is a Tensor on the same values, a leaf; every Tensor is an instance."""

    def __new__(cls, data: Tensor, requires_grad: bool = False) -> Any:
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable takes a Tensor, not a {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)
