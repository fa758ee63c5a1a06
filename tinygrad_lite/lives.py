"""Which values of a schedule lie in the arena, and from which call to which they live."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tinygrad_lite import loops
from tinygrad_lite.calls import Call
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.kernels.words import Scratch
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.schedule.memory import Life
from tinygrad_lite.ir.schedule.reuse import storage
from tinygrad_lite.ir.schedule.schedule import Schedule

APART = 8  # calls


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
    owners, users = _users(calls, schedule.over)
    owners = [owner for owner in owners if id(owner) not in outside]
    lives = []
    for owner in owners:
        low, high = loops.life(calls, users[id(owner)], span)
        lives.append(Life(low, high + 1, max(1, owner.type.nbytes)))
    for i, call in enumerate(calls):
        lives += [Life(i, i + 1, w.nbytes * workers) for w in call.words if isinstance(w, Scratch)]
    return owners, lives


def output_lives(schedule: Schedule, calls: Sequence[Call]) -> tuple[list[Node], list[Life]]:
    """Storages of outputs, from a little before their first use to the end: memory that was in use just now would
    have to wait for whoever used it.
    """
    outputs = {id(schedule.placement[n].owner) for n in schedule.graph.outputs}
    span = loops.spans(calls)
    everything, users = _users(calls, schedule.over)
    owners = [owner for owner in everything if id(owner) in outputs]
    starts = [loops.life(calls, users[id(owner)], span)[0] for owner in owners]
    lives = [
        Life(max(0, start - APART), len(calls), max(1, owner.type.nbytes))
        for owner, start in zip(owners, starts, strict=True)
    ]
    return owners, lives


def timeline(lives: Sequence[Life], calls: int) -> np.ndarray[Any, Any]:
    """Bytes alive during each call."""
    alive = np.zeros(calls, np.int64)
    for life in lives:
        alive[life.lower : life.upper] += life.size
    return alive


def _users(calls: Sequence[Call], over: dict[int, Node]) -> tuple[list[Node], dict[int, list[int]]]:
    """The storages that calls touch, those that take over others as one; in order of first use, and the calls by id."""
    users: dict[int, list[int]] = {}
    owners: dict[int, Node] = {}
    for i, call in enumerate(calls):
        for owner in (storage(o, over) for o in (*call.writes, *call.reads)):
            users.setdefault(id(owner), []).append(i)
            owners[id(owner)] = owner
    return list(owners.values()), users
