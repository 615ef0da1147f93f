"""Which ids and rows come twice, against counting them one by one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossward_site.data import counting, tags
from crossward_site.data.counting import MOST_LINES, Ids, copies, mix
from crossward_site.data.tags import Growing


@pytest.fixture(autouse=True, scope="module")
def small_blocks():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "BLOCK", 4)
        patch.setattr(tags, "PIECE", 7)
        yield


def rows_beyond(keys, most: int) -> list[int]:
    seen, beyond = Counter(), []
    for row, key in enumerate(keys):
        seen[key] += key is not None
        if seen[key] > most:
            beyond.append(row)
    return beyond


@given(st.lists(st.one_of(st.none(), st.integers(0, 12)), max_size=60), st.integers(1, 3), st.integers(1, 9))
def test_ids_that_come_too_often(ids, most, size) -> None:
    column = Ids()
    for start in range(0, len(ids), size):
        column.add(pa.array(ids[start : start + size], pa.int64()), start)
    distinct, many, beyond = column.count(most)
    counts, rows = Counter(i for i in ids if i is not None), rows_beyond(ids, most)
    assert distinct == len(counts)
    assert many == sum(count > most for count in counts.values())
    assert (beyond.count, beyond.rows) == (len(rows), rows[:MOST_LINES])
    assert column.count(most)[:2] == (distinct, many)  # as often as it is asked


@pytest.mark.parametrize("none", [[1.0, float("nan"), None, float("nan")], ["a", "\u200b", " ", None]])
def test_what_opening_refuses_as_no_id_is_counted_as_none(none) -> None:
    column = Ids()
    column.add(pa.array(none), 0)
    assert (column.blank.count, column.blank.rows) == (3, [1, 2, 3])
    assert column.count(1)[:2] == (1, 0)


@given(st.lists(st.integers(0, 30), max_size=60), st.integers(1, 9))
def test_rows_that_come_again(keys, size) -> None:
    whole = Growing()
    for start in range(0, len(keys), size):
        whole.extend(np.array(keys[start : start + size], np.uint64))
    assert whole.joined().tolist() == whole.joined().tolist() == keys
    same, rows = copies(whole.joined()), rows_beyond(keys, 1)
    assert (same.count, same.rows) == (len(rows), rows[:MOST_LINES])


def test_columns_do_not_take_each_others_part() -> None:
    """Rows of small whole numbers, whose bits as floats are nearly all zero, are told apart."""
    values = np.array(np.meshgrid(*[np.arange(16.0)] * 4)).reshape(4, -1)
    keys = np.zeros(values.shape[1], np.uint64)
    for place, column in enumerate(values):
        mix(keys, column.view(np.uint64), place)
    assert len(np.unique(keys)) == values.shape[1]
