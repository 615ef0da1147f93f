"""Persons' tags: one for each id however it is spelled, another under another secret, the same in any batches."""

from __future__ import annotations

import hashlib

import numpy as np
import pyarrow as pa
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from hypothesis import given, settings
from hypothesis import strategies as st

from crossward_site.data.tags import LONGEST, Tagger, Tags, _key, id_texts, lost_digits

SECRET = bytes(range(32))
TAGGER = Tagger(SECRET)

ids = st.lists(st.one_of(st.none(), st.text(max_size=40), st.text("0123456789", min_size=1, max_size=20)), min_size=1)


def tags(column: pa.Array) -> Tags:
    return TAGGER.persons(id_texts(column))


def slow(text: str) -> int:
    """The same, one id at a time and with the cipher's own chaining."""
    data = text.encode() if len(text.encode()) <= LONGEST else hashlib.sha256(text.encode()).hexdigest().encode()
    padded = len(data).to_bytes(16, "little") + data + b"\0" * (-len(data) % 16)
    cipher = Cipher(algorithms.AES(_key(SECRET, b"person")), modes.CBC(bytes(16))).encryptor()
    return int.from_bytes((cipher.update(padded) + cipher.finalize())[-16:-8], "little")


@settings(max_examples=200)
@given(ids)
def test_a_column_is_tagged_as_each_id_by_itself(texts) -> None:
    column = pa.array(texts, pa.string())
    found = tags(column)
    expected = [slow(text or "") for text in id_texts(column).to_pylist()]
    assert found.tolist() == expected


@given(ids, st.integers(0, 40))
def test_batches_do_not_matter(texts, cut) -> None:
    column = pa.array(texts, pa.string())
    parts = [tags(column[:cut]), tags(column[cut:])]
    assert np.array_equal(np.concatenate(parts), tags(column))


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["7", "8"]),
        pa.array([" 7", "8\t"]),
        pa.array(["7.0", "8.00"]),
        pa.array(["+7", "8."]),
        pa.array(["\uff17", "\u200b8"]),
        pa.array(["\ufeff7", "8\u00a0"]),
        pa.array([7, 8], pa.int32()),
        pa.array([7.0, 8.0]),
        pa.array(["7", "8"]).dictionary_encode(),
        pa.array(["7", "8"], pa.large_string()),
        pa.chunked_array([["7"], ["8"]]),
    ],
    ids=str,
)
def test_one_person_is_one_tag_however_a_table_writes_the_id(column) -> None:
    assert tags(column).tolist() == [TAGGER.person("7"), TAGGER.person("8")]


def test_other_spellings_are_other_persons() -> None:
    others = [TAGGER.person(text) for text in ("7", "07", "7a", "A", "a", "7.5", "x" * 96, "x" * 97, "x" * 200)]
    assert len(set(others)) == len(others)
    assert tags(pa.array([7.5])).tolist() == [TAGGER.person("7.5")]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("M\u00fcller-7", "Mu\u0308ller-7"),
        ("\uff21\uff11", "A1"),
        ("0b9f3c1e-7d2a-4e6b-9c55-aa10bb20cc30", " 0B9F3C1E-7D2A-4E6B-9C55-AA10BB20CC30"),
        ("0b9f3c1e-7d2a-4e6b-9c55-aa10bb20cc30", "{0B9F3C1E-7D2A-4E6B-9C55-AA10BB20CC30} "),
        ("0", "-0"),
        ("A-12", "A\u201112"),
        ("A-12", "A\u221212"),
        ("P7", "P\u034f7\ufe0f"),
        ("P7", "P\x007\x7f\x08"),
    ],
)
def test_spellings_that_look_alike_are_one_person(one, other) -> None:
    assert TAGGER.person(one) == TAGGER.person(other)
    assert tags(pa.array([one, "x", other]))[[0, 2]].tolist() == [TAGGER.person(one)] * 2


def test_large_floating_point_numbers_are_no_ids() -> None:
    column = pa.array([2.0**53 - 1, 2.0**53, None, -1e300, float("nan")])
    assert lost_digits(column).tolist() == [False, True, False, True, False]
    assert not lost_digits(pa.array([2**60, 7])).any()
    assert not lost_digits(pa.array(["9007199254740993"])).any()


def test_another_secret_gives_other_tags() -> None:
    assert Tagger(b"\1" * 32).person("7") != TAGGER.person("7")


def test_what_is_no_id() -> None:
    assert id_texts(pa.array(["", "  ", None, "a"])).to_pylist() == [None, None, None, "a"]
    assert id_texts(pa.array([float("nan"), None, 3.0])).to_pylist() == [None, None, "3"]


def test_records_are_ordered_by_person_and_id() -> None:
    persons = tags(pa.array(["a", "a", "b"]))
    keys = TAGGER.records(persons, id_texts(pa.array(["1", "2", "1"])))
    assert len(set(keys.tolist())) == 3
    assert np.array_equal(keys[2:], TAGGER.records(persons[2:], id_texts(pa.array([1]))))
    assert len(set(TAGGER.ordinals(persons, np.array([0, 1, 0])).tolist())) == 3
