"""Outputs in the gaps of a finished plan."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tinygrad_lite.ir.schedule.memory import Life, plan, take_in, verify_plan

lives = st.lists(
    st.builds(
        lambda low, span, size: Life(low, low + span, size), st.integers(0, 9), st.integers(1, 9), st.integers(1, 999)
    ),
    max_size=12,
)


@given(lives, lives)
def test_guests_fit_or_stay_outside(hosts, guests):
    known = plan(hosts)
    found = take_in(hosts, known, guests)
    inside = [(life, at) for life, at in zip(guests, found, strict=True) if at is not None]
    offsets = [*known.offsets, *(at for _, at in inside)]
    verify_plan([*hosts, *(life for life, _ in inside)], offsets)
    assert all(at + life.size <= known.size and at % 64 == 0 for life, at in inside)


def test_a_gap_in_time_takes_a_guest():
    hosts = [Life(0, 5, 640), Life(3, 9, 640)]
    known = plan(hosts)
    assert take_in(hosts, known, [Life(5, 9, 640), Life(0, 3, 100), Life(2, 6, 64)]) == [
        known.offsets[0],
        known.offsets[1],
        None,
    ]
