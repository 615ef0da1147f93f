"""A line is one value, one byte string, one hash; anything else is no line."""

from __future__ import annotations

import hashlib
import json
from dataclasses import FrozenInstanceError, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crossward.errors import Malformed
from crossward.protocol.canonical import canonical
from crossward.protocol.constants import FilterKind
from crossward.protocol.ledger.lines import (
    GENESIS,
    START,
    Head,
    Line,
    LineKind,
    OpenBody,
    ReleaseBody,
    ReserveBody,
    values_of,
)

ZEROS, ONES = "0" * 64, "1" * 64
OPEN = OpenBody("data", 20, "zcdp", 10**9, 10**12)
RESERVE = ReserveBody("task", "study", ONES, "data", (0, 3, 19), 500_000_000, 7, ZEROS)
RELEASE = ReleaseBody("task", ONES)
LINE = Line(2, ONES, 1_700_000_000_000, RESERVE)

names = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)
digests = st.text("0123456789abcdef", min_size=64, max_size=64)
amounts = st.integers(1, 10**18)
bodies = st.one_of(
    st.builds(OpenBody, names, st.integers(1, 1000), st.just("basic"), amounts, amounts),
    st.builds(OpenBody, names, st.integers(1, 1000), st.just("zcdp"), amounts, st.integers(1, 10**18 - 1)),
    st.builds(
        ReserveBody,
        names,
        names,
        digests,
        names,
        st.sets(st.integers(0, 999), min_size=1, max_size=30).map(lambda cells: tuple(sorted(cells))),
        amounts,
        amounts,
        digests,
    ),
    st.builds(ReleaseBody, names, digests),
)
lines = st.builds(Line, st.integers(1, 2**53), digests, st.integers(0, 10**14), bodies)


def test_the_bytes_and_the_hash_are_those_of_the_contract():
    """Written out by hand: a change of these bytes would break every ledger there is."""
    first = Line.after(START, ReleaseBody("t", ONES), 5)
    body = '{"digest":"' + ONES + '","task":"t"}'
    text = f'{{"body":{body},"kind":"release","previous":"{"0" * 64}","sequence":1,"time":5}}'
    assert GENESIS == "0" * 64
    assert first.canonical() == text.encode()
    assert first.hash == hashlib.sha256(text.encode()).hexdigest()
    assert first.head == Head(1, first.hash)
    assert Line.after(first.head, RELEASE, 6).previous == first.hash


@given(lines)
def test_json_there_and_back(line):
    assert Line.from_json(line.to_json()) == line
    assert Line.from_dict(json.loads(json.dumps(line.to_dict()))).hash == line.hash
    assert b"\n" not in line.to_json()


@given(lines)
def test_the_bytes_are_ascii_and_those_of_the_one_canonical_form(line):
    """Names are printable ASCII, so it does not matter to a line whether a writer of JSON escapes other letters."""
    plain = {"sequence": line.sequence, "previous": line.previous, "time": line.time}
    plain |= {"kind": str(line.kind), "body": values_of(line.body)}
    assert line.canonical() == canonical(plain)
    for escaped in (True, False):
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=escaped)
        assert line.canonical() == text.encode("ascii")


@given(lines)
def test_plain_values_are_plain(line):
    """Kinds and filters are enumerations in the code and bare texts in every message."""
    for value in (line.to_dict()["kind"], *line.to_dict()["body"].values()):
        assert type(value) in (str, int, list)
    assert type(Line.from_dict(line.to_dict()).kind) is LineKind


def test_a_filter_is_one_of_the_enumeration_however_it_was_written():
    for kind in FilterKind:
        assert OpenBody("data", 20, str(kind), 1, 1).filter is kind


@given(lines, lines)
def test_different_lines_hash_differently(one, other):
    assert (one.hash == other.hash) == (one == other)


def test_a_line_does_not_change():
    with pytest.raises(FrozenInstanceError):
        LINE.time = 1
    with pytest.raises(FrozenInstanceError):
        LINE.body.nano_epsilon = 1


def test_every_flipped_bit_is_refused():
    text = LINE.to_json()
    for position in range(len(text)):
        for bit in range(8):
            changed = bytearray(text)
            changed[position] ^= 1 << bit
            with pytest.raises(Malformed):
                Line.from_json(bytes(changed))


BAD_NUMBERS = [-1, 0.5, 1.0, True, None, "1", float("nan"), float("inf"), 10**18 + 1, 10**5000]


@pytest.mark.parametrize(
    "value", BAD_NUMBERS, ids=lambda value: repr(value)[:9] if value != BAD_NUMBERS[-1] else "long"
)
@pytest.mark.parametrize(
    ("body", "name"),
    [
        (OPEN, "cells"),
        (OPEN, "nano_epsilon"),
        (OPEN, "atto_delta"),
        (RESERVE, "nano_epsilon"),
        (RESERVE, "atto_delta"),
        (LINE, "sequence"),
        (LINE, "time"),
    ],
)
def test_a_quantity_is_a_whole_number_in_range(body, name, value):
    with pytest.raises(Malformed, match="whole number") as caught:
        replace(body, **{name: value})
    assert caught.value.fix


@pytest.mark.parametrize(
    ("body", "name", "value"),
    [
        (OPEN, "dataset", ""),
        (OPEN, "dataset", "two words"),
        (OPEN, "dataset", "é"),
        (OPEN, "dataset", "x" * 201),
        (OPEN, "dataset", 5),
        (OPEN, "cells", 0),
        (OPEN, "cells", 1001),
        (OPEN, "filter", "pld"),
        (OPEN, "filter", []),
        (OPEN, "atto_delta", 0),
        (OPEN, "atto_delta", 10**18),
        (RESERVE, "task", "a\nb"),
        (RESERVE, "study_hash", "A" * 64),
        (RESERVE, "release", "0" * 63),
        (RESERVE, "release", "0" * 64 + "\n"),
        (RESERVE, "cells", ()),
        (RESERVE, "cells", [0, 1]),
        (RESERVE, "cells", (1, 0)),
        (RESERVE, "cells", (1, 1)),
        (RESERVE, "cells", (0.0,)),
        (RESERVE, "cells", (1000,)),
        (RESERVE, "cells", ([],)),
        (RESERVE, "nano_epsilon", 0),
        (RELEASE, "digest", None),
        (LINE, "sequence", 0),
        (LINE, "previous", "x"),
        (LINE, "body", {"task": "t"}),
    ],
)
def test_what_cannot_be_built(body, name, value):
    with pytest.raises(Malformed):
        replace(body, **{name: value})


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"null",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b"1" * 5000,
        LINE.to_json() + b" ",
        LINE.to_json().replace(b"500000000", b"500000000.0"),
        LINE.to_json().replace(b"500000000", b"NaN"),
        LINE.to_json().replace(b'"kind":"reserve"', b'"kind":"reserve","kind":"reserve"'),
        LINE.to_json().replace(b'"kind":"reserve"', b'"kind":"refund"'),
        LINE.to_json().replace(b'"kind":"reserve"', b'"kind":[]'),
        LINE.to_json().replace(b'"kind":"reserve"', b'"kind":"release"'),
        LINE.to_json().replace(b'"sequence"', b'"extra":1,"sequence"'),
        LINE.to_json().replace(b'"cells":[0,3,19]', b'"cells":3'),
        LINE.to_json().replace(LINE.hash.encode(), ZEROS.encode()),
    ],
)
def test_what_cannot_be_read(text):
    with pytest.raises(Malformed):
        Line.from_json(text)
