"""Places in one arena: no two lives share a byte while both last, and search wastes little where greedy orders do."""

import csv
import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tinygrad_lite.ir.schedule.memory import Life, greatest_live, plan, verify_plan
from tinygrad_lite.ir.schedule.offsets import search

INSTANCES = Path(__file__).parents[2].parent / "shared" / "data" / "minimalloc"


def clashes(lives, offsets):
    """Pairs that share a byte at some moment: by trying every moment, unlike the planner."""
    moments = {life.lower for life in lives}
    for moment in moments:
        alive = sorted((o, o + x.size) for x, o in zip(lives, offsets, strict=True) if x.lower <= moment < x.upper)
        yield from ((a, b) for a, b in itertools.pairwise(alive) if a[1] > b[0])


@st.composite
def some_lives(draw, most=40):
    rows = draw(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 12), st.integers(1, 200)), max_size=most))
    return [Life(lower, lower + length, size) for lower, length, size in rows]


@st.composite
def a_full_arena(draw):
    """A rectangle of time and bytes that cuts have divided: its lives fit into exactly its height."""
    parts = [(0, 60, 0, 600)]
    for _ in range(draw(st.integers(3, 25))):
        lower, upper, bottom, top = parts.pop(draw(st.integers(0, len(parts) - 1)))
        across = draw(st.booleans()) if upper - lower > 1 and top - bottom > 1 else upper - lower > 1
        if across:
            cut = draw(st.integers(lower + 1, upper - 1))
            parts += [(lower, cut, bottom, top), (cut, upper, bottom, top)]
        elif top - bottom > 1:
            cut = draw(st.integers(bottom + 1, top - 1))
            parts += [(lower, upper, bottom, cut), (lower, upper, cut, top)]
        else:
            parts.append((lower, upper, bottom, top))
    return [Life(lower, upper, top - bottom) for lower, upper, bottom, top in parts]


@given(some_lives(), st.sampled_from([1, 64]))
@settings(deadline=None, max_examples=50)
def test_plans_keep_lives_apart(lives, alignment):
    found = plan(lives, alignment, steps=200)
    assert not list(clashes(lives, found.offsets))
    assert all(offset % alignment == 0 for offset in found.offsets)
    assert found.live == greatest_live([x._replace(size=-(-x.size // alignment) * alignment) for x in lives])
    assert found.size >= found.live
    verify_plan(lives, found.offsets)
    assert plan(lives, alignment, steps=200) == found


@given(some_lives(), st.integers(100, 130))
@settings(deadline=None, max_examples=50)
def test_what_the_search_finds_fits(lives, percent):
    capacity = greatest_live(lives) * percent // 100
    offsets = search(lives, capacity, 300)
    if offsets is not None:
        assert not list(clashes(lives, offsets))
        assert all(at >= 0 and at + x.size <= capacity for x, at in zip(lives, offsets, strict=True))


@given(a_full_arena())
@settings(deadline=None, max_examples=30)
def test_the_search_fills_an_arena_to_a_fiftieth(lives):
    offsets = search(lives, 612, 20_000)
    assert offsets is not None
    assert not list(clashes(lives, offsets))


def test_the_search_gives_up_where_lives_do_not_fit():
    lives = [Life(0, 2, 6), Life(1, 3, 6)]
    assert search(lives, 11, 1000) is None
    assert sorted(search(lives, 12, 1000)) == [0, 6]
    assert search([], 0, 10) == []
    assert search(lives, 12, 0) is None
    with pytest.raises(ValueError, match="size of at least 1"):
        search([Life(0, 1, 0)], 10, 10)


def test_lives_that_every_greedy_order_stacks_too_high():
    lives = [Life(6, 9, 4), Life(2, 6, 3), Life(3, 7, 3), Life(4, 6, 2)]
    assert plan(lives, 1, steps=0).size == 9
    found = plan(lives, 1)
    assert found.size == found.live == 8


@pytest.mark.slow
@pytest.mark.skipif(not INSTANCES.is_dir(), reason="needs the MiniMalloc instances")
@pytest.mark.parametrize("name", "ACEGIK")
def test_hard_instances(name):
    with open(INSTANCES / f"{name}.1048576.csv", newline="") as file:
        lives = [Life(*(int(row[k]) for k in ("lower", "upper", "size"))) for row in csv.DictReader(file)]
    found = plan(lives, 1, steps=80_000)
    assert found.size <= 1.02 * found.live
    assert not list(clashes(lives, found.offsets))
