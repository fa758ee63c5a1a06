"""Node: one recorded operation, frozen data."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

from tinygrad_lite.ir.op import Op
from tinygrad_lite.ir.types import TensorType

_serials = itertools.count(1)
next_serial = _serials.__next__


class Location(NamedTuple):
    """Where user code asked for a node: file, line, module scope such as blocks.3.mlp.fc, segments to compute twice."""

    file: str
    line: int
    scope: str = ""
    phase: str = "forward"
    segment: str = ""  # of utils.checkpoint: names from the outside in, joined by /

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}"
        return f"{self.scope} {where}" if self.scope else where


class Settled(NamedTuple):
    """The kernel that a node is in, come what may: its number and iteration domain, whether it runs after forward, and
    whether it stores the node."""

    number: int
    shape: tuple[int, ...]
    axes: frozenset[int]
    late: bool
    stored: bool


class GradMeta:
    """Autograd's notes on a node that requires a gradient: its owner (a leaf's Tensor, weakly), its hooks."""

    __slots__ = ("accumulated", "consumed", "hooks", "leaf", "owner", "retains")

    def __init__(self, leaf: bool = False, owner: Any = None) -> None:
        self.leaf = leaf
        self.owner = owner  # weakref to the Tensor whose .grad accumulates
        self.hooks: dict[int, Any] | None = None
        self.accumulated: dict[int, Any] | None = None  # hooks of a leaf, called after its .grad has changed
        self.retains = False  # retain_grad(): a non-leaf whose owner keeps .grad
        self.consumed = False


class Storage:
    """What a value and its views lie in; `written` is the serial of the last in-place write to any of them."""

    __slots__ = ("written",)

    def __init__(self) -> None:
        self.written = 0


class Node:
    """op applied to inputs under attrs; `value` is its array in eager mode and None in a trace.

    `serial` grows with creation, so inputs always precede users. A node recorded before its `storage` was last written
    must not be read again; `strides` say where it lies in it, None row by row. `holder`: weakly, the tensor whose own
    the node is.
    """

    __slots__ = (
        "__weakref__",
        "attrs",
        "follows",
        "grad",
        "holder",
        "inputs",
        "kernel",
        "late",
        "location",
        "op",
        "order",
        "serial",
        "storage",
        "strides",
        "type",
        "value",
    )

    def __init__(
        self,
        op: Op,
        inputs: tuple[Node, ...],
        attrs: Mapping[str, Any],
        type: TensorType,
        location: Location | None = None,
        value: Any = None,
        grad: GradMeta | None = None,
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.attrs = attrs
        self.type = type
        self.location = location
        self.value = value
        self.grad = grad
        self.serial = next_serial()
        self.order = self.serial  # program order, kept by what passes put in its stead: the scheduler's hint
        self.storage = Storage()
        self.strides: tuple[int, ...] | None = None
        self.holder: Any = None
        self.kernel: Settled | None = None
        self.follows = False  # computed where its user is, not where its operands are: another hint
        self.late = False  # in no kernel of forward, though it could be

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> Any:
        return self.type.dtype

    def with_inputs(self, inputs: tuple[Node, ...]) -> Node:
        """The same operation on other inputs (of the same types), keeping its location."""
        return self if inputs == self.inputs else self.copy(inputs)

    def copy(self, inputs: tuple[Node, ...]) -> Node:
        """Another node of the same operation and location, with the scheduler's hints."""
        node = Node(self.op, inputs, self.attrs, self.type, self.location)
        node.order, node.kernel = self.order, self.kernel
        node.follows, node.late = self.follows, self.late
        return node

    def __repr__(self) -> str:
        attrs = ", ".join(f"{k}={'{…}' if k == 'body' else v}" for k, v in self.attrs.items())
        inputs = ", ".join(f"{i.op.name}#{i.serial}" for i in self.inputs)
        return f"<{self.op.name}#{self.serial}({inputs}){' {' + attrs + '}' if attrs else ''} : {self.type}>"

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a Node is pickled as part of a Graph, whose list of nodes does not recurse")
