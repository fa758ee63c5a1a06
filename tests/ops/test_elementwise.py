"""Elementwise builders: promotion, broadcasting, shortcuts, derivatives at ties, and what they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.ops.checks import differentiable
from tinygrad_lite.autodiff import gradients
from tinygrad_lite.ir.graph import topological
from tinygrad_lite.ir.record import leaf, mode
from tinygrad_lite.ir.types import bool_, float32, float64, int32, int64, uint8
from tinygrad_lite.ops import elementwise as ew
from tinygrad_lite.ops.graft import graft
from tinygrad_lite.ops.leaf import input
from tinygrad_lite.ops.promote import promote_types, result_type


def of(*shape: int, dtype: str = "float64"):
    return leaf(np.ones(shape, dtype))


def slopes(build, *data: object) -> list[np.ndarray | None]:
    xs = [differentiable(np.array(d, "float64")) for d in data]
    y = build(*xs)
    found = gradients([y], [leaf(np.ones(y.shape))], xs)
    return [None if g is None else g.value for g in found]


@pytest.mark.parametrize(
    "operands, expected",
    [
        ((of(2, dtype="int64"), 1.5), float32),
        ((of(2, dtype="float64"), 1), float64),
        ((of(2, dtype="int32"), of(dtype="int64")), int32),
        ((of(2, dtype="int32"), of(dtype="float64")), float64),
        ((of(2, dtype="float32"), of(dtype="float64")), float32),
        ((of(2, dtype="bool"), 3), int64),
        ((of(2, dtype="uint8"), True), uint8),
        ((2, 3), int64),
    ],
)
def test_result_type(operands, expected):
    assert result_type(operands) is expected
    assert ew.add(*operands).dtype is expected


def test_promotion_of_two_dtypes():
    assert promote_types(uint8, int32) is int32
    assert promote_types(int64, float32) is float32
    assert promote_types(bool_, uint8) is uint8
    with pytest.raises(TypeError, match="no operands"):
        result_type([])


def test_true_division_and_float_functions_of_integers_are_float32():
    assert ew.div(of(2, dtype="int64"), 2).dtype is float32
    assert ew.exp(of(2, dtype="int32")).dtype is float32
    assert ew.floor(of(2, dtype="int32")).dtype is int32


@pytest.mark.parametrize("exponent", [2, 3, 0.5, -1, 1.5, 0])
def test_constant_powers(exponent: float):
    x = np.array([0.5, 1.0, 3.0])
    np.testing.assert_allclose(ew.pow(leaf(x), exponent).value, x**exponent)
    np.testing.assert_allclose(slopes(lambda n: ew.pow(n, exponent), x)[0], exponent * x ** (exponent - 1))


def test_squares_are_products():
    with mode.set(trace=object()):
        y = ew.pow(input("x", float32, (3,)), 2)
    assert [n.op.name for n in topological([y])] == ["input", "mul"]


@pytest.mark.parametrize("function", ["maximum", "minimum"])
def test_ties_get_half_each(function: str):
    a, b = slopes(getattr(ew, function), [1.0, 2.0], [1.0, 5.0])
    assert (a[0], b[0]) == (0.5, 0.5)
    assert a[1] + b[1] == 1


def test_powers_of_zero_have_finite_slopes():
    a, b = slopes(ew.power, [0.0, 0.0, 2.0], [0.0, 2.0, 0.0])
    np.testing.assert_array_equal(a, [0, 0, 0])
    np.testing.assert_allclose(b, [0, 0, math.log(2)])


def test_where_keeps_nan_out_of_the_branch_not_chosen():
    x = differentiable(np.array([0.0, 4.0]))
    safe = ew.where(ew.gt(x, 0.0), x, 1.0)
    y = ew.where(ew.gt(x, 0.0), ew.log(safe), 0.0)
    (g,) = gradients([y], [leaf(np.ones(2))], [x])
    np.testing.assert_array_equal(g.value, [0, 0.25])


def test_casts_carry_gradients_between_floats_alone():
    x = differentiable(np.ones(3, "float32"))
    (g,) = gradients([ew.cast(x, float64)], [leaf(np.full(3, 2.0))], [x])
    assert g.dtype is float32
    np.testing.assert_array_equal(g.value, 2)
    assert ew.cast(x, int64).grad is None
    assert ew.cast(x, float32) is x


def test_detach_and_comparisons_have_no_gradient():
    x = differentiable(np.ones(3))
    assert ew.detach(x).grad is None
    assert ew.lt(x, 2.0).grad is None
    assert ew.detach(x).value is x.value


def test_a_graft_sends_its_gradient_to_the_history():
    value, history = slopes(graft, [1.0, 2.0], [3.0, 4.0])
    assert value is None
    np.testing.assert_array_equal(history, [1, 1])


def test_steps_have_zero_gradients_not_none():
    for step in (ew.sign, ew.floor):
        np.testing.assert_array_equal(slopes(step, [0.5, -1.5])[0], [0, 0])


BAD = [
    (
        RuntimeError,
        r"add: The size of tensor a \(3\) must match the size of tensor b \(4\) at non-singleton dimension 1: "
        r"shapes \[2, 3\] and \[4\]",
        lambda: ew.add(of(2, 3), of(4)),
    ),
    (RuntimeError, "where: .* bool", lambda: ew.where(of(2), 1.0, 2.0)),
    (
        RuntimeError,
        r"sub: not defined for bool tensors, got b1\[2\]",
        lambda: ew.sub(of(2, dtype="bool"), of(2, dtype="bool")),
    ),
    (RuntimeError, "neg: not defined for bool", lambda: ew.neg(of(2, dtype="bool"))),
    (RuntimeError, "negative integer powers", lambda: ew.pow(of(2, dtype="int64"), -1)),
    (IndexError, r"integer tensor, got f64\[2\]", lambda: ew.check_index(of(2), 3)),
    (
        IndexError,
        "index 3 is out of range for a dimension of size 3",
        lambda: ew.check_index(leaf(np.array([0, 3])), 3),
    ),
    (IndexError, "index -1 ", lambda: ew.check_index(leaf(np.array([-1])), 3)),
    (IndexError, "index -4 ", lambda: ew.check_index(leaf(np.array([-4])), 3, wrap=True)),
]


@pytest.mark.parametrize("error, message, call", BAD)
def test_bad_input(error, message, call):
    with pytest.raises(error, match=message):
        call()


STRICT = [
    (ew.ADD, (of(2), of(3))),
    (ew.ADD, (of(2), of(2, dtype="float32"))),
    (ew.EXP, (of(2, dtype="int64"),)),
    (ew.AND, (of(2), of(2))),
    (ew.WHERE, (of(2, dtype="bool"), of(2), of(3))),
    (ew.WHERE, (of(2), of(2), of(2))),
]


@pytest.mark.parametrize("op, operands", STRICT, ids=lambda x: getattr(x, "name", ""))
def test_ops_themselves_neither_broadcast_nor_promote(op, operands):
    with pytest.raises(TypeError, match=op.name):
        op.infer(*[n.type for n in operands])
