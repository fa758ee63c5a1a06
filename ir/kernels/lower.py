"""Lowering: a group of nodes becomes a loop nest and the words it is called with.

Axes that every access steps through alike are merged first. What remains takes one of four forms:

* rows: the kept axes are the parallel rows; reductions run along the innermost axis in *phases*: a phase is one pass
  over the row, and what a reduction leaves is a scalar for the phases after it. Without reductions there is one phase.
* flat: a single axis without reductions, which is then itself the parallel one.
* columns: reductions over outer axes; the innermost axis is kept and accumulated into a row.
* windows: a few elements beside each of the inner axis's, reduced or not, are written out without a loop.

Sizes and strides are words, so one kernel serves all shapes. Part of its text are only which strides are 0 or 1, the
innermost axis's where they are short, and the sizes of windows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from tinygrad_lite.ir.kernels import short
from tinygrad_lite.ir.kernels.access import Access, Accesses, Level
from tinygrad_lite.ir.kernels.formulas import accumulate, combine, identity, start_of, template_of
from tinygrad_lite.ir.kernels.nest import Kernel, Let, Load, Loop, Pointer, Stmt, Store
from tinygrad_lite.ir.kernels.words import Check, Lowered, Scratch, Status
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.schedule.fuse import Group
from tinygrad_lite.ir.schedule.place import Placement, can_fail, is_virtual

TURN, MANY = 64, 1024  # elements of a turn of an unrolled loop; beside which what is left over is little
TOGETHER = 4  # short rows that are summed side by side
SHORT = 2048
SIMPLE = 8  # nodes: more would not stay in registers
BLOCK = "64"  # rows whose sum is taken before it joins the total
LONG = 4096  # a row sum longer than this is taken in chunks
CHUNK = "1024"


def lower(group: Group, placement: Placement, home: Mapping[int, Node] | None = None) -> Lowered:
    """The loop nest of a `loops` group; `home`: which storages are others' memory (Schedule.home, .over)."""
    return _Lowering(group, placement).run(home or {})


class _Lowering(Accesses):
    """State of one lowering."""

    def __init__(self, group: Group, placement: Placement) -> None:
        super().__init__(group, placement)
        self.stored = {id(n) for n in group.stored}
        self.scratch: dict[tuple[int, str], str] = {}
        self.written: set[int] = set()  # kept values stored so far
        self.beside = ""  # which of the rows side by side is written out

    def run(self, home: Mapping[int, Node]) -> Lowered:
        self._collect_accesses()
        self._merge_axes()
        writes = {id(a.place.owner): a.place.owner for a in self.stores.values()}
        self._share_overwritten(home)
        self.over = any(id(owner) in home for owner in writes)
        self._choose_inner()
        self.phase = self._phases()
        extent = self._form()()
        body = self.top.body
        kernel = Kernel(tuple(self.params), tuple(body), self._label(), self._is_long())
        reads = {id(a.place.owner): a.place.owner for a in self.loads.values() if not is_virtual(a.place.owner)}
        work = sum(n.op.cost(n).flops + 2 * n.type.size for n in self.group.nodes)
        return Lowered(kernel, tuple(self.words), extent, tuple(reads.values()), tuple(writes.values()), work)

    def _is_long(self) -> bool:
        """A loop over all there is, or rows of many elements or of whole turns of four vectors of 16."""
        length = self.axes[self.inner_axis].size
        over_all = not self.row_axes and not self.group.is_column
        return over_all or length % TURN == 0 or length >= MANY

    def _form(self) -> Callable[[], int]:
        if self.unrolled:
            return self._windows
        if self.group.is_column:
            return self._columns
        return self._rows_together if self._sums_short_rows() else self._rows

    def _label(self) -> str:
        names = list(dict.fromkeys(n.op.name for n in self.group.nodes))
        return "_".join(names[:4]) + (f"_and_{len(names) - 4}" if len(names) > 4 else "")

    def _phases(self) -> dict[int, int]:
        """The pass over the row in which a full node is computed; the first in which a kept value is known."""
        phase: dict[int, int] = {}
        for node in self.group.nodes:
            before = max((phase[id(o)] for o in self._members_of(node)), default=0)
            phase[id(node)] = before + (node.op.kind is Kind.REDUCE)
        return phase

    # ---- values ---------------------------------------------------------------------------------------------

    def _operand(self, node: Node, position: int) -> str:
        member = self._member(node, position)
        if member is None:
            return self._load(node, position)
        return self._full(member) if self._is_full(member) else self._kept(member)

    def _compute(self, node: Node, level: Level) -> str:
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
        if node.op.failure is not None:
            return template_of(node).replace("{1}", f"nonzero({{1}}, status, {code})")
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
        if key not in self.kept.memo:
            around, self.inner, self.sweep = (self.inner, self.sweep), self.kept, self.kept
            self.kept.memo[key] = self._compute(node, self.kept)
            self.inner, self.sweep = around
        return self.kept.memo[key]

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
        self.row = self.kept = self.top if flat else Level()
        self._index_rows()
        self.saved = self._saved_nodes()
        bounds = ("lo", "hi") if flat else ("0", self._size(self.inner_axis) if self.group.axes else self._end_of_row())
        for now in range(self._passes()):
            self.current = now
            self._pass(bounds)
            self._store_kept()
        return self._closed(flat)

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
            self.axes[i].index = f"r{i}"
            self.row.body.append(Let(quotient, "{0} // {1}", (rest, size)))
            self.row.body.append(Let(f"r{i}", "{0} - {1} * {2}", (rest, quotient, size)))
            rest = quotient
        if self.row_axes:
            self.axes[self.row_axes[0]].index = rest

    def _saved_nodes(self) -> set[int]:
        """Full nodes that later passes take back rather than compute again: dear ones, those stored anyway, and
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
        """One sweep over the row: accumulate its reductions, store its full nodes, save what later passes want."""
        now = self.current
        reductions = [n for n in self.group.nodes if n.op.kind is Kind.REDUCE and self.phase[id(n)] == now + 1]
        full = [n for n in self.group.nodes if self._is_full(n) and self.phase[id(n)] == now]
        stores = [n for n in full if id(n) in self.stored]
        saves = [n for n in full if id(n) in self.saved and id(n) not in self.stored]
        if not (reductions or stores or saves):
            return
        self.inner = Level()
        self.sweep = Level() if self.sweep_axes else self.row
        length = math.prod(self.axes[i].size for i in (self.inner_axis, *self.sweep_axes))
        chunked = [n for n in reductions if n.op.name == "sum" and length > LONG]
        for node in reductions:
            self.kept.memo["value", id(node)] = self._result(node)
            self.row.body.extend(start_of(node, self._accumulator(node)))
        for node in reductions:
            name = self._accumulator(node) + ("c" if node in chunked else "")
            self.inner.body.extend(accumulate(node, name, self._operand(node, 0), self.axes[self.inner_axis].index))
        for node in stores:
            self._store(self.stores[id(node)], self._full(node))
        for node in saves:
            self.inner.body.append(Store(self._private_row(node), self.axes[self.inner_axis].index, self._full(node)))
        loops = self._inner_loop(bounds, chunked)
        if self.sweep_axes:
            loops = [*self.sweep.body, *loops]
            for axis in reversed(self.sweep_axes):
                loops = [Loop(self.axes[axis].index, "0", self._size(axis), tuple(loops))]
        self.row.body.extend(loops)

    def _inner_loop(self, bounds: tuple[str, str], chunked: list[Node]) -> list[Stmt]:
        """The innermost loop; long sums are taken in chunks or sweep by sweep, lest errors grow with the length."""
        if not chunked:
            return [Loop("j", *bounds, tuple(self.inner.body))]
        starts = [s for n in chunked for s in start_of(n, self._accumulator(n) + "c")]
        ends = [Let(a, combine(n), (a, a + "c"), n.dtype.short) for n in chunked for a in [self._accumulator(n)]]
        if self.axes[self.inner_axis].size <= LONG:
            return [*starts, Loop("j", *bounds, tuple(self.inner.body)), *ends]
        inner = Loop("j", "j0", "j1", tuple(self.inner.body))
        limit = Let("j1", f"minimum(j0 + {CHUNK}, {{0}})", (bounds[1],))
        return [Loop("j0", *bounds, (limit, *starts, inner, *ends), CHUNK)]

    def _accumulator(self, node: Node) -> str:
        return f"a{self.group.nodes.index(node)}{self.beside}"

    def _result(self, node: Node) -> str:
        return self._accumulator(node) + ("i" if node.op.name in ("argmax", "argmin") else "")

    def _store_kept(self) -> None:
        """Kept values that have become known and that others read."""
        for node in self.group.stored:
            if self._is_full(node) or self.phase[id(node)] > self.current + 1 or id(node) in self.written:
                continue
            self.written.add(id(node))
            self.inner = self.sweep = self.kept
            value, access = self._kept(node), self.stores[id(node)]
            self.kept.body.append(Store(self._pointer(access), self._inner_index(access), value))

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

    def _row_terms(self, level: Level) -> tuple[tuple[str, str], ...]:
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

    def _end_of_row(self) -> str:
        """Where the innermost loop stops: at the row's end, or behind it where that makes whole vectors."""
        end, last = self._size(self.inner_axis), self._last_rows()
        if last is None:
            return end
        whole = self._word("whole", short.wide(self.axes[self.inner_axis].size))
        self.top.body.append(Let("last", "hi - {0}", (self._word("exact", last),)))
        self.row.body.append(Let("end", "where(r < {0}, {1}, {2})", ("last", whole, end)))
        return "end"

    def _last_rows(self) -> int | None:
        """short.last_rows of this nest; None where it may fail, reads by an index, or overwrites what it reads."""
        indirect = any(a.index is not None for a in self.loads.values())
        written = {id(a.place.owner) for a in self.stores.values()}
        own = self.over or any(id(a.place.owner) in written for a in self.loads.values())
        if indirect or own or any(can_fail(n) for n in self.group.nodes):
            return None
        sizes = [self.axes[i].size for i in self.row_axes]
        reads = [self._walk(a) for a in self.loads.values() if not is_virtual(a.place.owner)]
        writes = [self._walk(a) for a in self.stores.values()]
        return short.last_rows(sizes, self.axes[self.inner_axis].size, reads, writes)

    def _walk(self, access: Access) -> short.Walk:
        rows, within = (tuple(access.strides[i] for i in axes) for axes in (self.row_axes, self.unrolled))
        return short.Walk(rows, within, access.strides[self.inner_axis])

    def _sums_short_rows(self) -> bool:
        """Nothing but sums of rows, of which some follow one another? What is left of a vector of partial sums takes
        longer to add up than a short row does; several of them add up at once, and what all rows read is read once.
        """
        sums = [n for n in self.group.nodes if n.op.kind is Kind.REDUCE]
        if not sums or self.sweep_axes or not self.row_axes or len(self.group.nodes) > SIMPLE:
            return False
        plain = all(n.op.name == "sum" for n in sums) and max(self.phase.values()) == 1
        kept = not any(self._is_full(n) for n in self.group.stored)
        rows, length = self.axes[self.row_axes[-1]].size, self.axes[self.inner_axis].size
        return plain and kept and rows % TOGETHER == 0 and length <= SHORT

    def _rows_together(self) -> int:
        """As rows, several of the last row axis at a time."""
        last = self.axes[self.row_axes[-1]]
        last.size //= TOGETHER
        self.row, self.saved, self.current = Level(), set(), 0
        self._index_rows()
        block, before, body, after = last.index, self.row.body, Level(), Level()
        for number in range(TOGETHER):
            self.beside = f"_{number}"
            last.index = f"{block}{self.beside}"
            before.append(Let(last.index, f"{{0}} * {TOGETHER} + {number}", (block,)))
            self.row, self.inner, self.kept = Level(before), Level(body.body), Level(after.body)
            self.sweep, self.written = self.row, set()
            for node in [n for n in self.group.nodes if n.op.kind is Kind.REDUCE]:
                self.kept.memo["value", id(node)] = self._accumulator(node)
                before += start_of(node, self._accumulator(node))
                body.body += accumulate(node, self._accumulator(node), self._operand(node, 0), "j")
            self._store_kept()
        loop = Loop("j", "0", self._size(self.inner_axis), tuple(body.body))
        self.row = Level([*before, loop, *after.body])
        return self._closed(flat=False)

    # ---- windows ----------------------------------------------------------------------------------------------

    def _windows(self) -> int:
        """A few elements beside each of the inner axis's: written out one after another, reduced in registers."""
        flat = not self.row_axes
        self.row = self.top if flat else Level()
        self._index_rows()
        self.saved = set()
        bounds = ("lo", "hi") if flat else ("0", self._end_of_row())
        body: list[Stmt] = []
        self.kept = Level(body)
        for now in range(self._passes()):
            self.current = now
            self._pass_over_windows(body)
        self._store_kept()  # at last: between stores, loads would have to be done again
        self.row.body.append(Loop("j", *bounds, tuple(body)))
        return self._closed(flat)

    def _pass_over_windows(self, body: list[Stmt]) -> None:
        reductions = [n for n in self.group.nodes if n.op.kind is Kind.REDUCE and self.phase[id(n)] == self.current + 1]
        for node in reductions:
            body += start_of(node, self._accumulator(node))
        for point in np.ndindex(*(self.axes[i].size for i in self.unrolled)):
            for axis, at in zip(self.unrolled, point, strict=True):
                self.axes[axis].index = str(at)
            self.sweep, self.inner = Level(self.row.body), Level(body)
            for node in reductions:
                body += accumulate(node, self._accumulator(node), self._operand(node, 0), "0")
            self._store_full()
        self.kept.memo |= {("value", id(n)): self._accumulator(n) for n in reductions}

    def _store_full(self) -> None:
        for node in self.group.stored:
            if self._is_full(node) and self.phase[id(node)] == self.current:
                self._store(self.stores[id(node)], self._full(node))

    def _closed(self, flat: bool) -> int:
        """Put the row into its loop, where there is one; how many there are to share."""
        if flat:
            return self.axes[self.inner_axis].size
        self.top.body.append(Loop("r", "lo", "hi", tuple(self.row.body)))
        return math.prod(self.axes[i].size for i in self.row_axes)

    # ---- columns ------------------------------------------------------------------------------------------------

    def _columns(self) -> int:
        """Reductions over outer axes: rows are added to a row of totals, a block of them at a time."""
        flat = not self.row_axes
        self.row = self.top if flat else Level()
        self._index_rows()
        self.current, self.saved = 0, set()
        bounds = ("lo", "hi") if flat else ("0", self._size(self.inner_axis))
        reductions = [n for n in self.group.nodes if n.op.kind is Kind.REDUCE]
        totals = {id(n): self._column_row(n, "total") for n in reductions}
        parts = {id(n): self._column_row(n, "part") if n.op.name == "sum" else totals[id(n)] for n in reductions}
        self._fill(reductions, totals, bounds)
        self.sweep, self.inner = Level(), Level()
        for node in reductions:
            value, old, new = self._operand(node, 0), self._fresh("t"), self._fresh("t")
            self.inner.body.append(Load(old, parts[id(node)], "j"))
            self.inner.body.append(Let(new, combine(node), (old, value), node.dtype.short))
            self.inner.body.append(Store(parts[id(node)], "j", new))
        self._store_full()
        self.row.body.extend(self._swept(reductions, totals, parts, bounds))
        self._store_totals(reductions, totals, bounds)
        return self._closed(flat)

    def _column_row(self, node: Node, role: str) -> str:
        base, pointer = self._scratch(node, role, self.axes[self.inner_axis].size), self._fresh("z")
        self.top.body.append(Pointer(pointer, node.dtype.short, base))
        return pointer

    def _fill(self, nodes: list[Node], rows: dict[int, str], bounds: tuple[str, str]) -> None:
        body = tuple(Store(rows[id(n)], "j", identity(n)) for n in nodes)
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
            clear = Loop("j", *bounds, tuple(Store(parts[id(n)], "j", identity(n)) for n in sums))
            add = Loop("j", *bounds, tuple(s for n in sums for s in self._add_rows(n, totals[id(n)], parts[id(n)])))
            end = Let(f"{var}_end", f"minimum({var}_block + {BLOCK}, {{0}})", (size,))
            block = Loop(var, f"{var}_block", f"{var}_end", inner)
            loops = [Loop(f"{var}_block", "0", size, (end, clear, block, add), BLOCK)]
        for other in reversed(self.sweep_axes[:-1]):
            loops = [Loop(self.axes[other].index, "0", self._size(other), tuple(loops))]
        return loops

    def _add_rows(self, node: Node, total: str, part: str) -> list[Stmt]:
        a, b, c = self._fresh("t"), self._fresh("t"), self._fresh("t")
        add = Let(c, combine(node), (a, b), node.dtype.short)
        return [Load(a, total, "j"), Load(b, part, "j"), add, Store(total, "j", c)]

    def _store_totals(self, nodes: list[Node], totals: dict[int, str], bounds: tuple[str, str]) -> None:
        body: list[Stmt] = []
        for node in nodes:
            access, value = self.stores[id(node)], self._fresh("t")
            body += [Load(value, totals[id(node)], "j"), Store(self._pointer(access), self._inner_index(access), value)]
        self.row.body.append(Loop("j", *bounds, tuple(body)))
