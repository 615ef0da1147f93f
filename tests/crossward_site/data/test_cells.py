"""Cells are equal, permanent and chosen by chance alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from crossward.errors import InvalidData, InvalidSetting
from crossward.privacy.noise import SeededRandomness
from crossward_site.vault.cells import CELLS, EMPTY, Slots, assign_new, cut


def sizes(cell_of: np.ndarray, cells: int = CELLS) -> np.ndarray:
    return np.bincount(cell_of, minlength=cells)


@given(slots=st.integers(0, 500), cells=st.integers(1, 30))
def test_cells_are_as_equal_as_they_can_be(slots, cells):
    counts = sizes(cut(slots, SeededRandomness(slots), cells), cells)
    assert counts.size == cells
    assert counts.sum() == slots
    assert counts.max() - counts.min() <= 1


@given(steps=st.lists(st.integers(0, 70), max_size=8), cells=st.integers(1, 25))
def test_growing_keeps_every_old_slot_and_the_balance(steps, cells):
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
    """Beside the slow way: one slot after the other into the smallest cell."""
    slow = np.bincount(np.array(old, dtype=np.intp), minlength=7)
    for _ in range(new):
        slow[slow.argmin()] += 1
    fast = sizes(assign_new(np.array(old, dtype=np.intp), new, SeededRandomness(1), 7), 7)
    assert sorted(fast) == sorted(slow)


def test_every_slot_is_equally_likely_in_every_cell():
    randomness, slots, runs = SeededRandomness(3), 8, 4000
    counts = np.zeros((slots, 4))
    for _ in range(runs):
        counts[np.arange(slots), cut(slots, randomness, 4)] += 1
    for row in counts:
        assert stats.chisquare(row).pvalue > 1e-4


def test_two_slots_share_a_cell_as_often_as_a_random_permutation_makes_them():
    randomness, runs = SeededRandomness(4), 4000
    together = 0
    for _ in range(runs):
        cell_of = cut(8, randomness, 4)
        together += cell_of[0] == cell_of[1]
    assert stats.binomtest(together, runs, 1 / 7).pvalue > 1e-4


def test_the_operating_system_cuts_differently_each_time():
    assert not np.array_equal(cut(1000), cut(1000))


def test_persons_keep_their_slots():
    first = Slots.register(["ann", "bob", "cem", "dot"], SeededRandomness(1), cells=2)
    second = first.next_version(["eve", "dot", "bob"], SeededRandomness(2))
    third = second.next_version(["ann", "eve"], SeededRandomness(3))
    assert first.sizes == (2, 2)
    assert second.slot_of == {"ann": 0, "bob": 1, "cem": 2, "dot": 3, "eve": 4}
    assert third.slot_of == second.slot_of
    assert np.array_equal(third.cell_of[:4], first.cell_of)
    assert sum(third.sizes) == 5


def test_rows_of_cells():
    persons = [f"p{i}" for i in range(10)]
    slots = Slots.register(persons, SeededRandomness(5), cells=3)
    present = ["p7", "p1", "p4"]
    everyone = slots.rows(present, range(3))
    assert everyone.tolist() == [EMPTY, 1, EMPTY, EMPTY, 2, EMPTY, EMPTY, 0, EMPTY, EMPTY]
    parts = [slots.rows(persons, [cell]) for cell in range(3)]
    assert [part.size for part in parts] == list(slots.sizes)
    assert sorted(np.concatenate(parts)) == list(range(10))
    assert slots.rows(persons, []).size == 0


def test_what_is_refused():
    slots = Slots.register(["ann"], SeededRandomness(1))
    with pytest.raises(InvalidData, match="several rows"):
        slots.next_version(["bob", "bob"])
    with pytest.raises(InvalidData, match="no slot"):
        slots.rows(["bob"], [0])
    with pytest.raises(InvalidSetting):
        cut(-1)
    with pytest.raises(InvalidSetting):
        cut(5, cells=0)
    with pytest.raises(InvalidSetting, match="permanent"):
        assign_new(np.array([0, 7]), 1, cells=5)
