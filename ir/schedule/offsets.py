"""Offsets by search: places for lives in an arena of a given size, where greedy orders waste too much.

Lives are put in one after the other, each on top of what is below it, never lower than the one before. What is left
falls apart into spans of time that share no life, and each of these is a search of its own. A dive backs up where a
section of time cannot hold what has yet to go there; one that has run too long is given up for one in another order,
in which lives in the sections that failed come first.

The ideas of canonical order, sections, dominance and decomposition are M. D. Moffitt's ("MiniMalloc", ASPLOS 2023).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

NEVER = 1 << 60  # the offset of what is placed already: above everything
NESTED = 6  # orders tried on a span before its surroundings are changed
DEPTH = 60  # spans within spans
DIVE = 3  # nodes of a dive, a life, spans within it apart
WHOLE = 20  # those of an outermost dive and the spans within it
AMOUNT = 3  # of the failures against the demand, in the order of the next dive
KEEP = (0.9, 0.95)  # of the failures before an outermost dive; dives of either kind take turns


def search(
    lives: Sequence[tuple[int, int, int]], capacity: int, steps: int, tick: Callable[[int], None] | None = None
) -> list[int] | None:
    """Offsets of `lives` (lower, upper, size) below `capacity`, or None where `steps` nodes were not enough.

    The same arguments give the same offsets. `tick` is called with the nodes so far before each dive.

    Raises:
        ValueError: a size below 1.
    """
    if min((size for _, _, size in lives), default=1) < 1:
        raise ValueError("every life needs a size of at least 1")
    found = [0] * len(lives)
    numbers = sorted(range(len(lives)), key=lambda i: lives[i])
    for part in _apart([lives[i] for i in numbers]):
        mine, numbers = numbers[:part], numbers[part:]
        one = _Search([lives[i] for i in mine], capacity, steps, tick)
        if not one.run():
            return None
        steps -= one.steps
        for i, offset in zip(mine, one.result.tolist(), strict=True):
            found[i] = offset
    return found


def _apart(lives: Sequence[tuple[int, int, int]]) -> list[int]:
    """How many of `lives`, which are sorted, lie in each span of time that shares none with another."""
    counts: list[int] = []
    end = 0
    for lower, upper, _ in lives:
        if not counts or lower >= end:
            counts.append(0)
            end = upper
        counts[-1] += 1
        end = max(end, upper)
    return counts


class _Search:
    """Lives that hang together in time, sorted. A section is the time between two ends of lives.

    `lowest` is where a life can go at the lowest by what lies below it, `left` the bytes that have yet to go into a
    section, `across` the lives yet to be placed that go on from one section to the next.
    """

    def __init__(
        self,
        lives: Sequence[tuple[int, int, int]],
        capacity: int,
        limit: int,
        tick: Callable[[int], None] | None,
    ) -> None:
        table = np.array(lives, np.int64).reshape(-1, 3)
        times = np.unique(table[:, :2])
        self.first, self.last = np.searchsorted(times, table[:, 0]), np.searchsorted(times, table[:, 1])
        self.size, self.length = table[:, 2], table[:, 1] - table[:, 0]
        self.capacity, self.limit, self.tick = capacity, limit, tick
        sections = max(1, len(times) - 1)
        alive = [np.flatnonzero((self.first <= k) & (k < self.last)) for k in range(sections)]
        self.alive = np.concatenate(alive)  # the lives of each section, those of section k from bounds[k] on
        self.bounds = np.cumsum([0, *map(len, alive)])
        self.starts = np.searchsorted(self.first, np.arange(sections + 1))  # lives by their first section
        self.rivals = [self._rivals(i) for i in range(len(table))]
        self.lowest = np.zeros(len(table), np.int64)
        self.left = np.add.reduceat(self.size[self.alive], self.bounds[:-1])
        self.across = np.diff(self.bounds) - np.bincount(self.first, minlength=sections)
        self.demand = self.left / max(1, capacity)
        self.failures = [np.zeros(sections) for _ in KEEP]
        self.failed = self.failures[0]
        self.result = np.zeros(len(table), np.int64)
        self.steps = self.stop = 0

    def _rivals(self, i: int) -> Array:
        """The lives that overlap life i."""
        found = np.flatnonzero((self.first < self.last[i]) & (self.first[i] < self.last))
        return np.asarray(found[found != i])

    def run(self) -> bool:
        """Dive until one dive gets through: then `result` holds the offsets."""
        if (self.left > self.capacity).any():
            return False
        return self._conquer(0, len(self.left), 0, 0, itertools.count())

    def _conquer(self, low: int, high: int, level: int, depth: int, attempts: Any) -> bool:
        """Place all lives left in sections [low, high), at `level` or above, in one order after the other."""
        lives = slice(int(self.starts[low]), int(self.starts[high]))
        count = int((self.lowest[lives] < NEVER).sum())
        if count > 1 and depth > DEPTH:
            return False
        before = self.lowest[lives].copy(), self.left[low:high].copy(), self.across[low:high].copy()
        for attempt in attempts:
            if not depth:
                attempt, kind = divmod(attempt, len(KEEP))
                self.failed = self.failures[kind]
                self.stop = min(self.limit, self.steps + WHOLE * count + 500)
                if self.tick:
                    self.tick(self.steps)
            if self.steps >= self.stop:
                return False
            budget = min(self.stop, self.steps + DIVE * count + 50)
            if self._dive(low, high, level, depth, self._rank(low, high, attempt), attempt % 2 == 0, budget):
                return True
            exhausted = self.steps < budget
            self.lowest[lives], self.left[low:high], self.across[low:high] = before
            if exhausted and depth:  # there is no way, in whichever order
                return False
            if not depth:
                self.failed *= KEEP[kind]
        return False

    def _rank(self, low: int, high: int, attempt: int) -> Array:
        """The place of each life of these sections in an order: those in crowded and in failed sections first."""
        lives = slice(int(self.starts[low]), int(self.starts[high]))
        pressure = self.demand[low:high] + AMOUNT * self.failed[low:high] / max(self.failed[low:high].max(), 1e-9)
        spans = np.column_stack((self.first[lives], np.minimum(self.last[lives], high))).ravel() - low
        crowd = np.maximum.reduceat(np.append(pressure, 0.0), spans)[::2]
        size, length, sections = self.size[lives], self.length[lives], (self.last - self.first)[lives]
        keys = ((length, size * length), (size * length, length), (size, length), (sections, size))[attempt // 2 % 4]
        rank = np.empty(len(size), np.int64)
        rank[np.lexsort((-keys[1], -keys[0], -crowd))] = np.arange(len(size))
        return rank

    def _dive(self, low: int, high: int, level: int, depth: int, rank: Array, by_offset: bool, budget: int) -> bool:
        """Depth first through the lives of sections [low, high), lowest offset or lowest rank first."""
        base = int(self.starts[low])
        stack: list[Any] = []
        node = self._open(low, high, level, rank, base, by_offset)
        while True:
            if not node:
                if not stack:
                    return False
                low, high, level, node = stack.pop()
                continue
            if self.steps >= budget:
                return False
            saved, candidates = node
            lives = slice(int(self.starts[low]), int(self.starts[high]))
            self.lowest[lives], self.left[low:high], self.across[low:high] = saved
            i, offset = candidates.pop()
            free = self._put(i, offset)
            rest = (saved, candidates) if candidates and free else None
            parts = self._parts(low, high)
            if len(parts) == 1:
                stack.append((low, high, level, rest))
                (low, high), level = parts[0], offset
                node = self._open(low, high, level, rank, base, by_offset)
                continue
            parts.sort(key=lambda part: -self.left[part[0] : part[1]].max())
            if all(self._conquer(a, b, offset, depth + 1, range(NESTED)) for a, b in parts):
                return True
            node = rest

    def _open(self, low: int, high: int, level: int, rank: Array, base: int, by_offset: bool) -> Any:
        """What can come next: (state to go back to, [(life, offset)], the best last); None where nothing fits."""
        self.steps += 1
        first, last = int(self.starts[low]), int(self.starts[high])
        lowest, left = self.lowest[first:last], self.left[low:high]
        offsets = np.maximum(lowest, level)
        ends = offsets + self.size[first:last]
        begin, end = self.bounds[low], self.bounds[high]
        floors = np.minimum.reduceat(self.lowest[self.alive[begin:end]], self.bounds[low:high] - begin)
        floors = np.maximum(floors, level)
        over = (floors + left > self.capacity) & (left > 0)
        if over.any():
            self.failed[low:high][over] += 1 / over.sum()
            return None
        lowest_end = ends.min()
        # what lies above the end of something that could lie below it is in no plan that needs considering
        candidates = np.flatnonzero(offsets < lowest_end)
        order = rank[first - base : last - base][candidates]
        keys = (order, offsets[candidates]) if by_offset else (order,)
        candidates = candidates[np.lexsort(keys)[::-1]]
        found = list(zip((candidates + first).tolist(), offsets[candidates].tolist(), strict=True))
        return (lowest.copy(), left.copy(), self.across[low:high].copy()), found

    def _put(self, i: int, offset: int) -> bool:
        """Place life i; is anything yet to come on top of it?"""
        self.result[i] = offset
        self.lowest[i] = NEVER
        rivals = self.rivals[i]
        raised = np.maximum(self.lowest[rivals], offset + self.size[i])
        self.lowest[rivals] = raised
        first, last = self.first[i], self.last[i]
        self.left[first:last] -= self.size[i]
        self.across[first + 1 : last] -= 1
        return bool(raised.size and raised.min() < NEVER)

    def _parts(self, low: int, high: int) -> list[tuple[int, int]]:
        """The spans of sections that lives yet to be placed hang together in."""
        used = self.left[low:high] > 0
        joined = self.across[low:high] > 0
        starts = np.flatnonzero(used & ~joined) + low
        if len(starts) == 1:
            first = int(starts[0])
            return [(first, first + int(used[first - low :].sum()))]
        ends = np.flatnonzero(used & ~np.append(joined[1:], False)) + low + 1
        return list(zip(starts.tolist(), ends.tolist(), strict=True))
