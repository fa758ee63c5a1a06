"""Trace: what recording consults during a capture."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from tinygrad_lite.errors import CaptureError
from tinygrad_lite.guards import Variables
from tinygrad_lite.ir.node import GradMeta, Node
from tinygrad_lite.ir.op import Kind, Op, only_bytes, register
from tinygrad_lite.ir.record import here
from tinygrad_lite.ir.types import float64
from tinygrad_lite.ops import leaf as leaves
from tinygrad_lite.tensor import Tensor


def _refuse(g: Node, node: Node, i: int) -> Node:
    raise CaptureError(
        f"a tensor computed outside the compiled function carries history into it, at {node.location}: detach() it, or "
        "compute it inside"
    )


HISTORY = register(Op("history", Kind.ELEMENTWISE, lambda x: x, lambda x: x, _refuse, "{0}", only_bytes))


@dataclass
class Scalar:
    """A number read again before each run, such as a learning rate."""

    label: str
    read: Callable[[], float]
    node: Node


class Trace:
    """What recording consults during a capture: which handles were read, changed, asked for their gradients."""

    def __init__(self, tensors: list[Tensor], variables: Variables) -> None:
        self.args = tensors
        self.variables = variables
        self.inputs = [_input(i, t) for i, t in enumerate(tensors)]
        self.lifted: dict[int, Node] = {id(t): n for t, n in zip(tensors, self.inputs, strict=True)}
        self.states: list[tuple[Tensor, Node]] = []
        self.touched: dict[int, tuple[Tensor, tuple[Any, ...]]] = {}
        self.grads_written: set[int] = set()
        self.grads_read: dict[int, tuple[Tensor, Tensor | None]] = {}
        self.scalars: dict[str, Scalar] = {}
        self.statics: dict[str, tuple[Callable[[], Hashable], Hashable]] = {}
        self.modules: dict[int, tuple[Any, Any]] = {}
        self.names: dict[int, str] = {}
        self.taken: dict[str, int] = {}

    def lift(self, tensor: Tensor) -> Node:
        """The symbolic node that stands for a handle from outside."""
        node = self.lifted.get(id(tensor))
        if node is None:
            meta = tensor._node.grad
            node = leaves.state(self._unique(self.names.get(id(tensor), "")), tensor._node.dtype, tensor._node.shape)
            node.grad, node.holder = meta, weakref.ref(tensor)
            self.states.append((tensor, node))
            if meta is not None and not meta.leaf:  # fine, unless a gradient asks for what came before
                node = Node(HISTORY, (node,), {}, node.type, here(), None, GradMeta())
            self.lifted[id(tensor)] = node
        return node

    def touch(self, tensor: Tensor) -> None:
        """Remember a handle as it was before its first change."""
        if id(tensor) not in self.touched:
            self.touched[id(tensor)] = (tensor, tensor._state())

    def is_from_outside(self, tensor: Tensor) -> bool:
        """Was the handle there before the capture?"""
        _, (node, *_) = self.touched.get(id(tensor), (tensor, (tensor._node,)))
        return node.value is not None

    def wrote_grad(self, tensor: Tensor) -> None:
        """`.grad` is set: from here on its value is the capture's own."""
        self.touch(tensor)
        self.grads_written.add(id(tensor))

    def read_grad(self, tensor: Tensor) -> None:
        """`.grad` is looked at: a capture holds only while it is as present, or as absent, as it was."""
        if id(tensor) not in self.grads_written and id(tensor) not in self.grads_read:
            self.grads_read[id(tensor)] = (tensor, tensor._grad)

    def draws(self, count: int) -> int:
        """How many counters of a generator `count` numbers take."""
        return count

    def runtime_scalar(self, label: str, read: Callable[[], float]) -> Tensor:
        """A 0-d float64 tensor whose value is read anew before each run."""
        if label not in self.scalars:
            self.scalars[label] = Scalar(label, read, leaves.input(self._unique(label), float64, ()))
        return Tensor._from_node(self.scalars[label].node)

    def static_value(self, label: str, read: Callable[[], Hashable]) -> Any:
        """A value that shapes the graph; another value means another capture."""
        if label not in self.statics:
            self.statics[label] = (read, read())
        return self.statics[label][1]

    def saw_module(self, module: Any) -> None:
        """A module was called: its attributes become part of what the capture depends on."""
        if id(module) in self.modules:
            return
        for each in module.modules():  # those below may be read without being called
            if id(each) not in self.modules:
                self.modules[id(each)] = (each, each.guard_key())
                self.variables.follow_forward(each)
        for name, tensor in (*module.named_parameters(module._name), *module.named_buffers(module._name)):
            self.names.setdefault(id(tensor), name)

    def name(self, tensor: Tensor, of: Tensor, suffix: str) -> None:
        """Call `tensor` after another one, such as an optimiser's moments after the parameter."""
        self.names.setdefault(id(tensor), f"{self.names.get(id(of), 'state')}.{suffix}")

    def _unique(self, name: str) -> str:
        name = name or "state"
        count = self.taken.get(name, 0)
        self.taken[name] = count + 1
        return f"{name}.{count}" if count else name

    def restore(self) -> None:
        """Put every changed handle back as it was."""
        for tensor, state in self.touched.values():
            tensor._restore(state)


def _input(index: int, tensor: Tensor) -> Node:
    node = leaves.input(f"arg{index}", tensor._node.dtype, tensor._node.shape)
    node.grad, node.holder = tensor._node.grad, weakref.ref(tensor)
    return node
