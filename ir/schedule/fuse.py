"""Fusion: which nodes share a kernel.

A `loops` group has one iteration domain: a shape, and the axes its reductions sum over. A node of the group is *full*
(its shape is the domain) or *kept* (the domain with the reduced axes set to 1: what a reduction leaves, and arithmetic
on it). Groups grow greedily in program order; a node joins a group where both work on one domain and no path leaves the
group and returns, so every grouping is legal by construction. Values used outside their group are stored.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.schedule.place import can_fail, is_assembled, is_computed, is_in_place, is_virtual, root_of
from tinygrad_lite.ir.schedule.rematerialise import is_recomputed, is_settled, late_nodes

MAX_NODES = 96  # a kernel larger than this compiles slowly and spills registers
WINDOW = 16  # elements that are reduced without a loop, each written out


@dataclass
class Group:
    """Nodes computed by one kernel. `stored` are those that others read."""

    kind: str  # loops, matmul, attention, convolution, scatter, scan, opaque
    index: int
    shape: tuple[int, ...]
    axes: frozenset[int] = frozenset()
    nodes: list[Node] = field(default_factory=list)
    stored: list[Node] = field(default_factory=list)
    before: set[int] = field(default_factory=set)  # indices of groups that must have run

    @property
    def kept_shape(self) -> tuple[int, ...]:
        return tuple(1 if a in self.axes else n for a, n in enumerate(self.shape))

    @property
    def order(self) -> int:
        return max(n.order for n in self.nodes)

    @property
    def is_column(self) -> bool:
        """Reduced over outer axes only: the innermost axis is kept, and nothing may follow the reductions."""
        return _would_be_column(self, self.axes)

    @property
    def is_window(self) -> bool:
        """As a column, but over so few elements that they are reduced in registers: whatever may follow."""
        return _would_be_window(self, self.axes)


def _is_arg(node: Node) -> bool:
    return node.op.name in ("argmax", "argmin")


def writers(node: Node) -> Iterator[Node]:
    """The computed nodes whose kernels fill `node`'s storage, behind views, assembly and virtual values; in order."""
    stack = [node]
    while stack:
        at = root_of(stack.pop())
        if is_assembled(at):
            stack.extend(reversed(at.inputs))
        elif is_computed(at):
            yield at
        elif is_virtual(at):  # computed on the fly, from a seed and an offset that lie in memory
            stack.extend(reversed(at.inputs))


def fuse(graph: Graph, overwrites: dict[int, list[Node]] | None = None) -> list[Group]:
    """Group the computed nodes of `graph`, in an order that respects every dependency.

    `overwrites[id(n)]` are nodes that read memory which `n` overwrites: they come before it, or run in one loop with it
    where they read the very element that it writes.
    """
    fusion = _Fusion(graph, overwrites or {})
    for node in _program_order([n for n in graph.nodes if is_computed(n) and not is_assembled(n)], fusion.depends):
        fusion.add(node)
    return fusion.finish()


def _program_order(units: list[Node], depends: dict[int, list[Node]]) -> Iterator[Node]:
    """Topological, otherwise as the program was written."""
    waiting = {id(u): len(depends[id(u)]) for u in units}
    users: dict[int, list[Node]] = {id(u): [] for u in units}
    for unit in units:
        for d in depends[id(unit)]:
            users[id(d)].append(unit)
    ready = [(u.order, u.serial, u) for u in units if not waiting[id(u)]]
    heapq.heapify(ready)
    while ready:
        unit = heapq.heappop(ready)[2]
        yield unit
        for user in users[id(unit)]:
            waiting[id(user)] -= 1
            if not waiting[id(user)]:
                heapq.heappush(ready, (user.order, user.serial, user))
    assert not any(waiting.values()), "dependencies in a circle"


class _Fusion:
    """The growing partition. `above[g]` is a bit set of the groups that g depends on, directly or not."""

    def __init__(self, graph: Graph, overwrites: dict[int, list[Node]]) -> None:
        self.graph = graph
        self.overwrites = overwrites
        self.settled: dict[int, Group] = {}  # by the number of the kernel, where nodes have one
        self.free = not is_settled(graph)
        self.late = late_nodes(graph) if any(n.late for n in graph.nodes) else set()
        self.groups: list[Group] = []
        self.above: list[int] = []
        self.sums: list[set[frozenset[int]]] = []  # of each group: the axes over which its values are summed
        self.of: dict[int, Group] = {}
        self.turn: dict[int, int] = {}  # when a node was added
        self.readers: dict[int, dict[int, None]] = {}  # root id → indices of groups that read it
        self.depends = {id(n): _depends(n) for n in graph.nodes if is_computed(n) and not is_assembled(n)}
        _order_pieces(graph, self.depends)
        self.summed = _summed(graph)
        self.from_memory = {i: _from_memory(n, self.depends[i]) for n in graph.nodes if (i := id(n)) in self.depends}
        for value, readers in overwrites.items():
            known = {id(d) for d in self.depends[value]}
            self.depends[value] += [r for r in {id(r): r for r in readers}.values() if id(r) not in known]

    def add(self, node: Node) -> None:
        self.turn[id(node)] = len(self.turn)
        needed = {self.of[id(d)].index for d in self.depends[id(node)]}
        if node.kernel is not None:
            self._join(node, self._settled(node), needed)
            return
        alone = node.follows or "alone" in node.op.traits
        group = self._home(node, needed) if _kind(node) == "loops" and not alone else None
        if node.op.kind is Kind.ATTENTION:
            group = self._twin(node)
        if group is None:
            group = self._new(Group(_kind(node), len(self.above), _domain(node), _axes(node)))
        self._join(node, group, needed)
        for operand, _ in fusible_operands(node):
            if node.follows and not operand.follows:
                continue
            other = self.of[id(operand)]
            if other is not group and self._mergeable(group, other):
                self._merge(group, other)
        if not node.follows and any(o.follows and o.late for o, _ in fusible_operands(node)):
            self._meet(group)

    def _meet(self, group: Group) -> None:
        """Another group of copies from what `group` has copies from becomes one with it; but sums of columns, which
        would store what rows are summed over."""
        for index in set().union(*(self._readers_beside(n) for n in group.nodes if n.late)):
            other = self.groups[index]
            if other is group or group.is_column or other.is_column or not any(n.late for n in other.nodes):
                continue
            if self._mergeable(group, other):
                self._merge(group, other)

    def _new(self, group: Group) -> Group:
        self.groups.append(group)
        self.above.append(0)
        self.sums.append(set())
        return group

    def _settled(self, node: Node) -> Group:
        """The group of the kernel that the node has."""
        kernel = node.kernel
        assert kernel is not None
        if kernel.number not in self.settled:
            group = Group(_kind(node), len(self.above), kernel.shape, kernel.axes)
            self.settled[kernel.number] = self._new(group)
        return self.settled[kernel.number]

    def _twin(self, node: Node) -> Group | None:
        """The group of the same pass of attention over the same operands: one kernel gives all its results."""
        for index in self.readers.get(id(root_of(node.inputs[0])), ()):
            first = self.groups[index].nodes[0]
            same = first.inputs == node.inputs and first.attrs == node.attrs
            if not self._at_one_time([node, first]):
                continue
            if first.op.kind is Kind.ATTENTION and first.op.traits == node.op.traits and same:
                return self.groups[index]
        return None

    def _mergeable(self, a: Group, b: Group) -> bool:
        """May the loops of two groups become one? They walk one domain, and no path leads out of one into the other."""
        if any(g.kind != "loops" or "alone" in g.nodes[0].op.traits for g in (a, b)):
            return False
        if a.shape != b.shape or (a.axes and b.axes and a.axes != b.axes):
            return False
        if len(a.nodes) + len(b.nodes) > most_nodes(a.shape, a.axes or b.axes):
            return False
        if not self._at_one_time([*a.nodes, *b.nodes]) or self._path_around(a, b) or self._path_around(b, a):
            return False
        inside = {id(n) for n in (*a.nodes, *b.nodes)}
        if any(self.from_memory[i] & inside for i in inside):
            return False
        axes, overwriting = a.axes or b.axes, [n for n in (*a.nodes, *b.nodes) if self.overwrites.get(id(n))]
        readers = [r for n in overwriting for r in self.overwrites[id(n)] if id(r) in inside]
        if overwriting and (axes or not all(reads_same_element(r) for r in readers)):
            return False
        both = Group("loops", -1, a.shape, axes, [*a.nodes, *b.nodes])
        return all(_fits(n, both) for n in both.nodes)

    def _path_around(self, source: Group, target: Group) -> bool:
        """Does `target` depend on a third group that depends on `source`?"""
        return any(self.above[i] >> source.index & 1 for i in target.before if i != source.index)

    def _merge(self, group: Group, other: Group) -> None:
        """`group` takes over the nodes of `other`, whose number stays behind as an alias in the bit sets."""
        group.nodes = sorted([*group.nodes, *other.nodes], key=lambda n: self.turn[id(n)])
        group.axes = group.axes or other.axes
        self.sums[group.index] |= self.sums[other.index]
        for node in other.nodes:
            self.of[id(node)] = group
        self.groups = [group if g is other else g for g in self.groups]
        mine, alias = 1 << group.index, 1 << other.index
        for g in self.groups:
            if other.index in g.before:
                g.before = (g.before - {other.index}) | {group.index}
        group.before = (group.before | other.before) - {group.index, other.index}
        above = (self.above[group.index] | self.above[other.index]) & ~(mine | alias)
        self.above[group.index] = self.above[other.index] = above
        for i, others in enumerate(self.above):
            if others & (mine | alias):
                self.above[i] = others | above | mine

    def _home(self, node: Node, needed: set[int]) -> Group | None:
        """The group that `node` may join: a producer's first, else one that reads what it reads. What follows the node
        is merged with it later."""
        producers = [operand for operand, _ in fusible_operands(node) if not operand.follows]
        near = {g.index for operand in producers if (g := self.of.get(id(operand)))}
        shared = self._readers_beside(node)
        shared = {i for i in shared if not self._leads_elsewhere(node, self.groups[i])}
        for candidates in (near, shared - near):
            for index in sorted(candidates, reverse=True):
                if self._legal(node, self.groups[index], needed):
                    return self.groups[index]
        return None

    def _readers_beside(self, node: Node) -> set[int]:
        """The groups that read what `node` reads. A constant is nothing that copies of different times should share."""
        roots = [r for r in map(root_of, node.inputs) if r.type.size > 1 and not (node.late and is_virtual(r))]
        return {i for r in roots for i in self.readers.get(id(r), ())}

    def _leads_elsewhere(self, node: Node, group: Group) -> bool:
        """Are `node` and the group's values summed, but over other axes? Together, one would be stored for its sums."""
        mine, theirs = self.summed[id(node)], self.sums[group.index]
        return bool(mine and theirs) and not mine & theirs

    def _legal(self, node: Node, group: Group, needed: set[int]) -> bool:
        if group.kind != "loops" or "alone" in group.nodes[0].op.traits:
            return False
        shape, axes = (_domain(node), _axes(node)) if _axes(node) else (group.shape, group.axes)
        if len(group.nodes) >= most_nodes(shape, axes):
            return False
        if not _fits(node, group) or not self._may_overwrite(node, group):
            return False
        if not self._at_one_time([node, *group.nodes]):
            return False
        if any(self.above[i] >> group.index & 1 for i in needed if i != group.index):
            return False
        return all(self.of[i] is not group for i in self.from_memory[id(node)])

    def _at_one_time(self, nodes: Iterable[Node]) -> bool:
        """May they be put into one kernel, as to when it runs? Copies only with copies that are due when they are."""
        if self.free:
            return not self.late or not any(n.late for n in nodes) or all(id(n) in self.late for n in nodes)
        return len({(n.kernel, is_recomputed(n) and n.order) for n in nodes}) == 1

    def _may_overwrite(self, node: Node, group: Group) -> bool:
        """Memory is overwritten within a group only in a single pass, each element after its own readers."""
        inside = [r for r in self.overwrites.get(id(node), ()) if self.of.get(id(r)) is group]
        if inside:
            return not group.axes and all(reads_same_element(r) for r in inside)
        return not (_axes(node) and any(self.overwrites.get(id(n)) for n in group.nodes))

    def _join(self, node: Node, group: Group, needed: set[int]) -> None:
        group.nodes.append(node)
        self.sums[group.index] |= self.summed[id(node)]
        if _axes(node):
            group.axes, group.shape = _axes(node), _domain(node)
            self.sums[group.index].add(group.axes)
        self.of[id(node)] = group
        for operand in node.inputs:
            self.readers.setdefault(id(root_of(operand)), {})[group.index] = None
        group.before |= needed - {group.index}
        above = known = self.above[group.index]
        for i in needed - {group.index}:
            above |= self.above[i] | 1 << i
        self.above[group.index] = above
        if above == known or len(group.nodes) == 1:
            return
        for i, others in enumerate(self.above):  # whoever waits for the group now waits for what it waits for
            if others >> group.index & 1:
                self.above[i] = others | above

    def finish(self) -> list[Group]:
        self.groups = list({id(g): g for g in self.groups}.values())
        self._mark_stored()
        return _by_dependency(self.groups)

    def _mark_stored(self) -> None:
        stored = {id(w) for r in self.graph.results for w in writers(r)}
        for node in self.graph.nodes:
            if not is_computed(node):
                continue
            if is_assembled(node):
                stored.update(id(w) for i in node.inputs for w in writers(i))
                continue
            if node.kernel is not None and node.kernel.stored:
                stored.add(id(node))
            stored.update(self.from_memory[id(node)])
            stored.update(id(o) for o, _ in fusible_operands(node) if self.of[id(o)] is not self.of[id(node)])
        for group in self.groups:
            group.stored = [n for n in group.nodes if id(n) in stored]


def _summed(graph: Graph) -> dict[int, set[frozenset[int]]]:
    """Over which axes reductions take each node, directly or through pointwise users of its shape."""
    found: dict[int, set[frozenset[int]]] = {}
    for node in reversed(graph.nodes):
        mine = found[id(node)] = set()
        for user in graph.users[id(node)]:
            if user.op.kind is Kind.REDUCE:
                mine.add(_axes(user))
            elif user.op.kind is Kind.ELEMENTWISE and user.shape == node.shape:
                mine |= found[id(user)]
    return found


def _depends(node: Node) -> list[Node]:
    """Distinct computed nodes that must be complete before `node`."""
    return list({id(w): w for i in node.inputs for w in writers(i)}.values())


def _from_memory(node: Node, depends: list[Node]) -> set[int]:
    """Ids of the nodes that must lie complete in memory: all that no register can hand over."""
    direct = {id(o) for o, _ in fusible_operands(node)}
    through_views = {id(w) for i in node.inputs if not _is_handed(i, direct) for w in writers(i)}
    return through_views | {id(d) for d in depends if id(d) not in direct}


def _is_handed(operand: Node, direct: set[int]) -> bool:
    return id(operand) in direct or (operand.op.name == "expand" and id(operand.inputs[0]) in direct)


def reads_same_element(reader: Node) -> bool:
    """A pointwise reader that looks at whole states directly, not through views. What can fail must be done before."""
    if reader.op.kind is not Kind.ELEMENTWISE or can_fail(reader):
        return False
    return all(root_of(i) is i or i.op.name == "expand" for i in reader.inputs)


def _order_pieces(graph: Graph, depends: dict[int, list[Node]]) -> None:
    """An overwritten slice is written after what it overwrites."""
    for node in graph.nodes:
        if node.op.name == "slice_update":
            first, then = (list(writers(i)) for i in node.inputs)
            for unit in then:
                known = {id(d) for d in depends[id(unit)]}
                depends[id(unit)] += [w for w in first if id(w) not in known and w is not unit]


def _kind(node: Node) -> str:
    if node.op.kind is Kind.MATMUL:
        return "matmul"
    if node.op.kind is Kind.OPAQUE:
        return "opaque"
    if node.op.kind is Kind.ATTENTION:
        return "attention"
    if node.op.kind is Kind.CONVOLUTION:
        return "convolution"
    if node.op.kind is Kind.LOOP:
        return "scan"
    return "scatter" if is_in_place(node) else "loops"


def _domain(node: Node) -> tuple[int, ...]:
    if is_in_place(node):
        return node.inputs[-1].shape  # of the source
    return node.inputs[0].shape if node.op.kind is Kind.REDUCE else node.shape


def _axes(node: Node) -> frozenset[int]:
    return frozenset(node.attrs["axes"]) if node.op.kind is Kind.REDUCE else frozenset()


def fusible_operands(node: Node) -> Iterator[tuple[Node, bool]]:
    """Computed operands that a kernel can hand over in a register: (operand, through an expand)."""
    for position, operand in enumerate(node.inputs):
        if node.op.kind is Kind.GATHER and (position == 0 or node.op.name == "gather"):
            continue  # tables, and indices of another shape, are read from memory
        if is_computed(operand) and not is_assembled(operand):
            yield operand, False
        elif operand.op.name == "expand" and is_computed(operand.inputs[0]) and not is_assembled(operand.inputs[0]):
            yield operand.inputs[0], True


def _fits(node: Node, group: Group) -> bool:
    """Can `node` run in the group's loops?"""
    mine, axes = _domain(node), _axes(node)
    members = {id(n) for n in group.nodes}
    if axes:
        if mine != group.shape or (group.axes and group.axes != axes):
            return False
        if not group.axes and any(n.shape != mine for n in group.nodes):
            return False
        return _hands_over(node, group, axes, members) and not (_is_arg(node) and _keeps_inner(group, group.axes))
    if mine == group.shape:
        return _hands_over(node, group, group.axes, members)
    if group.axes and mine == group.kept_shape and not _would_be_column(group, group.axes):
        return _hands_over(node, group, group.axes, members)
    return False


def _hands_over(node: Node, group: Group, axes: frozenset[int], members: set[int]) -> bool:
    """Operands from within the group must be full where the node is full, or kept values, directly or expanded."""
    full = _domain(node) == group.shape
    kept = tuple(1 if a in axes else n for a, n in enumerate(group.shape))
    for operand, through_expand in fusible_operands(node):
        if id(operand) not in members:
            continue
        is_kept = bool(axes) and operand.shape == kept and kept != group.shape
        if is_kept and _would_be_column(group, axes):
            return False
        if through_expand and not (is_kept and full):
            return False
        if not through_expand and full != (operand.shape == group.shape):
            return False
    return not (full and _would_be_window(group, axes) and _only_spreads(node))


def _only_spreads(node: Node) -> bool:
    """Does it say no more than smaller values do? Of a window's, its readers can make it as well as store it."""
    operands = [o for o in node.inputs if not is_virtual(root_of(o))]
    return node.op.kind is Kind.ELEMENTWISE and all(o.op.name == "expand" for o in operands)


def _would_be_column(group: Group, axes: frozenset[int]) -> bool:
    return _keeps_inner(group, axes) and not _is_few(group.shape, axes)


def _would_be_window(group: Group, axes: frozenset[int]) -> bool:
    return _keeps_inner(group, axes) and _is_few(group.shape, axes)


def _keeps_inner(group: Group, axes: frozenset[int]) -> bool:
    """Do reductions over `axes` leave the innermost axis? An argmax takes its elements one by one, in rows."""
    return _leaves_inner(group.shape, axes) and not any(_is_arg(n) for n in group.nodes)


def _leaves_inner(shape: tuple[int, ...], axes: frozenset[int]) -> bool:
    wide = [a for a, n in enumerate(shape) if n != 1]
    return bool(axes and wide) and wide[-1] not in axes


def _is_few(shape: tuple[int, ...], axes: frozenset[int]) -> bool:
    """A batch, which is mostly the first axis, is never few: kernels are not to depend on its size."""
    return 0 not in axes and 1 < math.prod(shape[a] for a in axes) <= WINDOW


def most_nodes(shape: tuple[int, ...], axes: frozenset[int]) -> int:
    """How many a kernel may have: a window's are written out for each of its elements."""
    if _leaves_inner(shape, axes) and _is_few(shape, axes):
        return 3 * MAX_NODES // math.prod(shape[a] for a in axes)
    return MAX_NODES


def _by_dependency(groups: list[Group]) -> list[Group]:
    """Run order: topological, otherwise as the program was written."""
    number = {g.index: g for g in groups}
    waiting = {g.index: len(g.before) for g in groups}
    users: dict[int, list[Group]] = {g.index: [] for g in groups}
    for g in groups:
        for i in g.before:
            users[i].append(g)
    ready = [(g.order, g.index) for g in groups if not g.before]
    heapq.heapify(ready)
    result = []
    while ready:
        group = number[heapq.heappop(ready)[1]]
        result.append(group)
        for user in users[group.index]:
            waiting[user.index] -= 1
            if not waiting[user.index]:
                heapq.heappush(ready, (user.order, user.index))
    assert len(result) == len(groups), "kernels that wait for one another"
    return result
