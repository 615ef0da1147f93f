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
    RecoverBody,
    ReleaseBody,
    ReserveBody,
    SeatsBody,
    values_of,
)

ZEROS, ONES = "0" * 64, "1" * 64
OPEN = OpenBody(1, 20, "zcdp", 10**9, 10**12)
SEATS, RECOVER = SeatsBody(3, ONES), RecoverBody(2)
RESERVE = ReserveBody("task", "study", ONES, (0, 3, 19), 500_000_000, 7, ZEROS)
RELEASE = ReleaseBody("task", ONES)
LINE = Line(2, ONES, 1_700_000_000_000, RESERVE)
TEXT = LINE.text.encode()

names = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)
digests = st.text("0123456789abcdef", min_size=64, max_size=64)
epsilons, amounts, counts = st.integers(1, 10**15), st.integers(1, 10**18), st.integers(1, 2**53 - 1)
budgets = st.integers(0, 10**11), st.integers(1, 10**15)
bodies = st.one_of(
    st.builds(OpenBody, counts, st.integers(1, 1000), st.sampled_from(["basic", "zcdp"]), *budgets),
    st.builds(SeatsBody, counts, digests),
    st.builds(RecoverBody, counts),
    st.builds(
        ReserveBody,
        names,
        names,
        digests,
        st.sets(st.integers(0, 999), min_size=1, max_size=30).map(lambda cells: tuple(sorted(cells))),
        epsilons,
        amounts,
        digests,
    ),
    st.builds(ReleaseBody, names, digests),
)
lines = st.builds(Line, counts, digests, st.integers(0, 10**14), bodies)


def test_the_bytes_and_the_hash_are_those_of_the_contract():
    """Written out by hand: a change of these bytes would break every ledger there is."""
    first = Line.after(START, ReleaseBody("t", ONES), 5)
    body = '{"digest":"' + ONES + '","task":"t"}'
    text = f'{{"body":{body},"kind":"release","previous":"{"0" * 64}","sequence":1,"time":5}}'
    assert GENESIS == "0" * 64
    assert first.text == text
    assert first.hash == hashlib.sha256(text.encode()).hexdigest()
    assert first.head == Head(1, first.hash)
    assert Line.after(first.head, RELEASE, 6).previous == first.hash


@given(lines)
def test_there_and_back(line):
    for text in (line.text, line.text.encode()):
        back = Line.from_text(text)
        assert back == line
        assert back.hash == line.hash == hashlib.sha256(line.text.encode()).hexdigest()
    assert "\n" not in line.text


@given(lines)
def test_the_bytes_are_ascii_and_those_of_the_one_canonical_form(line):
    """Names are printable ASCII, so it does not matter to a line whether a writer of JSON escapes other letters."""
    body = {name: str(value) if _is_large(value) else value for name, value in values_of(line.body).items()}
    plain = {"sequence": line.sequence, "previous": line.previous, "time": line.time}
    plain |= {"kind": str(line.kind), "body": body}
    assert line.text.encode() == canonical(plain)
    for escaped in (True, False):
        assert line.text == json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=escaped)


def _is_large(value):
    return isinstance(value, int) and value > 2**53 - 1


@given(lines)
def test_plain_values_are_plain(line):
    """Kinds and filters are enumerations in the code and bare texts in every message."""
    for value in (line.values["kind"], *line.values["body"].values()):
        assert type(value) in (str, int, list)
    assert type(Line.from_text(line.text).kind) is LineKind


@pytest.mark.parametrize("delta", [2**53 - 1, 2**53, 10**18 - 1])
def test_amounts_beyond_exact_numbers_are_texts_and_nothing_else(delta):
    large = Line.after(START, replace(RESERVE, atto_delta=delta), 1)
    written, other = (f"{delta}", f'"{delta}"') if delta < 2**53 else (f'"{delta}"', f"{delta}")
    assert f'"atto_delta":{written}' in large.text
    assert Line.from_text(large.text) == large
    for spelling in (other, f'"0{delta}"', f'"+{delta}"', f'"{delta}.0"', f"{delta}.0"):
        with pytest.raises(Malformed):
            Line.from_text(large.text.replace(f'"atto_delta":{written}', f'"atto_delta":{spelling}'))


def test_a_name_of_digits_is_a_name():
    named = Line.after(START, replace(RESERVE, task="1" * 20), 1)
    assert Line.from_text(named.text) == named


def test_a_filter_is_one_of_the_enumeration_however_it_was_written():
    for kind in FilterKind:
        assert OpenBody(1, 20, str(kind), 1, 1).filter is kind


def test_a_version_or_a_number_is_what_there_is_one_line_of():
    assert [body.subject for body in (OPEN, SEATS, RESERVE, RELEASE, RECOVER)] == ["1", "3", "task", "task", "2"]


@pytest.mark.parametrize("kind", FilterKind)
def test_a_budget_has_a_ceiling_and_says_so(kind):
    largest = OpenBody(1, 20, kind, 100 * 10**9, 10**15)
    with pytest.raises(Malformed, match=r"an epsilon of at most 100; common choices are 0\.1 to 10"):
        replace(largest, nano_epsilon=100 * 10**9 + 1)
    with pytest.raises(Malformed, match=r"a delta of at most 0\.001; common choices are far below 1/n"):
        replace(largest, atto_delta=10**15 + 1)


@given(lines, lines)
def test_different_lines_hash_differently(one, other):
    assert (one.hash == other.hash) == (one == other)


def test_a_line_does_not_change():
    with pytest.raises(FrozenInstanceError):
        LINE.time = 1
    with pytest.raises(FrozenInstanceError):
        LINE.body.nano_epsilon = 1


def test_every_flipped_bit_is_refused_or_another_line():
    for position in range(len(TEXT)):
        for bit in range(8):
            changed = bytearray(TEXT)
            changed[position] ^= 1 << bit
            try:
                other = Line.from_text(bytes(changed))
            except Malformed:
                continue
            assert other.hash == hashlib.sha256(changed).hexdigest() != LINE.hash
            assert other.text.encode() == changed


BAD_NUMBERS = [-1, 0.5, 1.0, True, None, "1", float("nan"), float("inf"), 10**18 + 1, 10**5000]


@pytest.mark.parametrize(
    "value", BAD_NUMBERS, ids=lambda value: repr(value)[:9] if value != BAD_NUMBERS[-1] else "long"
)
@pytest.mark.parametrize(
    ("body", "name"),
    [
        (OPEN, "version"),
        (SEATS, "version"),
        (RECOVER, "number"),
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
        (OPEN, "version", 0),
        (SEATS, "version", 0),
        (SEATS, "commitment", "A" * 64),
        (SEATS, "commitment", ""),
        (RECOVER, "number", 0),
        (OPEN, "cells", 0),
        (OPEN, "cells", 1001),
        (OPEN, "filter", "pld"),
        (OPEN, "filter", []),
        (OPEN, "atto_delta", 0),
        (RESERVE, "task", "a\nb"),
        (RESERVE, "task", ""),
        (RESERVE, "task", "two words"),
        (RESERVE, "study", "é"),
        (RESERVE, "study", "x" * 201),
        (RESERVE, "study", 5),
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
        TEXT + b" ",
        TEXT.replace(b"500000000", b"500000000.0"),
        TEXT.replace(b"500000000", b"NaN"),
        TEXT.replace(b'"kind":"reserve"', b'"kind":"reserve","kind":"reserve"'),
        TEXT.replace(b'"kind":"reserve"', b'"kind":"refund"'),
        TEXT.replace(b'"kind":"reserve"', b'"kind":[]'),
        TEXT.replace(b'"kind":"reserve"', b'"kind":"release"'),
        TEXT.replace(b'"sequence"', b'"extra":1,"sequence"'),
        TEXT.replace(b'"nano_epsilon"', b'"dataset":"data","nano_epsilon"'),
        TEXT.replace(b'"cells":[0,3,19]', b'"cells":3'),
        TEXT.replace(b'"time"', b'"hash":"' + LINE.hash.encode() + b'","time"'),
        TEXT.replace(b'":', b'": '),
        TEXT.replace(b'"study"', b'"stud\\u0079"'),
    ],
)
def test_what_cannot_be_read(text):
    with pytest.raises(Malformed):
        Line.from_text(text)
