"""Graph: a frozen snapshot of nodes taken from its results. No method recurses over nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from tinygrad_lite.ir.node import Location, Node
from tinygrad_lite.ir.op import Op
from tinygrad_lite.ir.present import Presentable

if TYPE_CHECKING:
    from tinygrad_lite.ir.difference import Difference


class Update(NamedTuple):
    """After a run the state's value is `value`."""

    state: Node
    value: Node


def topological(roots: Iterable[Node]) -> tuple[Node, ...]:
    """Every node that `roots` depend on, inputs before users, in a stable depth-first order."""
    seen: set[Node] = set()
    order: list[Node] = []
    stack: list[Node | None] = [*reversed(list(roots))]
    while stack:
        node = stack.pop()
        if node is None:  # all that the next one depends on is listed
            order.append(cast(Node, stack.pop()))
        elif node not in seen:
            seen.add(node)
            stack += [node, None, *node.inputs[::-1]]
    return tuple(order)


@dataclass(frozen=True)
class Graph(Presentable):
    """args and states → outputs and state updates. Nodes are listed inputs first, args and states foremost."""

    name: str
    args: tuple[Node, ...]
    states: tuple[Node, ...]
    outputs: tuple[Node, ...]
    updates: tuple[Update, ...] = ()
    meta: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        return topological([*self.args, *self.states, *self.results])

    @property
    def results(self) -> tuple[Node, ...]:
        return (*self.outputs, *(u.value for u in self.updates))

    @cached_property
    def users(self) -> dict[int, list[Node]]:
        """id(node) → its users, in order, once per operand position."""
        users: dict[int, list[Node]] = {id(n): [] for n in self.nodes}
        for node in self.nodes:
            for i in node.inputs:
                users[id(i)].append(node)
        return users

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def __len__(self) -> int:
        return len(self.nodes)

    def rebuild(self, visit: Callable[[Node, tuple[Node, ...]], Node]) -> Graph:
        """A graph in which each node is `visit(node, new inputs)`; args and states are kept as they are.

        It is this graph itself where no node has changed.
        """
        new: dict[Node, Node] = {n: n for n in (*self.args, *self.states)}
        for node in self.nodes:
            if node not in new:
                new[node] = visit(node, tuple([new[i] for i in node.inputs]))
        if all(new[r] is r for r in self.results):
            return self
        return self.with_results([new[o] for o in self.outputs], [new[u.value] for u in self.updates])

    def with_results(self, outputs: Sequence[Node], values: Sequence[Node]) -> Graph:
        """The same signature, other result nodes."""
        updates = tuple(Update(u.state, v) for u, v in zip(self.updates, values, strict=True))
        return Graph(self.name, self.args, self.states, tuple(outputs), updates, self.meta)

    def __reduce__(self) -> str | tuple[object, ...]:
        return (_restore, (self.name, *_flatten(self), self.meta))

    def __str__(self) -> str:
        return self.to_text()

    # ---- to look at ----

    def to_text(self, **options: Any) -> str:
        """Text that `parse` reads back; `options` are those of `ir.text.to_text`."""
        from tinygrad_lite.ir.text import to_text

        return to_text(self, **options)

    def to_dict(self) -> dict[str, Any]:
        """Dictionaries that `ir.export.from_dict` reads back."""
        from tinygrad_lite.ir.export import to_dict

        return to_dict(self)

    def to_dot(self, **options: Any) -> str:
        """DOT source; `options` are those of `ir.dot.to_dot`."""
        from tinygrad_lite.ir.dot import to_dot

        return to_dot(self, **options)

    def diff(self, after: Graph) -> Difference:
        """What has to change to get from this graph to `after`; see `ir.difference.Difference`."""
        from tinygrad_lite.ir.difference import Difference

        return Difference(self, after)

    def to_networkx(self) -> Any:
        """A networkx.DiGraph; see `ir.export.to_networkx`."""
        from tinygrad_lite.ir.export import to_networkx

        return to_networkx(self)


def _flatten(graph: Graph) -> tuple[list[tuple[Any, ...]], list[list[int]]]:
    """A row a node (op, input indices, attrs, type, location); the indices of args, states, outputs, updates."""
    index = {id(n): i for i, n in enumerate(graph.nodes)}
    rows = [
        (n.op, [index[id(i)] for i in n.inputs], dict(n.attrs), n.type, tuple(n.location) if n.location else None)
        for n in graph.nodes
    ]
    groups = [
        graph.args,
        graph.states,
        graph.outputs,
        [u.state for u in graph.updates],
        [u.value for u in graph.updates],
    ]
    return rows, [[index[id(n)] for n in group] for group in groups]


def copied(graph: Graph) -> Graph:
    """The same graph of nodes of its own."""
    return _restore(graph.name, *_flatten(graph), graph.meta)


def _restore(
    name: str, rows: list[tuple[Op, list[int], dict[str, Any], Any, Any]], groups: list[list[int]], meta: dict[str, Any]
) -> Graph:
    nodes: list[Node] = []
    for op, inputs, attrs, type, location in rows:
        nodes.append(Node(op, tuple(nodes[i] for i in inputs), attrs, type, Location(*location) if location else None))
    args, states, outputs, targets, values = ([nodes[i] for i in group] for group in groups)
    updates = tuple(Update(s, v) for s, v in zip(targets, values, strict=True))
    return Graph(name, tuple(args), tuple(states), tuple(outputs), updates, meta)
