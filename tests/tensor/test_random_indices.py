"""Random indices, read and assigned to, as in PyTorch. Needs torch."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pytest

import tinygrad_lite as tl
from tinygrad_lite.errors import OutOfRangeError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
SHAPES = [(3, 4), (2, 3, 4), (5,), (2, 1, 3), (4, 2, 2), ()]


def item(rng, n):
    """A part of an index for a dim of size n: what tells the library apart is left to `built`."""
    array = np.random.default_rng(rng.randrange(10**6))
    kinds = {
        "number": lambda: rng.randint(-n - 1, n),
        "slice": lambda: slice(
            *(rng.choice([None, rng.randint(-n - 1, n + 1)]) for _ in "ab"), rng.choice([None, 1, 2, 3])
        ),
        "none": lambda: None,
        "ellipsis": lambda: Ellipsis,
        "tensor": lambda: array.integers(-n, n, rng.choice([(), (2,), (3,), (1,), (2, 1), (2, 2), (0,)])),
        "list": lambda: [rng.randint(-n, n - 1) for _ in range(2)],
        "mask": lambda: array.integers(0, 2, n).astype(bool),
        "bytes": lambda: array.integers(0, 2, n).astype(np.uint8),
        "bool": lambda: rng.choice([True, False]),
    }
    return kinds[rng.choice([*kinds, "slice", "slice", "tensor"])]()


def built(lib, parts):
    index = tuple(lib.tensor(p) if isinstance(p, np.ndarray) else p for p in parts)
    return index[0] if len(index) == 1 else index


def outcome(f, *args):
    try:
        return f(*args)
    except (IndexError, RuntimeError, TypeError, ValueError) as error:
        return error


def agree(theirs, ours):
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        assert isinstance(ours, type(theirs)), (theirs, ours)
        return
    assert theirs.shape == ours.shape
    np.testing.assert_array_equal(ours, theirs)


def read(lib, array, parts):
    return lib.tensor(array)[built(lib, parts)].numpy()


def written(lib, array, parts, value):
    x = lib.tensor(array)
    x[built(lib, parts)] = lib.tensor(value) if isinstance(value, np.ndarray) else value
    return x.numpy()


def both(f, *args):
    """What f gives or raises in PyTorch and here; PyTorch's warnings of bytes as masks are dropped."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [outcome(f, lib, *args) for lib in (torch, tl)]


@pytest.mark.parametrize("seed", range(8))
def test_random_indices(seed):
    rng = random.Random(seed)
    for _ in range(60):
        shape = rng.choice(SHAPES)
        count = rng.randint(1, len(shape) + 1)
        parts = [item(rng, shape[min(a, len(shape) - 1)] if shape else 1) for a in range(count)]
        if sum(p is Ellipsis for p in parts) > 1:
            continue  # PyTorch takes the second for a slice, NumPy refuses it
        array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
        value = rng.choice([7.0, np.arange(shape[-1] if shape else 1, dtype=np.float32), np.full(1, 5.0, np.float32)])
        got, left = both(read, array, parts), both(written, array, parts, value)
        # an index out of range is one to us also where the result is empty
        if not isinstance(got[1], OutOfRangeError) or isinstance(got[0], Exception):
            agree(*got)
            if "masked_fill_ only" not in str(left[0]):  # PyTorch reads by bytes, but does not fill by them
                agree(*left)
