"""Parameter: a tensor that modules register and optimisers train."""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import leaf
from tinygrad_lite.ops.elementwise import detach
from tinygrad_lite.tensor import Tensor, empty


class Parameter(Tensor):
    """A leaf tensor that requires grad, and that a Module registers when it is assigned to an attribute.

    Args:
        data: its value, without history, which is copied: in-place writes to one do not show in the other.
            None is an empty tensor.
        requires_grad: whether autograd follows it.
    """

    __slots__ = ()

    def __init__(self, data: Tensor | None = None, requires_grad: bool = True) -> None:
        given = empty(0) if data is None else data
        if not isinstance(given, Tensor):
            raise TypeError(f"a Parameter is made from a Tensor, not from {type(given).__name__}")
        self._bind(_rooted(given._read()))
        if requires_grad:
            self.requires_grad_()

    def __repr__(self) -> Any:
        return f"Parameter containing:\n{super().__repr__()}"


def _rooted(node: Node) -> Node:
    """A node of the same value that no other handle has, on memory of its own: compiled steps write to it in place."""
    return detach(node) if node.value is None else leaf(np.array(node.value, order="C"))
