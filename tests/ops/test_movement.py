"""Movement builders: identities, views, PyTorch's rules and errors."""

from __future__ import annotations

import numpy as np
import pytest

from tinygrad_lite.ir.node import Node
from tinygrad_lite.ir.record import leaf
from tinygrad_lite.ir.types import float64
from tinygrad_lite.ops import movement as mv


def of(*shape: int) -> Node:
    return leaf(np.arange(float(np.prod(shape, dtype=int))).reshape(shape))


UNCHANGED = [
    lambda x: mv.reshape(x, (2, -1)),
    lambda x: mv.permute(x, (0, -1)),
    lambda x: mv.transpose(x, 1, 1),
    lambda x: mv.expand(x, (-1, 3)),
    lambda x: mv.broadcast_to(x, (2, 3)),
    lambda x: mv.squeeze(x),
    lambda x: mv.squeeze(x, 0),
    lambda x: mv.slice_(x, (0, 0), (2, 3)),
    lambda x: mv.slice_axis(x, 1, 0, 99),
    lambda x: mv.narrow(x, 1, 0, 3),
    lambda x: mv.pad(x, (0, 0), (0, 0)),
    lambda x: mv.flip(x, ()),
    lambda x: mv.flatten(x, 1),
    lambda x: mv.move_axis(x, 1, -1),
]


@pytest.mark.parametrize("build", UNCHANGED)
def test_nothing_is_recorded_when_nothing_changes(build):
    x = of(2, 3)
    assert build(x) is x


VIEWS = [
    lambda x: mv.reshape(x, (6, 4)),
    lambda x: mv.transpose(x, 0, 2),
    lambda x: mv.slice_(x, (0, 1, 0), (2, 3, 4), (1, 1, 2)),
    lambda x: mv.unsqueeze(x, -1),
    lambda x: mv.squeeze(mv.narrow(x, 0, 1, 1), 0),
    lambda x: mv.expand(x, (5, 2, 3, 4)),
    lambda x: mv.flatten(x, 0, 1),
    lambda x: mv.reshape(mv.slice_(x, (0, 0, 0), (2, 3, 2)), (6, 2)),
]


@pytest.mark.parametrize("build", VIEWS)
def test_views_share_memory(build):
    x = of(2, 3, 4)
    assert np.shares_memory(build(x).value, x.value)


@pytest.mark.parametrize(
    "build", [lambda x: mv.flip(x, 0), lambda x: mv.pad(x, (1, 0), (0, 0)), lambda x: mv.concat([x])]
)
def test_copies_do_not(build):
    x = of(2, 3)
    assert not np.shares_memory(build(x).value, x.value)


def test_flip_is_contiguous():
    assert mv.flip(of(2, 3), 1).value.flags.c_contiguous


@pytest.mark.parametrize(
    "start, stop, step", [(7, 1, -2), (-1, -9, -1), (2, 2, 1), (1, 99, 3), (5, 1, 1), (-3, None, 2), (None, None, -3)]
)
def test_slices_are_python_s(start, stop, step):
    x = of(8)
    np.testing.assert_array_equal(mv.slice_axis(x, 0, start, stop, step).value, x.value[start:stop:step])


def test_squeeze_and_unsqueeze():
    x = of(1, 3, 1)
    assert mv.squeeze(x).shape == (3,)
    assert mv.squeeze(x, -1).shape == (1, 3)
    assert mv.squeeze(x, (0, 1)).shape == (3, 1)
    assert mv.unsqueeze(of(2, 3), -1).shape == (2, 3, 1)
    assert mv.unsqueeze(of(), 0).shape == (1,)
    assert mv.flatten(of()).shape == (1,)


def test_concat_skips_empty_vectors_and_promotes():
    joined = mv.concat([leaf(np.zeros(0, "float64")), leaf(np.ones((2, 2), "float32"))])
    assert joined.shape == (2, 2)
    assert joined.dtype is float64
    assert mv.concat([leaf(np.zeros(0))]).shape == (0,)


BAD = [
    (RuntimeError, r"shape '\[4, -1\]' is invalid for input of size 6", lambda x: mv.reshape(x, (4, -1))),
    (RuntimeError, r"shape '\[4, 2\]' is invalid for input of size 6", lambda x: mv.reshape(x, (4, 2))),
    (RuntimeError, "only one dimension", lambda x: mv.reshape(x, (-1, -1))),
    (RuntimeError, "cannot infer", lambda x: mv.reshape(mv.narrow(x, 0, 0, 0), (0, -1))),
    (RuntimeError, "permute", lambda x: mv.permute(x, (0, 0))),
    (RuntimeError, "permute", lambda x: mv.permute(x, (0,))),
    (IndexError, r"range of \[-2, 1\], but got 2\)", lambda x: mv.permute(x, (0, 2))),
    (IndexError, r"range of \[-2, 1\], but got -3\)", lambda x: mv.transpose(x, 0, -3)),
    (IndexError, r"range of \[-3, 2\], but got 3\)", lambda x: mv.unsqueeze(x, 3)),
    (IndexError, r"range of \[-1, 0\], but got 1\)", lambda x: mv.squeeze(mv.reshape(x, (6,)), 1)),
    (RuntimeError, r"f64\[2,3\] cannot be expanded to shape \[4, 3\]", lambda x: mv.expand(x, (4, 3))),
    (RuntimeError, "fewer axes", lambda x: mv.expand(x, (3,))),
    (RuntimeError, "-1 is not allowed", lambda x: mv.expand(x, (-1, 2, 3))),
    (RuntimeError, "appears twice", lambda x: mv.flip(x, (0, -2))),
    (IndexError, r"slice: 0:4:1 does not lie in axis 0 of f64\[2,3\]", lambda x: mv.slice_(x, (0, 0), (4, 3))),
    (IndexError, "slice", lambda x: mv.slice_(x, (0, 0), (2, 3), (1, 0))),
    (ValueError, "2 entries", lambda x: mv.slice_(x, (0,), (2,))),
    (RuntimeError, r"start \(1\) \+ length \(5\)", lambda x: mv.narrow(x, 0, 1, 5)),
    (ValueError, "non-negative", lambda x: mv.pad(x, (-1, 0), (0, 0))),
    (RuntimeError, r"concat: .*f64\[2,3\], f64\[3,2\]", lambda x: mv.concat([x, mv.transpose(x, 0, 1)])),
    (RuntimeError, "non-empty list", lambda x: mv.concat([])),
    (RuntimeError, "non-empty list", lambda x: mv.stack([])),
    (RuntimeError, "zero-dimensional", lambda x: mv.concat([of()])),
    (RuntimeError, r"equal shapes, got f64\[2,3\], f64\[6\]", lambda x: mv.stack([x, mv.reshape(x, (6,))])),
    (RuntimeError, "comes after", lambda x: mv.flatten(x, 1, 0)),
]


@pytest.mark.parametrize("error, message, call", BAD)
def test_bad_input(error, message, call):
    with pytest.raises(error, match=message):
        call(of(2, 3))
