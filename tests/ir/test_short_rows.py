"""Rows that run on to whole vectors: never beyond their storage, and what is written is right in the end."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tinygrad_lite as tl
from tinygrad_lite.ir.kernels.short import Walk, last_rows, wide
from tinygrad_lite.nn import functional as F
from tinygrad_lite.runtime.workers import pool

SIZES = st.lists(st.integers(1, 6), min_size=1, max_size=3)


def dense(sizes: list[int], length: int) -> Walk:
    strides = [length * int(np.prod(sizes[i + 1 :])) for i in range(len(sizes))]
    return Walk(tuple(strides), (), 1)


def starts(sizes: list[int], walk: Walk) -> list[int]:
    """Where each row begins."""
    return [int(np.dot(at, walk.rows)) for at in itertools.product(*map(range, sizes))]


@given(SIZES, st.integers(1, 40), st.lists(st.integers(-3, 60), min_size=3, max_size=3), st.integers(-2, 4))
def test_nothing_beyond_the_storage_is_read(sizes, length, strides, inner):
    walk = Walk(tuple(strides[: len(sizes)]), (), inner)
    last = last_rows(sizes, length, [walk], [dense(sizes, length)])
    if last is None:
        return
    rows = starts(sizes, walk)
    read = [r + inner * j for r in rows for j in (0, length - 1)]
    for number, row in enumerate(rows):
        reach = length if number >= len(rows) - last else wide(length)
        for j in (0, reach - 1):
            assert min(read) <= row + inner * j <= max(read)


@given(SIZES, st.integers(1, 40))
def test_each_row_is_right_in_the_end(sizes, length):
    last = last_rows(sizes, length, [], [dense(sizes, length)])
    rows = starts(sizes, dense(sizes, length))
    if last is None:
        assert length < 4 or length > 31 or length % 16 == 0 or len(rows) * length < wide(length)
        return
    memory = np.full(len(rows) * length, -1)
    for number, row in enumerate(rows):
        reach = length if number >= len(rows) - last else wide(length)
        memory[row : row + reach] = [number] * length + [-2] * (reach - length)
    np.testing.assert_array_equal(memory, np.repeat(np.arange(len(rows)), length))


@pytest.mark.parametrize(
    ("writes", "why"),
    [
        (Walk((28,), (), 2), "what lies between is another's"),
        (Walk((40,), (), 1), "behind a row lies something else"),
        (Walk((14, 28), (), 1), "the next row lies elsewhere"),
        (Walk((28,), (14,), 1), "behind a row lies the same turn's next element"),
    ],
)
def test_rows_that_end_where_they_should(writes, why):
    assert last_rows([6] * len(writes.rows), 14, [], [writes]) is None, why


@pytest.mark.parametrize("width", [5, 7, 14, 18, 31, 33])
@pytest.mark.parametrize("shares", [[0.5, 0.5], [0.2, 0.8], [0.97, 0.03]], ids=str)
def test_pooling_to_short_rows(monkeypatch, width, shares):
    monkeypatch.setattr("tinygrad_lite.program.usual_workers", lambda calls: 2)
    monkeypatch.setattr("tinygrad_lite.program.SMALL_CALL", 0)
    images = tl.randn(3, 4, 10, 2 * width)
    program = tl.compile(lambda x: F.max_pool2d(x, 2, return_indices=True))
    for batch in (3, 1):
        x = images[:batch]
        pool().divide(shares)
        for got, wanted in zip(program(x), F.max_pool2d(x, 2, return_indices=True), strict=True):
            np.testing.assert_array_equal(got.numpy(), wanted.numpy())
