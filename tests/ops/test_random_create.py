"""The generator against its published vectors, the distributions' moments, and creation."""

from __future__ import annotations

import numpy as np
import pytest

from tinygrad_lite.ir.record import leaf
from tinygrad_lite.ir.types import bool_, float32, float64, int64
from tinygrad_lite.ops import create, random

ONES = 0xFFFFFFFF
VECTORS = [  # key, counter, result: the known answers of Random123's kat_vectors
    ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
    ((ONES, ONES), (ONES, ONES), (0x1CB996FC, 0xBB002BE7)),
    ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
]


@pytest.mark.parametrize("key, counter, expected", VECTORS)
def test_known_answers(key, counter, expected):
    words = [tuple(np.array([w], "uint32") for w in pair) for pair in (key, counter)]
    assert tuple(int(w[0]) for w in random.threefry2x32(*words)) == expected


def scalar(value: int):
    return leaf(np.array(value))


@pytest.mark.parametrize("dtype", [float32, float64])
def test_moments(dtype):
    x = random.normal(scalar(3), scalar(0), (200, 500), dtype).value
    assert abs(x.mean()) < 0.01
    assert abs(x.std() - 1) < 0.01
    assert abs((x**4).mean() - 3) < 0.1
    assert np.isfinite(x).all()
    u = random.uniform(scalar(3), scalar(0), (200, 500), dtype).value
    assert abs(u.mean() - 0.5) < 0.005
    assert abs(u.var() - 1 / 12) < 0.002
    assert u.min() >= 0 and u.max() < 1


def test_element_i_is_counter_offset_plus_i():
    whole = random.uniform(scalar(9), scalar(100), (50,)).value
    part = random.uniform(scalar(9), scalar(120), (5, 6)).value
    np.testing.assert_array_equal(part.ravel(), whole[20:50])
    other = random.uniform(scalar(10), scalar(100), (50,)).value
    assert (other != whole).all()


BAD = [
    (
        TypeError,
        r"uniform: seed and offset must be i64\[\], got f64\[\]",
        lambda: random.uniform(leaf(np.zeros(())), scalar(0), (2,)),
    ),
    (RuntimeError, "normal: makes floating tensors", lambda: random.normal(scalar(0), scalar(0), (2,), int64)),
    (RuntimeError, "negative size", lambda: create.full((-1,), 0.0)),
    (RuntimeError, "step must be nonzero", lambda: create.arange(0, 3, 0)),
    (RuntimeError, "not reached", lambda: create.arange(3, 0)),
    (ValueError, "arange", lambda: create.arange(0, 3, 1, bool_)),
]


@pytest.mark.parametrize("error, message, call", BAD)
def test_bad_input(error, message, call):
    with pytest.raises(error, match=message):
        call()


def test_creation_dtypes():
    assert create.full((2,), 1).dtype is int64
    assert create.full((2,), True).dtype is bool_
    assert create.zeros_like(leaf(np.ones((2, 3)))).dtype is float64
    assert create.arange(0.0, 1.0, 0.1).shape == (10,)
    assert create.ones((2,), bool_).value.all()
