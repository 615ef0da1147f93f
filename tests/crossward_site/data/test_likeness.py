"""Other people under the same ids are noticed, and so is a person who has become another."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from crossward.errors import InvalidData
from crossward_site.data.likeness import Likeness, changed, sampled

ALL = sampled(1)
COLUMNS = ("sex", "smoker", "centre")


def people(seed: int, count: int = 2000) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    return {
        "sex": draw.integers(0, 2, count),
        "smoker": draw.integers(0, 3, count),
        "centre": draw.integers(0, 5, count),
    }


def likeness(rows: dict[str, np.ndarray], below: np.uint64 = ALL, *, texts: bool = False) -> Likeness:
    tags = np.random.default_rng(0).integers(0, 2**64, len(rows["sex"]), np.uint64)
    found = Likeness(COLUMNS, below)
    for half in np.array_split(np.arange(len(tags)), 3):
        columns = {
            name: pa.array([str(v) for v in values[half]] if texts else values[half]) for name, values in rows.items()
        }
        found.add(pa.record_batch(columns), tags[half])
    return found


def test_the_same_people_are_recognised_however_they_are_written() -> None:
    assert changed(likeness(people(1)), likeness(people(1), texts=True), "it") == 0


def test_what_changes_now_and_then_is_believed() -> None:
    later = people(1)
    later["smoker"] = np.where(np.arange(2000) % 10 == 0, 0, later["smoker"])
    assert changed(likeness(people(1)), likeness(later), "it") == 0


def test_other_people_under_the_same_ids_are_refused() -> None:
    with pytest.raises(InvalidData, match="other people"):
        changed(likeness(people(1)), likeness(people(2)), "it")


def test_a_few_who_have_become_others_are_counted() -> None:
    later = people(1)
    for name, values in later.items():
        values[:7] = (values[:7] + 1) % {"sex": 2, "smoker": 3, "centre": 5}[name]
    assert changed(likeness(people(1)), likeness(later), "it") == 7


def test_of_many_a_sample_is_compared() -> None:
    half = np.uint64(2**63)
    later = people(1)
    for values in later.values():
        values[:80] = values[:80] ^ 1
    counted = changed(likeness(people(1), half), likeness(later, half), "it", 0.5)
    assert 50 <= counted <= 110
    assert sampled(10**9) < np.uint64(2**64 // 1000)


def test_too_few_tell_nothing() -> None:
    few = {name: values[:10] for name, values in people(1).items()}
    others = {name: values[:10] for name, values in people(2).items()}
    assert changed(likeness(few), likeness(others), "it") == 0
    assert changed(Likeness((), ALL), Likeness((), ALL), "it") == 0
