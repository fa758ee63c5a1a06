"""Which values of a schedule lie in the arena, and from which call to which they live."""

from __future__ import annotations

from collections.abc import Sequence

from tinygrad_lite import loops
from tinygrad_lite.calls import Call
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.kernels.words import Scratch
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.schedule.memory import Life
from tinygrad_lite.ir.schedule.schedule import Schedule


def graphs_of(graph: Graph, calls: Sequence[Call]) -> list[Graph]:
    """The graph and the bodies of the loops that the calls are in."""
    return [graph, *{id(f): f.graph for c in calls for f in c.frames}.values()]


def large_constants(graph: Graph, calls: Sequence[Call]) -> list[Node]:
    """Constants that have memory of their own."""
    nodes = [n for g in graphs_of(graph, calls) for n in g.nodes]
    return [n for n in nodes if n.op.name == "constant" and n.type.size != 1]


def arena_lives(schedule: Schedule, calls: Sequence[Call], workers: int) -> tuple[list[Node], list[Life]]:
    """Storages that are neither argument, output, constant nor state, and their lives; then those of scratch space."""
    graph = schedule.graph
    outputs = [schedule.placement[n].owner for n in graph.outputs]
    outside = {id(n) for n in (*graph.args, *graph.states, *outputs, *large_constants(graph, calls))}
    outside |= set(schedule.home)
    span = loops.spans(calls)
    users: dict[int, list[int]] = {}
    owners: dict[int, Node] = {}
    for i, call in enumerate(calls):
        for owner in (*call.writes, *call.reads):
            if id(owner) not in outside:
                users.setdefault(id(owner), []).append(i)
                owners[id(owner)] = owner
    lives = []
    for key, owner in owners.items():
        low, high = loops.life(calls, users[key], span)
        lives.append(Life(low, high + 1, max(1, owner.type.nbytes)))
    for i, call in enumerate(calls):
        lives += [Life(i, i + 1, w.nbytes * workers) for w in call.words if isinstance(w, Scratch)]
    return list(owners.values()), lives
