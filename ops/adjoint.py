"""The derivative of `scan` is a scan the other way, whose carries are the cotangents of the carries.

What it needs of the forward steps comes from the forward result: carries before and after each step, ys, and residuals,
values that `with_residuals` makes the forward body hand out as further ys because they are dear to compute again. Cheap
ones are computed again within the backward step.

The cotangent of a const is a sum over steps. Where the step's part is a matrix product, a sum or a movement of those,
its factors are stacked as ys, and one product over all steps is taken after the loop:
Σ_t a_tᵀ b_t = [a_0 … a_T]ᵀ [b_0 … b_T]. Everything else is added up in a carry.

Since the backward half is a scan again, gradients of gradients follow by the same rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from tinygrad_lite.ir.graph import Graph, topological
from tinygrad_lite.ir.node import GradMeta, Node, next_serial
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.record import record
from tinygrad_lite.ops import create, elementwise, movement, reduce
from tinygrad_lite.ops.contract import MATMUL
from tinygrad_lite.ops.control import (
    Loop,
    Order,
    Results,
    Segment,
    inline,
    record_scan,
    scan,
    segments,
    symbolic,
    window,
)
from tinygrad_lite.ops.leaf import input

Attrs = Mapping[str, Any]
Made = Callable[[], Node]

# ---- the rule -------------------------------------------------------------------------------------------


def pull_back_loop(g: Node, node: Node, wanted: Sequence[int]) -> list[Node | None]:
    """Cotangents of the inputs `wanted` of a scan from the one of its packed result."""
    given = _Given(g, node.attrs)
    step = _BackwardStep(node.attrs, set(wanted), given.flowing, given.ys)
    return _Backward(node, step, given).run(wanted)


def with_residuals(inputs: Sequence[Node], attrs: Attrs) -> Attrs:
    """`attrs` of a scan whose body also hands out what its derivative needs, whichever results that is asked of."""
    body, carries = attrs["body"], attrs["carries"]
    wanted = {i for i, x in enumerate(inputs) if x.grad is not None}
    everything = set(range(len(body.outputs)))
    step = _BackwardStep(attrs, wanted, {k for k in everything if k < carries}, everything)
    kept = step.residuals()
    read = step.carries_read(kept)
    history = tuple(h or k in read for k, h in enumerate(attrs["history"]))
    return {**attrs, "body": Graph(body.name, tuple(step.args), (), (*step.outputs, *kept)), "history": history}


class _Given:
    """The cotangent of a packed result, by its parts: which of them are more than zeros."""

    def __init__(self, g: Node, attrs: Attrs) -> None:
        self.g, self.attrs = g, attrs
        self.carries: int = attrs["carries"]
        self.order = Order(attrs["length"], attrs["reverse"])
        self.segments = segments([o.type for o in attrs["body"].outputs], attrs["length"], attrs["history"])
        self.ys = {i for i, s in enumerate(self.segments) if i >= self.carries and not self._vanishes(s, 0, s.slots)}
        self.final: set[int] = set()  # carries of which the last value alone has a cotangent
        self.all: set[int] = set()  # carries with cotangents of their values after several steps
        self.start: set[int] = set()  # carries with a cotangent of their initial value, read as part of the history
        for k in range(self.carries):
            self._sort(k)

    @property
    def flowing(self) -> set[int]:
        return self.final | self.all

    def _sort(self, k: int) -> None:
        segment, length = self.segments[k], self.order.length
        history = self.attrs["history"][k]
        first, last = self.order.slot(0, history), self.order.slot(length, history)
        if not history or not length:
            if not self._vanishes(segment, last, 1):
                self.final.add(k)
            return
        if not self._vanishes(segment, first, 1):
            self.start.add(k)
        if not self._vanishes(segment, 1, length - 1):
            self.all.add(k)
        elif not self._vanishes(segment, last, 1):
            self.final.add(k)

    def _vanishes(self, segment: Segment, first: int, count: int) -> bool:
        start = segment.start + first * segment.size
        return is_zero(self.g, start, start + count * segment.size)

    def y(self, i: int) -> Node:
        """(length, …): the cotangents of a y."""
        return window(self.g, self.segments[i], 0, self.order.length)

    def after(self, k: int) -> Node:
        """(length, …): the cotangents of a carry's values after each step."""
        return window(self.g, self.segments[k], 1 - self.order.before, self.order.length)

    def last(self, k: int) -> Node:
        slot = self.order.slot(self.order.length, self.attrs["history"][k])
        return movement.reshape(window(self.g, self.segments[k], slot, 1), self.segments[k].shape)

    def first(self, k: int) -> Node:
        slot = self.order.slot(0, self.attrs["history"][k])
        return movement.reshape(window(self.g, self.segments[k], slot, 1), self.segments[k].shape)


_MAX_TERMS = 512


def is_zero(g: Node, start: int, stop: int) -> bool:
    """Is it plain to see that g[start:stop] is zero, and stays so whatever g is computed from?"""
    pending = [(g, start, stop)]
    for _ in range(_MAX_TERMS):
        if not pending:
            return True
        node, start, stop = pending.pop()
        if start >= stop:
            continue
        below = _parts_between(node, start, stop)
        if below is None:
            return False
        pending += below
    return False


def _parts_between(node: Node, start: int, stop: int) -> list[tuple[Node, int, int]] | None:
    """What elements start … stop of a vector are made of; nothing where they are zeros, None where that is unknown."""
    if node.grad is None and node.value is not None:
        return None if np.any(node.value[start:stop]) else []
    name, attrs = node.op.name, node.attrs
    if name == "pad":
        low, size = attrs["low"][0], node.inputs[0].type.size
        return [(node.inputs[0], max(0, start - low), min(size, stop - low))]
    if name in ("add", "neg", "cast"):
        return [(i, start, stop) for i in node.inputs]
    if name == "slice" and attrs["steps"] == (1,):
        return [(node.inputs[0], start + attrs["starts"][0], stop + attrs["starts"][0])]
    if name == "concat":
        edges = np.cumsum([0, *(i.type.size for i in node.inputs)]).tolist()
        return [
            (x, max(0, start - low), min(x.type.size, stop - low)) for x, low in zip(node.inputs, edges, strict=False)
        ]
    while node.op.name in ("reshape", "expand"):
        node = node.inputs[0]
    zeros = (node.op.name == "full" and not node.attrs["value"]) or (
        node.op.name == "constant" and not any(node.attrs["data"])
    )
    return [] if zeros else None


# ---- one step backward ------------------------------------------------------------------------------------


class _BackwardStep:
    """The body recorded again, and its cotangents.

    Attributes:
        args, outputs: the body's, recorded anew.
        flowing: carries whose cotangent passes from step to step; `gs[i]` the argument that stands for output i's.
        found: id(argument) → its cotangent.
    """

    def __init__(self, attrs: Attrs, wanted: set[int], flowing: set[int], ys: set[int]) -> None:
        self.body: Graph = attrs["body"]
        self.carries: int = attrs["carries"]
        self.active, _ = active(self.body, self.carries, wanted)
        self.args = [input(a.attrs["name"], a.dtype, a.shape) for a in self.body.args]
        for i in self.active:
            self.args[i].grad = GradMeta(leaf=True)
        with symbolic(grad=True):
            new = inline(self.body, self.args)
        self.outputs = [new[id(o)] for o in self.body.outputs]
        self.forward = topological([*self.args, *self.outputs])
        followed = {i for i, o in enumerate(self.outputs) if o.grad is not None}
        self.ys = {i for i in ys if i >= self.carries} & followed
        self._flow(flowing & followed, followed)

    def _flow(self, flowing: set[int], followed: set[int]) -> None:
        """Pull back, with one more carry whenever its cotangent turns out to be wanted by an earlier step."""
        while True:
            self.gs = {
                i: input(f"g{i}", o.dtype, o.shape) for i, o in enumerate(self.outputs) if i in flowing | self.ys
            }
            self.found = self._pull_back()
            more = {k for k in range(self.carries) if id(self.args[k]) in self.found and k in followed} - flowing
            if not more:
                self.flowing = flowing
                return
            flowing = flowing | more

    def _pull_back(self) -> dict[int, Node]:
        found: dict[int, Node] = {}
        with symbolic(grad=False):
            for i, g in self.gs.items():
                _add(found, self.outputs[i], g)
            for node in reversed(self.forward):
                g = found.get(id(node))  # type: ignore[assignment]
                if g is None or node.grad is None or node.grad.leaf:
                    continue
                for x, result in _cotangents(node, g):
                    _add(found, x, result)
        return found

    def boundary(self) -> list[Node]:
        """The forward values that the cotangents are computed from."""
        forward = {id(n) for n in self.forward}
        results = [self.found[id(a)] for a in self.args if id(a) in self.found]
        below = topological(results)
        direct = {id(i) for n in below if id(n) not in forward for i in n.inputs if id(i) in forward}
        direct |= {id(r) for r in results if id(r) in forward}
        return [n for n in self.forward if id(n) in direct]

    def residuals(self) -> list[Node]:
        """Those of them that no argument or result gives cheaply."""
        have = {id(n) for n in (*self.args, *self.outputs)}
        kept: list[Node] = []
        for node in self.boundary():
            for each in self._dear(node, have):
                have.add(id(each))
                kept.append(each)
        return kept

    def _dear(self, node: Node, have: set[int]) -> Iterator[Node]:
        """What to keep for `node` to be at hand: nothing where it is cheap, else itself or what it is a movement of."""
        if _is_at_hand(node, have):
            return
        if node.op.kind is Kind.MOVEMENT or node.dtype is not self.outputs[0].dtype:
            for x in node.inputs:
                yield from self._dear(x, have)
        else:
            yield node

    def carries_read(self, kept: Sequence[Node] = ()) -> set[int]:
        """The carries whose history the backward step reads, if it also has the values `kept`."""
        have = {id(n) for n in (*self.args, *self.outputs, *kept)}
        reached = {id(n) for n in _reached(self.boundary(), have)}
        carries = range(self.carries)
        return {k for k in carries if id(self.args[k]) in reached or id(self.outputs[k]) in reached}


def active(body: Graph, carries: int, wanted: set[int]) -> tuple[set[int], set[int]]:
    """The arguments whose cotangents count (those wanted, carries that depend on such); results that depend on them."""
    found = set(wanted)
    while True:
        marked = {id(body.args[i]) for i in found}
        for node in body.nodes:
            if node.op.vjp is not None and node.dtype.kind == "f" and any(id(i) in marked for i in node.inputs):
                marked.add(id(node))
        results = {i for i, o in enumerate(body.outputs) if id(o) in marked}
        more = {k for k in results if k < carries} - found
        if not more:
            return found, results
        found |= more


def _add(found: dict[int, Node], node: Node, g: Node) -> None:
    known = found.get(id(node))
    found[id(node)] = g if known is None else record(elementwise.ADD, known, g)


def _cotangents(node: Node, g: Node) -> Iterator[tuple[Node, Node]]:
    """(input, its cotangent), recorded at the forward node's line."""
    wanted = [i for i, x in enumerate(node.inputs) if x.grad is not None]
    mark = next_serial()
    assert node.op.vjp is not None
    if node.op.joint_vjp is not None:
        results = node.op.joint_vjp(g, node, wanted)
    else:
        results = [node.op.vjp(g, node, i) for i in wanted]
    for i, result in zip(wanted, results, strict=True):
        if result is not None:
            _relocate(result, node, mark)
            yield node.inputs[i], result


def _relocate(result: Node, forward: Node, mark: int) -> None:
    location = forward.location and forward.location._replace(phase="backward")
    pending = [result]
    while pending:
        node = pending.pop()
        if node.serial > mark and node.location is not location:
            node.location = location
            pending.extend(node.inputs)


def _is_at_hand(node: Node, have: set[int]) -> bool:
    """Can `node` be had of the values `have` by cheap operations?"""
    pending, seen = [node], set(have)
    while pending:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if not _is_cheap(each):
            return False
        pending.extend(each.inputs)
    return True


def _is_cheap(node: Node) -> bool:
    if node.op.kind is Kind.ELEMENTWISE:
        return "expensive" not in node.op.traits
    return node.op.kind in (Kind.MOVEMENT, Kind.CREATE) or node.op.name == "constant"


def _reached(nodes: Sequence[Node], have: set[int]) -> list[Node]:
    """Those of the values `have` that `nodes` are computed from."""
    found: dict[int, Node] = {}
    pending, seen = list(nodes), set()
    while pending:
        node = pending.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if id(node) in have:
            found[id(node)] = node
        else:
            pending.extend(node.inputs)
    return list(found.values())


# ---- the backward loop ------------------------------------------------------------------------------------


class _Backward:
    """The backward scan as it is put together: its arguments with what they stand for outside, and its results.

    Values of the step are asked for by `stacked` (one a step) and `total` (their sum); each gives a function that makes
    the node once the loop has been recorded.
    """

    def __init__(self, node: Node, step: _BackwardStep, given: _Given) -> None:
        self.step, self.given = step, given
        attrs = node.attrs
        self.length: int = attrs["length"]
        if any(not attrs["history"][k] for k in step.carries_read()):  # what nobody foresaw: run it again
            attrs = {**attrs, "history": (True,) * step.carries}
            node = record_scan(node.inputs, attrs).packed
        self.forward = Loop(node, attrs)
        self.operands = node.inputs
        self.xs_end: int = step.carries + attrs["xs"]
        self.carries = sorted(step.flowing)
        self.at_hand = self._at_hand()
        self.ys: dict[int, Node] = {}  # id → what each step hands out
        self.sums: dict[int, Node] = {}  # id → what is added up in a carry
        self.varies = self._varying()
        self.done: Results | None = None

    def _at_hand(self) -> dict[int, Made]:
        """id(value of the step) → how to make its stack: what the forward loop's operands and results give."""
        found: dict[int, Made] = {}
        for i, output in enumerate(self.step.outputs):
            if i >= self.step.carries:
                found[id(output)] = partial(self.forward.y, i - self.step.carries)
            elif self.forward.attrs["history"][i]:
                found[id(output)] = partial(self.forward.after, i)
        for i, arg in enumerate(self.step.args):
            if self.step.carries <= i < self.xs_end:
                found[id(arg)] = partial(self.operands.__getitem__, i)
            elif i < self.step.carries and self.forward.attrs["history"][i]:
                found[id(arg)] = partial(self.forward.before, i)
        for i in self.step.ys:
            found[id(self.step.gs[i])] = partial(self.given.y, i)
        return found

    def _varying(self) -> set[int]:
        """Ids of the values that differ from step to step."""
        consts = {id(a) for a in self.step.args[self.xs_end :]}
        varies: set[int] = set()
        for node in topological([*self.step.outputs, *self.step.found.values(), *self.step.gs.values()]):
            is_input = node.op.name == "input" and id(node) not in consts
            if is_input or any(id(i) in varies for i in node.inputs):
                varies.add(id(node))
        return varies

    def run(self, wanted: Sequence[int]) -> list[Node | None]:
        with symbolic(grad=False):
            makers = [self._maker(i) for i in wanted]
            body, sources = self._body()
        init = [self._initial(k) for k in self.carries]
        init += [create.zeros_like(n) for n in self.sums.values()]
        xs = [make() for _, make in sources if make is not None]
        consts = [self.operands[i] for i, make in sources if make is None]
        if body.outputs:
            self.done = scan(body, init, xs, consts, self.length, not self.given.order.reverse)
        return [None if make is None else make() for make in makers]

    # ---- what is wanted ----

    def _maker(self, i: int) -> Made | None:
        if i < self.step.carries:
            return self._of_initial(i)
        found = self.step.found.get(id(self.step.args[i]))
        if found is None:
            return None
        return self.stacked(found) if i < self.xs_end else self.total(found)

    def _of_initial(self, k: int) -> Made | None:
        start = k in self.given.start
        if k not in self.step.flowing:
            return (lambda: self.given.first(k)) if start else None

        def make() -> Node:
            g = self._results.final(self.carries.index(k))
            return record(elementwise.ADD, g, self.given.first(k)) if start else g

        return make

    @property
    def _results(self) -> Results:
        assert self.done is not None
        return self.done

    def _initial(self, k: int) -> Node:
        return self.given.last(k) if k in self.given.final else create.zeros_like(self.step.outputs[k])

    # ---- values of all steps ----

    def stacked(self, node: Node) -> Made:
        """(length, *shape): `node` of every step."""
        if id(node) not in self.varies:
            once = self._once(node)
            return lambda: movement.broadcast_to(once(), (self.length, *node.shape))
        if id(node) in self.at_hand:
            return self.at_hand[id(node)]
        if node.op.name == "reshape":
            below = self.stacked(node.inputs[0])
            return lambda: movement.reshape(below(), (self.length, *node.shape))
        if node.op.name == "permute":
            below, axes = self.stacked(node.inputs[0]), (0, *(a + 1 for a in node.attrs["axes"]))
            return lambda: movement.permute(below(), axes)
        self.ys.setdefault(id(node), node)
        return lambda: self._results.y(list(self.ys).index(id(node)))

    def _once(self, node: Node) -> Made:
        """A value that is the same at every step, recorded outside the loop."""
        consts = self.step.args[self.xs_end :]

        def make() -> Node:
            fresh = dict(zip(map(id, consts), self.operands[self.xs_end :], strict=True))
            for each in topological([node]):
                if id(each) not in fresh:
                    fresh[id(each)] = record(each.op, *[fresh[id(i)] for i in each.inputs], **each.attrs)
            return fresh[id(node)]

        return make

    def total(self, node: Node) -> Made:
        """Σ over the steps of `node`."""
        name = node.op.name
        if id(node) not in self.varies:
            once = self._once(node)
            return lambda: elementwise.mul(once(), float(self.length))
        if name in ("add", "sub", "neg") or (node.op.kind is Kind.MOVEMENT):
            below = [self.total(i) for i in node.inputs]
            return lambda: record(node.op, *[b() for b in below], **node.attrs)
        if name == "sum":
            rows = self.stacked(node.inputs[0])
            axes = (0, *(a + 1 for a in node.attrs["axes"]))
            return lambda: movement.reshape(reduce.sum(rows(), axes), node.shape)
        if name == "matmul":
            return self._total_product(node)
        if id(node) in self.at_hand or id(node) in self.ys:
            rows = self.stacked(node)
            return lambda: reduce.sum(rows(), 0)
        self.sums.setdefault(id(node), node)
        return lambda: self._results.final(len(self.carries) + list(self.sums).index(id(node)))

    def _total_product(self, node: Node) -> Made:
        a, b = node.inputs
        if id(a) not in self.varies:
            left, right = self._once(a), self.total(b)
            return lambda: record(MATMUL, left(), right())
        if id(b) not in self.varies:
            left, right = self.total(a), self._once(b)
            return lambda: record(MATMUL, left(), right())
        left, right = self.stacked(a), self.stacked(b)
        return lambda: record(MATMUL, _columns(left()), _rows(right()))

    # ---- the body ----

    def _body(self) -> tuple[Graph, list[tuple[int, Made | None]]]:
        """The backward body; of each argument after the carries how to make its stack, or which const it is."""
        step = self.step
        after = {k: step.gs[k] for k in self.carries}
        with_more = {
            k: input(f"h{k}", step.outputs[k].dtype, step.outputs[k].shape) for k in self.carries if k in self.given.all
        }
        for k, g in with_more.items():  # what comes from later steps, and what is asked of this step's value itself
            after[k] = record(elementwise.ADD, step.gs[k], g)
        news = [step.found.get(id(step.args[k])) for k in self.carries]
        outputs = [
            create.zeros_like(step.outputs[k]) if n is None else n for k, n in zip(self.carries, news, strict=True)
        ]
        sums = [input(f"s{i}", n.dtype, n.shape) for i, n in enumerate(self.sums.values())]
        outputs += [record(elementwise.ADD, s, n) for s, n in zip(sums, self.sums.values(), strict=True)]
        outputs += self.ys.values()
        return self._frozen(outputs, sums, after, with_more)

    def _frozen(
        self, outputs: list[Node], sums: list[Node], after: dict[int, Node], with_more: dict[int, Node]
    ) -> tuple[Graph, list[tuple[int, Made | None]]]:
        """`outputs` with the forward values at hand as arguments, and of the arguments those that are read."""
        step = self.step
        carries = [*(step.gs[k] for k in self.carries), *sums]
        new: dict[int, Node] = {id(step.gs[k]): g for k, g in after.items()}
        leaves: dict[int, tuple[Node, int, Made | None]] = {}
        for k, g in with_more.items():
            leaves[id(g)] = (g, 0, partial(self.given.after, k))
        for i, arg in enumerate(step.args[self.xs_end :], self.xs_end):
            leaves[id(arg)] = (arg, i, None)
        for number, (key, make) in enumerate(self.at_hand.items()):
            node = self._node(key)
            fresh = node if node.op.name == "input" else input(f"r{number}", node.dtype, node.shape)
            leaves[id(fresh)] = (fresh, 0, make)
            new.setdefault(key, fresh)
        for g in after.values():  # what replaces must not be replaced itself
            new[id(g)] = g
        fixed = {id(n) for n in new.values()} | {id(c) for c in carries}
        for node in topological(outputs):
            if id(node) not in new:
                new[id(node)] = node if id(node) in fixed else node.with_inputs(tuple(new[id(i)] for i in node.inputs))
        results = [new[id(o)] for o in outputs]
        read = {id(n) for n in topological(results)}
        used = [entry for key, entry in leaves.items() if key in read]
        used.sort(key=lambda entry: entry[2] is None)
        args = (*carries, *(n for n, _, _ in used))
        return Graph("backward", args, (), tuple(results)), [(i, make) for _, i, make in used]

    def _node(self, key: int) -> Node:
        known = [*self.step.outputs, *self.step.args, *self.step.gs.values()]
        return next(n for n in known if id(n) == key)


def _columns(a: Node) -> Node:
    """(T, …, m, k) → (…, m, T k)."""
    *batch, m, k = range(1, a.type.ndim)
    order = movement.permute(a, (*batch, m, 0, k))
    return movement.reshape(order, (*a.shape[1:-1], a.shape[0] * a.shape[-1]))


def _rows(b: Node) -> Node:
    """(T, …, k, n) → (…, T k, n)."""
    *batch, k, n = range(1, b.type.ndim)
    order = movement.permute(b, (*batch, 0, k, n))
    return movement.reshape(order, (*b.shape[1:-2], b.shape[0] * b.shape[-2], b.shape[-1]))
