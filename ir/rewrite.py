"""The rewrite driver: rules are data, applied to a fixpoint in topological order, never by recursion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Location, Node
from tinygrad_lite.ir.op import Op
from tinygrad_lite.ir.record import mode

# Rules that do not settle within these bounds are left there: every state between is a correct graph.
_MAX_SWEEPS = 32
_MAX_STEPS = 16  # rewrites of one node within a sweep
_MAX_HITS = 64  # for each node of the graph, in all


@dataclass(frozen=True)
class Rule:
    """Where `rewrite(node)` gives another node, that one takes the place of `node`, whose op is among `ops`.

    `why` is the formula, with the reason where bits or cost could be in doubt.
    """

    name: str
    ops: tuple[str, ...]
    rewrite: Callable[[Node], Node | None]
    why: str = ""


def rule(*ops: str, why: str = "") -> Callable[[Callable[[Node], Node | None]], Rule]:
    """Make a Rule of the function below; its name is the function's."""
    return lambda function: Rule(function.__name__, ops, function, why)


def build(op: Op, *inputs: Node, location: Location | None = None, **attrs: Any) -> Node:
    """A symbolic node, typed by the op's rule, whatever the recording mode."""
    return Node(op, inputs, attrs, op.infer(*[i.type for i in inputs], **attrs), location)


def rewrite(graph: Graph, rules: Sequence[Rule], hits: Counter[str] | None = None) -> Graph:
    """`graph` under `rules` until none applies; `hits` counts the rules that did, by name."""
    hits = Counter() if hits is None else hits
    by_op: dict[str, list[Rule]] = {}
    for each in rules:
        for name in each.ops:
            by_op.setdefault(name, []).append(each)
    budget = hits.total() + _MAX_HITS * (len(graph) + 16)
    with mode.set(trace=graph, grad_enabled=False):  # so that rules may use the builders in ops/
        for _ in range(_MAX_SWEEPS):
            before = hits.total()
            graph = graph.rebuild(lambda node, inputs: _settle(node.with_inputs(inputs), by_op, hits))
            if hits.total() == before or hits.total() > budget:
                break
    return graph


def _settle(node: Node, by_op: dict[str, list[Rule]], hits: Counter[str]) -> Node:
    for _ in range(_MAX_STEPS):
        found = _first_hit(node, by_op.get(node.op.name, ()), hits)
        if found is None:
            break
        node = found
    return node


def _first_hit(node: Node, rules: Sequence[Rule], hits: Counter[str]) -> Node | None:
    for each in rules:
        found = each.rewrite(node)
        if found is None or found is node:
            continue
        if found.type != node.type:
            raise TypeError(f"rule {each.name} turned {node!r} into {found!r}, which is of another type")
        hits[each.name] += 1
        inherit(found, node)
        return found
    return None


def inherit(new: Node, old: Node) -> None:
    """Give `new`, and what was made along with it, the location and program order of the node it replaces."""
    fresh = [new]
    while fresh:
        node = fresh.pop()
        if node.serial > old.serial and node.order != old.order:
            node.location, node.order = old.location, old.order
            fresh.extend(node.inputs)
