"""The op record: all that is known about an operation stands in one place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from tinygrad_lite.ir.native import Native
from tinygrad_lite.ir.types import TensorType

if TYPE_CHECKING:
    from tinygrad_lite.ir.node import Node


class Kind(Enum):
    """What code generation dispatches on."""

    LEAF = "leaf"  # input, state, constant, eager leaf
    ELEMENTWISE = "elementwise"
    REDUCE = "reduce"
    MOVEMENT = "movement"
    MATMUL = "matmul"
    ATTENTION = "attention"
    CONVOLUTION = "convolution"
    GATHER = "gather"
    SCATTER = "scatter"
    CREATE = "create"
    RANDOM = "random"
    LOOP = "loop"  # runs its attribute `body`, a Graph, many times
    OPAQUE = "opaque"


class Cost(NamedTuple):
    """FLOPs and bytes moved if every operand comes from memory."""

    flops: int
    bytes: int


def moved_bytes(node: Node) -> int:
    return node.type.nbytes + sum(i.type.nbytes for i in node.inputs)


def one_flop_an_element(node: Node) -> Cost:
    return Cost(node.type.size, moved_bytes(node))


def one_flop_an_input_element(node: Node) -> Cost:
    return Cost(math.prod(node.inputs[0].type.shape), moved_bytes(node))


def only_bytes(node: Node) -> Cost:
    return Cost(0, moved_bytes(node))


@dataclass(frozen=True, eq=False)
class Op:
    """One operation.

    infer(*types, **attrs) gives the result's type or raises at the user's line; numpy(*arrays, **attrs) is the meaning;
    vjp(g, node, i) gives the cotangent of input i from the output's (None: no gradient flows); scalar is an elementwise
    op's kernel expression, {0} {1} standing for operands and {t} for the operands' dtype tag; native(node) is an opaque
    op's kernel, and failure what a program raises where that kernel gives up. joint_vjp(g, node, positions) gives the
    cotangents of several inputs at once, where they share work.
    """

    name: str
    kind: Kind
    infer: Callable[..., TensorType]
    numpy: Callable[..., Any]
    vjp: Callable[[Node, Node, int], Node | None] | None = None
    scalar: str | None = None
    cost: Callable[[Node], Cost] = one_flop_an_element
    traits: frozenset[str] = field(default_factory=frozenset)
    native: Callable[[Node], Native] | None = None
    failure: tuple[type[Exception], str] | None = None
    joint_vjp: Callable[[Node, Node, Sequence[int]], list[Node | None]] | None = None

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def __reduce__(self) -> str | tuple[object, ...]:
        return (op_named, (self.name,))


_REGISTRY: dict[str, Op] = {}


def register(op: Op) -> Op:
    """Enter `op` in the table that the parser and the verifier look names up in."""
    if op.name in _REGISTRY:
        raise ValueError(f"op {op.name!r} is registered twice")
    _REGISTRY[op.name] = op
    return op


def op_named(name: str) -> Op:
    """The op called `name`; KeyError if there is none."""
    return _REGISTRY[name]


def all_ops() -> tuple[Op, ...]:
    return tuple(_REGISTRY.values())
