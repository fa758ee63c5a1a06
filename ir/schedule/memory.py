"""Memory planning: values whose lives overlap get disjoint places in one arena."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

ALIGNMENT = 64


class Life(NamedTuple):
    """A buffer of `size` bytes in use during the half-open interval [lower, upper) of instructions."""

    lower: int
    upper: int
    size: int


class Plan(NamedTuple):
    """Offsets in bytes, one a life; the arena's size; the greatest sum of sizes alive at once, its lower bound."""

    offsets: tuple[int, ...]
    size: int
    live: int


def plan(lives: Sequence[Life]) -> Plan:
    """Place `lives`: the best of a few greedy orders, each buffer in the lowest gap that holds it."""
    rounded = [life._replace(size=-(-life.size // ALIGNMENT) * ALIGNMENT) for life in lives]
    live = greatest_live(rounded)
    best: Plan | None = None
    for key in _ORDERS:
        order = sorted(range(len(rounded)), key=lambda i: key(rounded[i]))
        offsets = _place(rounded, order)
        size = max((o + life.size for o, life in zip(offsets, rounded, strict=True)), default=0)
        if best is None or size < best.size:
            best = Plan(tuple(offsets), size, live)
        if size == live:
            break
    assert best is not None
    return best


_ORDERS: tuple[Callable[[Life], tuple[int, int]], ...] = (
    lambda life: (-life.size, life.lower),
    lambda life: (-(life.upper - life.lower) * life.size, life.lower),
    lambda life: (-(life.upper - life.lower), -life.size),
    lambda life: (life.lower, -life.size),
)


def greatest_live(lives: Sequence[Life]) -> int:
    """The most bytes alive at once."""
    events = sorted([(x.lower, 1, x.size) for x in lives] + [(x.upper, 0, -x.size) for x in lives])
    now = most = 0
    for _, _, change in events:
        now += change
        most = max(most, now)
    return most


def _place(lives: Sequence[Life], order: Sequence[int]) -> list[int]:
    offsets = [0] * len(lives)
    placed: list[tuple[int, int, int, int]] = []  # (offset, end, lower, upper), by offset
    for i in order:
        life = lives[i]
        at = 0
        for offset, end, lower, upper in placed:
            if lower < life.upper and life.lower < upper:
                if offset - at >= life.size:
                    break
                at = max(at, end)
        offsets[i] = at
        placed.append((at, at + life.size, life.lower, life.upper))
        placed.sort()
    return offsets


def verify_plan(lives: Sequence[Life], offsets: Sequence[int]) -> None:
    """ValueError where two lives that overlap in time share a byte."""
    for i, a in enumerate(lives):
        for j in range(i):
            b = lives[j]
            together = a.lower < b.upper and b.lower < a.upper
            if together and offsets[i] < offsets[j] + b.size and offsets[j] < offsets[i] + a.size:
                raise ValueError(f"buffers {j} and {i} share bytes while both are alive")
