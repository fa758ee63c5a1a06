"""Samples of the movement ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.ops.operands import Array, Sample, bools, both, integers, reals
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ops import movement


def rearranged(index: Callable[[Array], Array], build: Callable[..., Node], *shape: int, name: str) -> Sample:
    """A reference that moves element numbers."""

    def reference(x: Array) -> Array:
        where = index(np.arange(x.size).reshape(x.shape))
        return np.array([x.flat[i] for i in where.flat], x.dtype).reshape(where.shape)

    return Sample(name, reals(shape), build, reference, (0,))


def padded(x: Array, low: Sequence[int], high: Sequence[int]) -> Array:
    return np.pad(x, list(zip(low, high, strict=True)))


MOVEMENT = {
    "reshape": [
        rearranged(lambda n: n.reshape(4, 6), lambda x: movement.reshape(x, (4, 6)), 2, 3, 4, name="merge"),
        rearranged(lambda n: n.reshape(2, 2, 3), lambda x: movement.reshape(x, (2, -1, 3)), 12, name="infer"),
        rearranged(lambda n: n.reshape(1, 1), lambda x: movement.reshape(x, (1, 1)), name="scalar"),
        rearranged(lambda n: n.reshape(3, 0), lambda x: movement.reshape(x, (3, 0)), 0, 5, name="empty"),
        rearranged(
            lambda n: n.T.reshape(12), lambda x: movement.reshape(movement.transpose(x, 0, 1), (12,)), 3, 4, name="copy"
        ),
        Sample(
            "bool", bools((4,)), lambda x: movement.reshape(x, (2, 2)), lambda x: np.array([[x[0], x[1]], [x[2], x[3]]])
        ),
        rearranged(
            lambda n: n[:, 1:3].reshape(6),
            lambda x: movement.reshape(movement.narrow(x, 1, 1, 2), (6,)),
            3,
            4,
            name="of a part",
        ),
        rearranged(lambda n: n.reshape(1, 6, 1), lambda x: movement.reshape(x, (1, 6, 1)), 2, 3, name="ones"),
        Sample("f32", reals((2, 3), dtype="float32"), lambda x: movement.flatten(x), lambda x: x.ravel()),
    ],
    "permute": [
        rearranged(lambda n: n.T, lambda x: movement.permute(x, (1, 0)), 3, 4, name="transpose"),
        rearranged(lambda n: n.transpose(2, 0, 1), lambda x: movement.permute(x, (2, 0, 1)), 2, 3, 4, name="cycle"),
        rearranged(lambda n: n.transpose(0, 2, 1, 3), lambda x: movement.transpose(x, 1, -2), 2, 3, 4, 2, name="heads"),
        rearranged(lambda n: n.T, lambda x: movement.permute(x, (-1, 0)), 0, 3, name="empty"),
        rearranged(lambda n: n.T, lambda x: movement.permute(x, (2, 1, 0)), 2, 3, 4, name="reversed"),
        rearranged(lambda n: n.transpose(1, 2, 0), lambda x: movement.move_axis(x, 0, 2), 2, 3, 4, name="moved"),
        rearranged(
            lambda n: n.transpose(1, 0, 2)[::2],
            lambda x: movement.slice_axis(movement.transpose(x, 0, 1), 0, 0, 3, 2),
            2,
            3,
            4,
            name="then a part",
        ),
        Sample("bool", bools((2, 3)), lambda x: movement.permute(x, (1, 0)), lambda x: x.T),
        Sample("i16", integers((2, 3), dtype="int16"), lambda x: movement.permute(x, (1, 0)), lambda x: x.T),
    ],
    "expand": [
        Sample("row", reals((1, 4)), lambda x: movement.expand(x, (3, -1)), lambda x: np.concatenate([x] * 3), (0,)),
        Sample(
            "middle",
            reals((2, 1, 3)),
            lambda x: movement.broadcast_to(x, (2, 4, 3)),
            lambda x: np.repeat(x, 4, 1),
            (0,),
        ),
        Sample("scalar", reals(()), lambda x: movement.expand(x, (2, 3)), lambda x: np.full((2, 3), x), (0,)),
        Sample("to nothing", reals((1, 2)), lambda x: movement.expand(x, (0, 2)), lambda x: np.zeros((0, 2)), (0,)),
        Sample(
            "new axis", reals((2, 1)), lambda x: movement.expand(x, (3, 2, 2)), lambda x: np.tile(x, (3, 1, 2)), (0,)
        ),
        Sample("i64", integers((1,)), lambda x: movement.expand(x, (4,)), lambda x: np.repeat(x, 4)),
        Sample(
            "of a part",
            reals((3, 4)),
            lambda x: movement.expand(movement.narrow(x, 0, 1, 1), (5, 4)),
            lambda x: np.repeat(x[1:2], 5, 0),
            (0,),
        ),
        Sample(
            "two axes",
            reals((1, 2, 1)),
            lambda x: movement.expand(x, (3, -1, 2)),
            lambda x: np.tile(x, (3, 1, 2)),
            (0,),
        ),
        Sample("bool", bools((2, 1)), lambda x: movement.expand(x, (2, 3)), lambda x: np.repeat(x, 3, 1)),
    ],
    "slice": [
        rearranged(lambda n: n[1:3, 2:], lambda x: movement.slice_(x, (1, 2), (3, 5)), 4, 5, name="box"),
        rearranged(lambda n: n[1::3], lambda x: movement.slice_(x, (1,), (8,), (3,)), 8, name="step"),
        rearranged(
            lambda n: n[:, 0:7:2],
            lambda x: movement.slice_(x, (0, 0), (2, 7), (1, 2)),
            2,
            8,
            name="step that ends early",
        ),
        rearranged(
            lambda n: n[::2, 1::3], lambda x: movement.slice_(x, (0, 1), (5, 7), (2, 3)), 5, 7, name="two steps"
        ),
        rearranged(lambda n: n[2:2], lambda x: movement.slice_(x, (2, 0), (2, 3)), 4, 3, name="empty"),
        rearranged(lambda n: n[3::5], lambda x: movement.slice_(x, (3,), (4,), (5,)), 4, name="step beyond the end"),
        rearranged(lambda n: n[:, 1], lambda x: movement.squeeze(movement.narrow(x, 1, 1, 1), 1), 3, 4, name="column"),
        Sample("bool", bools((5,)), lambda x: movement.slice_(x, (1,), (4,)), lambda x: x[1:4]),
        Sample(
            "u8",
            integers((3, 4), low=0, dtype="uint8"),
            lambda x: movement.slice_(x, (0, 1), (3, 4), (2, 2)),
            lambda x: x[::2, 1::2],
        ),
    ],
    "pad": [
        Sample(
            "both sides",
            reals((2, 3)),
            lambda x: movement.pad(x, (1, 0), (2, 1)),
            lambda x: padded(x, (1, 0), (2, 1)),
            (0,),
        ),
        Sample("vector", reals((3,)), lambda x: movement.pad(x, (0,), (4,)), lambda x: padded(x, (0,), (4,)), (0,)),
        Sample(
            "of nothing", reals((0, 2)), lambda x: movement.pad(x, (2, 0), (0, 0)), lambda x: np.zeros((2, 2)), (0,)
        ),
        Sample("bool", bools((2,)), lambda x: movement.pad(x, (1,), (1,)), lambda x: np.array([False, *x, False])),
        Sample(
            "f32",
            reals((2, 1, 2), dtype="float32"),
            lambda x: movement.pad(x, (0, 1, 0), (0, 1, 0)),
            lambda x: padded(x, (0, 1, 0), (0, 1, 0)),
        ),
        Sample(
            "scalar axes",
            reals((1, 1)),
            lambda x: movement.pad(x, (2, 1), (0, 3)),
            lambda x: padded(x, (2, 1), (0, 3)),
            (0,),
        ),
        Sample(
            "of a transpose",
            reals((3, 2)),
            lambda x: movement.pad(movement.transpose(x, 0, 1), (0, 1), (1, 0)),
            lambda x: padded(x.T, (0, 1), (1, 0)),
            (0,),
        ),
        Sample("i64", integers((2, 2)), lambda x: movement.pad(x, (1, 1), (0, 0)), lambda x: padded(x, (1, 1), (0, 0))),
    ],
    "concat": [
        Sample("rows", reals((2, 3), (1, 3)), lambda *xs: movement.concat(xs), lambda a, b: np.r_[a, b], (0, 1)),
        Sample(
            "columns",
            reals((2, 3), (2, 1), (2, 2)),
            lambda *xs: movement.concat(xs, -1),
            lambda *xs: np.column_stack(xs),
            (0, 1, 2),
        ),
        Sample("with nothing", reals((2, 3), (0, 3)), lambda *xs: movement.concat(xs), lambda a, b: a, (0, 1)),
        Sample(
            "promotes",
            both(integers((2,)), reals((3,))),
            lambda *xs: movement.concat(xs),
            lambda a, b: np.array([*a, *b]),
        ),
        Sample(
            "stack",
            reals((2, 3), (2, 3)),
            lambda *xs: movement.stack(xs, 1),
            lambda a, b: np.array([a, b]).swapaxes(0, 1),
            (0, 1),
        ),
        Sample("scalars", reals((), ()), lambda *xs: movement.stack(xs), lambda a, b: np.array([a, b]), (0, 1)),
        Sample(
            "middle axis",
            reals((2, 1, 3), (2, 2, 3)),
            lambda *xs: movement.concat(xs, 1),
            lambda *xs: np.hstack(xs),
            (0, 1),
        ),
        Sample(
            "of transposes",
            reals((3, 2), (1, 2)),
            lambda a, b: movement.concat([movement.transpose(a, 0, 1), movement.transpose(b, 0, 1)], 1),
            lambda a, b: np.r_[a, b].T,
            (0, 1),
        ),
        Sample("one twice", reals((2, 2)), lambda x: movement.concat([x, x]), lambda x: np.r_[x, x], (0,)),
    ],
    "flip": [
        rearranged(lambda n: n[::-1], lambda x: movement.flip(x, 0), 5, name="vector"),
        rearranged(lambda n: n[::-1, :, ::-1], lambda x: movement.flip(x, (0, -1)), 2, 3, 4, name="two axes"),
        rearranged(lambda n: n[:, ::-1], lambda x: movement.flip(x, 1), 3, 0, name="empty"),
        rearranged(lambda n: n[7:1:-2], lambda x: movement.slice_axis(x, 0, 7, 1, -2), 9, name="negative step"),
        rearranged(
            lambda n: n.T[::-1], lambda x: movement.flip(movement.transpose(x, 0, 1), 0), 3, 4, name="of a transpose"
        ),
        rearranged(
            lambda n: n[1:, ::-1], lambda x: movement.narrow(movement.flip(x, 1), 0, 1, 2), 3, 4, name="then a part"
        ),
        rearranged(lambda n: n[:, ::-1], lambda x: movement.flip(x, -1), 3, 1, name="one element"),
        Sample("bool", bools((4,)), lambda x: movement.flip(x, 0), lambda x: x[::-1]),
        Sample("f32", reals((2, 3), dtype="float32"), lambda x: movement.flip(x, (0, 1)), lambda x: x[::-1, ::-1]),
    ],
}
