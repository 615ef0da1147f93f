"""The one byte string of a value: JSON as RFC 8785 writes it.

    keys       sorted by their UTF-16 code units, each once
    texts      UTF-8, escaped only where JSON must
    numbers    as ECMAScript writes the double they are; whole numbers beyond 2^53 - 1 become decimal texts
    blanks     none

What was received is never written anew to be checked: `read_canonical` looks at the bytes themselves and refuses every
other spelling, so that a digest of the bytes is a digest of what they say.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from itertools import pairwise
from typing import Any, NoReturn

import rfc8785
from pydantic import BeforeValidator

from crossward.errors import InvalidMessage
from crossward.values import LARGEST, refusal

_SPELLED = re.compile(
    rb'(?:[^"\s]++|"(?:[^"\\\x00-\x1f]++|\\["\\bfnrt]|\\u00(?:0[0-7bef]|1[0-9a-f]))*+")*+'
)  # no blank outside texts; inside them the escapes that RFC 8785 writes
_DECIMAL = re.compile(r"-?[1-9][0-9]{15,40}")
_FIX = "Write it as RFC 8785 says."


def canonical(value: Any) -> bytes:
    """The canonical bytes of plain values. Refuses NaN and infinity, which JSON does not have."""
    try:
        try:
            return rfc8785.dumps(value)
        except rfc8785.IntegerDomainError:
            return rfc8785.dumps(_with_texts(value))
    except (rfc8785.CanonicalizationError, UnicodeError, RecursionError) as error:
        cause = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InvalidMessage(
            f"It cannot be written as JSON: {cause}.", "Give finite numbers and plain texts."
        ) from None


def read_canonical(data: bytes | str, most_bytes: int) -> Any:
    """Plain values from their canonical bytes; any other spelling of the same values is refused, and named."""
    try:
        data = data.encode() if isinstance(data, str) else data
        if len(data) > most_bytes:
            raise InvalidMessage(f"It has {len(data)} bytes and may have {most_bytes}.", "Send less.")
        values = json.loads(
            data.decode(),
            parse_constant=_refuse_constant,
            parse_int=_whole,
            parse_float=_real,
            object_pairs_hook=_pairs,
        )
    except InvalidMessage:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidMessage(f"It is not JSON: {error}.", "Send one JSON value.") from None
    spelled = _SPELLED.match(data)
    if (end := spelled.end() if spelled else 0) != len(data):
        raise InvalidMessage(f"It is not in its canonical form: see its byte {end}.", _FIX)
    return values


def sha256(data: bytes) -> str:
    """The digest by which bytes are named, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def is_large(text: str) -> bool:
    """Whether a text is how a whole number beyond 2^53 - 1 is written."""
    return _DECIMAL.fullmatch(text) is not None and abs(int(text)) > LARGEST


def _number(value: object) -> object:
    if isinstance(value, str):
        if not is_large(value):
            raise refusal("This is not how a whole number is written.", "Beyond 2^53 - 1 as decimal digits in a text.")
        return int(value)
    return value


Large = BeforeValidator(_number)
"""Marks a whole number that may be large: beyond 2^53 - 1 it is a decimal text, up to there a number, never both."""


def _with_texts(value: Any) -> Any:
    """The same values, with texts for whole numbers that JSON's readers would round."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST:
        if value.bit_length() > 128:
            raise InvalidMessage("It holds a whole number of more than 128 bits.", "Give a smaller one.")
        return str(int(value))
    if isinstance(value, dict):
        return {key: _with_texts(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_texts(item) for item in value]
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidMessage(f"It holds {name}, which is not a number in JSON.", "Send finite numbers.")


def _whole(text: str) -> int | float:
    """A number without point and exponent. Beyond 2^53 - 1 it is a double, and must be spelled as one."""
    if len(text) <= 17 and text != "-0" and abs(number := int(text)) <= LARGEST:
        return number
    return _real(text)


def _real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or rfc8785.dumps(value) != text.encode():
        raise InvalidMessage(f"The number {text[:40]} is not in its canonical form.", _FIX)
    return value


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    keys = [key.encode("utf-16-be", "surrogatepass") for key, _ in pairs]
    if any(one >= other for one, other in pairwise(keys)):
        names = [key for key, _ in pairs]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InvalidMessage(f"The key {twice[:80]!r} is given twice.", "Send it once.")
        raise InvalidMessage("It is not in its canonical form: its keys are not in order.", _FIX)
    return dict(pairs)
