"""Accesses: how a group's loops look at memory. Axes are merged, the innermost chosen, addresses and loads placed.

A load or a pointer stands at the outermost level at which its address stands still.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tinygrad_lite.ir.kernels.formulas import literal, text_of
from tinygrad_lite.ir.kernels.nest import Let, Load, Pointer, Stmt, Store
from tinygrad_lite.ir.kernels.words import Address, Word
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.schedule.fuse import Group
from tinygrad_lite.ir.schedule.place import Place, Placement, is_virtual
from tinygrad_lite.ir.schedule.views import View

LITERAL = 16  # whole constants beyond it are words: mostly they are sizes
NEAR = 4  # strides up to it are part of the text: vectors of neighbours are loaded whole and taken apart


@dataclass
class Access:
    """A strided look at a storage from the group's domain. A gather adds index · stride: `index` is (node, stride)."""

    place: Place
    tag: str
    strides: list[int]
    letter: str = "x"
    index: tuple[Node, int] | None = None
    base: str = ""
    names: dict[int, str] = field(default_factory=dict)  # axis → parameter of its stride


@dataclass
class Axis:
    size: int
    reduced: bool
    name: str = ""
    index: str = ""


@dataclass
class Level:
    """The inside of a loop under construction; `memo` holds what has been computed there already."""

    body: list[Stmt] = field(default_factory=list)
    memo: dict[tuple[str, int], str] = field(default_factory=dict)


class Accesses:
    """Levels from the outside in: top, row (for r), sweep (other reduced axes), inner (for j)."""

    def __init__(self, group: Group, placement: Placement) -> None:
        self.group, self.placement = group, placement
        self.members = {id(n) for n in group.nodes}
        self.params: list[str] = []
        self.words: list[Word] = []
        self.counter = 0
        self.loads: dict[tuple[object, ...], Access] = {}
        self.operand_access: dict[tuple[int, int], Access] = {}
        self.stores: dict[int, Access] = {}
        self.sizes: dict[float, str] = {}  # constants that are words
        self.top = Level()
        self.row = self.sweep = self.inner = self.top

    def _operand(self, node: Node, position: int) -> str:
        """The name of an operand's value; `lower` knows how values come about."""
        raise NotImplementedError

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

    # ---- accesses and axes ----

    def _collect_accesses(self) -> None:
        for node in self.group.nodes:
            for position in range(len(node.inputs)):
                if self._member(node, position) is None:
                    self.operand_access[id(node), position] = self._access(node, position)
        for node in self.group.stored:
            place = self.placement[node]
            self.stores[id(node)] = Access(place, node.dtype.short, list(place.view.steps), "y")

    def _access(self, node: Node, position: int) -> Access:
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

    def _shared(self, operand: Node, place: Place, strides: list[int], index: tuple[Node, int] | None) -> Access:
        key = (id(place.owner), place.view.offset, tuple(strides), operand.dtype, id(index[0]) if index else 0)
        letter = "k" if is_virtual(place.owner) else "x"
        return self.loads.setdefault(key, Access(place, operand.dtype.short, strides, letter, index))

    def _merge_axes(self) -> None:
        """Neighbouring axes through which every access runs on become one."""
        accesses = [*self.loads.values(), *self.stores.values()]
        shape, reduced = self.group.shape, self.group.axes
        runs: list[list[int]] = []
        for a in (a for a, n in enumerate(shape) if n != 1):
            b = runs[-1][-1] if runs else -1
            alike = b >= 0 and (a in reduced) == (b in reduced)
            if alike and all(x.strides[b] == x.strides[a] * shape[a] for x in accesses):
                runs[-1].append(a)
            else:
                runs.append([a])
        self.axes = [Axis(math.prod(shape[a] for a in run), run[0] in reduced) for run in runs]
        for access in accesses:
            access.strides = [access.strides[run[-1]] for run in runs]
        if not self.axes:
            self.axes = [Axis(math.prod(shape), False)]
            for access in accesses:
                access.strides = [0]

    def _share_overwritten(self, home: Mapping[int, Node]) -> None:
        """What is written over an operand is written through its pointer: LLVM, given two pointers to the same memory,
        would find that they overlap, and take the loop an element at a time.
        """
        for node, store in self.stores.items():
            operand = home.get(id(store.place.owner))
            for load in self.loads.values():
                alike = load.strides == store.strides and load.place.view.offset == store.place.view.offset
                if load.place.owner is operand and load.tag == store.tag and load.index is None and alike:
                    self.stores[node] = load

    def _choose_inner(self) -> None:
        """The innermost loop runs along the axis where most accesses have stride 1, in a reduction a reduced one.

        Without a loop go the axes of small windows that columns reduce, and one whose elements lie between the inner
        axis's: a turn of the innermost loop takes in all of their elements.
        """
        last = len(self.axes) - 1
        candidates = [i for i, a in enumerate(self.axes) if a.reduced]
        if self.group.is_column or self.group.is_window:
            candidates = [last]
        accesses = [*self.loads.values(), *self.stores.values()]
        unit = {i: sum(a.strides[i] == 1 for a in accesses) for i in candidates or range(last + 1)}
        self.inner_axis = max(unit, key=lambda i: (unit[i], i))
        self.sweep_axes = [i for i, a in enumerate(self.axes) if a.reduced and i != self.inner_axis]
        self.unrolled = self._unrolled()
        outer = (self.inner_axis, *self.unrolled)
        self.row_axes = [i for i, a in enumerate(self.axes) if not a.reduced and i not in outer]

    def _unrolled(self) -> list[int]:
        if self.group.axes:
            return self.sweep_axes if self.group.is_window else []
        between = [i for i, a in enumerate(self.axes) if 0 < i != self.inner_axis and 1 < a.size <= NEAR]
        stores = list(self.stores.values())
        return [
            i
            for i in between
            if any(s.strides[i] == 1 and s.strides[self.inner_axis] == self.axes[i].size for s in stores)
        ][:1]

    # ---- addresses and loads ------------------------------------------------------------------------------

    def _size(self, axis: int) -> str:
        a = self.axes[axis]
        a.name = a.name or self._word(f"n{axis}", a.size)
        return a.name

    def _declare(self, access: Access) -> str:
        """The access's words: its address, and its strides other than 0 and, in the innermost loop, 1."""
        if not access.base:
            name = self._fresh(access.letter)
            place = access.place
            value: Word = place.view.offset if is_virtual(place.owner) else Address(place.owner, place.view.offset)
            access.base = self._word(f"{name}_at", value)
            for i, stride in enumerate(access.strides):
                if not stride or (stride == 1 and i in (self.inner_axis, *self.unrolled)):
                    continue
                near = i == self.inner_axis and 1 < stride <= NEAR
                access.names[i] = str(stride) if near else self._word(f"{name}_step{i}", stride)
        return access.base

    def _terms(self, access: Access, inner: bool) -> tuple[tuple[str, str], ...]:
        within = {self.inner_axis, *(i for i in self.unrolled if access.strides[i] == 1)}
        axes = [i for i in range(len(self.axes)) if access.strides[i] and (inner or i not in within)]
        return tuple((self.axes[i].index, access.names.get(i, "1")) for i in axes)

    def _level(self, strides: list[int], inner: bool = True) -> Level:
        """The outermost level at which an address with these strides stands still."""
        if inner and strides[self.inner_axis]:
            return self.inner
        if any(strides[i] for i in (*self.sweep_axes, *self.unrolled)):
            return self.sweep
        return self.row if any(strides[i] for i in self.row_axes) else self.top

    def _pointer(self, access: Access) -> str:
        level = self._level(access.strides, inner=False)
        key = ("pointer", id(access))
        if key not in level.memo:
            base = self._declare(access)
            level.memo[key] = self._fresh(access.letter)
            level.body.append(Pointer(level.memo[key], access.tag, base, self._terms(access, inner=False)))
        return level.memo[key]

    def _inner_index(self, access: Access) -> str:
        stride, index = access.strides[self.inner_axis], self.axes[self.inner_axis].index
        parts = [] if not stride else [index if stride == 1 else f"{index} * {access.names[self.inner_axis]}"]
        parts += [self.axes[i].index for i in self.unrolled if access.strides[i] == 1]
        return " + ".join(p for p in parts if p != "0") or "0"

    def _load(self, node: Node, position: int, user: Level | None = None) -> str:
        """An operand from memory, or from its element number where it is virtual; a table's element goes to `user`."""
        owner = self.placement[node.inputs[position]].owner
        fixed = literal(owner)
        if fixed is not None:
            return self._size_word(owner) or fixed
        access = self.operand_access[id(node), position]
        if access.index is not None:
            return self._indirect(access, access.index, user or self.inner)
        return self._loaded(access)

    def _loaded(self, access: Access) -> str:
        level = self._level(access.strides)
        key = ("load", id(access))
        if key not in level.memo:
            make = self._generate if is_virtual(access.place.owner) else self._fetch
            level.memo[key] = make(access, level)
        return level.memo[key]

    def _store(self, access: Access, value: str) -> None:
        """Into memory in the innermost loop. What is overwritten is read first, for whoever asks for it later."""
        if access.letter == "x":
            self._loaded(access)
        self.inner.body.append(Store(self._pointer(access), self._inner_index(access), value))

    def _size_word(self, owner: Node) -> str | None:
        """A constant that looks like a size, such as a mean's divisor: a word, so that another size is another word."""
        value = owner.attrs["value"] if owner.op.name == "full" else owner.attrs["data"][0]
        tag = owner.dtype.short
        whole = tag in ("i64", "f32", "f64") and math.isfinite(value) and value == int(value)
        if not whole or not LITERAL < abs(value) < 2**53:
            return None
        if value not in self.sizes:
            self.sizes[value] = self._word(self._fresh("c"), int(value))
        return self.sizes[value] if tag == "i64" else f"{tag}({self.sizes[value]})"

    def _fetch(self, access: Access, level: Level) -> str:
        pointer, value = self._pointer(access), self._fresh("t")
        level.body.append(Load(value, pointer, self._inner_index(access)))
        return value

    def _indirect(self, access: Access, index: tuple[Node, int], level: Level) -> str:
        node, step = index
        at, base = self._operand(node, 1), self._declare(access)
        if -1 not in access.names:
            access.names[-1] = "1" if step == 1 else self._word(f"{base}_by", step)
        pointer, value = self._fresh("x"), self._fresh("t")
        terms = (*self._terms(access, inner=True), (at, access.names[-1]))
        level.body += [Pointer(pointer, access.tag, base, terms), Load(value, pointer, "0")]
        return value

    def _generate(self, access: Access, level: Level) -> str:
        """A virtual value from its element number."""
        owner = access.place.owner  # "i" would make i64, a dtype's name
        tag, number, value = owner.dtype.short, self._fresh("e"), self._fresh("t")
        base = self._declare(access)
        terms = [i if s == "1" else f"{i} * {s}" for i, s in self._terms(access, inner=True)]
        if owner.op.name == "arange":
            level.body.append(Let(number, " + ".join([base, *terms])))
            start, step = owner.attrs["start"], owner.attrs["step"]
            wide = "i64" if isinstance(start, int) and isinstance(step, int) else "f64"
            level.body.append(Let(value, f"{tag}({text_of(start, wide)} + {text_of(step, wide)} * {{0}})", (number,)))
        else:
            seed, offset = self._load(owner, 0), self._load(owner, 1)
            level.body.append(Let(number, " + ".join([base, *terms])))
            level.body.append(Let(value, f"{owner.op.name}_{tag}({{0}}, {{1}} + {{2}})", (seed, offset, number)))
        return value


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
