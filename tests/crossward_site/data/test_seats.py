"""Seats and cells are permanent, cells are equal, and who sits in which is chance alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

from crossward.errors import (
    InvalidSetting,
)
from crossward.privacy.noise import SeededRandomness
from crossward.protocol.constants import CELLS
from crossward_site.data.seats import EMPTY, Seats, assign_new, cut


def sizes(cell_of: np.ndarray, cells: int = CELLS) -> np.ndarray:
    return np.bincount(cell_of, minlength=cells)


@given(seats=st.integers(0, 500), cells=st.integers(1, 30))
def test_cells_are_as_equal_as_they_can_be(seats, cells):
    counts = sizes(cut(seats, SeededRandomness(seats), cells), cells)
    assert counts.size == cells
    assert counts.sum() == seats
    assert counts.max() - counts.min() <= 1


@given(steps=st.lists(st.integers(0, 70), max_size=8), cells=st.integers(1, 25))
def test_growing_keeps_every_old_seat_and_the_balance(steps, cells):
    cell_of = cut(0, SeededRandomness(0), cells)
    for seed, new in enumerate(steps):
        grown = assign_new(cell_of, new, SeededRandomness(seed), cells)
        assert np.array_equal(grown[: cell_of.size], cell_of)
        assert grown.size == cell_of.size + new
        assert np.ptp(sizes(grown, cells)) <= 1
        cell_of = grown


@settings(max_examples=60)
@given(old=st.lists(st.integers(0, 6), max_size=60), new=st.integers(0, 60))
def test_unequal_cells_are_filled_from_the_bottom(old, new):
    """Beside the slow way: one seat after the other into the smallest cell."""
    slow = np.bincount(np.array(old, dtype=np.intp), minlength=7)
    for _ in range(new):
        slow[slow.argmin()] += 1
    fast = sizes(assign_new(np.array(old, dtype=np.intp), new, SeededRandomness(1), 7), 7)
    assert sorted(fast) == sorted(slow)


def test_every_seat_is_equally_likely_in_every_cell():
    randomness, seats, runs = SeededRandomness(3), 8, 4000
    counts = np.zeros((seats, 4))
    for _ in range(runs):
        counts[np.arange(seats), cut(seats, randomness, 4)] += 1
    for row in counts:
        assert stats.chisquare(row).pvalue > 1e-4


def test_two_seats_share_a_cell_as_often_as_a_random_permutation_makes_them():
    randomness, runs = SeededRandomness(4), 4000
    together = 0
    for _ in range(runs):
        cell_of = cut(8, randomness, 4)
        together += cell_of[0] == cell_of[1]
    assert stats.binomtest(together, runs, 1 / 7).pvalue > 1e-4


def test_the_operating_system_cuts_differently_each_time():
    assert not np.array_equal(cut(1000), cut(1000))


def records(*persons: str) -> dict[str, list[int]]:
    """One record of each person, in this order."""
    return {person: [number] for number, person in enumerate(persons)}


def test_persons_keep_their_seats():
    first = Seats.empty(cells=2).next_version(records("ann", "bob", "cem", "dot"), SeededRandomness(1))
    second = first.next_version(records("eve", "dot", "bob"), SeededRandomness(2))
    third = second.next_version(records("ann", "eve"), SeededRandomness(3))
    assert sizes(first.cell_of, 2).tolist() == [2, 2]
    assert second.seat_of == {"ann": 0, "bob": 1, "cem": 2, "dot": 3, "eve": 4}
    assert third.seat_of == second.seat_of
    assert np.array_equal(third.cell_of[:4], first.cell_of)
    assert third.rows_of.tolist() == [1] * 5


def test_rows_of_cells():
    persons = [f"p{i}" for i in range(10)]
    seats = Seats.empty(cells=3).next_version(records(*persons), SeededRandomness(5))
    filled, _ = seats.fill(records("p7", "p1", "p4"))
    assert filled.tolist() == [EMPTY, 1, EMPTY, EMPTY, 2, EMPTY, EMPTY, 0, EMPTY, EMPTY]
    filled, cells = seats.fill(records(*persons))
    parts = [filled[cells == cell] for cell in range(3)]
    assert [part.size for part in parts] == sizes(seats.cell_of, 3).tolist()
    assert sorted(np.concatenate(parts)) == list(range(10))


def test_who_has_no_seat_is_left_out():
    seats = Seats.empty().next_version(records("ann"), SeededRandomness(1))
    assert seats.fill(records("bob"))[0].tolist() == [EMPTY]


def test_what_is_refused():
    with pytest.raises(InvalidSetting):
        cut(-1)
    with pytest.raises(InvalidSetting):
        cut(5, cells=0)
    with pytest.raises(InvalidSetting, match="permanent"):
        assign_new(np.array([0, 7]), 1, cells=5)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.dictionaries(st.integers(0, 60), st.integers(1, 3), min_size=1), min_size=1, max_size=4))
def test_seats_only_ever_grow(versions) -> None:
    seats = Seats.empty()
    for people in versions:
        rows_of, start = {}, 0
        for person, count in people.items():
            rows_of[str(person)] = list(range(start, start + count))
            start += count
        after = seats.next_version(rows_of)
        old = len(seats.rows_of)
        assert after.cell_of[:old].tolist() == seats.cell_of.tolist()
        assert (after.rows_of[:old] >= seats.rows_of).all()
        filled, cells = after.fill(rows_of)
        assert sorted(filled[filled != EMPTY].tolist()) == list(range(start))
        assert len(filled) == len(cells) == after.rows_of.sum()
        for rows in rows_of.values():  # all of a person's records lie in one cell
            assert len({int(cells[k]) for k in np.flatnonzero(np.isin(filled, rows))}) == 1
        seats = after
    counts = np.bincount(seats.cell_of, minlength=CELLS)
    assert counts.max() - counts.min() <= 1
