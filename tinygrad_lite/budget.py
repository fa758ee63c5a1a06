"""What backward computes again, so that a step takes less memory: `checkpoint="sqrt"` and `memory_budget=`.

A model of the plain schedule says for every forward value how large it is, what it is computed from at what cost, and
when backward reads it; so the bytes alive at each instruction follow for any set of values that are let go. With it

* "sqrt" cuts the forward pass where little is alive, into so many segments of equal size that the peak is least (about
  √n for n equal blocks), and keeps what crosses a cut, and the last segment whole.
  Chen, Xu, Zhang & Guestrin, "Training deep nets with sublinear memory cost", 2016, arXiv:1604.06174.
* a memory budget lets go, one after the other, what lowers the excess over the budget most for its work: first what is
  cheap to compute again, at last whole stretches between values that stay. The real plan has the last word.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from tinygrad_lite import loops
from tinygrad_lite.calls import Call, calls_of, costs_of
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.schedule.memory import Plan, plan
from tinygrad_lite.ir.schedule.place import is_assembled, is_computed, is_virtual, root_of
from tinygrad_lite.ir.schedule.rematerialise import fresh, is_late, is_recomputed, rematerialise, settle, stays
from tinygrad_lite.ir.schedule.schedule import Schedule, schedule
from tinygrad_lite.lives import arena_lives, timeline
from tinygrad_lite.program import usual_workers

ATTEMPTS = 6  # real plans on the way to a budget
NEAR = 0.9  # of a budget: no closer is looked for
STEP = 0.01  # of a budget, by which at least less is asked for where a plan takes more
LOW = (0.0, 0.1, 0.2, 0.3, 0.4)  # shares of the plain arena to aim at, where a budget seems out of reach
BYTE = 1.2  # units of work, while a byte crosses between core and memory; measured, as is
ELEMENTWISE = 2  # by how much the estimate of a loop over elements exceeds that of a product of equal time
ROUNDS = 32  # in which the model lets go one value, or one part of many, after the other


@dataclass(frozen=True)
class Policy:
    """What the user asked for: checkpoint "sqrt", or a budget in bytes, or as a share (up to 1) of what is taken by a
    step that computes nothing twice."""

    checkpoint: str | None = None
    memory_budget: float | int | None = None

    def __post_init__(self) -> None:
        if self.checkpoint not in (None, "sqrt"):
            raise ValueError(f'checkpoint is "sqrt" or None, not {self.checkpoint!r}')
        if self.checkpoint and self.memory_budget is not None:
            raise ValueError('checkpoint="sqrt" and memory_budget exclude one another: both choose what is recomputed')
        budget = self.memory_budget
        if budget is None:
            return
        if isinstance(budget, bool) or not isinstance(budget, (int, float)):
            raise TypeError(f"memory_budget is a share such as 0.5 or a number of bytes, not {budget!r}")
        if not budget > 0 or (isinstance(budget, float) and budget > 1):
            raise ValueError(f"memory_budget is a share of at most 1.0 or a number of bytes, not {budget!r}")

    def __bool__(self) -> bool:
        return self.checkpoint is not None or self.memory_budget is not None

    def __str__(self) -> str:
        return 'checkpoint="sqrt"' if self.checkpoint else f"memory_budget={self.memory_budget}"

    def bytes(self, plain: int) -> int:
        """The budget, where the plain arena takes `plain` bytes."""
        assert self.memory_budget is not None
        return int(self.memory_budget * plain) if isinstance(self.memory_budget, float) else self.memory_budget


@dataclass(frozen=True)
class Choice:
    """What was decided: the arena's bytes without and with it, and the work with it as a multiple of that without."""

    graph: Graph
    plain: int
    planned: int
    work: float


class BudgetError(ValueError):
    """A memory budget below what recomputation can reach."""


def apply(graph: Graph, policy: Policy, workers: int | None = None) -> Choice:
    """`graph` in which backward computes again what `policy` asks for.

    Raises:
        BudgetError: no way was found to keep within the budget; the least that was found is named.
    """
    if policy.checkpoint:
        plain = _settled(graph, workers)
        model = Model(plain)
        choice = _choice(plain, model, model.cut(), policy)
        return choice if choice.planned < plain.arena else Choice(graph, plain.arena, plain.arena, 1.0)
    whole = _settled(graph, workers, keep=True)
    budget = policy.bytes(whole.arena)
    if whole.arena <= budget:
        return Choice(whole.schedule.graph, whole.arena, whole.arena, 1.0)
    plain = _settled(graph, workers)
    if plain.arena <= budget:
        found = Choice(graph, plain.arena, plain.arena, 1.0)
    else:
        found = _within(budget, plain, whole.arena, policy)
    return replace(found, plain=whole.arena, work=found.work * plain.work / max(1, whole.work))


def _settled(graph: Graph, workers: int | None, keep: bool = False) -> Planned:
    planned = Planned(fresh(graph), workers, keep)
    settle(planned.schedule.graph, planned.schedule.groups)
    return planned


def _within(budget: int, plain: Planned, whole: int, policy: Policy) -> Choice:
    """The cheapest choice whose plan keeps within the budget, of which `whole` bytes are all. The model is asked for
    less while the plan takes more."""
    model = Model(plain)
    found: list[Choice] = []
    target, fits, fails = float(budget), 0.0, 0.0
    for _ in range(ATTEMPTS):
        choice = _choice(plain, model, model.let_go(target), policy)
        found.append(choice)
        if choice.planned <= budget:
            fits = target
        else:
            fails = target
        if not fails or NEAR * budget < choice.planned <= budget or target <= 0:
            break
        excess = max(1.05 * (choice.planned - budget), STEP * budget)
        target = (fits + fails) / 2 if fits else target - excess
    fitting = [c for c in found if c.planned <= budget]
    if not fitting:  # the same for every budget, so that the least which is named can be had
        lowest = [model.cut(), *(model.let_go(share * plain.arena) for share in LOW)]
        found = [_choice(plain, model, dropped, policy) for dropped in lowest]
        fitting = [c for c in found if c.planned <= budget]
    if fitting:
        return min(fitting, key=lambda c: c.work)
    least = min(plain.arena, *(c.planned for c in found))
    raise BudgetError(
        f"{policy} asks for an arena of {budget:,} bytes; without recomputation it is {whole:,}, and the least "
        f"that was found is {least:,} bytes (memory_budget={math.ceil(1000 * least / whole) / 1000}). Take a "
        "larger budget, or a smaller batch"
    )


def _choice(plain: Planned, model: Model, dropped: set[int], policy: Policy) -> Choice:
    graph = rematerialise(plain.schedule.graph, model.nodes(dropped), str(policy))
    planned = Planned(graph, plain.asked)
    return Choice(graph, plain.arena, planned.arena, planned.work / max(1, plain.work))


def price(call: Call) -> int:
    """The time that a call takes, in products' units of work: it computes, or waits for memory."""
    products = call.group.kind in ("matmul", "attention", "convolution")
    work = call.work if products else call.work // ELEMENTWISE
    return int(max(work, BYTE * costs_of(call)[1])) * loops.trips(call.frames)


class Planned:
    """A graph as it would run: its schedule, calls, lives and plan of memory, without native code."""

    def __init__(self, graph: Graph, workers: int | None = None, keep: bool = False) -> None:
        self.schedule: Schedule = schedule(graph, keep=keep)
        self.calls: list[Call] = calls_of(self.schedule)
        self.asked, self.workers = workers, workers or usual_workers(self.calls)  # as Program decides
        self.owners, self.lives = arena_lives(self.schedule, self.calls, self.workers)
        self.plan: Plan = plan(self.lives)

    @property
    def arena(self) -> int:
        return self.plan.size

    @cached_property
    def work(self) -> int:
        return sum(map(price, self.calls))


@dataclass
class Value:
    """A storage of the arena that forward writes.

    `first`, `last`: the calls of forward that write it first and touch it last; `reads`: those of backward that read
    it. `sources`: numbers of the values that it is computed from; `groups`: numbers of the groups that compute it.
    """

    owner: Node
    nbytes: int
    first: int
    last: int
    reads: tuple[int, ...]
    free: bool  # may it be let go?
    nodes: list[Node] = field(default_factory=list)
    sources: set[int] = field(default_factory=set)
    groups: set[int] = field(default_factory=set)


class Model:
    """Bytes alive at each call, and work, for any set of forward values that are let go."""

    def __init__(self, plain: Planned) -> None:
        self.plain = plain
        placement = plain.schedule.placement
        self.group_of = {id(n): i for i, g in enumerate(plain.schedule.groups) for n in g.nodes}
        self.early = [not is_late(g.nodes[0]) for g in plain.schedule.groups]
        self.stored = {id(n) for g in plain.schedule.groups for n in (g.stored if g.kind == "loops" else g.nodes)}
        self.owner_of = {id(n): id(placement[n].owner) for n in plain.schedule.graph.nodes if id(n) in placement.places}
        self.values = list(self._values())
        self.number = {id(v.owner): i for i, v in enumerate(self.values)}
        self._connect()
        rank = {id(n): i for i, n in enumerate(plain.schedule.graph.nodes)}
        last = [max((rank[id(n)] for n in v.nodes), default=-1) for v in self.values]
        self.backwards = sorted(range(len(self.values)), key=lambda i: -last[i])  # users before what they are made of
        self.first_read = [min(v.reads, default=len(plain.calls)) for v in self.values]
        self.last_read = [max(v.reads, default=-1) for v in self.values]
        self.base = timeline(plain.lives, len(plain.calls))
        self.group_work = self._group_work()
        self.moves = self._moves()

    # ---- what there is ----

    def _values(self) -> Iterator[Value]:
        numbers = {id(g): i for i, g in enumerate(self.plain.schedule.groups)}
        early, late, writers = {}, {}, {}
        for i, call in enumerate(self.plain.calls):
            group = numbers[id(call.loop or call.group)]
            for owner in (*call.writes, *call.reads):
                (early if self.early[group] else late).setdefault(id(owner), []).append(i)
            for owner in call.writes:
                writers.setdefault(id(owner), set()).add(group)
        results = {self.owner_of.get(id(root_of(r))) for r in self.plain.schedule.graph.results}
        for owner, life in zip(self.plain.owners, self.plain.lives, strict=False):
            by = writers.get(id(owner), set())
            if id(owner) not in early or not by or not self.early[min(by)]:
                continue
            free = all(self.early[g] for g in by) and id(owner) not in results
            touched = early[id(owner)]
            yield Value(owner, life.size, touched[0], touched[-1], tuple(late.get(id(owner), ())), free, groups=by)

    def _connect(self) -> None:
        """Which nodes lie in each value, and what they are computed from."""
        for node in self.plain.schedule.graph.nodes:
            number = self.number.get(self.owner_of.get(id(node), 0))
            if number is None or not is_computed(node) or not (id(node) in self.stored or is_assembled(node)):
                continue
            value = self.values[number]
            value.nodes.append(node)
            value.free &= not stays(node) and not is_recomputed(node)
            value.sources |= {n for n in self._sources(node) if n != number}

    def _sources(self, node: Node) -> Iterator[int]:
        """Numbers of the values behind views, virtual values and what is never stored."""
        stack, seen = list(node.inputs), set()
        while stack:
            source = root_of(stack.pop())
            if id(source) in seen:
                continue
            seen.add(id(source))
            passing = is_computed(source) and not (id(source) in self.stored or is_assembled(source) or stays(source))
            if is_virtual(source) or passing:
                stack.extend(source.inputs)
                continue
            number = self.number.get(self.owner_of.get(id(source), 0))
            if number is not None:
                yield number

    def _group_work(self) -> dict[int, int]:
        numbers = {id(g): i for i, g in enumerate(self.plain.schedule.groups)}
        found: dict[int, int] = {}
        for call in self.plain.calls:
            number = numbers[id(call.loop or call.group)]
            found[number] = found.get(number, 0) + price(call)
        return found

    def _moves(self) -> list[set[int]]:
        """What may be let go at a time: a value, or all that one kernel makes, for then its operands have to stay."""
        free = [i for i, v in enumerate(self.values) if v.free]
        together: dict[int, set[int]] = {}
        for i in free:
            for group in self.values[i].groups:
                together.setdefault(group, set()).add(i)
        return [{i} for i in free] + [each for each in together.values() if len(each) > 1]

    def nodes(self, dropped: set[int]) -> set[int]:
        """ids of the nodes to copy: those of the values in `dropped`, and all that forward never stores."""
        found = {id(n) for i in dropped for n in self.values[i].nodes}
        for group, early in zip(self.plain.schedule.groups, self.early, strict=True):
            if early and group.kind == "loops":
                found |= {id(n) for n in group.nodes if id(n) not in self.stored and not stays(n)}
        return found

    # ---- what would be ----

    def simulate(self, dropped: set[int]) -> tuple[np.ndarray, int]:
        """(bytes alive during each call, work of what is computed again)."""
        change = [0] * (len(self.base) + 1)
        first, last = list(self.first_read), list(self.last_read)
        again: set[int] = set()
        for i in self.backwards:
            value, start, stop = self.values[i], first[i], last[i]
            end = max(value.last, self.last_read[i])  # of its life in the plain schedule
            if i not in dropped:
                if stop > end:
                    change[end + 1] += value.nbytes
                    change[stop + 1] -= value.nbytes
                continue
            change[value.last + 1] -= value.nbytes
            change[end + 1] += value.nbytes
            if stop < 0:
                continue
            change[start] += value.nbytes
            change[stop + 1] -= value.nbytes
            again |= value.groups
            for s in value.sources:
                first[s] = min(first[s], start)
                last[s] = max(last[s], start)
        live = self.base + np.cumsum(change[:-1])
        return live, sum(self.group_work.get(g, 0) for g in again)

    # ---- what to let go ----

    def let_go(self, target: float) -> set[int]:
        """Values to let go so that no more than `target` bytes are alive, or as little more as can be found.

        Always the value that lowers the excess most for its work, then single changes of mind while they help. At last
        what turned out not to be needed is kept after all, the dearest first.
        """
        dropped = self._greedy(target)
        for _ in range(ROUNDS):
            change = self._best_change(dropped, target)
            if change is None:
                break
            dropped = _toggled(dropped, change)
        if self.simulate(dropped)[0].max(initial=0) <= target:
            self._take_back(dropped, target)
        return dropped

    def _greedy(self, target: float) -> set[int]:
        dropped = {i for i, v in enumerate(self.values) if v.free and not v.reads}  # dead by the end of forward
        left = [each for each in self.moves if any(self.values[i].reads for i in each)]
        now = self._excess(dropped, target)
        while now[0] > 0:
            rates = ((_rate(now, self._excess(dropped | each, target)), i) for i, each in enumerate(left))
            ranked = sorted((r for r in rates if r[0] > 0), reverse=True)
            for _, i in ranked[: 1 + len(left) // ROUNDS]:
                then = self._excess(dropped | left[i], target)
                if _rate(now, then) > 0:
                    dropped |= left[i]
                    now = then
            left = [each for each in left if not each <= dropped]
            if not ranked:
                break
        return dropped

    def _best_change(self, dropped: set[int], target: float) -> set[int] | None:
        """The values to let go, or to keep, that lower the excess most for their work; None where none do."""
        now = self._excess(dropped, target)
        if now[0] <= 0 or not self.moves:
            return None
        rates = [_rate(now, self._excess(_toggled(dropped, each), target)) for each in self.moves]
        best = max(range(len(rates)), key=rates.__getitem__)
        return self.moves[best] if rates[best] > 0 else None

    def _take_back(self, dropped: set[int], target: float) -> None:
        for i in sorted(dropped, key=lambda i: -sum(self.group_work.get(g, 0) for g in self.values[i].groups)):
            work = self.simulate(dropped)[1]
            live, less = self.simulate(dropped - {i})
            if less < work and live.max(initial=0) <= target:
                dropped.discard(i)

    def _excess(self, dropped: set[int], target: float) -> tuple[float, int]:
        """Squares of the bytes above the target, added up, and the work: high peaks count most."""
        live, work = self.simulate(dropped)
        over = np.maximum(live - target, 0.0)
        return float(over @ over), work

    def cut(self) -> set[int]:
        """Values to let go so that only those stay that cross one of the cuts between segments of equal size."""
        best: tuple[int, set[int]] | None = None
        for count in range(2, 2 + 2 * math.isqrt(max(1, len(self.plain.calls)))):
            dropped = self._dropped_between(self._cuts(count))
            peak = int(self.simulate(dropped)[0].max(initial=0))
            if best is None or peak < best[0]:
                best = peak, dropped
        return best[1] if best else set()

    def _cuts(self, count: int) -> list[int]:
        """Calls after which forward is cut: where the least is alive, near equal parts of the saved bytes."""
        end = max((v.last for v in self.values), default=0)
        crossing, saved = np.zeros(end + 1), np.zeros(end + 1)
        for value in self.values:
            crossing[value.first : value.last] += value.nbytes
            if value.free and value.reads:
                saved[value.first :] += value.nbytes
        cuts = []
        for part in range(1, count):
            wanted = saved[-1] * part / count
            reach = saved[-1] / count / 2
            near = [p for p in range(end) if abs(saved[p] - wanted) <= reach]
            if near:
                cuts.append(min(near, key=lambda p: (crossing[p], abs(saved[p] - wanted))))
        return sorted(set(cuts))

    def _dropped_between(self, cuts: Sequence[int]) -> set[int]:
        if not cuts:
            return set()
        return {
            i
            for i, v in enumerate(self.values)
            if v.free and v.first <= cuts[-1] and not any(v.first <= c < v.last for c in cuts)
        }


def _toggled(dropped: set[int], change: set[int]) -> set[int]:
    return dropped - change if change <= dropped else dropped | change


def _rate(now: tuple[float, int], then: tuple[float, int]) -> float:
    """Excess that goes away for a unit of work; 0 where too little does to be sure that changes come to an end."""
    gain, work = now[0] - then[0], then[1] - now[1]
    if gain <= now[0] * 1e-6:
        return 0.0
    return gain / max(1, work) if work >= 0 else gain * (1 - work)
