"""Hypothesis strategies of random graphs, for every test of the kind "whatever the graph, A and B agree".

    @given(cases())
    def test_…(case):
        outputs, states = evaluate(case.graph, case.args, case.states)

`graphs(max_ops)` yields (Graph, argument arrays) of graphs without state. With `stable=True` the graphs compute nothing
whose value jumps at a rounding error (a comparison of rounded values) or leaves all bounds (exp of anything), so two
executors agree to a tolerance; without, only bit-equal executors may be compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from tinygrad_lite.ir.graph import Graph, Update, topological
from tinygrad_lite.ir.node import Location, Node
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.record import mode
from tinygrad_lite.ir.types import DType, bool_, float32, float64, int32, int64, uint8
from tinygrad_lite.ops import contract, create, indexing, leaf, movement, random, reduce
from tinygrad_lite.ops import elementwise as ew

Array = np.ndarray[Any, Any]
_SCOPES = ("", "blocks.0", "blocks.1.attn", "head")
_ODD_NAMES = ("x", "fc.weight", 'quo"te', "na\nme", "ünï", "%0", "a # b", "", "tab\there", "\\")
_SMALL = 4096  # elements: no random graph grows beyond


class Case(NamedTuple):
    graph: Graph
    args: list[Array]
    states: list[Array]


class _Pool:
    """The nodes so far, and which of them went through an operation that rounds."""

    def __init__(self, draw: DrawFn, stable: bool) -> None:
        self.draw, self.stable = draw, stable
        self.nodes: list[Node] = []
        self.rounded: set[int] = set()

    def add(self, node: Node, rounds: bool = False) -> None:
        if node.type.size > _SMALL:
            return
        self.nodes.append(node)
        if rounds or any(id(i) in self.rounded for i in _below(node, self)):
            self.rounded.add(id(node))

    def pick(self, kinds: str = "bufi", exact: bool = False) -> Node | None:
        """One of the nodes of these kinds of dtype; `exact`: in stable mode, none that was rounded."""
        fits = [
            n for n in self.nodes if n.dtype.kind in kinds and not (exact and self.stable and id(n) in self.rounded)
        ]
        return self.draw(st.sampled_from(fits)) if fits else None

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))


def _below(node: Node, pool: _Pool) -> list[Node]:
    """The pool's nodes that `node` was built from: builders put casts and movements between."""
    known = {id(n) for n in pool.nodes}
    found, pending = [], list(node.inputs)
    while pending:
        each = pending.pop()
        found.append(each)
        if id(each) not in known:
            pending.extend(each.inputs)
    return found


# ---- steps: each adds a node made of the pool's, or nothing where none fits -------------------------------


def _unary(pool: _Pool) -> None:
    x = pool.pick("f")
    if x is None:
        return
    rules: list[Callable[[Node], Node]] = [ew.neg, ew.tanh, ew.sigmoid, ew.erf, ew.sin, ew.cos, ew.abs]
    if pool.stable:
        rules += [
            lambda x: ew.exp(ew.neg(ew.abs(x))),
            lambda x: ew.log(ew.add(ew.abs(x), 1.0)),
            lambda x: ew.rsqrt(ew.add(ew.abs(x), 0.5)),
        ]
    else:
        rules += [ew.exp, ew.log, ew.sqrt, ew.rsqrt, ew.floor, ew.sign]
    pool.add(pool.draw(st.sampled_from(rules))(x), rounds=True)


def _binary(pool: _Pool) -> None:
    a, b = pool.pick("fi"), pool.pick("fi")
    if a is None or b is None:
        return
    other: Any = b if pool.draw(st.booleans()) else pool.draw(st.sampled_from([0, 1, -1, 2, 0.5, -0.0, 3.0]))
    if isinstance(other, Node) and not _fit(a, other):
        return
    rules = [ew.add, ew.sub, ew.mul, ew.maximum, ew.minimum]
    rules += [lambda a, b: ew.div(a, ew.add(ew.abs(b), 1) if isinstance(b, Node) else 2)]
    if a.dtype.kind == "f":
        rules += [lambda a, b: ew.pow(a, 2), lambda a, b: ew.pow(ew.abs(a), 0.5)]
    pool.add(pool.draw(st.sampled_from(rules))(a, other), rounds=True)


def _integers(pool: _Pool) -> None:
    x = pool.pick("i")
    if x is not None:
        constant = pool.integer(-3, 3)
        pool.add(pool.draw(st.sampled_from([ew.add, ew.sub, ew.mul]))(x, constant))


def _compare(pool: _Pool) -> None:
    a, b = pool.pick("fi", exact=True), pool.pick("fi", exact=True)
    if a is None or b is None or not _fit(a, b):
        return
    condition = pool.draw(st.sampled_from([ew.lt, ew.le, ew.gt, ew.ge, ew.eq, ew.ne]))(a, b)
    pool.add(condition)
    x = pool.pick("fi")
    if x is not None and _fit(condition, x):
        pool.add(ew.where(condition, x, pool.draw(st.sampled_from([0, 1]))))


def _logic(pool: _Pool) -> None:
    a, b = pool.pick("b"), pool.pick("b")
    if a is None or b is None or not _fit(a, b):
        return
    pool.add(pool.draw(st.sampled_from([ew.logical_and, ew.logical_or, lambda a, b: ew.logical_not(a)]))(a, b))


def _cast(pool: _Pool) -> None:
    x = pool.pick("bui" if pool.stable else "buif")
    if x is None or (x.dtype.kind == "f" and not pool.draw(st.booleans())):
        return
    targets = [float32, float64] if x.dtype.kind == "f" else [float32, float64, int64, int32, bool_]
    pool.add(ew.cast(x, pool.draw(st.sampled_from(targets))))


def _reduce(pool: _Pool) -> None:
    x = pool.pick("fi")
    if x is None or 0 in x.shape:
        return
    axes = [a for a in range(x.type.ndim) if pool.draw(st.booleans())]
    keep = pool.draw(st.booleans())
    pool.add(
        pool.draw(st.sampled_from([reduce.sum, reduce.max, reduce.min]))(x, axes, keep), rounds=x.dtype.kind == "f"
    )


def _arg(pool: _Pool) -> None:
    x = pool.pick("fi", exact=True)
    if x is not None and x.type.ndim and 0 not in x.shape:
        pool.add(reduce.argmax(x, pool.integer(0, x.type.ndim - 1)))


def _move(pool: _Pool) -> None:
    x = pool.pick()
    if x is None:
        return
    n = x.type.ndim
    choice = pool.integer(0, 6)
    if choice == 0:
        pool.add(movement.permute(x, pool.draw(st.permutations(range(n)))))
    elif choice == 1:
        pool.add(movement.reshape(x, pool.draw(st.sampled_from(_shapes_of(x.type.size)))))
    elif choice == 2:
        pool.add(movement.unsqueeze(x, pool.integer(0, n)) if n < 4 else x)
    elif choice == 3:
        pool.add(movement.expand(x, [pool.integer(1, 3) if s == 1 else s for s in x.shape]))
    elif choice == 4:
        pool.add(movement.pad(x, [pool.integer(0, 2) for _ in x.shape], [pool.integer(0, 2) for _ in x.shape]))
    elif choice == 5 and n:
        pool.add(movement.flip(x, [pool.integer(0, n - 1)]))
    elif n:
        _slice(pool, x)


def _slice(pool: _Pool, x: Node) -> None:
    starts = [pool.integer(0, s) for s in x.shape]
    stops = [pool.integer(a, s) for a, s in zip(starts, x.shape, strict=True)]
    pool.add(movement.slice_(x, starts, stops, [pool.integer(1, 2) for _ in x.shape]))


def _split(pool: _Pool) -> None:
    """A value cut in pieces, and put together again by concat or as a sum of padded pieces."""
    x = pool.pick("f")
    if x is None or not x.type.ndim or x.shape[-1] < 2:
        return
    size, cut = x.shape[-1], pool.integer(1, x.shape[-1] - 1)
    left, right = movement.narrow(x, -1, 0, cut), movement.narrow(x, -1, cut, size - cut)
    if pool.draw(st.booleans()):
        pool.add(movement.concat([left, right] if pool.draw(st.booleans()) else [right, left], -1))
    else:
        zeros = [0] * (x.type.ndim - 1)
        pool.add(
            ew.add(
                movement.pad(left, [*zeros, 0], [*zeros, size - cut]), movement.pad(right, [*zeros, cut], [*zeros, 0])
            )
        )


def _matmul(pool: _Pool) -> None:
    x = pool.pick("f")
    if x is None or x.type.ndim < 2 or 0 in x.shape:
        return
    y = movement.transpose(x, -2, -1) if pool.draw(st.booleans()) else create.full((x.shape[-1], 3), 0.25, x.dtype)
    pool.add(contract.matmul(x, y), rounds=True)


def _index(pool: _Pool) -> None:
    table = pool.pick("f")
    if table is None or not table.type.ndim or 0 in table.shape:
        return
    axis = pool.integer(0, table.type.ndim - 1)
    size = table.shape[axis]
    count = pool.integer(1, 3)
    index = leaf.constant([pool.integer(0, size - 1) for _ in range(count)], int64)
    if pool.draw(st.booleans()):
        index = create.arange(pool.integer(1, size))
    taken = indexing.gather(table, index, axis)
    pool.add(taken)
    pool.add(indexing.scatter_add(create.zeros_like(table), index, taken, axis), rounds=True)


def _random(pool: _Pool) -> None:
    seed, offset = (leaf.constant(pool.integer(0, 5), int64) for _ in range(2))
    pool.add(random.uniform(seed, offset, (2, 3)))


def _create(pool: _Pool) -> None:
    pool.add(create.full((2, 1), pool.draw(st.sampled_from([0.0, 1.0, 0.1, -2.5])), float32))
    pool.add(create.arange(pool.integer(1, 5)))


_STEPS = (_unary, _binary, _binary, _integers, _compare, _logic, _cast, _reduce, _arg, _move, _move, _split)
_MORE_STEPS = (_matmul, _index, _random, _create)


def _fit(*nodes: Node) -> bool:
    try:
        np.broadcast_shapes(*[n.shape for n in nodes])
    except ValueError:
        return False
    return True


def _shapes_of(size: int) -> list[tuple[int, ...]]:
    pairs = [(a, size // a) for a in range(1, min(size, 8) + 1) if size % a == 0]
    return [(size,), *pairs, *[(1, a, b) for a, b in pairs], *[(a, 1, b) for a, b in pairs]]


# ---- graphs ------------------------------------------------------------------------------------------------


def array(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """Values that most ops like: floats around ±1 and some zeros, small integers."""
    if dtype.kind == "f":
        values = np.where(rng.random(shape) < 0.1, 0.0, rng.normal(0, 1, shape))
        return np.asarray(values).astype(dtype.numpy)
    return np.asarray(rng.integers(0, 2 if dtype.kind == "b" else 5, shape)).astype(dtype.numpy)


@st.composite
def cases(
    draw: DrawFn,
    max_ops: int = 12,
    stable: bool = False,
    states: bool = True,
    odd_names: bool = True,
    steps: Sequence[Callable[[Any], None]] = (),
) -> Case:
    """A graph with arrays to run it on. `steps` are more ways to grow it, each like those of this module."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    pool = _Pool(draw, stable)
    shapes = st.lists(st.integers(1, 4), max_size=3).map(tuple)
    dtypes = st.sampled_from([float32, float32, float32, float64, int64, int32, uint8, bool_])
    names = draw(st.permutations(_ODD_NAMES if odd_names else [f"v{i}" for i in range(6)]))
    args = [leaf.input(names[i], draw(dtypes), draw(shapes)) for i in range(draw(st.integers(1, 3)))]
    kept = [
        leaf.state(names[-1 - i], draw(dtypes), draw(shapes)) for i in range(draw(st.integers(0, 2)) if states else 0)
    ]
    for node in (*args, *kept):
        pool.add(node)
    with mode.set(trace=pool, grad_enabled=False):
        for _ in range(draw(st.integers(1, max_ops))):
            with mode.set(scope=draw(st.sampled_from(_SCOPES))):
                draw(st.sampled_from((*_STEPS, *_MORE_STEPS, *steps)))(pool)
    graph = Graph("random", tuple(args), tuple(kept), _outputs(pool), _updates(pool, kept))
    return Case(graph, *([array(n.dtype, n.shape, rng) for n in group] for group in (args, kept)))


def graphs(max_ops: int = 12, stable: bool = False) -> SearchStrategy[tuple[Graph, list[Array]]]:
    """Graphs without state, each with an array for every argument."""
    return cases(max_ops, stable, states=False).map(lambda case: (case.graph, case.args))


def _outputs(pool: _Pool) -> tuple[Node, ...]:
    """What nothing uses, the latest first, and perhaps something that is used too."""
    used = {id(i) for n in topological(pool.nodes) for i in n.inputs}
    unused = [n for n in reversed(pool.nodes) if id(n) not in used and n.op.kind is not Kind.LEAF]
    return (*unused[:6], *(pool.draw(st.sampled_from(pool.nodes)) for _ in range(pool.integer(0, 1))))


def _updates(pool: _Pool, states: list[Node]) -> tuple[Update, ...]:
    updates = []
    for state in states:
        fits = [n for n in pool.nodes if n.type == state.type]
        if pool.draw(st.booleans()):
            updates.append(Update(state, pool.draw(st.sampled_from(fits))))
    return tuple(updates)


#: Where a node was recorded, for tests that make nodes by hand.
SOMEWHERE = Location("model.py", 7, "blocks.0")
