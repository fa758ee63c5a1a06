"""Memory planning: values whose lives overlap get disjoint places in one arena."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tinygrad_lite.ir.schedule.offsets import search

ALIGNMENT = 64
STEPS = 4000  # of the search, when a program is compiled: under half a second


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


def plan(
    lives: Sequence[Life],
    alignment: int = ALIGNMENT,
    steps: int = STEPS,
    capacity: int | None = None,
    tick: Callable[[int], None] | None = None,
) -> Plan:
    """Place `lives`, their sizes rounded up to multiples of `alignment`: the best of a few greedy orders, each buffer
    in the lowest gap that holds it. Where that takes more than `capacity`, by default 1.02 times what is alive at once,
    a search of at most `steps` nodes follows, which calls `tick` with their number now and then.

    The same lives give the same plan. It may exceed `capacity`: the caller looks at its size.
    """
    rounded = _rounded(lives, alignment)
    best = _greedy(rounded)
    enough = best.live * 51 // 50 if capacity is None else capacity
    if not best.live <= enough < best.size:
        return best
    offsets = search(rounded, enough, steps, tick)
    return best if offsets is None else Plan(tuple(offsets), _end(rounded, offsets), best.live)


def take_in(lives: Sequence[Life], known: Plan, guests: Sequence[Life], alignment: int = ALIGNMENT) -> list[int | None]:
    """Offsets of `guests` in gaps of the plan of `lives`, which stays as it is; None for one that no gap holds."""
    hosts = zip(known.offsets, _rounded(lives, alignment), strict=True)
    placed = sorted((at, at + x.size, x.lower, x.upper) for at, x in hosts)
    found: list[int | None] = [None] * len(guests)
    sizes = _rounded(guests, alignment)
    for i in sorted(range(len(guests)), key=lambda i: -guests[i].size):
        life = sizes[i]
        at = _lowest(placed, life)
        if at + life.size <= known.size:
            found[i] = at
            insort(placed, (at, at + life.size, life.lower, life.upper))
    return found


def _rounded(lives: Sequence[Life], alignment: int) -> list[Life]:
    return [life._replace(size=-(-life.size // alignment) * alignment) for life in lives]


def _greedy(lives: Sequence[Life]) -> Plan:
    live = greatest_live(lives)
    best: Plan | None = None
    for key in _ORDERS:
        order = sorted(range(len(lives)), key=lambda i: key(lives[i]))
        offsets = _place(lives, order)
        size = _end(lives, offsets)
        if best is None or size < best.size:
            best = Plan(tuple(offsets), size, live)
        if size == live:
            break
    assert best is not None
    return best


def _end(lives: Sequence[Life], offsets: Sequence[int]) -> int:
    return max((offset + life.size for offset, life in zip(offsets, lives, strict=True)), default=0)


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
        at = offsets[i] = _lowest(placed, life)
        insort(placed, (at, at + life.size, life.lower, life.upper))
    return offsets


def _lowest(placed: Sequence[tuple[int, int, int, int]], life: Life) -> int:
    """The lowest gap for a life among those in place, which are sorted."""
    at = 0
    for offset, end, lower, upper in placed:
        if lower < life.upper and life.lower < upper:
            if offset - at >= life.size:
                break
            at = max(at, end)
    return at


def verify_plan(lives: Sequence[Life], offsets: Sequence[int]) -> None:
    """ValueError where two lives that overlap in time share a byte."""
    for i, a in enumerate(lives):
        for j in range(i):
            b = lives[j]
            together = a.lower < b.upper and b.lower < a.upper
            if together and offsets[i] < offsets[j] + b.size and offsets[j] < offsets[i] + a.size:
                raise ValueError(f"buffers {j} and {i} share bytes while both are alive")
