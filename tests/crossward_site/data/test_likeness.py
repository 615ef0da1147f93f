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
    found = Likeness(tuple(rows), below)
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


def ward(seed: int = 1, count: int = 1000) -> dict[str, np.ndarray]:
    """People of ten columns, most of them of one common value and a few rarer ones."""
    draw = np.random.default_rng(seed)
    common = (0.5, 0.9, 0.8, 0.95, 0.6, 0.7, 0.85, 0.5, 0.75, 0.9)
    return {
        "sex": draw.integers(0, 2, count),
        **{f"c{k}": np.where(draw.random(count) < p, 0, draw.integers(1, 4, count)) for k, p in enumerate(common[1:])},
    }


def exchanged(rows: dict[str, np.ndarray], count: int) -> dict[str, np.ndarray]:
    """The first persons have one another's records."""
    return {name: np.concatenate([np.roll(values[:count], 1), values[count:]]) for name, values in rows.items()}


@pytest.mark.parametrize("count", [20, 60, 110, 130, 200, 500, 700])
def test_however_many_are_exchanged_they_are_told(count) -> None:
    assert abs(changed(likeness(ward()), likeness(exchanged(ward(), count)), "it") - count) <= 3 + count // 20


@pytest.mark.parametrize("helpers", [1, 2])
def test_columns_that_follow_from_the_id_do_not_hide_other_people(helpers) -> None:
    helper = {f"helper{k}": np.arange(1000) % (2 + k) for k in range(helpers)}
    with pytest.raises(InvalidData, match="other people"):
        changed(likeness(ward(1) | helper), likeness(ward(2) | helper), "it")
    half = changed(likeness(ward(1) | helper), likeness(exchanged(ward(1), 500) | helper), "it")
    assert 460 <= half <= 510


def test_words_that_have_been_turned_around_are_told() -> None:
    later = ward() | {"c5": (ward()["c5"] == 0).astype(int)}
    before = ward() | {"c5": (ward()["c5"] != 0).astype(int)}
    assert changed(likeness(before), likeness(later), "it") == 1000
    counted = {"wave": np.arange(1000) % 3 + 1}
    assert changed(likeness(ward() | counted), likeness(ward() | {"wave": counted["wave"] + 1}), "it") == 0


def ordinary(kind: str) -> dict[str, np.ndarray]:
    draw, later = np.random.default_rng(5), ward()
    fresh, some = ward(7), draw.random(1000) < 0.4
    if kind == "two columns are new at each visit":
        later |= {name: fresh[name] for name in ("c1", "c2")}
    elif kind == "every column changes a little":
        later = {name: np.where(draw.random(1000) < 0.03, fresh[name], values) for name, values in later.items()}
    elif kind == "every column changes much":
        later = {name: np.where(draw.random(1000) < 0.1, fresh[name], values) for name, values in later.items()}
    elif kind == "many are asked again, and answer otherwise in most columns":
        later |= {f"c{k}": np.where(some, fresh[f"c{k}"], later[f"c{k}"]) for k in range(1, 7)}
    elif kind == "a column is written in other words":
        later["c4"] = later["c4"] + 10
    return later


@pytest.mark.parametrize(
    "kind",
    [
        "two columns are new at each visit",
        "every column changes a little",
        "every column changes much",
        "many are asked again, and answer otherwise in most columns",
        "a column is written in other words",
    ],
)
def test_ordinary_change_is_believed(kind) -> None:
    assert changed(likeness(ward()), likeness(ordinary(kind)), "it") <= 1


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
