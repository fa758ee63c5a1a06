"""The composites: values, gradients to second order, and the edges where formulas like these give NaN elsewhere."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.ops.checks import Projected, differentiable
from tests.ops.composite_samples import CALLS, Call
from tinygrad_lite.autodiff import gradients
from tinygrad_lite.ir.graph import topological
from tinygrad_lite.ir.node import GradMeta, Node
from tinygrad_lite.ir.op import Kind
from tinygrad_lite.ir.record import leaf, mode
from tinygrad_lite.ir.types import bool_, float32, int64
from tinygrad_lite.ops import composite, reduce
from tinygrad_lite.ops.leaf import input

INF, NAN = math.inf, math.nan
CASES = [pytest.param(c, id=f"{c.function}-{c.id.replace(' ', '_')}") for c in CALLS]


def tensor(data: object, dtype: str = "float64") -> Node:
    return leaf(np.array(data, dtype))


def scalar(value: int) -> Node:
    return leaf(np.array(value))


def gradient_of(build, data: object, dtype: str = "float64") -> tuple[np.ndarray, np.ndarray]:
    """The value, and the gradient of its sum."""
    x = differentiable(np.array(data, dtype))
    y = build(x)
    (g,) = gradients([y], [leaf(np.ones(y.shape, dtype))], [x])
    assert g is not None
    return y.value, g.value


@pytest.mark.parametrize("call", CASES)
def test_value(call: Call):
    arrays = call.make(np.random.default_rng(3))
    result = call.build(*[leaf(a) for a in arrays]).value
    expected = call.reference(*arrays)
    assert result.shape == expected.shape
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("call", CASES)
def test_float32_stays_float32_and_close(call: Call):
    arrays = call.make(np.random.default_rng(3))
    narrow = [leaf(a.astype("float32") if a.dtype.kind == "f" else a) for a in arrays]
    result = call.build(*narrow)
    assert result.dtype is float32
    np.testing.assert_allclose(result.value, call.reference(*arrays), rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("call", CASES)
def test_gradients(call: Call):
    Projected(call.build, call.make(np.random.default_rng(3)), call.wrt).check()


def test_relu_passes_nan_and_has_no_slope_at_zero():
    value, slope = gradient_of(composite.relu, [NAN, -1.0, 0.0, -0.0, 2.0, -INF, INF])
    np.testing.assert_array_equal(value, [NAN, 0, 0, 0, 2, 0, INF])
    np.testing.assert_array_equal(slope, [1, 0, 0, 0, 1, 0, 1])


@pytest.mark.parametrize("function, slope, bend", [("softplus", 0.5, 0.25), ("log_sigmoid", 0.5, -0.25)])
def test_softplus_is_smooth_at_zero(function: str, slope: float, bend: float):
    x = differentiable(np.zeros(2))
    one = leaf(np.ones(2))
    (first,) = gradients([getattr(composite, function)(x)], [one], [x], create_graph=True)
    (second,) = gradients([first], [one], [x])
    np.testing.assert_allclose(first.value, slope)
    np.testing.assert_allclose(second.value, bend)


def test_log_softmax_has_finite_gradients_beside_minus_infinity():
    x = differentiable(np.array([[1.0, -INF, 2.0]]))
    y = composite.log_softmax(x)
    assert y.value[0, 1] == -INF
    (g,) = gradients([y], [tensor([[1.0, 0.0, 0.0]])], [x])
    p = np.exp(y.value)
    np.testing.assert_allclose(g.value, np.array([[1.0, 0.0, 0.0]]) - p, atol=1e-15)


@pytest.mark.parametrize("function", ["softmax", "log_softmax"])
def test_rows_of_minus_infinity_are_nan_as_in_pytorch(function: str):
    assert np.isnan(getattr(composite, function)(tensor([[-INF, -INF]])).value).all()


def test_softmax_does_not_overflow():
    value, slope = gradient_of(lambda x: composite.softmax(x), [[1e4, 1e4 - 1, -1e4]])
    assert np.isfinite(value).all() and np.isfinite(slope).all()


def test_logsumexp_of_infinities_and_of_nothing():
    x = tensor([[-INF, -INF], [INF, 1.0], [NAN, 1.0], [1.0, -INF]])
    np.testing.assert_array_equal(composite.logsumexp(x, 1).value, [-INF, INF, NAN, 1.0])
    np.testing.assert_array_equal(composite.logsumexp(tensor(np.zeros((2, 0))), 1).value, [-INF, -INF])
    assert composite.logsumexp(x, (0, 1), keepdim=True).shape == (1, 1)


@pytest.mark.parametrize("function", ["softmax", "log_softmax"])
def test_softmax_of_nothing_is_nothing(function: str):
    for shape in [(0, 3), (2, 0)]:
        assert getattr(composite, function)(tensor(np.zeros(shape))).shape == shape


def test_layer_norm_of_a_constant_row_is_finite():
    value, slope = gradient_of(lambda x: composite.layer_norm(x, (4,)), np.full((2, 4), 3e4), "float32")
    np.testing.assert_array_equal(value, 0)
    assert np.isfinite(slope).all()


def test_cross_entropy_where_all_is_ignored_is_nan_with_gradient_as_in_pytorch():
    target = leaf(np.array([-100, -100]))
    value, slope = gradient_of(lambda x: composite.cross_entropy(x, target), np.zeros((2, 3)))
    assert np.isnan(value)
    value, slope = gradient_of(lambda x: composite.cross_entropy(x, target, reduction="sum"), np.zeros((2, 3)))
    assert value == 0
    np.testing.assert_array_equal(slope, 0)


def test_cross_entropy_refuses_targets_out_of_range():
    for bad in (3, -1):
        with pytest.raises(IndexError, match=str(bad)):
            composite.cross_entropy(tensor(np.zeros((2, 3))), leaf(np.array([0, bad])))


def test_embedding_gives_the_padding_row_no_gradient():
    index = leaf(np.array([[1, 2], [2, 0]]))
    for padding in (2, -1):
        value, slope = gradient_of(lambda w, p=padding: composite.embedding(w, index, p), np.arange(6.0).reshape(3, 2))
        np.testing.assert_array_equal(value[0, 1], [4, 5])
        np.testing.assert_array_equal(slope, [[1, 1], [1, 1], [0, 0]])


def test_dropout_drops_p_and_scales_the_rest():
    x = differentiable(np.ones(20000, "float32"))
    y = composite.dropout(x, 0.25, scalar(5), scalar(0))
    assert set(np.unique(y.value)) == {np.float32(0), np.float32(1 / 0.75)}
    assert abs((y.value == 0).mean() - 0.25) < 0.01
    (g,) = gradients([y], [leaf(np.full(20000, 3, "float32"))], [x])
    np.testing.assert_allclose(g.value, 3 * y.value)
    again = composite.dropout(x, 0.25, scalar(5), scalar(0))
    np.testing.assert_array_equal(y.value, again.value)
    assert (composite.dropout(x, 0.25, scalar(5), scalar(20000)).value != y.value).any()
    np.testing.assert_array_equal(composite.dropout(x, 0.0, scalar(5), scalar(0)).value, x.value)
    np.testing.assert_array_equal(composite.dropout(x, 1.0, scalar(5), scalar(0)).value, 0)


def test_dropout_draws_one_mask_for_both_precisions():
    masks = [composite.dropout(leaf(np.ones(50, t)), 0.5, scalar(1), scalar(7)).value > 0 for t in ("f4", "f8")]
    np.testing.assert_array_equal(*masks)


def test_attention_drops_probabilities():
    q = tensor(np.zeros((1, 64, 2)))
    v = tensor(np.ones((1, 64, 1)))
    y = composite.scaled_dot_product_attention(q, q, v, dropout_p=0.5, seed=scalar(1), offset=scalar(0)).value
    assert 0.9 < y.mean() < 1.1
    assert y.std() > 0.05


BAD = [
    (RuntimeError, "approximate", lambda x: composite.gelu(x, "fast")),
    (ValueError, "between 0 and 1", lambda x: composite.dropout(x, 1.5, scalar(0), scalar(0))),
    (RuntimeError, r"normalized_shape \[4\]", lambda x: composite.layer_norm(x, (4,))),
    (RuntimeError, r"weight f64\[2,3\]", lambda x: composite.layer_norm(x, (3,), weight=x)),
    (ValueError, "not a valid value for reduction", lambda x: composite.mse_loss(x, x, "max")),
    (ValueError, r"Expected target size \[2\], got \[3\]", lambda x: composite.cross_entropy(x, leaf(np.arange(3)))),
    (RuntimeError, "label_smoothing", lambda x: composite.cross_entropy(x, leaf(np.arange(2)), label_smoothing=2.0)),
    (RuntimeError, "all 3 classes", lambda x: composite.cross_entropy(x, leaf(np.arange(2)), tensor([1.0]))),
    (RuntimeError, "is_causal", lambda x: composite.scaled_dot_product_attention(x, x, x, x, is_causal=True)),
    (RuntimeError, "cannot be multiplied", lambda x: composite.scaled_dot_product_attention(x, x, tensor([[1.0]]))),
    (ValueError, "padding_idx", lambda x: composite.embedding(x, leaf(np.arange(2)), 5)),
    (IndexError, "2", lambda x: composite.embedding(x, leaf(np.array([2])))),
]


@pytest.mark.parametrize("error, message, call", BAD)
def test_bad_input(error, message, call):
    with pytest.raises(error, match=message):
        call(tensor(np.zeros((2, 3))))


# ---- what the traced backward is made of ------------------------------------------------------------


def backward_ops(build, *shapes: tuple[int, ...]) -> list[str]:
    """Ops of the backward pass on full-size operands, leaves and movement aside."""
    with mode.set(trace=object()):
        xs = [input(f"x{i}", float32, s) for i, s in enumerate(shapes)]
        for x in xs:
            x.grad = GradMeta(leaf=True)
        y = build(*xs)
        g = input("g", float32, y.shape)
        last = g.serial
        found = topological([n for n in gradients([y], [g], xs) if n is not None])
    full = max(math.prod(s) for s in shapes)
    arithmetic = [n for n in found if n.serial > last and n.op.kind in (Kind.ELEMENTWISE, Kind.REDUCE, Kind.MATMUL)]
    return sorted(n.op.name for n in arithmetic if max(i.type.size for i in (n, *n.inputs)) >= full)


def test_backward_is_the_textbook_s():
    assert backward_ops(composite.softmax, (8, 16)) == ["add", "mul", "mul", "mul", "sum"]
    assert backward_ops(composite.log_softmax, (8, 16)) == ["add", "mul", "sum"]
    assert backward_ops(composite.relu, (8, 16)) == ["where"]
    seed, offset = input("seed", int64, ()), input("offset", int64, ())
    assert backward_ops(lambda x: composite.dropout(x, 0.1, seed, offset), (8, 16)) == ["mul", "where"]
    target = input("t", int64, (8,))
    fused = backward_ops(lambda x: composite.cross_entropy(x, target), (8, 16))
    assert fused == ["add", "mul", "sum", "where"]


def test_causal_mask_stores_nothing():
    with mode.set(trace=object()):
        mask = composite.causal_mask(64, 64)
    assert mask.dtype is bool_
    assert all(n.op.kind in (Kind.CREATE, Kind.MOVEMENT, Kind.ELEMENTWISE) for n in topological([mask]))
    assert reduce.sum(composite.causal_mask(4, 4)).value == 10
