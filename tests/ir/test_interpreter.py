"""The reference executor: what it checks, what it frees, and that it never hands out the caller's arrays."""

import gc
import weakref

import numpy as np
import pytest

from tests.ir.samples import tracing
from tinygrad_lite.interpreter import evaluate
from tinygrad_lite.ir.graph import Graph, Update
from tinygrad_lite.ir.types import TensorType, float32, int64
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops import indexing, leaf, movement


def test_outputs_and_states():
    x, w, v = leaf.input("x", float32, (2,)), leaf.state("w", float32, (2,)), leaf.state("v", float32, ())
    with tracing():
        y = ew.add(x, w)
    graph = Graph("g", (x,), (w, v), (y, w), (Update(w, y),))
    held = np.array([10, 20], np.float32)
    outputs, states = evaluate(graph, [np.array([1, 2], np.float32)], [held, np.float32(5)])
    np.testing.assert_array_equal(outputs[0], [11, 22])
    np.testing.assert_array_equal(outputs[1], [10, 20])  # the state as it was when the run began
    np.testing.assert_array_equal(states[0], [11, 22])
    assert states[1] == 5
    np.testing.assert_array_equal(held, [10, 20])


def test_results_are_fresh_arrays():
    x = leaf.input("x", float32, (2, 3))
    with tracing():
        y = movement.reshape(x, (6,))
    given = np.zeros((2, 3), np.float32)
    (same, moved), _ = evaluate(Graph("g", (x,), (), (x, y)), [given])
    assert not np.shares_memory(same, given)
    assert not np.shares_memory(moved, given)
    moved[0] = 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "takes 1 arguments, got 0"),
        ([np.zeros(3, np.float32)], r"argument 'x' must be f32\[2\], got float32\[3\]"),
        ([np.zeros(2)], r"must be f32\[2\], got float64\[2\]"),
    ],
)
def test_arguments_are_checked(args, message: str):
    x = leaf.input("x", float32, (2,))
    with pytest.raises(TypeError, match=message):
        evaluate(Graph("g", (x,), (), (x,)), args)


def test_errors_name_node_and_line():
    x, i = leaf.input("x", float32, (2,)), leaf.input("i", int64, (1,))
    with tracing("head"):
        y = indexing.gather(x, i)
    with pytest.raises(IndexError, match="index 7 is out of range") as caught:
        evaluate(Graph("g", (x, i), (), (y,)), [np.zeros(2, np.float32), np.array([7])])
    assert "in <check_index#" in caught.value.__notes__[0]
    assert "recorded at head " in caught.value.__notes__[0]


def test_a_rule_that_breaks_its_type_is_named():
    x = leaf.input("x", float32, (2,))
    with tracing():
        y = ew.exp(x)
    y.type = TensorType(float32, (3,))
    with pytest.raises(RuntimeError, match=r"its NumPy rule gave float32\[2\]"):
        evaluate(Graph("g", (x,), (), (y,)), [np.zeros(2, np.float32)])


def test_values_are_freed_after_their_last_use_and_can_be_observed():
    x = leaf.input("x", float32, (1000,))
    with tracing():
        y = x
        for _ in range(50):
            y = ew.exp(y)
    alive: list[weakref.ref] = []
    most = 0

    def observe(node, value):
        nonlocal most
        alive.append(weakref.ref(value))
        del value
        most = max(most, sum(r() is not None for r in alive))

    evaluate(Graph("g", (x,), (), (y,)), [np.zeros(1000, np.float32)], observe=observe)
    gc.collect()
    assert len(alive) == 51
    assert most <= 4


def test_twenty_thousand_nodes():
    x = leaf.input("x", float32, ())
    with tracing():
        y = x
        for _ in range(20_000):
            y = ew.add(y, x)
    (result,), _ = evaluate(Graph("deep", (x,), (), (y,)), [np.float32(1)])
    assert result == 20_001
