"""Samples of convolution's ops, positive so that float32 sums cancel nothing.

They are float32 only: gradients are checked in test_convolution.py, by the composite.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.operands import Array, Sample, reals
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import record
from tinygrad_lite.ops import convolution

# name: x, weight, stride, padding, dilation
CASES: dict[str, tuple[Any, ...]] = {
    "same": ((2, 3, 6, 5), (4, 3, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    "stride": ((1, 2, 7, 8), (3, 2, 3, 2), (2, 2), ((1, 1), (0, 1)), (1, 1)),
    "uneven": ((1, 2, 9, 11), (5, 2, 4, 3), (3, 2), ((0, 2), (2, 1)), (1, 2)),
    "dilation": ((1, 9, 7, 7), (10, 9, 3, 3), (1, 1), ((2, 2), (2, 2)), (2, 2)),
    "points": ((3, 5, 4, 4), (8, 5, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    "points apart": ((2, 3, 5, 5), (4, 3, 1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1)),
    "one": ((1, 1, 1, 1), (1, 1, 1, 1), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    "patches": ((2, 3, 8, 8), (17, 3, 4, 4), (4, 4), ((0, 0), (0, 0)), (1, 1)),
    "many channels": ((1, 40, 5, 5), (33, 40, 3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
}


def attrs_of(case: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(("stride", "padding", "dilation"), case[2:], strict=True))


def positions(case: tuple[Any, ...]) -> tuple[int, int]:
    (_, _, *size), (_, _, *kernel), stride, padding, dilation = case
    each = zip(size, kernel, stride, padding, dilation, strict=True)
    h, w = ((n + a + b - d * (k - 1) - 1) // s + 1 for n, k, s, (a, b), d in each)
    return h, w


def windows(x: Array, case: tuple[Any, ...]) -> Array:
    """(N, C, OH, OW, KH, KW), element by element."""
    _, (_, _, kh, kw), (sh, sw), padding, (dh, dw) = case
    image = np.pad(x, ((0, 0), (0, 0), *padding)).astype("f8")
    h, w = positions(case)
    index = np.indices((h, w, kh, kw))
    return image[:, :, index[0] * sh + index[2] * dh, index[1] * sw + index[3] * dw]


def forward(case: tuple[Any, ...]) -> Sample:
    def build(x: Node, w: Node) -> Node:
        return record(convolution.FORWARD, x, w, **attrs_of(case))

    def reference(x: Array, w: Array) -> Array:
        return np.einsum("nchwij,ocij->nohw", windows(x, case), w).astype("f4")

    return Sample("", reals(case[0], case[1], low=0.0, high=1.0, dtype="float32"), build, reference)


def by_weight(case: tuple[Any, ...]) -> Sample:
    def build(g: Node, x: Node) -> Node:
        return record(convolution.BY_WEIGHT, g, x, kernel=case[1][2:], **attrs_of(case))

    def reference(g: Array, x: Array) -> Array:
        return np.einsum("nchwij,nohw->ocij", windows(x, case), g).astype("f4")

    return Sample(
        "",
        reals((case[0][0], case[1][0], *positions(case)), case[0], low=0.0, high=1.0, dtype="float32"),
        build,
        reference,
    )


def by_input(case: tuple[Any, ...]) -> Sample:
    def build(g: Node, w: Node) -> Node:
        return record(convolution.BY_INPUT, g, w, size=case[0][2:], **attrs_of(case))

    def reference(g: Array, w: Array) -> Array:
        """The transpose of the forward map, a basis image at a time."""
        count = int(np.prod(case[0][1:]))
        basis = np.eye(count).reshape(count, *case[0][1:])
        images = np.einsum("bchwij,ocij->bohw", windows(basis, case), w)
        return np.einsum("bohw,nohw->nb", images, g).reshape(case[0]).astype("f4")

    return Sample(
        "",
        reals((case[0][0], case[1][0], *positions(case)), case[1], low=0.0, high=1.0, dtype="float32"),
        build,
        reference,
    )


def named(make: Any) -> list[Sample]:
    found = []
    for name, case in CASES.items():
        sample = make(case)
        found.append(Sample(name, sample.make, sample.build, sample.reference))
    return found


CONVOLUTION = {
    "convolution": named(forward),
    "convolution_by_input": named(by_input),
    "convolution_by_weight": named(by_weight),
}
