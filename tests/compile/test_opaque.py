"""Opaque ops: how words reach a kernel, where operands and results lie, and what a failure leaves behind."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl
from tests.compile.running import PlainProgram
from tinygrad_lite.errors import LinAlgError
from tinygrad_lite.ir.equality import first_difference
from tinygrad_lite.ir.graph import Graph
from tinygrad_lite.ir.native import Failure, Function, Operand, Result, Workspace, native
from tinygrad_lite.ir.parse import parse
from tinygrad_lite.ir.passes import pipeline
from tinygrad_lite.ir.record import mode
from tinygrad_lite.ir.text import to_text
from tinygrad_lite.ir.types import float64
from tinygrad_lite.ops import elementwise, linalg, movement, sorting
from tinygrad_lite.ops.leaf import input
from tinygrad_lite.program import Program


def test_words_have_names_and_addresses():
    kernel = native(
        "use(n, m_at, room, x)\ni64_at(fail)[0] = fail_code",
        {
            "x": Operand(0),
            "n": 3,
            "m": 4,
            "room": Workspace(16),
            "fail": Failure(),
            "f": Function("dgesv"),
            "y": Result(),
        },
        extent=2,
        work=5,
    )
    assert kernel.words == (Operand(0), 3, 4, Workspace(16), 0, Failure(), 0, Function("dgesv"), Result())
    assert kernel.source.splitlines() == [
        "def kernel(args, lo, hi, worker):",
        "    w = i64_at(args)",
        "    x = w[0]",
        "    n = w[1]",
        "    m_at = args + 16",
        "    room = w[3] + worker * w[4]",
        "    fail = w[5]",
        "    fail_code = w[6]",
        "    use(n, m_at, room, x)",
        "    i64_at(fail)[0] = fail_code",
    ]


def graph_of(build, *shapes):
    args = tuple(input(f"x{i}", float64, s) for i, s in enumerate(shapes))
    with mode.set(trace=object()):
        results = build(*args)
    return Graph("opaque", args, (), tuple(results))


def rearranged(x):
    """Operands in every layout, results where a concat and a transpose want them."""
    turned = movement.transpose(x, 0, 1)
    first = linalg.inverse(turned)
    part = linalg.inverse(movement.slice_(x, (0, 0), (2, 2)))
    joined = movement.concat([sorting.sort(x, 0)[0], movement.transpose(sorting.sort(turned, 1, True)[0], 0, 1)], 0)
    return (
        first,
        movement.transpose(part, 0, 1),
        joined,
        linalg.solve(x, movement.expand(linalg.eye(3, float64), (3, 3))),
    )


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("kind", [Program, PlainProgram])
def test_operands_and_results_of_every_layout(kind, workers):
    x = np.random.default_rng(0).normal(size=(3, 3)) + 3 * np.eye(3)
    got = kind(pipeline.run(graph_of(rearranged, (3, 3))), workers).run([x])
    expected = (
        np.linalg.inv(x.T),
        np.linalg.inv(x[:2, :2]).T,
        np.concatenate([np.sort(x, 0), -np.sort(-x, 0)]),
        np.linalg.inv(x),
    )
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_allclose(g, e, rtol=1e-12, atol=1e-14)


def test_fuses_with_nothing_and_reads_what_was_computed():
    def build(x):
        warm = elementwise.mul(x, 2.0)
        w = linalg.eigvalsh(warm)
        return (elementwise.add(elementwise.exp(w), w),)

    graph = graph_of(build, (5, 3, 3))
    x = np.random.default_rng(0).normal(size=(5, 3, 3))
    (got,) = Program(pipeline.run(graph), 2).run([x])
    w = np.linalg.eigvalsh(2 * x)
    np.testing.assert_allclose(got, np.exp(w) + w, rtol=1e-10)


def test_text_round_trip():
    def build(x):
        return linalg.svd(x)[0], linalg.qr(x, True)[1], linalg.pinv(x, 0.5, 0.25), sorting.argsort(x, 1, True)

    graph = graph_of(build, (3, 3))
    text = to_text(graph)
    assert "svd %0 full=false" in text and "pinv %0 rtol=0.5 atol=0.25" in text
    assert first_difference(parse(text), graph) is None


def test_failure_names_the_line_and_leaves_states():
    state = tl.zeros(())

    @tl.compile
    def step(a):
        state.add_(1)
        return tl.linalg.inv(a)

    step(tl.eye(2))
    with pytest.raises(LinAlgError, match=r"singular.*test_opaque.py:\d+"):
        step(tl.ones(2, 2))
    assert state.item() == 1
    np.testing.assert_array_equal(step(tl.eye(2)).numpy(), np.eye(2))
    assert state.item() == 2
