"""A state in which a program replaces some rows is written where it lies: a cache costs what is new in it."""

from __future__ import annotations

import numpy as np
import pytest

import tinygrad_lite as tl

PLACE = 3


def cache():
    return tl.arange(24, dtype=tl.float32).reshape(6, 4).clone()


def labels(compiled) -> list[str]:
    return [call.label for call in compiled._latest().program.calls]


def compare(make, *args):
    """Run eagerly and compiled, twice; returns the compiled function."""
    (eager, a), (other, b) = make(), make()
    compiled = tl.compile(other)
    for _ in range(2):
        x, y = eager(*args), compiled(*args)
        if x is not None:
            np.testing.assert_array_equal(x.numpy(), y.numpy())
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    return compiled


def test_only_the_new_row_is_written():
    def make():
        kept = cache()

        def step(row, place):
            kept.index_copy_(0, place, row)
            return kept.sum(dim=0)

        return step, kept

    compiled = compare(make, tl.ones(1, 4), tl.tensor([PLACE]))
    assert sorted(labels(compiled)) == ["check_index", "put", "sum"]


def test_several_writes_in_turn():
    def make():
        kept = cache()

        def step(row, place):
            kept.index_copy_(0, place, row)
            kept.index_add_(0, place - 1, row)

        return step, kept

    assert not {"copy_out", "contiguous"} & set(labels(compare(make, tl.ones(1, 4), tl.tensor([PLACE]))))


def read_before():
    kept = cache()

    def step(row, place):
        total = kept.sum(dim=0)
        kept.index_copy_(0, place, row)
        return total + kept.sum(dim=0)

    return step, kept


def made_of_itself():
    kept = cache()

    def step(row, place):
        kept.index_copy_(0, place, kept[:1] + row)

    return step, kept


def returned():
    kept = cache()

    def step(row, place):
        kept.index_copy_(0, place, row)
        return kept

    return step, kept


def returned_as_it_was():
    kept = cache()

    def step(row, place):
        old = kept.clone()
        kept.index_copy_(0, place, row)
        return old

    return step, kept


@pytest.mark.parametrize("make", [read_before, made_of_itself, returned, returned_as_it_was])
def test_what_is_read_otherwise(make):
    compare(make, tl.ones(1, 4), tl.tensor([PLACE]))


def test_two_states_of_one_value():
    def make():
        kept, other = cache(), cache()

        def step(row, place):
            kept.index_copy_(0, place, row)
            other.copy_(kept)

        return step, other

    compare(make, tl.ones(1, 4), tl.tensor([PLACE]))


def test_a_later_failure_leaves_the_state():
    kept, table = cache(), tl.arange(5)

    @tl.compile
    def step(row, place, at):
        kept.index_copy_(0, place, row)
        return table.index_select(0, kept.sum(dim=0).long()[:1] * 0 + at)

    before = kept.numpy().copy()
    with pytest.raises(IndexError):
        step(tl.ones(1, 4), tl.tensor([PLACE]), tl.tensor([9]))
    np.testing.assert_array_equal(kept.numpy(), before)
    with pytest.raises(IndexError):
        step(tl.ones(1, 4), tl.tensor([6]), tl.tensor([0]))
    np.testing.assert_array_equal(kept.numpy(), before)
    assert step(tl.ones(1, 4), tl.tensor([PLACE]), tl.tensor([2])).item() == 2
    assert kept[PLACE].sum().item() == 4
