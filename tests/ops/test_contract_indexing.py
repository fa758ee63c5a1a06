"""Matrix products and indexing: structure of what is recorded, index rules, errors."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.ops.checks import Projected, differentiable
from tinygrad_lite.autodiff import gradients
from tinygrad_lite.ir.graph import topological
from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import leaf, mode
from tinygrad_lite.ir.types import float32
from tinygrad_lite.ops import contract, indexing
from tinygrad_lite.ops.leaf import input


def of(*shape: int, dtype: str = "float64") -> Node:
    return leaf(np.random.default_rng(0).normal(size=shape).astype(dtype))


def at(data: object) -> Node:
    return leaf(np.array(data, "int64"))


def test_a_batch_times_a_matrix_is_one_product():
    with mode.set(trace=object()):
        y = contract.matmul(input("x", float32, (2, 3, 4)), input("w", float32, (4, 5)))
        names = [n.op.name for n in topological([y])]
    assert names == ["input", "reshape", "input", "matmul", "reshape"]


def test_cost_of_a_product():
    with mode.set(trace=object()):
        y = contract.matmul(input("a", float32, (2, 3, 4)), input("b", float32, (2, 4, 5)))
    assert y.op.cost(y) == (2 * 2 * 3 * 4 * 5, 4 * (24 + 40 + 30))


def test_linear_without_batch_or_bias():
    x, w = of(4), of(3, 4)
    np.testing.assert_allclose(contract.linear(x, w).value, w.value @ x.value)
    np.testing.assert_allclose(contract.linear(x, of(4)).value, x.value @ of(4).value)


def test_a_table_of_indices_against_numpy():
    x = of(3, 4, 2, 3)
    choices = [None, at([[1], [0]]), at([0, -1, 1])]
    for indices in itertools.product(choices, repeat=4):
        if any(i is not None for i in indices):
            key = tuple(slice(None) if i is None else i.value for i in indices)
            np.testing.assert_array_equal(indexing.index_nd(x, indices).value, x.value[key])


@pytest.mark.parametrize("accumulate", [False, True])
def test_writes_through_a_table_of_indices(accumulate: bool):
    x, i, j = of(3, 4, 2), at([0, 2, 0]), at([1, 1, 1])
    for indices in ([i, None, j], [None, i, j], [i, j], [None, None, j], [None, i]):
        key = tuple(slice(None) if n is None else n.value for n in indices)
        source = of(*np.shape(x.value[key]))
        expected = x.value.copy()
        if accumulate:
            np.add.at(expected, key, source.value)
        else:
            expected[key] = source.value
        np.testing.assert_array_equal(indexing.index_put_nd(x, indices, source, accumulate).value, expected)


def test_writes_are_converted_and_broadcast():
    x = of(3, 4, dtype="float32")
    y = indexing.index_put_nd(x, [at([0, 2])], leaf(np.array(7)))
    assert y.dtype is float32
    np.testing.assert_array_equal(y.value[[0, 2]], 7)
    y = indexing.slice_update(x, leaf(np.arange(4).reshape(1, 1, 4)), (1, 0), (3, 4))
    np.testing.assert_array_equal(y.value[1:], [[0, 1, 2, 3]] * 2)


def test_gradient_of_a_repeated_assignment_goes_to_the_last():
    source = differentiable(np.array([1.0, 2.0, 3.0]))
    y = indexing.put(leaf(np.zeros(2)), at([1, 1, 0]), source)
    np.testing.assert_array_equal(y.value, [3, 2])
    (g,) = gradients([y], [leaf(np.array([10.0, 20.0]))], [source])
    np.testing.assert_array_equal(g.value, [0, 20, 10])


def test_composites_have_gradients():
    x, s = np.random.default_rng(0).normal(size=(3, 4)), np.random.default_rng(1).normal(size=(2,))
    i, j = at([2, 0]), at([1, 1])
    Projected(lambda a, b: indexing.index_put_nd(a, [i, j], b, True), [x, s], (0, 1)).check()
    Projected(lambda a, b: indexing.index_put_nd(a, [i, j], b), [x, s], (0, 1)).check()


BAD = [
    (RuntimeError, r"shapes \[2, 3\] and \[2, 3\] cannot be multiplied", lambda: contract.matmul(of(2, 3), of(2, 3))),
    (RuntimeError, r"shapes \[3\] and \[4\]", lambda: contract.matmul(of(3), of(4))),
    (RuntimeError, r"matmul: .*\[3\] and \[2\]", lambda: contract.matmul(of(3, 2, 3), of(2, 3, 2))),
    (
        RuntimeError,
        "expected m1 and m2 to have the same dtype",
        lambda: contract.matmul(of(2, 2), of(2, 2, dtype="float32")),
    ),
    (RuntimeError, "at least 1D", lambda: contract.matmul(of(), of(2))),
    (RuntimeError, "bool", lambda: contract.matmul(of(2, 2, dtype="bool"), of(2, 2, dtype="bool"))),
    (RuntimeError, r"linear: input \[2, 3\] does not fit weight \[3, 2\]", lambda: contract.linear(of(2, 3), of(3, 2))),
    (IndexError, "index 3 is out of range for a dimension of size 3", lambda: indexing.gather(of(3, 2), at([3]))),
    (IndexError, "index -1", lambda: indexing.gather(of(3, 2), at([-1]))),
    (IndexError, "integer tensor", lambda: indexing.gather(of(3, 2), of(2))),
    (IndexError, r"range of \[-2, 1\]", lambda: indexing.gather(of(3, 2), at([0]), 2)),
    (IndexError, "too many indices", lambda: indexing.index_nd(of(3), [at([0]), at([0])])),
    (IndexError, "at least one", lambda: indexing.index_nd(of(3), [None])),
    (IndexError, "could not be broadcast", lambda: indexing.index_nd(of(3, 3), [at([0, 1]), at([0, 1, 2])])),
    (RuntimeError, "scatter_add: source", lambda: indexing.scatter_add(of(3, 2), at([0]), of(2, 2))),
    (RuntimeError, "same number of dimensions", lambda: indexing.take_along(of(3, 2), at([0]), 0)),
    (RuntimeError, "must not exceed", lambda: indexing.take_along(of(3, 2), at([[0, 0, 0]]), 0)),
    (RuntimeError, "must not exceed source", lambda: indexing.put_along(of(3, 2), at([[0, 0]]), of(1, 1), 0)),
    (RuntimeError, "does not fit the place", lambda: indexing.slice_update(of(3, 2), of(4, 3, 2), (0, 0), (3, 2))),
    (TypeError, "int64 index", lambda: indexing.GATHER.infer(of(3).type, of(2).type, axis=0)),
]


@pytest.mark.parametrize("error, message, call", BAD)
def test_bad_input(error, message, call):
    with pytest.raises(error, match=message):
        call()
