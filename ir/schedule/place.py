"""Placement: which storage each value lies in, and how. Movement costs nothing where a view of strides can say it.

Two directions. Backward: a value whose only user moves it (permute, reshape, concat) is written where that user's
result will lie, so attention's heads or the pieces of a concat are never copied. Forward: every movement is a view of
its operand; where no view exists, `legalise` puts a copy (`contiguous`) in front, and placement succeeds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any

from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.op import Kind, Op, op_named, register
from tinygrad_lite.ir.schedule.views import View, contiguous_strides
from tinygrad_lite.ops.control import Order, segments

CONTIGUOUS = register(
    Op(
        "contiguous",
        Kind.ELEMENTWISE,
        lambda x: x,
        lambda x: x.copy(),
        lambda g, n, i: g,
        "{0}",
        traits=frozenset({"copy"}),
    )
)

_VIEWS = frozenset({"reshape", "permute", "expand", "slice", "flip", "window"})
_ASSEMBLED = frozenset({"concat", "slice_update"})
_VIRTUAL = frozenset({"full", "arange", "uniform", "normal"})


@dataclass(frozen=True)
class Place:
    """A view of the storage named after the node that owns it."""

    owner: Node
    view: View

    @property
    def is_whole(self) -> bool:
        """Does the value fill the storage, row by row?"""
        return self.view.is_contiguous and not self.view.offset and self.view.size == self.owner.type.size


@dataclass
class Placement:
    """id(node) → Place. `copies` are operands that cannot be placed without a copy: (user, operand position)."""

    places: dict[int, Place] = field(default_factory=dict)
    copies: list[tuple[Node, int]] = field(default_factory=list)

    def __getitem__(self, node: Node) -> Place:
        return self.places[id(node)]


def is_view(node: Node) -> bool:
    return node.op.name in _VIEWS


def is_virtual(node: Node) -> bool:
    """Values that are computed from an element's number: never stored, read through views like storage."""
    return node.op.name in _VIRTUAL or (node.op.name == "constant" and node.type.size == 1)


def is_computed(node: Node) -> bool:
    """Nodes whose value a kernel writes."""
    return not (is_view(node) or is_virtual(node) or node.op.kind is Kind.LEAF)


def can_fail(node: Node) -> bool:
    """Nodes that report values they cannot take: indices out of range, negative powers of integers and the like."""
    if is_loop(node):
        return any(can_fail(n) for n in node.attrs["body"].nodes)
    if node.op.kind is Kind.ELEMENTWISE and node.op.failure is not None:  # divisions, of integers
        return node.dtype.kind != "f" and not _is_nonzero(node.inputs[1])
    checks = node.op.name == "check_index" or node.op.failure is not None
    return checks or (node.op.name == "pow" and node.dtype.kind != "f")


def _is_nonzero(node: Node) -> bool:
    """Is it plain to see that no element is 0?"""
    node = root_of(node)
    if node.op.name == "full":
        return bool(node.attrs["value"])
    return node.op.name == "constant" and all(node.attrs["data"])


def is_loop(node: Node) -> bool:
    return node.op.kind is Kind.LOOP


def is_assembled(node: Node) -> bool:
    """Nodes that have no kernel: their operands are written into parts of their storage."""
    return node.op.name in _ASSEMBLED


def is_in_place(node: Node) -> bool:
    """Nodes whose kernel changes operand 0, which becomes the result: scatters, but for the assembled one."""
    return node.op.kind is Kind.SCATTER and not is_assembled(node)


def root_of(node: Node) -> Node:
    """The value that a chain of views looks at."""
    while is_view(node):
        node = node.inputs[0]
    return node


def takes_pieces(node: Node) -> bool:
    """Nodes whose storage some operands are written into: all of an assembled node, the base of an in-place one, the
    carries that a loop starts from."""
    return is_assembled(node) or is_in_place(node) or is_loop(node)


def pieces(node: Node, view: View) -> list[View]:
    """The parts of such a node's view that its first operands fill, in order."""
    if is_loop(node):
        return _first_slots(node, view)
    if is_in_place(node):
        return [view]
    if node.op.name == "slice_update":
        attrs = node.attrs
        return [view, view.slice(attrs["starts"], attrs["stops"], attrs["steps"])]
    axis = node.attrs["axis"]
    edges = [0, *accumulate(i.shape[axis] for i in node.inputs)]
    parts = []
    for low, high in pairwise(edges):
        starts = tuple(low if a == axis else 0 for a in range(len(view.shape)))
        stops = tuple(high if a == axis else n for a, n in enumerate(view.shape))
        parts.append(view.slice(starts, stops, (1,) * len(view.shape)))
    return parts


def _first_slots(node: Node, view: View) -> list[View]:
    """Where a loop reads its carries at the first step."""
    attrs = node.attrs
    order = Order(attrs["length"], attrs["reverse"])
    parts = segments([o.type for o in attrs["body"].outputs], attrs["length"], attrs["history"])
    found = []
    for part, history in zip(parts, attrs["history"], strict=False):
        start = part.start + order.slot(0, history) * part.size
        found.append(View(part.shape, contiguous_strides(part.shape), view.offset + start))
    return found


def place(graph: Graph, leaves: dict[int, View] | None = None) -> Placement:
    """Lay out every value of `graph`, whose arguments lie as `leaves` says; see Placement."""
    placement = Placement()
    for arg in graph.args if leaves else ():
        placement.places[id(arg)] = Place(arg, leaves[id(arg)])  # type: ignore[index]
    _place_backward(graph, placement)
    _place_forward(graph, placement)
    return placement


def overwritten_states(graph: Graph) -> dict[int, Node]:
    """id(update's value) → the state whose memory it is written in, part by part, because nobody else reads the state.

    A value that a scatter, or a chain of them, makes of the state: a cache in which some rows are replaced.
    """
    kept = {id(r) for r in graph.results}
    found = {}
    for state, value in graph.updates:
        base = value
        while is_in_place(base) and (base is value or _movable(base, graph, kept)):
            base = base.inputs[0]
        if base is state and base is not value and len(graph.users[id(state)]) == 1 and id(state) not in kept:
            found[id(value)] = state
    return found


def _place_backward(graph: Graph, placement: Placement) -> None:
    kept = {id(r) for r in graph.results}
    wanted = {i: Place(state, View.of(state.shape)) for i, state in overwritten_states(graph).items()}
    for node in reversed(graph.nodes):
        if node.op.kind is Kind.LEAF or is_virtual(node):
            continue
        target = wanted.get(id(node)) or Place(node, View.of(node.shape))
        if not _writable(node, target.view):
            target = Place(node, View.of(node.shape))
        if is_view(node):
            operand = node.inputs[0]
            if id(node) not in wanted and id(node) not in kept and _is_read_as_it_lies(node, graph):
                continue
            if _movable(operand, graph, kept) and (below := target.view.undo(node)) is not None:
                wanted[id(operand)] = Place(target.owner, below)
            continue
        placement.places[id(node)] = target
        if takes_pieces(node):
            for i, part in enumerate(pieces(node, target.view)):
                operand = node.inputs[i]
                if _movable(operand, graph, kept) and not is_virtual(root_of(operand)):
                    wanted[id(operand)] = Place(target.owner, part)


def _is_read_as_it_lies(node: Node, graph: Graph) -> bool:
    """A transpose that only products read, which take either axis dense: its operand is best written row by row."""
    view = View.of(node.inputs[0].shape).apply(node) if node.op.name == "permute" else None
    users = graph.users[id(node)]
    return view is not None and all(u.op.kind is Kind.MATMUL and _fits_blas(view) for u in users)


def _movable(operand: Node, graph: Graph, kept: set[int]) -> bool:
    """May the operand be written where its user wants it? If nobody else looks at it, or only attention does, which
    writes and reads rows that may lie anywhere."""
    users = graph.users[id(operand)]
    attends = operand.op.kind is Kind.ATTENTION and sum(u.op.kind is not Kind.ATTENTION for u in users) == 1
    return (attends or len(users) == 1) and id(operand) not in kept and operand.op.kind is not Kind.LEAF


def _place_forward(graph: Graph, placement: Placement) -> None:
    places = placement.places
    for node in graph.nodes:
        if is_view(node):
            base = places[id(node.inputs[0])]
            view = base.view.apply(node)
            if view is None:
                placement.copies.append((node, 0))
                view = View.of(node.shape)
            places[id(node)] = Place(base.owner, view)
        elif id(node) not in places:
            places[id(node)] = Place(node, View.of(node.shape))
        if takes_pieces(node):
            _check_pieces(node, placement)
        if not is_assembled(node):
            _check_stored(node, placement)


def _check_pieces(node: Node, placement: Placement) -> None:
    owner = placement[node].owner
    for i, part in enumerate(pieces(node, placement[node].view)):
        at = placement[node.inputs[i]]
        if at.owner is not owner or not at.view.is_same(part):
            placement.copies.append((node, i))


def _check_stored(node: Node, placement: Placement) -> None:
    """Products, tables and scatters read memory: virtual operands are written out; products need one unit stride."""
    for i in _read_from_memory(node):
        place = placement[node.inputs[i]]
        fits = _fits_loop if is_loop(node) else _fits
        if is_virtual(place.owner) or not fits(node, i, place.view):
            placement.copies.append((node, i))


def _read_from_memory(node: Node) -> tuple[int, ...]:
    """Operands whose elements have addresses; all others may be computed from an element's number."""
    if node.op.kind is Kind.GATHER:
        return (0,)
    if node.op.kind in (Kind.MATMUL, Kind.ATTENTION, Kind.CONVOLUTION, Kind.OPAQUE):
        return tuple(range(len(node.inputs)))
    if is_loop(node):
        return tuple(range(node.attrs["carries"], len(node.inputs)))
    return tuple(range(1, len(node.inputs))) if is_in_place(node) else ()


LONG_LOOP = 8  # steps from which on it pays to lay out a loop's consts anew


def _fits_loop(node: Node, i: int, view: View) -> bool:
    """A loop reads its xs as they lie. Its consts, read at every step, are best in row-major order."""
    is_const = i >= node.attrs["carries"] + node.attrs["xs"]
    return not is_const or view.is_contiguous or node.attrs["length"] < LONG_LOOP


def _fits(user: Node, i: int, view: View) -> bool:
    """Can the user's kernel read this layout of its operand i?"""
    if user.op.kind is Kind.CONVOLUTION:
        return has_unit_rows(view) if i == 0 else view.is_contiguous
    if user.op.kind is Kind.OPAQUE:
        return view.is_contiguous
    if user.op.kind is Kind.ATTENTION:
        return has_unit_rows(view)
    return user.op.kind is not Kind.MATMUL or _fits_blas(view)


def _writable(node: Node, view: View) -> bool:
    """Can the node's kernel write this layout?"""
    if node.op.kind in (Kind.OPAQUE, Kind.LOOP):
        return view.is_contiguous
    if "dense" in node.op.traits:
        return view.is_contiguous
    return node.op.kind not in (Kind.ATTENTION, Kind.CONVOLUTION) or has_unit_rows(view)


def has_unit_rows(view: View) -> bool:
    """The last axis lies dense, and no other runs backwards."""
    return (view.strides[-1] == 1 or view.shape[-1] == 1) and min(view.strides) >= 0


def _fits_blas(view: View) -> bool:
    (m, n), (sm, sn) = view.shape[-2:], view.strides[-2:]
    if sm < 0 or sn < 0:
        return False
    by_rows = (sn == 1 or n == 1) and (sm >= n or m == 1)
    by_columns = (sm == 1 or m == 1) and (sn >= m or n == 1)
    return by_rows or by_columns


def legalise(graph: Graph, leaves: dict[int, View] | None = None) -> tuple[Graph, Placement]:
    """Put copies where placement needs them, and say pads as concats; then place."""
    graph = _without_idle_reductions(_without_pads(graph))
    while True:
        placement = place(graph, leaves)
        if not placement.copies:
            return graph, placement
        wanted = {(id(node), i) for node, i in placement.copies}
        graph = _with_copies(graph, wanted)


def _with_copies(graph: Graph, wanted: set[tuple[int, int]]) -> Graph:
    copied: dict[tuple[int, bool], Node] = {}

    def visit(node: Node, inputs: tuple[Node, ...]) -> Node:
        fresh = []
        for i, operand in enumerate(inputs):
            if (id(node), i) not in wanted:
                fresh.append(operand)
            elif takes_pieces(node) and not (is_loop(node) and i >= node.attrs["carries"]):  # a piece is nobody else's
                fresh.append(_contiguous(operand, node))
            else:
                fresh.append(copied.setdefault((id(operand), False), _contiguous(operand, node)))
        return node.with_inputs(tuple(fresh))

    return graph.rebuild(visit)


def _contiguous(operand: Node, user: Node) -> Node:
    node = Node(CONTIGUOUS, (operand,), {}, operand.type, user.location)
    node.order = user.order
    return node


def _without_pads(graph: Graph) -> Graph:
    """pad(x) = concat(zeros, x, zeros), an axis at a time."""
    if not any(n.op.name == "pad" for n in graph.nodes):
        return graph

    def visit(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op.name != "pad":
            return node.with_inputs(inputs)
        value = inputs[0]
        for axis, (low, high) in enumerate(zip(node.attrs["low"], node.attrs["high"], strict=True)):
            parts = [_zeros(value, axis, low), value, _zeros(value, axis, high)]
            value = _concat([p for p in parts if p.shape[axis] or p is value], axis, node)
        return value

    return graph.rebuild(visit)


def _without_idle_reductions(graph: Graph) -> Graph:
    """A reduction over axes of size 1 only is its operand (for argmax and argmin: 0)."""

    def visit(node: Node, inputs: tuple[Node, ...]) -> Node:
        if node.op.kind is not Kind.REDUCE or any(inputs[0].shape[a] != 1 for a in node.attrs["axes"]):
            return node.with_inputs(inputs)
        if node.op.name in ("argmax", "argmin"):
            return _build(op_named("full"), (), {"value": 0, "shape": node.shape, "dtype": node.dtype}, node)
        return _contiguous(inputs[0], node)

    return graph.rebuild(visit)


def _build(op: Op, inputs: tuple[Node, ...], attrs: dict[str, Any], like: Node) -> Node:
    node = Node(op, inputs, attrs, op.infer(*[i.type for i in inputs], **attrs), like.location)
    node.order = like.order
    return node


def _zeros(value: Node, axis: int, amount: int) -> Node:
    shape = tuple(amount if a == axis else n for a, n in enumerate(value.shape))
    zero: Any = 0.0 if value.dtype.kind == "f" else 0
    return _build(op_named("full"), (), {"value": zero, "shape": shape, "dtype": value.dtype}, value)


def _concat(parts: list[Node], axis: int, like: Node) -> Node:
    if len(parts) == 1:
        return parts[0]
    return _build(op_named("concat"), tuple(parts), {"axis": axis}, like)
