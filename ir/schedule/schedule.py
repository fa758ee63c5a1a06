"""Schedule: the optimised graph as groups in run order, with every result where it has to end up.

A state update is written into the state's own memory where nobody needs the old value later; otherwise it is computed
elsewhere and copied at the end.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind, Op, register
from tinygrad_lite.ir.schedule.again import again
from tinygrad_lite.ir.schedule.fuse import Group, fuse, reads_same_element
from tinygrad_lite.ir.schedule.inline import inline
from tinygrad_lite.ir.schedule.place import (
    Placement,
    can_fail,
    is_assembled,
    is_computed,
    is_virtual,
    legalise,
    overwritten_states,
    root_of,
)
from tinygrad_lite.ir.schedule.reuse import reuse
from tinygrad_lite.ir.schedule.views import View

COPY_OUT = register(
    Op("copy_out", Kind.ELEMENTWISE, lambda x: x, lambda x: x.copy(), None, "{0}", traits=frozenset({"alone", "copy"}))
)


@dataclass
class Schedule:
    """Of an owner's id, `home` says the state in whose memory the storage is, `over` the storage that it takes over."""

    graph: Graph
    placement: Placement
    groups: list[Group]
    home: dict[int, Node] = field(default_factory=dict)
    over: dict[int, Node] = field(default_factory=dict)


def schedule(graph: Graph, leaves: dict[int, View] | None = None, keep: bool = False) -> Schedule:
    """Lay out, group and order `graph`; `leaves` are the views of its arguments where they do not lie contiguous. With
    `keep`, what backward reads is kept, even where computing it again is as fast."""
    graph = inline(graph if keep else again(graph))
    while True:
        legal, placement = legalise(graph, leaves)
        stray = _stray_results(legal, placement)
        if not stray:
            break
        graph = _copied_out(graph, stray)
    home, overwrites, late = _updates_in_place(legal, placement)
    if late:
        return schedule(_copied_out(graph, late), leaves, keep=True)
    groups = fuse(legal, overwrites)
    over = {} if leaves else reuse(legal, groups, placement, set(home))
    return Schedule(legal, placement, groups, home, over)


def _stray_results(graph: Graph, placement: Placement) -> set[int]:
    """Indices of results that do not fill a storage of their own, which a kernel writes: arguments, states, parts and
    rearrangements of values, values that are two results at once."""
    stray, seen = set(), set()
    inside = overwritten_states(graph)
    for i, result in enumerate(graph.results):
        at = placement[result]
        written = is_computed(at.owner if i >= len(graph.outputs) else root_of(at.owner))
        if i >= len(graph.outputs) and at.owner is graph.updates[i - len(graph.outputs)].state:
            written = id(result) in inside
        if not at.is_whole or not written or id(at.owner) in seen:
            stray.add(i)
        seen.add(id(at.owner))
    return stray


def _copied_out(graph: Graph, wanted: set[int]) -> Graph:
    if not wanted:
        return graph
    results = [_copy(r) if i in wanted else r for i, r in enumerate(graph.results)]
    count = len(graph.outputs)
    return graph.with_results(results[:count], results[count:])


def _copy(node: Node) -> Node:
    copy = Node(COPY_OUT, (node,), {}, node.type, node.location)
    copy.order = sys.maxsize
    return copy


def _updates_in_place(graph: Graph, placement: Placement) -> tuple[dict[int, Node], dict[int, list[Node]], set[int]]:
    """Where updates live; id(value) → what must run before it: the readers of the old state, and all that can fail, so
    that a failure finds the states unchanged; indices of results that come too early to overwrite the state, because
    something computed from them still reads it or can fail."""
    readers = _readers(graph)
    checks = [n for n in graph.nodes if can_fail(n)]
    home, overwrites, late = {}, {}, set()
    followers = {i: list(users) for i, users in graph.users.items()}  # what runs after a node: users and overwriters
    for i, (state, result) in enumerate(graph.updates, len(graph.outputs)):
        value = placement[result].owner
        if value is state:  # a scatter into the state itself, whose only reader it is
            (value,) = graph.users[id(state)]
            if _reaches(followers, value, checks):
                late.add(i)
                continue
            overwrites[id(value)] = checks
            for each in checks:
                followers[id(each)].append(value)
            continue
        before = [r for r in (*readers[id(state)], *checks) if r is not value]
        moves = value in readers[id(state)] and not reads_same_element(value)
        if moves or value.op.kind is not Kind.ELEMENTWISE or _reaches(followers, value, before):
            late.add(i)
            continue
        for each in before:
            followers[id(each)].append(value)
        home[id(value)], overwrites[id(value)] = state, before
    return home, overwrites, late


def _readers(graph: Graph) -> dict[int, list[Node]]:
    """id(state) → the computed nodes that read it, directly, through views or through virtual values."""
    readers: dict[int, list[Node]] = {id(s): [] for s in graph.states}
    for node in graph.nodes:
        if is_computed(node) and not is_assembled(node):
            for source in _sources(node):
                if id(source) in readers:
                    readers[id(source)].append(node)
    return readers


def _sources(node: Node) -> Iterator[Node]:
    """What `node`'s kernel loads: its operands behind views and virtual values."""
    stack = [root_of(i) for i in node.inputs]
    while stack:
        source = stack.pop()
        if is_virtual(source):
            stack.extend(root_of(i) for i in source.inputs)
        yield source


def _reaches(followers: dict[int, list[Node]], value: Node, targets: list[Node]) -> bool:
    """Must one of `targets` run after `value`?"""
    wanted = {id(t) for t in targets}
    if not wanted:
        return False
    seen, stack = {id(value)}, [value]
    while stack:
        for user in followers[id(stack.pop())]:
            if id(user) in wanted:
                return True
            if id(user) not in seen:
                seen.add(id(user))
                stack.append(user)
    return False
