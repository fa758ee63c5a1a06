"""Samples of the loop. References are plain NumPy loops written out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.ops.operands import Sample, both, integers, reals
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.types import TensorType, float32, float64
from tinygrad_lite.ops import composite, contract, control, create, indexing, movement, reduce
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops.leaf import input

Array = np.ndarray[Any, Any]


def body_of(step: Callable[..., Sequence[Node]], *types: TensorType) -> Graph:
    """A body recorded by a function of nodes."""
    with control.symbolic(grad=False):
        args = tuple(input(f"v{i}", t.dtype, t.shape) for i, t in enumerate(types))
        return Graph("body", args, (), tuple(step(*args)))


def scanned(
    step: Callable[..., Sequence[Node]],
    carries: int,
    xs: int,
    length: int,
    pick: Callable[[control.Results], Sequence[Node]],
    reverse: bool = False,
    history: Sequence[bool] | None = None,
) -> Callable[..., Node]:
    """build(*nodes) of a scan whose picked results are joined into one vector."""

    def build(*nodes: Node) -> Node:
        types = [n.type for n in nodes]
        for i in range(carries, carries + xs):
            types[i] = TensorType(types[i].dtype, types[i].shape[1:])
        body = body_of(step, *types)
        parts = nodes[:carries], nodes[carries : carries + xs], nodes[carries + xs :]
        results = control.scan(body, *parts, length, reverse, history)
        return movement.concat([movement.flatten(n) for n in pick(results)])

    return build


def joined(*arrays: Any) -> Array:
    return np.concatenate([np.asarray(a).ravel() for a in arrays])


def everything(results: control.Results) -> list[Node]:
    return [results.final(0), results.before(0), results.after(0), results.y(0)]


def last(results: control.Results) -> list[Node]:
    return [results.final(0)]


# ---- steps, and what they compute ---------------------------------------------------------------------------


def recurrent(h: Node, x: Node, w: Node, b: Node) -> list[Node]:
    h = ew.tanh(ew.add(ew.add(x, contract.matmul(h, movement.transpose(w, 0, 1))), b))
    return [h, ew.mul(h, h)]


def recurrent_reference(order: int = 1) -> Callable[..., Array]:
    def reference(h: Array, x: Array, w: Array, b: Array) -> Array:
        states = [h]
        for row in x[::order]:
            states.append(np.tanh(row + states[-1] @ w.T + b).astype(h.dtype))
        before, after = np.array(states[:-1])[::order], np.array(states[1:])[::order]
        return joined(states[-1], before, after, after * after)

    return reference


def lstm(h: Node, c: Node, x: Node, w: Node) -> list[Node]:
    gates = ew.add(x, contract.matmul(h, w))
    i, f, g, o = (movement.narrow(gates, 1, k * h.shape[1], h.shape[1]) for k in range(4))
    c = ew.add(ew.mul(ew.sigmoid(f), c), ew.mul(ew.sigmoid(i), ew.tanh(g)))
    return [ew.mul(ew.sigmoid(o), ew.tanh(c)), c]


def lstm_reference(h: Array, c: Array, x: Array, w: Array) -> Array:
    def sigmoid(v: Array) -> Array:
        return 1 / (1 + np.exp(-v))

    for row in x:
        i, f, g, o = np.split(row + h @ w, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    return joined(h, c)


def counting(n: Node, s: Node, x: Node) -> list[Node]:
    return [ew.add(n, 2**33), ew.add(ew.mul(s, 0.5), ew.mul(x, ew.cast(n, s.dtype))), ew.sub(0, n)]


def counting_reference(n: Array, s: Array, x: Array) -> Array:
    ys = []
    for row in x:
        n, s, y = n + 2**33, s * 0.5 + row * n, -n
        ys.append(y)
    return joined(n.astype(s.dtype), s, np.array(ys).astype(s.dtype))


def attending(s: Node, i: Node, table: Node, scale: Node) -> list[Node]:
    row = indexing.gather(table, i)
    return [ew.add(ew.mul(s, ew.sigmoid(scale)), composite.softmax(ew.mul(row, s), 1))]


def attending_reference(s: Array, i: Array, table: Array, scale: Array) -> Array:
    for row in i:
        e = np.exp(table[row] * s)
        s = s / (1 + np.exp(-scale)) + e / e.sum(1, keepdims=True)
    return s.ravel()


def nested(c: Node, x: Node, w: Node) -> list[Node]:
    inner = body_of(lambda a, x, w: [ew.tanh(ew.add(ew.mul(a, w), x)), ew.sin(a)], c.type, c.type, w.type)
    results = control.scan(inner, [c], [x], [w], x.shape[0])
    return [results.final(0), reduce.sum(results.y(0), 0)]


def nested_reference(c: Array, x: Array, w: Array) -> Array:
    ys = []
    for rows in x[::-1]:
        total = np.zeros_like(c)
        for row in rows:
            total = total + np.sin(c)
            c = np.tanh(c * w + row)
        ys.append(total)
    return joined(c, np.array(ys)[::-1])


def running_sum(s: Node, x: Node) -> list[Node]:
    return [ew.add(s, x)]


CONTROL = {
    "scan": [
        Sample(
            "recurrent",
            reals((2, 3), (5, 2, 3), (3, 3), (3,)),
            scanned(recurrent, 1, 1, 5, everything),
            recurrent_reference(),
            (0, 1, 2, 3),
        ),
        Sample(
            "recurrent, from the end",
            reals((2, 3), (5, 2, 3), (3, 3), (3,)),
            scanned(recurrent, 1, 1, 5, everything, reverse=True),
            recurrent_reference(-1),
            (0, 1, 2, 3),
        ),
        Sample(
            "recurrent, float32",
            reals((4, 3), (9, 4, 3), (3, 3), (3,), dtype="float32"),
            scanned(recurrent, 1, 1, 9, everything),
            recurrent_reference(),
        ),
        Sample(
            "two carries, last values alone",
            reals((2, 3), (2, 3), (4, 2, 12), (3, 12)),
            scanned(lstm, 2, 1, 4, lambda r: [r.final(0), r.final(1)]),
            lstm_reference,
            (0, 1, 2, 3),
        ),
        Sample(
            "without history",
            reals((2, 3), (2, 3), (3, 2, 12), (3, 12)),
            scanned(lstm, 2, 1, 3, lambda r: [r.final(0), r.final(1)], history=(False, False)),
            lstm_reference,
            (0, 1, 2, 3),
        ),
        Sample(
            "one step",
            reals((2, 3), (1, 2, 3), (3, 3), (3,)),
            scanned(recurrent, 1, 1, 1, everything),
            recurrent_reference(),
            (0, 1, 2, 3),
        ),
        Sample(
            "no steps",
            reals((2, 3), (0, 2, 3), (3, 3), (3,)),
            scanned(recurrent, 1, 1, 0, lambda r: [r.final(0), r.y(0)]),
            lambda h, x, w, b: h.ravel(),
            (0, 1, 2, 3),
        ),
        Sample(
            "integers beside floats",
            both(integers((2,)), reals((2,), (4, 2))),
            scanned(counting, 2, 1, 4, lambda r: [ew.cast(n, float64) for n in (r.final(0), r.final(1), r.y(0))]),
            counting_reference,
            (1, 2),
        ),
        Sample(
            "bools and small floats",
            both(integers((2,), low=0, high=1, dtype="bool"), reals((2,), (4, 2), dtype="float32")),
            scanned(
                lambda b, s, x: [ew.logical_not(b), ew.add(s, ew.where(b, x, 0.0))],
                2,
                1,
                4,
                lambda r: [ew.cast(r.final(0), float32), r.final(1), r.after(1)],
            ),
            lambda b, s, x: joined(b, s + x[1] + x[3], s + np.stack([0 * s, x[1], x[1], x[1] + x[3]])),
        ),
        Sample(
            "table and softmax",
            both(reals((2, 3)), integers((4, 2), low=0, high=4), reals((4, 3), (3,))),
            scanned(attending, 1, 1, 4, last),
            attending_reference,
            (0, 2, 3),
        ),
        Sample(
            "scan in a scan",
            reals((3,), (4, 2, 3), (3,)),
            scanned(nested, 1, 1, 4, lambda r: [r.final(0), r.y(0)], reverse=True),
            nested_reference,
            (0, 1, 2),
        ),
        Sample(
            "no xs",
            reals((3,), (3, 3)),
            scanned(lambda v, w: [ew.tanh(contract.matmul(w, v))], 1, 0, 6, last),
            lambda v, w: power_iteration(v, w, 6),
            (0, 1),
        ),
        Sample(
            "no carries",
            reals((3, 4), (4, 2)),
            scanned(lambda x, w: [contract.matmul(x, w)], 0, 1, 3, lambda r: [r.y(0)]),
            lambda x, w: (x @ w).ravel(),
            (0, 1),
        ),
        Sample(
            "running sum of strided rows",
            lambda rng: [rng.normal(size=3), rng.normal(size=(3, 5)).T[::-1]],
            scanned(running_sum, 1, 1, 5, lambda r: [r.final(0), r.after(0)]),
            lambda s, x: joined(s + x.sum(0), s + x.cumsum(0)),
            (0, 1),
        ),
        Sample(
            "carry handed through",
            reals((2,), (2,), (3, 2)),
            scanned(lambda a, b, x: [b, a, ew.mul(a, x)], 2, 1, 3, lambda r: [r.final(0), r.final(1), r.y(0)]),
            lambda a, b, x: joined(b, a, a * x[0], b * x[1], a * x[2]),
            (0, 1, 2),
        ),
        Sample(
            "constant results",
            reals((2,), (3, 2)),
            scanned(
                lambda s, x: [ew.mul(x, x), create.full((2,), 0.5, float64), s],
                1,
                1,
                3,
                lambda r: [r.final(0), r.y(0), r.y(1)],
            ),
            lambda s, x: joined(x[2] ** 2, np.full((3, 2), 0.5), s, x[0] ** 2, x[1] ** 2),
            (0, 1),
        ),
        Sample(
            "integers alone",
            integers((2, 2), (5, 2, 2)),
            scanned(lambda s, x: [contract.matmul(s, x)], 1, 1, 5, last),
            lambda s, x: (s @ x[0] @ x[1] @ x[2] @ x[3] @ x[4]).ravel(),
        ),
    ],
}


def power_iteration(v: Array, w: Array, steps: int) -> Array:
    for _ in range(steps):
        v = np.tanh(w @ v)
    return v
