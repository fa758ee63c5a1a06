"""`tensor.graph()`: what eager mode recorded behind a tensor, as a Graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tinygrad_lite.ir.graph import Graph, topological
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ops import leaf as leaves

if TYPE_CHECKING:
    from tinygrad_lite.handle import Tensor


def graph_of(tensor: Tensor, model: Any = None, name: str = "eager") -> Graph:
    """The graph from leaves to `tensor`: those that require grad are states, other scalars constants, the rest inputs.

    States are called as the parameters of `model`, where one is given, else after the module that used them first.
    """
    root = tensor._read()
    nodes = topological([root])
    naming = _Names(nodes, model)
    args: list[Node] = []
    states: list[Node] = []
    new: dict[int, Node] = {}
    for node in nodes:
        if node.op.kind is Kind.LEAF and node.op.name == "leaf":
            new[id(node)] = _leaf(node, naming, args, states)
        else:
            new[id(node)] = node.with_inputs(tuple(new[id(i)] for i in node.inputs))
    return Graph(name, tuple(args), tuple(states), (new[id(root)],))


def _leaf(node: Node, naming: _Names, args: list[Node], states: list[Node]) -> Node:
    if node.grad is not None:
        states.append(leaves.state(naming.of(node), node.dtype, node.shape))
        return states[-1]
    if node.value is not None and node.type.shape == ():
        return Node(leaves.CONSTANT, (), _data(node), node.type)
    args.append(leaves.input(naming.of(node), node.dtype, node.shape))
    return args[-1]


def _data(node: Node) -> dict[str, Any]:
    return {"data": tuple(np.asarray(node.value).ravel().tolist()), "dtype": node.dtype, "shape": node.shape}


class _Names:
    def __init__(self, nodes: tuple[Node, ...], model: Any) -> None:
        self.known: dict[int, str] = {}
        if model is not None:
            named = (*model.named_parameters(), *model.named_buffers())
            self.known = {id(t._node): name for name, t in named}
        self.scopes: dict[int, str] = {}
        for node in nodes:
            for operand in node.inputs:
                self.scopes.setdefault(id(operand), node.location.scope if node.location else "")
        self.taken: set[str] = set(self.known.values())

    def of(self, node: Node) -> str:
        if id(node) in self.known:
            return self.known[id(node)]
        scope = self.scopes.get(id(node), "")
        stem = f"{scope}." if scope else ""
        kind = "weight" if node.grad is not None else "leaf"
        number = next(i for i in range(len(self.taken) + 1) if f"{stem}{kind}{i}" not in self.taken)
        self.taken.add(f"{stem}{kind}{number}")
        return f"{stem}{kind}{number}"
