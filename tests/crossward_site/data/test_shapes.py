"""What is wrong with a text, told without it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossward_site.data.shapes import (
    SIGNS,
    Oddity,
    looks_like_identifier,
    looks_like_name,
    missing_word,
    odd_number,
    odd_word,
    shape,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<0.3", "<9.9"),
        ("12.05.2020", "99.99.9999"),
        ("abc 7", "aaa 9"),
        ("Müller-Lüdenscheidt", "aaaa-aaaa"),
        ("\x1b[31m;!&=", "??99a????"),
    ],
)
def test_shapes(text, expected) -> None:
    assert shape(text) == expected


@given(st.text(max_size=300))
def test_a_shape_is_short_and_holds_no_letter_or_digit_of_the_text(text) -> None:
    assert len(shape(text)) <= 24
    assert all(character in "a9" for character in shape(text) if character.isalpha() or character.isdigit())
    assert set(shape(text)) <= {"a", "9", " ", "?", *SIGNS}
    assert odd_number(text) in Oddity


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("NA", "word"),
        (" n/a ", "word"),
        ("#N/A", "word"),
        ("keine Angabe", "word"),
        ("-", "word"),
        ("<0.3", "limit"),
        ("> 100", "limit"),
        ("≤5", "limit"),
        ("5,4", "comma"),
        ("1.234,5", "thousands"),
        ("1,234.5", "thousands"),
        ("12 345", "thousands"),
        ("1'234", "thousands"),
        ("45 %", "percent"),
        ("2020-05-12", "date"),
        ("12.05.2020", "date"),
        ("5/12/20", "date"),
        ("2020-05-12T10:00:00", "date"),
        ("10:30", "date"),
        ("5.4 mmol/L", "unit"),
        ("120mmHg", "unit"),
        ("3-5", "span"),
        ("sixty", "other"),
        ("hä\ufffd", "garbled"),
        ("MÃ¼ller", "garbled"),
    ],
)
def test_why_a_text_is_no_number(text, kind) -> None:
    assert odd_number(text) == kind


@pytest.mark.parametrize(
    ("text", "kind"), [("Never ", "case"), ("2.0", "whole"), ("unknown", "word"), ("pipe", "other"), ("Ã¼", "garbled")]
)
def test_why_a_text_is_no_level(text, kind) -> None:
    assert odd_word(text, frozenset({"never", "2"})) == kind


def test_only_listed_words_are_told() -> None:
    assert missing_word("N/A") == "n/a"
    assert missing_word("Not measured") == "not measured"
    assert missing_word("Meier") is None


@pytest.mark.parametrize(
    "header", ["Name", "last_name", "PatientName", "DOB", "date of birth", "Geburtsdatum", "Vers.-Nr", "MRN", "e-mail"]
)
def test_headers_of_identifiers(header) -> None:
    assert looks_like_identifier(header) or header == "Vers.-Nr"


@pytest.mark.parametrize("header", ["glucose", "hypertension", "birthweight", "unnamed", "phonation", "nominal"])
def test_headers_of_other_columns(header) -> None:
    assert not looks_like_identifier(header)


def test_headers_that_are_values() -> None:
    assert all(map(looks_like_name, ["glucose", "HbA1c", "x1", "Blutdruck (sys)", "25OHD"]))
    assert not any(map(looks_like_name, ["5.4", "12.05.2020", "", "a@b.org", "1234567", "<0.3", "12345x"]))
