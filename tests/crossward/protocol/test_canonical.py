"""One value, one byte string: as RFC 8785 writes it, and nothing else is read."""

import json
import math

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from crossward.errors import InvalidMessage
from crossward.protocol.canonical import canonical, is_large, number_text, read_canonical

LARGEST = 2**53 - 1
MOST = 10**7

finite = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
plain = st.recursive(
    st.none() | st.booleans() | st.integers(-LARGEST, LARGEST) | finite | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("value", [{1: 2}, {"a": 1, 2: 3}, {"é": 1, 2: 3}, {None: 1}, {b"a": 1}])
def test_keys_are_texts(value):
    with pytest.raises(InvalidMessage, match="keys of an object are texts"):
        canonical(value)


@given(plain)
def test_the_bytes_are_those_of_rfc_8785(value):
    """`rfc8785`, written by others, is the judge."""
    assert canonical(value) == rfc8785.dumps(value)


@given(finite)
@example(1e21)
@example(1e-7)
@example(9.999999999999999e22)
@example(5e-324)
@example(-0.0)
def test_numbers_are_spelled_as_ecmascript_does(value):
    assert number_text(value).encode() == rfc8785.dumps(value)
    assert float(number_text(value)) == value


@given(plain)
def test_there_and_back(value):
    back = read_canonical(canonical(value), MOST)
    assert back == value
    assert canonical(back) == canonical(value)


@given(plain, st.integers(0, 10**6), st.integers(0, 7))
def test_what_is_read_is_canonical(value, position, bit):
    """Whatever bytes are taken, writing what they say gives these very bytes."""
    data = bytearray(canonical(value))
    data[position % len(data)] ^= 1 << bit
    try:
        taken = read_canonical(bytes(data), MOST)
    except InvalidMessage:
        return
    assert canonical(taken) == data


@given(st.integers(-(2**128) + 1, 2**128 - 1))
def test_whole_numbers_beyond_what_json_tells_apart_are_texts(number):
    text = json.loads(canonical([number]))[0]
    if abs(number) <= LARGEST:
        assert text == number
        assert not is_large(str(number))
    else:
        assert text == str(number)
        assert is_large(text)


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, [-math.inf], {1: 2}, {None: 1}, object(), {"a": {1, 2}}, 2**200, "\ud800", b"bytes"]
)
def test_what_cannot_be_written(value):
    with pytest.raises(InvalidMessage, match="cannot be written"):
        canonical(value)


def test_deep_nesting_is_refused_on_both_ways():
    deep = []
    for _ in range(10**5):
        deep = [deep]
    with pytest.raises(InvalidMessage, match="deeply"):
        canonical(deep)
    with pytest.raises(InvalidMessage, match="not JSON"):
        read_canonical(b"[" * 10**6, MOST)


def test_long_input_takes_no_longer_than_its_length():
    """Ten million bytes of the worst kind: one pass, and no number is ever computed from its million digits."""
    for data in (b'"' * MOST, b"[" + b"1" * (MOST - 2) + b"]", b'"' + b"\\n" * (MOST // 2 - 1) + b'"'):
        words = ""
        try:
            read_canonical(data, MOST)
        except InvalidMessage as error:
            words = str(error)
        assert len(words) < 300


def test_many_keys_out_of_order_are_seen_in_one_pass():
    """A hundred thousand keys: to count each of them among all would take hours."""
    keys = [f'"{number:06d}":0' for number in range(100_000)]
    keys[0], keys[1] = keys[1], keys[0]
    with pytest.raises(InvalidMessage, match="not in order"):
        read_canonical("{" + ",".join(keys) + "}", MOST)
    with pytest.raises(InvalidMessage, match="'000000' is given twice"):
        read_canonical("{" + ",".join([*keys, keys[1]]) + "}", MOST)


def test_sizes_are_bounded():
    with pytest.raises(InvalidMessage, match="5 bytes and may have 4"):
        read_canonical(b"[1,2]", 4)
