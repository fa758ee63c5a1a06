"""Lowering: a group of nodes becomes a loop nest and the words it is called with.

Axes that every access steps through alike are merged first. What remains takes one of three forms:

* rows: the kept axes are the parallel rows; reductions run along the innermost axis in *phases*: a phase is one pass over
  the row, and what a reduction leaves is a scalar for the phases after it. Without reductions there is one phase.
* flat: a single axis without reductions, which is then itself the parallel one.
* columns: reductions over outer axes; the innermost axis is kept and accumulated into a row.

Sizes and strides are words, so one kernel serves all shapes; only which strides are 0 or 1 is part of its text.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.kernels.nest import Kernel, Let, Load, Loop, Pointer, Stmt, Store
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.schedule.fuse import Group
from tinygrad_lite.ir.schedule.place import Place, Placement, can_fail, is_virtual
from tinygrad_lite.ir.schedule.views import View
from tinygrad_lite.ir.types import converted

BLOCK = "64"  # rows whose sum is taken before it joins the total
LONG = 4096  # a row sum longer than this is taken in chunks
CHUNK = "1024"


@dataclass(frozen=True)
class Address:
    """A word: the address of an element of a node's storage."""

    owner: Node
    offset: int


@dataclass(frozen=True, eq=False)
class Frame:
    """A loop: how many steps it has, and its body as scheduled."""

    length: int
    graph: Graph


@dataclass(frozen=True, eq=False)
class Moving:
    """A word: an address that differs from step to step of the loops around, by `moves[turn]` elements for each."""

    owner: Node
    offset: int
    moves: tuple[tuple[Frame, Any], ...]


@dataclass(frozen=True)
class Scratch:
    """Two words: where workers' private rows lie, and the bytes from one worker to the next."""

    nbytes: int


@dataclass(frozen=True)
class Status:
    """A word: the address of the program's error cell."""


@dataclass(frozen=True)
class Check:
    """A word: what goes into the error cell when `node` finds a value it cannot take."""

    node: Node


Word = int | Address | Moving | Scratch | Status | Check


@dataclass(frozen=True)
class Lowered:
    """A kernel, its words, the extent of its parallel loop, what it reads and writes, and its work in FLOPs or so."""

    kernel: Kernel
    words: tuple[Word, ...]
    extent: int
    reads: tuple[Node, ...]  # owners of storages
    writes: tuple[Node, ...]
    work: int


# ---- accesses, axes, levels -------------------------------------------------------------------------


@dataclass
class _Access:
    """A strided look at a storage from the group's domain. `index` is (node, stride) where a gather adds index · stride."""

    place: Place
    tag: str
    strides: list[int]
    letter: str = "x"
    index: tuple[Node, int] | None = None
    base: str = ""
    names: dict[int, str] = field(default_factory=dict)  # axis → parameter of its stride


@dataclass
class _Axis:
    size: int
    reduced: bool
    name: str = ""
    index: str = ""


@dataclass
class _Level:
    """The inside of a loop under construction; `memo` holds what has been computed there already."""

    body: list[Stmt] = field(default_factory=list)
    memo: dict[tuple[str, int], str] = field(default_factory=dict)


def lower(group: Group, placement: Placement) -> Lowered:
    """The loop nest of a `loops` group."""
    return _Lowering(group, placement).run()


class _Lowering:
    """State of one lowering. Levels from the outside in: top, row (for r), sweep (other reduced axes), inner (for j)."""

    def __init__(self, group: Group, placement: Placement) -> None:
        self.group, self.placement = group, placement
        self.members = {id(n) for n in group.nodes}
        self.stored = {id(n) for n in group.stored}
        self.params: list[str] = []
        self.words: list[Word] = []
        self.counter = 0
        self.loads: dict[tuple[object, ...], _Access] = {}
        self.operand_access: dict[tuple[int, int], _Access] = {}
        self.stores: dict[int, _Access] = {}
        self.scratch: dict[tuple[int, str], str] = {}
        self.written: set[int] = set()  # kept values stored so far
        self.top = _Level()

    def run(self) -> Lowered:
        self._collect_accesses()
        self._merge_axes()
        self._choose_inner()
        self.phase = self._phases()
        extent = self._columns() if self.group.is_column else self._rows()
        body = self.top.body
        kernel = Kernel(tuple(self.params), tuple(body), self._label())
        reads = {id(a.place.owner): a.place.owner for a in self.loads.values() if not is_virtual(a.place.owner)}
        writes = {id(a.place.owner): a.place.owner for a in self.stores.values()}
        work = sum(n.op.cost(n).flops + 2 * n.type.size for n in self.group.nodes)
        return Lowered(kernel, tuple(self.words), extent, tuple(reads.values()), tuple(writes.values()), work)

    def _label(self) -> str:
        names = list(dict.fromkeys(n.op.name for n in self.group.nodes))
        return "_".join(names[:4]) + (f"_and_{len(names) - 4}" if len(names) > 4 else "")

    def _fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}{self.counter}"

    def _word(self, name: str, value: Word) -> str:
        self.params.append(name)
        self.words.append(value)
        return name

    def _is_full(self, node: Node) -> bool:
        return node.op.kind is not Kind.REDUCE and node.shape == self.group.shape

    def _member(self, node: Node, position: int) -> Node | None:
        """The node of this group that hands over an operand, directly or through an expand."""
        if node.op.kind is Kind.GATHER and (position == 0 or node.op.name == "gather"):
            return None
        operand = node.inputs[position]
        if operand.op.name == "expand" and id(operand) not in self.members:
            operand = operand.inputs[0]
        return operand if id(operand) in self.members else None

    def _members_of(self, node: Node) -> list[Node]:
        return [m for i in range(len(node.inputs)) if (m := self._member(node, i)) is not None]

    def _phases(self) -> dict[int, int]:
        """The pass over the row in which a full node is computed; the first in which a kept value is known."""
        phase: dict[int, int] = {}
        for node in self.group.nodes:
            before = max((phase[id(o)] for o in self._members_of(node)), default=0)
            phase[id(node)] = before + (node.op.kind is Kind.REDUCE)
        return phase

    # ---- accesses ---------------------------------------------------------------------------------------

    def _collect_accesses(self) -> None:
        for node in self.group.nodes:
            for position in range(len(node.inputs)):
                if self._member(node, position) is None:
                    self.operand_access[id(node), position] = self._access(node, position)
        for node in self.group.stored:
            place = self.placement[node]
            self.stores[id(node)] = _Access(place, node.dtype.short, list(place.view.steps), "y")

    def _access(self, node: Node, position: int) -> _Access:
        operand = node.inputs[position]
        place = self.placement[operand]
        index = None
        if node.op.kind is Kind.GATHER:
            strides, index = _gathered(node, position, place.view)
        else:
            strides = list(place.view.steps)
        access = self._shared(operand, place, strides, index)
        if is_virtual(place.owner):
            for i, scalar in enumerate(place.owner.inputs):  # a random op's seed and offset
                at = self.placement[scalar]
                self.operand_access[id(place.owner), i] = self._shared(scalar, at, [0] * len(strides), None)
        return access

    def _shared(self, operand: Node, place: Place, strides: list[int], index: tuple[Node, int] | None) -> _Access:
        key = (id(place.owner), place.view.offset, tuple(strides), operand.dtype, id(index[0]) if index else 0)
        letter = "k" if is_virtual(place.owner) else "x"
        return self.loads.setdefault(key, _Access(place, operand.dtype.short, strides, letter, index))

    def _merge_axes(self) -> None:
        """Neighbouring axes through which every access runs on become one."""
        accesses = [*self.loads.values(), *self.stores.values()]
        shape, reduced = self.group.shape, self.group.axes
        runs: list[list[int]] = []
        for a in (a for a, n in enumerate(shape) if n != 1):
            b = runs[-1][-1] if runs else -1
            if b >= 0 and (a in reduced) == (b in reduced) and all(x.strides[b] == x.strides[a] * shape[a] for x in accesses):
                runs[-1].append(a)
            else:
                runs.append([a])
        self.axes = [_Axis(math.prod(shape[a] for a in run), run[0] in reduced) for run in runs]
        for access in accesses:
            access.strides = [access.strides[run[-1]] for run in runs]
        if not self.axes:
            self.axes = [_Axis(math.prod(shape), False)]
            for access in accesses:
                access.strides = [0]

    def _choose_inner(self) -> None:
        """The innermost loop runs along the axis where most accesses have stride 1; a reduction's along a reduced one."""
        last = len(self.axes) - 1
        candidates = [i for i, a in enumerate(self.axes) if a.reduced]
        if self.group.is_column:
            candidates = [last]
        accesses = [*self.loads.values(), *self.stores.values()]
        unit = {i: sum(a.strides[i] == 1 for a in accesses) for i in candidates or range(last + 1)}
        self.inner_axis = max(unit, key=lambda i: (unit[i], i))
        self.row_axes = [i for i, a in enumerate(self.axes) if not a.reduced and i != self.inner_axis]
        self.sweep_axes = [i for i, a in enumerate(self.axes) if a.reduced and i != self.inner_axis]

    # ---- addresses and loads ------------------------------------------------------------------------------

    def _size(self, axis: int) -> str:
        a = self.axes[axis]
        a.name = a.name or self._word(f"n{axis}", a.size)
        return a.name

    def _declare(self, access: _Access) -> str:
        """The access's words: its address, and its strides other than 0 and, in the innermost loop, 1."""
        if not access.base:
            name = self._fresh(access.letter)
            place = access.place
            value: Word = place.view.offset if is_virtual(place.owner) else Address(place.owner, place.view.offset)
            access.base = self._word(f"{name}_at", value)
            for i, stride in enumerate(access.strides):
                if stride and not (i == self.inner_axis and stride == 1):
                    access.names[i] = self._word(f"{name}_step{i}", stride)
        return access.base

    def _terms(self, access: _Access, inner: bool) -> tuple[tuple[str, str], ...]:
        axes = [i for i in range(len(self.axes)) if access.strides[i] and (inner or i != self.inner_axis)]
        return tuple((self.axes[i].index, access.names.get(i, "1")) for i in axes)

    def _level(self, strides: list[int], inner: bool = True) -> _Level:
        """The outermost level at which an address with these strides stands still."""
        if inner and strides[self.inner_axis]:
            return self.inner
        if any(strides[i] for i in self.sweep_axes):
            return self.sweep
        return self.row if any(strides[i] for i in self.row_axes) else self.top

    def _pointer(self, access: _Access) -> str:
        level = self._level(access.strides, inner=False)
        key = ("pointer", id(access))
        if key not in level.memo:
            base = self._declare(access)
            level.memo[key] = self._fresh(access.letter)
            level.body.append(Pointer(level.memo[key], access.tag, base, self._terms(access, inner=False)))
        return level.memo[key]

    def _inner_index(self, access: _Access) -> str:
        stride = access.strides[self.inner_axis]
        if stride == 0:
            return "0"
        index = self.axes[self.inner_axis].index
        return index if stride == 1 else f"{index} * {access.names[self.inner_axis]}"

    def _load(self, node: Node, position: int, user: _Level | None = None) -> str:
        """An operand from memory, or from its element number where it is virtual; a table's element goes to `user`."""
        literal = _literal(self.placement[node.inputs[position]].owner)
        if literal is not None:
            return literal
        access = self.operand_access[id(node), position]
        if access.index is not None:
            return self._indirect(access, access.index, user or self.inner)
        level = self._level(access.strides)
        key = ("load", id(access))
        if key not in level.memo:
            level.memo[key] = self._generate(access, level) if is_virtual(access.place.owner) else self._fetch(access, level)
        return level.memo[key]

    def _fetch(self, access: _Access, level: _Level) -> str:
        pointer, value = self._pointer(access), self._fresh("t")
        level.body.append(Load(value, pointer, self._inner_index(access)))
        return value

    def _indirect(self, access: _Access, index: tuple[Node, int], level: _Level) -> str:
        node, step = index
        at, base = self._operand(node, 1), self._declare(access)
        if -1 not in access.names:
            access.names[-1] = "1" if step == 1 else self._word(f"{base}_by", step)
        pointer, value = self._fresh("x"), self._fresh("t")
        terms = (*self._terms(access, inner=True), (at, access.names[-1]))
        level.body += [Pointer(pointer, access.tag, base, terms), Load(value, pointer, "0")]
        return value

    def _generate(self, access: _Access, level: _Level) -> str:
        """A virtual value from its element number."""
        owner = access.place.owner
        tag, number, value = owner.dtype.short, self._fresh("i"), self._fresh("t")
        base = self._declare(access)
        terms = [i if s == "1" else f"{i} * {s}" for i, s in self._terms(access, inner=True)]
        if owner.op.name == "arange":
            level.body.append(Let(number, " + ".join([base, *terms])))
            start, step = owner.attrs["start"], owner.attrs["step"]
            wide = "i64" if isinstance(start, int) and isinstance(step, int) else "f64"
            level.body.append(Let(value, f"{tag}({_text(start, wide)} + {_text(step, wide)} * {{0}})", (number,)))
        else:
            seed, offset = self._load(owner, 0), self._load(owner, 1)
            level.body.append(Let(number, " + ".join([base, *terms])))
            level.body.append(Let(value, f"{owner.op.name}_{tag}({{0}}, {{1}} + {{2}})", (seed, offset, number)))
        return value

    # ---- values ---------------------------------------------------------------------------------------------

    def _operand(self, node: Node, position: int) -> str:
        member = self._member(node, position)
        if member is None:
            return self._load(node, position)
        return self._full(member) if self._is_full(member) else self._kept(member)

    def _compute(self, node: Node, level: _Level) -> str:
        if node.op.kind is Kind.GATHER:
            return self._load(node, 0, level)
        args = tuple(self._operand(node, i) for i in range(len(node.inputs)))
        value = self._fresh("t")
        level.body.append(Let(value, self._template(node), args))
        return value

    def _template(self, node: Node) -> str:
        """The op's kernel expression with its attributes and dtypes filled in."""
        if node.op.scalar is None:
            raise NotImplementedError(f"{node.op.name} has no kernel expression")
        return self._checked(node) if can_fail(node) else template_of(node)

    def _checked(self, node: Node) -> str:
        if "status" not in self.params:
            self._word("status", Status())
        code = f"check{self.group.nodes.index(node)}"
        if code not in self.params:
            self._word(code, Check(node))
        if node.op.name == "pow":
            return f"int_pow({{0}}, {{1}}, status, {code})"
        size = f"{code}_size"
        if size not in self.params:
            self._word(size, node.attrs["size"])
        return f"check_index({{0}}, {size}, {int(node.attrs['wrap'])}, status, {code})"

    def _full(self, node: Node) -> str:
        """A full node's value in the current pass: computed, or taken back from where an earlier pass put it."""
        memo, key = self.inner.memo, ("value", id(node))
        if key not in memo:
            late = self.phase[id(node)] < self.current and id(node) in self.saved
            memo[key] = self._take_back(node) if late else self._compute(node, self.inner)
        return memo[key]

    def _kept(self, node: Node) -> str:
        key = ("value", id(node))
        if key not in self.row.memo:
            self.row.memo[key] = self._compute(node, self.row)
        return self.row.memo[key]

    def _take_back(self, node: Node) -> str:
        value = self._fresh("t")
        if id(node) in self.stores:
            access = self.stores[id(node)]
            self.inner.body.append(Load(value, self._pointer(access), self._inner_index(access)))
        else:
            self.inner.body.append(Load(value, self._private_row(node), self.axes[self.inner_axis].index))
        return value

    # ---- rows -------------------------------------------------------------------------------------------------

    def _rows(self) -> int:
        flat = not self.row_axes and not self.group.axes
        self.row = self.top if flat else _Level()
        self._index_rows()
        bounds = ("lo", "hi") if flat else ("0", self._size(self.inner_axis))
        self.saved = self._saved_nodes()
        for now in range(self._passes()):
            self.current = now
            self._pass(bounds)
            self._store_kept()
        if flat:
            return self.axes[self.inner_axis].size
        self.top.body.append(Loop("r", "lo", "hi", tuple(self.row.body)))
        return math.prod(self.axes[i].size for i in self.row_axes)

    def _passes(self) -> int:
        full = [self.phase[id(n)] + 1 for n in self.group.stored if self._is_full(n)]
        return max([1, *full, *(self.phase[id(n)] for n in self.group.nodes if n.op.kind is Kind.REDUCE)])

    def _index_rows(self) -> None:
        """The row number r as indices of the row axes; the other loops' variables."""
        self.axes[self.inner_axis].index = "j"
        for i in self.sweep_axes:
            self.axes[i].index = f"s{i}"
        rest = "r"
        for i in reversed(self.row_axes[1:]):
            size, quotient = self._size(i), self._fresh("q")
            self.axes[i].index = f"i{i}"
            self.row.body.append(Let(quotient, "{0} // {1}", (rest, size)))
            self.row.body.append(Let(f"i{i}", "{0} - {1} * {2}", (rest, quotient, size)))
            rest = quotient
        if self.row_axes:
            self.axes[self.row_axes[0]].index = rest

    def _saved_nodes(self) -> set[int]:
        """Full nodes that later passes take back rather than compute again: dear ones, those that are stored anyway, and
        those whose extremum is taken (recomputed, they might differ from it in the last bit)."""
        last: dict[int, int] = {}
        saved: set[int] = set()
        for node in reversed(self.group.nodes):
            reduces = node.op.kind is Kind.REDUCE
            needed = max(last.get(id(node), 0), self.phase[id(node)] - reduces)
            if self._is_full(node) and needed > self.phase[id(node)] and self._is_dear(node):
                saved.add(id(node))
                needed = self.phase[id(node)]
            if reduces or self._is_full(node):
                for operand in self._members_of(node):
                    last[id(operand)] = max(last.get(id(operand), 0), needed)
        return saved

    def _is_dear(self, node: Node) -> bool:
        if id(node) in self.stored or "expensive" in node.op.traits or node.op.kind is Kind.GATHER:
            return True
        return any(u.op.name in ("max", "min") and u.inputs[0] is node for u in self.group.nodes)

    def _pass(self, bounds: tuple[str, str]) -> None:
        """One sweep over the row: accumulate this pass's reductions, store its full nodes, save what later passes want."""
        now = self.current
        reductions = [n for n in self.group.nodes if n.op.kind is Kind.REDUCE and self.phase[id(n)] == now + 1]
        full = [n for n in self.group.nodes if self._is_full(n) and self.phase[id(n)] == now]
        stores = [n for n in full if id(n) in self.stored]
        saves = [n for n in full if id(n) in self.saved and id(n) not in self.stored]
        if not (reductions or stores or saves):
            return
        self.inner = _Level()
        self.sweep = _Level() if self.sweep_axes else self.row
        chunked = [n for n in reductions if n.op.name == "sum" and self.axes[self.inner_axis].size > LONG]
        for node in reductions:
            self.row.memo["value", id(node)] = self._result(node)
            self.row.body.extend(_start(node, self._accumulator(node)))
        for node in reductions:
            name = self._accumulator(node) + ("c" if node in chunked else "")
            self.inner.body.extend(_accumulate(node, name, self._operand(node, 0), self.axes[self.inner_axis].index))
        for node in stores:
            value, access = self._full(node), self.stores[id(node)]
            self.inner.body.append(Store(self._pointer(access), self._inner_index(access), value))
        for node in saves:
            self.inner.body.append(Store(self._private_row(node), self.axes[self.inner_axis].index, self._full(node)))
        loops = self._inner_loop(bounds, chunked)
        if self.sweep_axes:
            loops = [*self.sweep.body, *loops]
            for axis in reversed(self.sweep_axes):
                loops = [Loop(self.axes[axis].index, "0", self._size(axis), tuple(loops))]
        self.row.body.extend(loops)

    def _inner_loop(self, bounds: tuple[str, str], chunked: list[Node]) -> list[Stmt]:
        """The innermost loop; long sums are taken in chunks, so that errors do not grow with the length."""
        if not chunked:
            return [Loop("j", *bounds, tuple(self.inner.body))]
        starts = [s for n in chunked for s in _start(n, self._accumulator(n) + "c")]
        ends = [Let(a, _SUM[n.dtype.kind], (a, a + "c"), n.dtype.short) for n in chunked for a in [self._accumulator(n)]]
        inner = Loop("j", "j0", "j1", tuple(self.inner.body))
        limit = Let("j1", f"minimum(j0 + {CHUNK}, {{0}})", (bounds[1],))
        return [Loop("j0", *bounds, (limit, *starts, inner, *ends), CHUNK)]

    def _accumulator(self, node: Node) -> str:
        return f"a{self.group.nodes.index(node)}"

    def _result(self, node: Node) -> str:
        return self._accumulator(node) + ("i" if node.op.name in ("argmax", "argmin") else "")

    def _store_kept(self) -> None:
        """Kept values that have become known and that others read."""
        for node in self.group.stored:
            if self._is_full(node) or self.phase[id(node)] > self.current + 1 or id(node) in self.written:
                continue
            self.written.add(id(node))
            self.inner = self.sweep = self.row
            value, access = self._kept(node), self.stores[id(node)]
            self.row.body.append(Store(self._pointer(access), "0", value))

    def _private_row(self, node: Node) -> str:
        """A pointer to this worker's own row for a saved node; the rows of swept axes follow one another."""
        length = math.prod(a.size for a in self.axes if a.reduced)
        base = self._scratch(node, "row", length)
        level = self.sweep if self.sweep_axes else self.top
        key = ("row", id(node))
        if key not in level.memo:
            level.memo[key] = self._fresh("z")
            level.body.append(Pointer(level.memo[key], node.dtype.short, base, self._row_terms(level)))
        return level.memo[key]

    def _row_terms(self, level: _Level) -> tuple[tuple[str, str], ...]:
        if not self.sweep_axes:
            return ()
        number = self.axes[self.sweep_axes[0]].index
        for axis in self.sweep_axes[1:]:
            combined = self._fresh("v")
            level.body.append(Let(combined, "{0} * {1} + {2}", (number, self._size(axis), self.axes[axis].index)))
            number = combined
        return ((number, self._size(self.inner_axis)),)

    def _scratch(self, node: Node, role: str, length: int) -> str:
        key = (id(node), role)
        if key not in self.scratch:
            nbytes = max(64, -(-length * node.dtype.itemsize // 64) * 64)
            name = self._fresh("z")
            self._word(f"{name}_all", Scratch(nbytes))
            self._word(f"{name}_each", nbytes)
            self.top.body.append(Let(f"{name}_at", "{0} + worker * {1}", (f"{name}_all", f"{name}_each")))
            self.scratch[key] = f"{name}_at"
        return self.scratch[key]

    # ---- columns ------------------------------------------------------------------------------------------------

    def _columns(self) -> int:
        """Reductions over outer axes: rows are added to a row of totals, a block of them at a time."""
        flat = not self.row_axes
        self.row = self.top if flat else _Level()
        self._index_rows()
        self.current, self.saved = 0, set()
        bounds = ("lo", "hi") if flat else ("0", self._size(self.inner_axis))
        reductions = [n for n in self.group.nodes if n.op.kind is Kind.REDUCE]
        totals = {id(n): self._column_row(n, "total") for n in reductions}
        parts = {id(n): self._column_row(n, "part") if n.op.name == "sum" else totals[id(n)] for n in reductions}
        self._fill(reductions, totals, bounds)
        self.sweep, self.inner = _Level(), _Level()
        for node in reductions:
            value, old, new = self._operand(node, 0), self._fresh("t"), self._fresh("t")
            self.inner.body.append(Load(old, parts[id(node)], "j"))
            self.inner.body.append(Let(new, _combine(node), (old, value), node.dtype.short))
            self.inner.body.append(Store(parts[id(node)], "j", new))
        for node in self.group.stored:
            if self._is_full(node):
                value, access = self._full(node), self.stores[id(node)]
                self.inner.body.append(Store(self._pointer(access), self._inner_index(access), value))
        self.row.body.extend(self._swept(reductions, totals, parts, bounds))
        self._store_totals(reductions, totals, bounds)
        if flat:
            return self.axes[self.inner_axis].size
        self.top.body.append(Loop("r", "lo", "hi", tuple(self.row.body)))
        return math.prod(self.axes[i].size for i in self.row_axes)

    def _column_row(self, node: Node, role: str) -> str:
        base, pointer = self._scratch(node, role, self.axes[self.inner_axis].size), self._fresh("z")
        self.top.body.append(Pointer(pointer, node.dtype.short, base))
        return pointer

    def _fill(self, nodes: list[Node], rows: dict[int, str], bounds: tuple[str, str]) -> None:
        body = tuple(Store(rows[id(n)], "j", _identity(n)) for n in nodes)
        self.row.body.append(Loop("j", *bounds, body))

    def _swept(
        self, nodes: list[Node], totals: dict[int, str], parts: dict[int, str], bounds: tuple[str, str]
    ) -> list[Stmt]:
        axis = self.sweep_axes[-1]
        var, size = self.axes[axis].index, self._size(axis)
        sums = [n for n in nodes if n.op.name == "sum"]
        inner: tuple[Stmt, ...] = (*self.sweep.body, Loop("j", *bounds, tuple(self.inner.body)))
        loops: list[Stmt] = [Loop(var, "0", size, inner)]
        if sums:
            clear = Loop("j", *bounds, tuple(Store(parts[id(n)], "j", _identity(n)) for n in sums))
            add = Loop("j", *bounds, tuple(s for n in sums for s in self._add_rows(n, totals[id(n)], parts[id(n)])))
            end = Let(f"{var}_end", f"minimum({var}_block + {BLOCK}, {{0}})", (size,))
            loops = [Loop(f"{var}_block", "0", size, (end, clear, Loop(var, f"{var}_block", f"{var}_end", inner), add), BLOCK)]
        for other in reversed(self.sweep_axes[:-1]):
            loops = [Loop(self.axes[other].index, "0", self._size(other), tuple(loops))]
        return loops

    def _add_rows(self, node: Node, total: str, part: str) -> list[Stmt]:
        a, b, c = self._fresh("t"), self._fresh("t"), self._fresh("t")
        add = Let(c, _combine(node), (a, b), node.dtype.short)
        return [Load(a, total, "j"), Load(b, part, "j"), add, Store(total, "j", c)]

    def _store_totals(self, nodes: list[Node], totals: dict[int, str], bounds: tuple[str, str]) -> None:
        body: list[Stmt] = []
        for node in nodes:
            access, value = self.stores[id(node)], self._fresh("t")
            body += [Load(value, totals[id(node)], "j"), Store(self._pointer(access), self._inner_index(access), value)]
        self.row.body.append(Loop("j", *bounds, tuple(body)))


# ---- formulas --------------------------------------------------------------------------------------------------


def _gathered(node: Node, position: int, view: View) -> tuple[list[int], tuple[Node, int] | None]:
    """Strides over the result's axes: the index steps along its own, the table along all others."""
    axis, steps = node.attrs["axis"], list(view.steps)
    if node.op.name == "take_along":
        if position == 1:
            return steps, None
        return [0 if a == axis else s for a, s in enumerate(steps)], (node, view.strides[axis])
    wide = node.inputs[1].type.ndim
    if position == 1:
        return [0] * axis + steps + [0] * (node.type.ndim - axis - wide), None
    return steps[:axis] + [0] * wide + steps[axis + 1 :], (node, view.strides[axis])


def _literal(owner: Node) -> str | None:
    if owner.op.name == "full":
        return _constant(owner.attrs["value"], owner)
    if owner.op.name == "constant" and owner.type.size == 1:
        return _constant(owner.attrs["data"][0], owner)
    return None


def _constant(value: float, owner: Node) -> str:
    if owner.dtype.is_half:
        value = converted(np.asarray(value, np.float32), owner.dtype).item()
    return _text(value, owner.dtype.working.short)


def _text(value: float, tag: str) -> str:
    """A literal of the kernel language; inf and nan are names there."""
    if tag == "b1":
        return f"b1({int(bool(value))})"
    if tag in ("f32", "f64"):
        return f"{tag}({float(value)!r})"
    return f"{tag}({int(value)})"


def template_of(node: Node) -> str:
    """An elementwise op's expression for this node's dtypes."""
    tag = node.inputs[0].dtype.short if node.inputs else node.dtype.short
    if node.op.name == "cast":
        return cast_template(tag, node.dtype.short)
    assert node.op.scalar is not None
    text = node.op.scalar.replace("{t}", tag)
    for name, value in node.attrs.items():
        text = text.replace(f"{{{name}}}", str(value))
    return _narrowed(text, node.dtype.short)


def _narrowed(text: str, tag: str) -> str:
    """Arithmetic on small integers is done in int64 (on bool in uint8): back to the dtype."""
    return f"{tag}({text})" if tag in ("i8", "u8", "i16", "i32", "b1") and not text.startswith(f"{tag}(") else text


def cast_template(source: str, target: str) -> str:
    return f"{target}({{0}})"


_SUM = {"f": "sum_add({0}, {1})", "i": "{0} + {1}", "u": "{0} + {1}"}


def _combine(node: Node) -> str:
    """How a reduction takes in one more value: {0} so far, {1} the value."""
    name, kind, tag = node.op.name, node.dtype.kind, node.dtype.short
    if name == "sum":
        text = _SUM[kind]
    else:
        text = {
            "prod": "{0} * {1}",
            "max": "maximum({0}, {1})",
            "min": "minimum({0}, {1})",
            "any": "b1({0} | {1})",
            "all": "b1({0} & {1})",
        }[name]
    return _narrowed(text, tag)


def _identity(node: Node) -> str:
    name, dtype = node.op.name, node.dtype
    if name in ("max", "min"):
        sign = -1 if name == "max" else 1
        if dtype.kind == "f":
            return f"{dtype.short}({sign * math.inf!r})"
        if dtype.kind == "b":
            return f"b1({int(name == 'min')})"
        info = np.iinfo(dtype.numpy)
        return f"{dtype.short}({info.min if name == 'max' else info.max})"
    return _text({"sum": 0, "prod": 1, "any": 0, "all": 1}[name], dtype.short)


def _start(node: Node, name: str) -> list[Stmt]:
    if node.op.name not in ("argmax", "argmin"):
        return [Let(name, _identity(node), (), node.dtype.short)]
    return [Let(name, "{0}", (_extreme(node),)), Let(f"{name}i", "i64(0)"), Let(f"{name}n", "i64(0)")]


def _extreme(node: Node) -> str:
    """The start of an argmax or argmin: the first element always beats it (`n` counts up from 0)."""
    dtype = node.inputs[0].dtype
    return _text(0, dtype.short)


def _accumulate(node: Node, name: str, value: str, index: str) -> list[Stmt]:
    if node.op.name not in ("argmax", "argmin"):
        return [Let(name, _combine(node), (name, value), node.dtype.short)]
    tag = node.inputs[0].dtype.short
    sign = ">" if node.op.name == "argmax" else "<"
    beats = f"b1({{0}} {sign} {{1}})"
    if tag in ("f32", "f64"):  # the first NaN wins
        beats = f"b1({{0}} {sign} {{1}}) | (b1({{0}} != {{0}}) & b1({{1}} == {{1}}))"
    return [
        Let(f"{name}b", f"b1(({beats}) | b1({{2}} == 0))", (value, name, f"{name}n")),
        Let(name, "where({0}, {1}, {2})", (f"{name}b", value, name)),
        Let(f"{name}i", "where({0}, {1}, {2})", (f"{name}b", f"i64({index})", f"{name}i")),
        Let(f"{name}n", "i64(1)"),
    ]
