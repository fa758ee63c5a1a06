"""Parameter: a tensor that modules register and optimisers train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import leaf
from tinygrad_lite.ir.types import DType
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


class Uninitialized:
    """What tensors without a shape share: they can be counted, saved and converted, and made, but not computed with.

    The node is empty, and says only the dtype and whether autograd will follow.
    """

    __slots__ = ()

    becomes: ClassVar[type[Tensor]]

    _node: Node
    _bind: Any
    __class__: Any

    def materialize(self, shape: Sequence[int], device: Any = None, dtype: DType | None = None) -> None:
        """Become a plain tensor of zeros of this shape, in place: who holds this one holds that."""
        old = self._node
        node = leaf(np.zeros(tuple(shape), (old.dtype if dtype is None else dtype).numpy))
        node.grad = old.grad
        self.__class__ = self.becomes
        self._bind(node)

    def convert(self, fn: Callable[[Tensor], Tensor]) -> None:
        """Take the dtype that `fn` gives an empty tensor of this one's."""
        node, followed = fn(empty(0, dtype=self._node.dtype))._read(), self._node.grad
        self._bind(leaf(np.zeros(0, node.dtype.numpy)))
        self._node.grad = followed

    def detach(self) -> Any:
        """Itself: there is no value to share."""
        return self

    def _refused(self) -> NoReturn:
        raise RuntimeError(
            f"an {type(self).__name__} has no shape and no values yet: they are made when its module is first called, "
            "or loaded. Call the module once before"
        )

    def _read(self) -> Node:
        self._refused()

    def _values(self, doing: str) -> NoReturn:
        self._refused()

    def dim(self) -> int:
        self._refused()

    def numel(self) -> int:
        self._refused()

    shape = property(_refused)
    ndim = property(_refused)
    ndimension = dim
    nelement = numel

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            make, given = self.__reduce__()
            memo[id(self)] = make(*given)
        return memo[id(self)]

    def __reduce__(self) -> tuple[Any, ...]:
        return _uninitialized, (type(self), self._node.grad is not None, self._node.dtype)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(Uninitialized, Parameter):
    """A parameter whose shape is not known yet; `materialize(shape)` makes it a Parameter. See the nn.Lazy layers."""

    __slots__ = ()

    becomes = Parameter

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: DType | None = None) -> None:
        super().__init__(empty(0, device=device, dtype=dtype), requires_grad)


class UninitializedBuffer(Uninitialized, Tensor):
    """A buffer whose shape is not known yet; `materialize(shape)` makes it a Tensor."""

    __slots__ = ()

    becomes = Tensor

    def __init__(self, requires_grad: bool = False, device: Any = None, dtype: DType | None = None) -> None:
        self._bind(leaf(np.zeros(0, empty(0, device=device, dtype=dtype).dtype.numpy)))
        self.requires_grad_(requires_grad)


def is_lazy(param: Any) -> bool:
    """Whether a tensor is an UninitializedParameter or UninitializedBuffer."""
    return isinstance(param, Uninitialized)


def _uninitialized(kind: Any, requires_grad: bool, dtype: DType) -> Any:
    return kind(requires_grad, dtype=dtype)


def _rooted(node: Node) -> Node:
    """A node of the same value that no other handle has, on memory of its own: compiled steps write to it in place."""
    return detach(node) if node.value is None else leaf(np.array(node.value, order="C"))
