"""Seats and cells are permanent and the site's, cells are equal, and who sits in which is chance alone."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from crossward.errors import InvalidData, InvalidSetting
from crossward.privacy.noise import SeededRandomness
from crossward.protocol.constants import CELLS
from crossward_site.data.seats import NOBODY, SeatTable, deal, digest_of, levelled, seat


def tags(*persons: int) -> np.ndarray:
    return np.array(persons, np.uint64)


def by_order(rows: np.ndarray, persons: np.ndarray, rank: np.ndarray) -> np.ndarray:
    """Keeps the first rows of a person."""
    return rank.astype(np.uint64)


def seated(table: SeatTable, persons: np.ndarray, dataset: str = "a", most: int = 1, seed: int = 0, **more: int):
    return seat(table, dataset, persons, by_order, most, SeededRandomness(seed), **more)


# -- dealing ----------------------------------------------------------------------------------------------------------
@given(st.lists(st.integers(0, 70), max_size=8), st.integers(1, 25))
def test_cells_stay_as_equal_as_they_can_be(steps, cells) -> None:
    sizes = np.zeros(cells, np.int64)
    for seed, new in enumerate(steps):
        dealt = deal(sizes, new, SeededRandomness(seed))
        assert len(dealt) == new
        sizes = sizes + np.bincount(dealt, minlength=cells)
        assert np.ptp(sizes) <= 1


@settings(max_examples=60)
@given(st.lists(st.integers(0, 30), min_size=1, max_size=7), st.integers(0, 60))
def test_unequal_cells_are_filled_from_the_bottom(old, new) -> None:
    """Beside the slow way: one seat after the other into the smallest cell."""
    slow = np.array(old)
    for _ in range(new):
        slow[slow.argmin()] += 1
    assert sorted(levelled(np.array(old), sum(old) + new)) == sorted(slow)


def test_every_seat_is_equally_likely_in_every_cell() -> None:
    randomness, seats, runs = SeededRandomness(3), 8, 4000
    counts, together = np.zeros((seats, 4)), 0
    for _ in range(runs):
        cells = deal(np.zeros(4, np.int64), seats, randomness)
        counts[np.arange(seats), cells] += 1
        together += cells[0] == cells[1]
    for row in counts:
        assert stats.chisquare(row).pvalue > 1e-4
    assert stats.binomtest(together, runs, 1 / 7).pvalue > 1e-4


def test_the_operating_system_deals_differently_each_time() -> None:
    assert not np.array_equal(deal(np.zeros(20, np.int64), 1000), deal(np.zeros(20, np.int64), 1000))


def test_what_is_refused() -> None:
    with pytest.raises(InvalidSetting):
        deal(np.zeros(20, np.int64), -1)


# -- seating ----------------------------------------------------------------------------------------------------------
def model(versions: list[tuple[str, list[int]]], most: int):
    """What seating should give, with dictionaries: who has how many rows in which dataset."""
    rows: dict[str, dict[int, int]] = {}
    for dataset, people in versions:
        here = rows.setdefault(dataset, {})
        for person in set(people):
            here[person] = max(here.get(person, 0), min(most, people.count(person)))
    return rows


datasets = st.lists(
    st.tuples(st.sampled_from("ab"), st.lists(st.integers(0, 2**64 - 1) | st.integers(0, 12), max_size=60)), max_size=5
)


@settings(max_examples=150)
@given(datasets, st.integers(1, 3), st.integers(1, 30))
def test_a_person_keeps_one_seat_in_all_datasets_and_versions(versions, most, part) -> None:
    table, cell_of = SeatTable.empty(), {}
    for seed, (dataset, people) in enumerate(versions):
        persons = tags(*people)
        before = table
        done = seated(table, persons, dataset, most, seed, part=part)
        table = done.table
        assert np.all(table.tags[1:] > table.tags[:-1])
        for tag, cell in zip(table.tags.tolist(), table.cells.tolist(), strict=True):
            assert cell_of.setdefault(tag, cell) == cell  # for good
        assert set(cell_of) == set(table.tags.tolist())
        # Every row sits in its person's cell, or nowhere; at most so many of a person.
        kept = done.cells != NOBODY
        assert [cell_of[person] for person in persons[kept].tolist()] == done.cells[kept].tolist()
        assert done.kept == np.count_nonzero(kept)
        for person in set(people):
            assert np.count_nonzero(kept & (persons == person)) == min(most, people.count(person))
        assert np.ptp(table.sizes) <= 1
        assert done.persons == len(set(people))
        assert done.new == len(table) - len(before)
        was = {int(t) for t, r in zip(before.tags, before.rows_of(dataset), strict=True) if r}
        assert (done.came, done.left, done.stayed) == (
            len(set(people) - was), len(was - set(people)), len(was & set(people)),
        )  # fmt: skip
    for dataset, people in model(versions, most).items():
        found = dict(zip(table.tags.tolist(), table.rows_of(dataset).tolist(), strict=True))
        assert {person: rows for person, rows in found.items() if rows} == people
        assert sum(table.counts(dataset)) == sum(people.values())


def test_parts_change_nothing_but_chance() -> None:
    persons = np.random.default_rng(1).integers(0, 2**64, 5000, np.uint64)
    one, many = seated(SeatTable.empty(), persons), seated(SeatTable.empty(), persons, part=100)
    assert np.array_equal(one.table.tags, many.table.tags)
    assert one.table.counts("a") == many.table.counts("a")


def test_of_too_many_records_those_with_the_smallest_keys_are_kept() -> None:
    persons, keys = tags(5, 9, 5, 5, 9), np.array([30, 1, 10, 20, 2], np.uint64)
    done = seat(SeatTable.empty(), "a", persons, lambda rows, *_: keys[rows], 2, SeededRandomness(1))
    assert (done.cells != NOBODY).tolist() == [False, True, True, True, True]


def test_who_left_keeps_the_seat_and_the_rows() -> None:
    first = seated(SeatTable.empty(), tags(1, 2, 3, 4))
    second = seated(first.table, tags(2, 5), seed=1)
    assert sum(second.table.counts("a")) == 5
    assert np.array_equal(second.table.cells[:4], first.table.cells)
    assert (second.came, second.left, second.stayed, second.new) == (1, 3, 1, 1)


def test_rows_before_an_undo() -> None:
    first = seated(SeatTable.empty(), tags(1, 2, 3)).table
    second = seated(first, tags(2, 3, 4, 4), most=2).table
    assert first.rows_for(second.tags, "a").tolist() == [1, 1, 1, 0]
    assert sum(second.with_rows("a", first.rows_for(second.tags, "a")).counts("a")) == 3
    assert second.with_rows("a", None).counts("a") == (0,) * CELLS
    assert SeatTable.empty().rows_for(second.tags, "a").tolist() == [0] * 4


# -- the file ---------------------------------------------------------------------------------------------------------
def test_a_table_is_kept_and_its_digest_says_which(tmp_path) -> None:
    table = seated(seated(SeatTable.empty(), tags(3, 1, 2)).table, tags(2, 7), "b").table
    digest = table.save(tmp_path / "one", b"s" * 32)
    assert digest_of(tmp_path / "one") == digest
    assert (tmp_path / "one").stat().st_mode & 0o777 == 0o600
    read = SeatTable.load(tmp_path / "one", digest)
    assert np.array_equal(read.tags, table.tags)
    assert np.array_equal(read.cells, table.cells)
    assert read.counts("a") == table.counts("a")
    assert read.counts("b") == table.counts("b")
    assert table.save(tmp_path / "two", b"t" * 32) != digest  # the salt: nobody can try who sits where
    assert SeatTable.empty().save(tmp_path / "none", b"s" * 32)
    assert len(SeatTable.load(tmp_path / "none", digest_of(tmp_path / "none"))) == 0


@pytest.mark.parametrize("harm", ["flip", "cut", "gone"])
def test_a_table_that_is_not_the_one_is_refused(tmp_path, harm) -> None:
    path = tmp_path / "seats"
    digest = seated(SeatTable.empty(), tags(*range(100))).table.save(path, b"s" * 32)
    data = bytearray(path.read_bytes())
    if harm == "flip":
        data[-1] ^= 1
    path.write_bytes(data if harm == "flip" else data[:-1])
    if harm == "gone":
        path.unlink()
    with pytest.raises(InvalidData, match="recover"):
        SeatTable.load(path, digest)
