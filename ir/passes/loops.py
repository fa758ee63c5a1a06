"""loops: the bodies of scans under the same passes, and a signature of no more than what is read.

* A y that nobody reads goes, and a carry that only keeps itself going; a carry of which only the last value is read
  keeps no history. The backward half of a training step reads less of a loop than it might.
* Two results that are one value are stored once; a y that is the new carry is a window of the carry's history.
* What is uniform becomes a constant of the body; an argument given twice, or not read, goes.
* What is computed from consts alone is computed once, before the loop. (An `expand` stays: it costs nothing inside.)
* A product of x_t with a const becomes one product over all steps, before the loop.

All keep every bit, except that a product over all steps may be summed in another order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tinygrad_lite.ir.graph import Graph, topological
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.passes.base import Pass
from tinygrad_lite.ir.passes.canonicalise import CANONICALISE
from tinygrad_lite.ir.passes.cse import CSE
from tinygrad_lite.ir.passes.fold import FOLD
from tinygrad_lite.ir.passes.values import full, uniform
from tinygrad_lite.ir.record import mode
from tinygrad_lite.ir.rewrite import build, inherit
from tinygrad_lite.ops import movement
from tinygrad_lite.ops.contract import MATMUL
from tinygrad_lite.ops.control import SCAN, Order, Segment, segments
from tinygrad_lite.ops.leaf import input

_BODY_PASSES = (CSE, CANONICALISE, FOLD, CSE, CANONICALISE, CSE)
_MAX_SWEEPS = 8  # what one loop no longer reads, another need no longer give
_DONE = "loops"  # marks bodies that need no more passes


def loops(graph: Graph, hits: Counter[str]) -> Graph:
    """`graph` with its scans trimmed, until nothing changes."""
    for _ in range(_MAX_SWEEPS):
        before = hits.total()
        if not any(n.op is SCAN for n in graph.nodes):
            break
        with mode.set(trace=graph, grad_enabled=False):
            graph = _sweep(graph, hits)
        if hits.total() == before:
            break
    return graph


def _sweep(graph: Graph, hits: Counter[str]) -> Graph:
    results = {id(r) for r in graph.results}
    trimmed: dict[int, _Trimmed] = {}

    def visit(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op is SCAN:
            users = graph.users[id(node)]
            done = _Loop(node, inputs, users if id(node) not in results else None, hits).trim()
            trimmed[id(node)] = done
            return done.node
        moved = trimmed.get(id(node.inputs[0])) if node.op.name == "slice" else None
        return node.with_inputs(inputs) if moved is None else moved.slice(node)

    return graph.rebuild(visit)


@dataclass(frozen=True)
class _Trimmed:
    """A new scan, and where the parts of the old one's result are: `moves` are (old segment, new start), or None."""

    node: Node
    moves: tuple[tuple[Segment, int], ...] | None = None

    def slice(self, old: Node) -> Node:
        (start,), (stop,) = old.attrs["starts"], old.attrs["stops"]
        if start == stop:
            start = stop = 0
        for segment, at in self.moves or ():
            if segment.start <= start and stop <= segment.stop:
                start, stop = start + at - segment.start, stop + at - segment.start
                break
        new = build(movement.SLICE, self.node, starts=(start,), stops=(stop,), steps=(1,))
        inherit(new, old)
        return new


class _Loop:
    """One scan being trimmed. `users` read its result; None: all of it is read."""

    def __init__(self, node: Node, inputs: tuple[Node, ...], users: list[Node] | None, hits: Counter[str]) -> None:
        self.node, self.hits = node, hits
        attrs = node.attrs
        self.body: Graph = attrs["body"]
        self.carries: int = attrs["carries"]
        self.length: int = attrs["length"]
        self.history: list[bool] = list(attrs["history"])
        self.order = Order(self.length, attrs["reverse"])
        self.segments = segments([o.type for o in self.body.outputs], self.length, attrs["history"])
        ends = self.carries, self.carries + attrs["xs"]
        self.init, self.xs, self.consts = inputs[: ends[0]], list(inputs[ends[0] : ends[1]]), list(inputs[ends[1] :])
        args = self.body.args
        self.carry_args, self.x_args, self.const_args = (
            args[: ends[0]],
            list(args[ends[0] : ends[1]]),
            list(args[ends[1] :]),
        )
        self.outputs = list(self.body.outputs)
        self.reads = self._reads(users)
        self.clean = True  # has the body been through the passes as it is?

    def _reads(self, users: list[Node] | None) -> list[tuple[int, int]] | None:
        """The ranges of the result that are read; None where that is not plain to see."""
        if users is None or any(u.op.name != "slice" or u.attrs["steps"] != (1,) for u in users):
            return None
        ranges = [(u.attrs["starts"][0], u.attrs["stops"][0]) for u in users]
        whole = all(any(s.start <= a and b <= s.stop for s in self.segments) for a, b in ranges)
        return ranges if whole else None

    def trim(self) -> _Trimmed:
        before = self.hits.total()
        self._inline_uniform()
        self._optimise()
        optimised = self.hits.total()
        self._hoist()
        self._merge_arguments()
        self.clean = self.hits.total() == optimised
        if self.reads is None:
            return _Trimmed(self._rebuilt(self.init, self.hits.total() != before))
        same = self._same()
        kept = self._live(same)
        changed = self._drop_history()
        drops = [i for i in range(len(self.outputs)) if i not in kept or i in same]
        self.hits["result dropped"] += len(drops)
        if not (drops or changed):
            return _Trimmed(self._rebuilt(self.init, self.hits.total() != before))
        return self._without(set(drops), same)

    # ---- the body ----

    def _inline_uniform(self) -> None:
        known: dict[int, Node] = {}
        for values, args, first in ((self.xs, self.x_args, 1), (self.consts, self.const_args, 0)):
            for value, arg in list(zip(values, args, strict=True)):
                number = uniform(value) if 0 not in value.shape else None
                if number is not None:
                    known[id(arg)] = full(number, value.shape[first:], value.dtype)
                    values.pop(args.index(arg))
                    args.remove(arg)
        if known:
            self.hits["uniform argument"] += len(known)
            self._replace(known)

    def _replace(self, known: dict[int, Node]) -> None:
        """The results with some of the body's values replaced."""
        new = dict(known)
        for node in topological(self.outputs):
            if id(node) not in new:
                new[id(node)] = node.with_inputs(tuple(new[id(i)] for i in node.inputs))
        self.outputs = [new[id(o)] for o in self.outputs]

    def _optimise(self) -> None:
        if self.body.meta.get(_DONE) and self.outputs == list(self.body.outputs):
            return
        graph = self._graph()
        for each in (*_BODY_PASSES[:3], LOOPS, _SINK, *_BODY_PASSES[3:]):
            graph = each.apply(graph, Counter())
        self.outputs = list(graph.outputs)
        self.hits["body optimised"] += 1

    def _graph(self) -> Graph:
        args = (*self.carry_args, *self.x_args, *self.const_args)
        return Graph(self.body.name, args, (), tuple(self.outputs), (), {_DONE: self.clean})

    # ---- work that leaves the loop ----

    def _hoist(self) -> None:
        """What consts alone decide, and products of xs with it, become arguments."""
        if not self.length:
            return
        nodes = topological([*self.carry_args, *self.x_args, *self.const_args, *self.outputs])
        outside: dict[int, Node] = dict(zip(map(id, self.const_args), self.consts, strict=True))
        rows: dict[int, Node] = dict(zip(map(id, self.x_args), self.xs, strict=True))
        for node in nodes:
            below = [outside.get(id(i)) for i in node.inputs]
            if node.inputs and all(below) and _may_leave(node):
                outside[id(node)] = self._moved(build(node.op, *[b for b in below if b], **node.attrs), node)
            elif node.inputs and id(node.inputs[0]) in rows and (made := self._all_rows(node, rows, below)) is not None:
                rows[id(node)] = self._moved(made, node)
        inside = {id(a) for a in (*self.const_args, *self.x_args)}
        self._take_in(nodes, outside, inside, self.consts, self.const_args, lambda n: n.type.shape)
        self._take_in(nodes, rows, inside, self.xs, self.x_args, lambda n: n.type.shape, only="matmul")

    def _moved(self, new: Node, old: Node) -> Node:
        new.location, new.order = old.location, self.node.order
        return new

    def _all_rows(self, node: Node, rows: dict[int, Node], below: list[Node | None]) -> Node | None:
        """A reshape of x_t, or its product with a const, for all steps."""
        x = rows[id(node.inputs[0])]
        if node.op.name == "reshape":
            return movement.reshape(x, (self.length, *node.shape))
        if node.op is not MATMUL or node.type.ndim != 2 or below[1] is None:
            return None
        flat = movement.reshape(x, (self.length * node.shape[0], x.shape[-1]))
        return movement.reshape(build(MATMUL, flat, below[1]), (self.length, *node.shape))

    def _take_in(
        self,
        nodes: tuple[Node, ...],
        made: dict[int, Node],
        inside: set[int],
        values: list[Node],
        args: list[Node],
        shape: Callable[[Node], Any],
        only: str = "",
    ) -> None:
        """Values made outside, where the loop reads them, become arguments."""
        results = {id(o) for o in self.outputs}
        read = {id(i) for n in topological(self.outputs) if id(n) not in made for i in n.inputs} | results
        fresh: dict[int, Node] = {}
        for node in nodes:
            if id(node) in made and id(node) in read and id(node) not in inside and only in ("", node.op.name):
                fresh[id(node)] = input(self._name(), node.dtype, shape(node))
                values.append(made[id(node)])
                args.append(fresh[id(node)])
                self.hits["moved out"] += 1
        if fresh:
            self._replace(fresh)

    def _name(self) -> str:
        taken = {a.attrs["name"] for a in (*self.carry_args, *self.x_args, *self.const_args)}
        return next(name for i in range(len(taken) + 1) if (name := f"m{i}") not in taken)

    def _merge_arguments(self) -> None:
        read = {id(n) for n in topological(self.outputs)}
        for values, args in ((self.xs, self.x_args), (self.consts, self.const_args)):
            first: dict[int, Node] = {}
            twins: dict[int, Node] = {}
            for value, arg in list(zip(values, args, strict=True)):
                if id(arg) in read and id(value) not in first:
                    first[id(value)] = arg
                    continue
                if id(arg) in read:
                    twins[id(arg)] = first[id(value)]
                values.pop(args.index(arg))
                args.remove(arg)
                self.hits["argument dropped"] += 1
            if twins:
                self._replace(twins)

    # ---- results ----

    def _is_read(self, i: int) -> bool:
        segment = self.segments[i]
        return any(segment.start <= a and b <= segment.stop and a < b for a, b in self.reads or ())

    def _live(self, same: dict[int, int]) -> set[int]:
        """Results that are read, or that are the same as one read, and the carries that those depend on."""
        live = {same.get(i, i) for i in range(len(self.outputs)) if self._is_read(i)} or {0}
        while True:
            below = {id(n) for n in topological([self.outputs[i] for i in live])}
            more = {k for k, a in enumerate(self.carry_args) if id(a) in below} - live
            if not more:
                return live
            live |= more

    def _same(self) -> dict[int, int]:
        """ys that are read and are another result: an earlier y, or the new value of a carry that keeps its history."""
        first: dict[int, int] = {}
        same: dict[int, int] = {}
        for i, output in enumerate(self.outputs):
            if i < self.carries:
                if self.history[i]:
                    first.setdefault(id(output), i)
            elif id(output) in first:
                same |= {i: first[id(output)]} if self._is_read(i) else {}
            else:
                first[id(output)] = i
        return same

    def _drop_history(self) -> bool:
        """Carries of which only the last value is read."""
        dropped = False
        same = set(self._same().values())
        for k in range(self.carries):
            if not self.history[k] or self.length < 2 or k in same:
                continue
            segment, slot = self.segments[k], self.order.slot(self.length, True)
            low, high = segment.start + slot * segment.size, segment.start + (slot + 1) * segment.size
            inside = [(a, b) for a, b in self.reads or () if segment.start <= a and b <= segment.stop and a < b]
            if all(low <= a and b <= high for a, b in inside):
                self.history[k] = False
                self.hits["history dropped"] += 1
                dropped = True
        return dropped

    def _without(self, drops: set[int], same: dict[int, int]) -> _Trimmed:
        old = self.segments
        kept = [i for i in range(len(self.outputs)) if i not in drops]
        carries = [k for k in kept if k < self.carries]
        was = list(self.node.attrs["history"])
        self.outputs = [self.outputs[i] for i in kept]
        self.carry_args = tuple(self.carry_args[k] for k in carries)
        init = tuple(self.init[k] for k in carries)
        history = [self.history[k] for k in carries]
        new = segments([o.type for o in self.outputs], self.length, history)
        at = {i: new[j].start for j, i in enumerate(kept)}
        for k in carries:
            if was[k] and not self.history[k]:  # the last value is elsewhere now
                at[k] += (self.order.slot(self.length, False) - self.order.slot(self.length, True)) * old[k].size
        for i, j in same.items():
            shift = 1 - self.order.before if j < self.carries else 0
            at[i] = at[j] + shift * old[i].size
        self.history = history
        moves = tuple((old[i], start) for i, start in at.items() if self._is_read(i))
        return _Trimmed(self._rebuilt(init, True), moves)

    def _rebuilt(self, init: tuple[Node, ...], changed: bool) -> Node:
        inputs = (*init, *self.xs, *self.consts)
        if not changed:
            return self.node.with_inputs(inputs)
        attrs = {
            **self.node.attrs,
            "body": self._graph(),
            "carries": len(init),
            "xs": len(self.xs),
            "history": tuple(self.history),
        }
        node = build(SCAN, *inputs, **attrs)
        node.location, node.order = self.node.location, self.node.order
        return node


def _sink(graph: Graph, hits: Counter[str]) -> Graph:
    """(x + y)[…] = x[…] + y[…] where slices are all that is read of a sum: the gates of a cell become one kernel."""
    results = {id(r) for r in graph.results}
    while True:
        cut = {id(n) for n in graph.nodes if id(n) not in results and _is_only_cut(n, graph.users[id(n)])}
        if not cut:
            return graph

        def visit(node: Node, inputs: tuple[Node, ...], cut: set[int] = cut) -> Node:
            if node.op.name != "slice" or id(node.inputs[0]) not in cut:
                return node.with_inputs(inputs)
            whole = inputs[0]
            new = build(whole.op, *[build(movement.SLICE, i, **node.attrs) for i in whole.inputs], **whole.attrs)
            hits["slice before arithmetic"] += 1
            inherit(new, node)
            return new

        graph = graph.rebuild(visit)


def _is_only_cut(node: Node, users: list[Node]) -> bool:
    cuts = [u for u in users if u.op.name == "slice"]
    whole = node.op.kind is Kind.ELEMENTWISE and bool(cuts) and len(cuts) == len(users)
    return whole and sum(c.type.size for c in cuts) <= node.type.size


_SINK = Pass("sink", _sink)


def _may_leave(node: Node) -> bool:
    """Is it worth computing once, and sure not to fail where the loop would not have?"""
    return node.op.kind in (Kind.MOVEMENT, Kind.ELEMENTWISE, Kind.REDUCE, Kind.MATMUL) and node.op.name not in (
        "check_index",
        "expand",
    )


LOOPS = Pass("loops", loops)
