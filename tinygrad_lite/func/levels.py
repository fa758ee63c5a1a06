"""What the derivative transforms share: stand-ins for arguments, and results that keep only the outside's history."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tinygrad_lite.autograd.gradient import grad
from tinygrad_lite.creation import zeros_like
from tinygrad_lite.func import trees
from tinygrad_lite.handle import Tensor
from tinygrad_lite.ir.node import GradMeta, Node, next_serial
from tinygrad_lite.ir.record import mode, record
from tinygrad_lite.ops.elementwise import CAST, DETACH
from tinygrad_lite.ops.movement import RESHAPE

Function = Callable[..., Any]


class Level:
    """One transform at work.

    The function gets stand-ins for the tensors that it is differentiated by. Of a tensor that autograd follows the
    stand-in is a view with that history, so that transforms and `backward()` around this one see through it; of any
    other it is a leaf, known to this transform alone.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.start = next_serial()
        self.own: set[int] = set()  # ids of the leaves that stand for tensors without history
        self.stand_ins: list[Node] = []

    def enter(self, args: tuple[Any, ...], chosen: Sequence[int]) -> tuple[list[Any], list[Tensor]]:
        """The arguments with stand-ins in the chosen ones, and these stand-ins, in order."""
        inner, found = list(args), []
        for i in chosen:
            fresh = [self._stand_in(leaf) for leaf in trees.leaves(args[i])]
            inner[i] = trees.rebuilt(args[i], iter(fresh))
            found += fresh
        return inner, found

    def _stand_in(self, given: Any) -> Tensor:
        if not isinstance(given, Tensor):
            raise ValueError(f"{self.name}: what is differentiated by must be a Tensor, got {type(given).__name__}")
        node = given._read()
        if node.dtype.kind != "f":
            raise RuntimeError(f"{self.name}: only floating tensors can be differentiated by, got {node.type}")
        if node.grad is not None:
            with mode.set(grad_enabled=True):
                return self.follow(record(RESHAPE, node, shape=node.shape))
        return self.leaf(node)

    def leaf(self, node: Node) -> Tensor:
        """A leaf with the values of `node`, which only this transform asks for."""
        fresh = record(DETACH, node)
        fresh.grad = GradMeta(leaf=True)
        self.own.add(id(fresh))
        return self.follow(fresh)

    def follow(self, node: Node) -> Tensor:
        self.stand_ins.append(node)
        return Tensor._from_node(node)

    def leads_outside(self, tensors: Iterable[Tensor]) -> list[bool]:
        """Of each tensor, whether its history reaches one that somebody outside differentiates by."""
        roots = [t._read() for t in tensors]
        found: set[int] = set()
        for node in self._followed(roots):
            assert node.grad is not None
            older = node.serial < self.start
            source = older or node.grad.leaf or not any(i.grad is not None for i in node.inputs)
            if id(node) not in self.own and (source or any(id(i) in found for i in node.inputs)):
                found.add(id(node))
        return [id(root) in found for root in roots]

    def _followed(self, roots: Sequence[Node]) -> list[Node]:
        """The nodes with history below `roots`, inputs first, down to those from before this transform."""
        seen: dict[int, Node] = {}
        pending = [n for n in roots if n.grad is not None]
        while pending:
            node = pending.pop()
            if id(node) not in seen:
                seen[id(node)] = node
                if node.serial >= self.start:
                    pending += [i for i in node.inputs if i.grad is not None]
        return sorted(seen.values(), key=lambda n: n.serial)

    def left(self, result: Any) -> Any:
        """A structure of results as the outside sees it: with history that leads outside, if that is followed there."""
        leaves = trees.leaves(result)
        found = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        kept = self.leads_outside(found) if mode.grad_enabled else [False] * len(found)
        fresh = iter([self._left(t, keep) for t, keep in zip(found, kept, strict=True)])
        return trees.rebuilt(result, iter([next(fresh) if isinstance(leaf, Tensor) else leaf for leaf in leaves]))

    def _left(self, tensor: Tensor, keep: bool) -> Tensor:
        node = tensor._read()
        if tensor._base is not None or node.serial < self.start or any(node is s for s in self.stand_ins):
            node = record(CAST, node, dtype=node.dtype)  # in memory of its own
        elif keep:
            return tensor
        return Tensor._from_node(node if keep else record(DETACH, node))


def pulled_back(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    cotangents: Sequence[Tensor],
    create_graph: bool,
    retain_graph: bool = True,
) -> list[Tensor]:
    """The cotangents of `inputs`: zeros where nothing leads there."""
    pairs = [(y, g) for y, g in zip(outputs, cotangents, strict=True) if y.requires_grad]
    if not pairs:
        return [zeros_like(x) for x in inputs]
    found = grad(
        [y for y, _ in pairs],
        inputs,
        [g for _, g in pairs],
        retain_graph=retain_graph,
        create_graph=create_graph,
        materialize_grads=True,
    )
    return list(found)  # type: ignore[arg-type]


def split_aux(name: str, result: Any, has_aux: bool) -> tuple[Any, Any]:
    """(output, aux) of what a function gave."""
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(
            f"{name}: with has_aux=True the function must return a tuple (output, aux), got {type(result).__name__}"
        )
    return result


def outputs_of(name: str, result: Any) -> list[Tensor]:
    """The results of a function, all of them tensors."""
    found = trees.leaves(result)
    for leaf in found:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"{name}: the function must return only Tensors, got {type(leaf).__name__}")
    if not found:
        raise RuntimeError(f"{name}: the function must return at least one Tensor, got {result!r}")
    return found


def positions(name: str, argnums: int | tuple[int, ...], count: int) -> list[int]:
    """`argnums` as numbers from 0 on. RuntimeError where they are no integers, out of range or given twice."""
    chosen = (argnums,) if isinstance(argnums, int) else argnums
    if not isinstance(chosen, tuple) or not all(type(i) is int for i in chosen) or not chosen:
        raise RuntimeError(f"{name}: argnums must be an integer or a non-empty tuple of them, got {argnums!r}")
    for i in chosen:
        if not -count <= i < count:
            raise RuntimeError(f"{name}: argnums={argnums} is out of range for a function given {count} arguments")
    found = [i % count for i in chosen]
    if len(set(found)) != len(found):
        raise RuntimeError(f"{name}: argnums={argnums} names an argument twice")
    return found


def chosen_of(args: Sequence[Any], argnums: int | tuple[int, ...], numbers: Sequence[int]) -> Any:
    """The chosen arguments in the form that results by them have: one, or a tuple."""
    return args[numbers[0]] if isinstance(argnums, int) else tuple(args[i] for i in numbers)
