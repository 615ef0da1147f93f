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
from collections.abc import Iterable
from json.encoder import encode_basestring
from typing import Any, NoReturn

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
        return _text(value).encode()
    except (ValueError, RecursionError) as error:
        cause = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InvalidMessage(
            f"It cannot be written as JSON: {cause}.", "Give finite numbers and plain texts."
        ) from None


def _text(value: Any) -> str:
    match value:
        case str():
            return encode_basestring(value)
        case bool() | None:
            return {True: "true", False: "false", None: "null"}[value]
        case int():
            return _whole_text(value)
        case float():
            return number_text(value)
        case list() | tuple():
            return f"[{','.join(map(_text, value))}]"
        case dict():
            keys = _in_order(value)
            return f"{{{','.join([f'{encode_basestring(key)}:{_text(value[key])}' for key in keys])}}}"
    raise ValueError(f"{type(value).__name__} is no plain value")


def _whole_text(value: int) -> str:
    if abs(value) <= LARGEST:
        return int.__repr__(value)
    if value.bit_length() > 128:
        raise ValueError("it holds a whole number of more than 128 bits")
    return f'"{int.__repr__(value)}"'


def number_text(value: float) -> str:
    """A number as ECMAScript writes it: the shortest digits of the double, without exponent from 1e-6 to 1e21."""
    if not math.isfinite(value):
        raise ValueError(f"it holds {value}")
    mantissa, _, power = float.__repr__(abs(value)).partition("e")
    whole, _, part = mantissa.partition(".")
    digits = (whole + part).lstrip("0")
    if not digits:
        return "0"
    point = int(power or 0) + (len(whole) if whole != "0" else len(digits) - len(part))  # 0.digits * 10^point
    digits = digits.rstrip("0")
    if len(digits) <= point <= 21:
        text = digits.ljust(point, "0")
    elif 0 < point <= 21:
        text = f"{digits[:point]}.{digits[point:]}"
    elif -6 < point <= 0:
        text = f"0.{'0' * -point}{digits}"
    else:
        rest = f".{digits[1:]}" if len(digits) > 1 else ""
        text = f"{digits[0]}{rest}e{point - 1:+d}"
    return f"-{text}" if value < 0 else text


def _in_order(keys: Iterable[str]) -> list[str]:
    """Keys are sorted by their UTF-16 code units: for ASCII, which nearly all are, that is Python's own order."""
    try:
        return sorted(keys, key=None if all(map(str.isascii, keys)) else _units)
    except TypeError:
        raise ValueError("the keys of an object are texts") from None


def _units(key: str) -> bytes:
    return str.encode(key, "utf-16-be", "surrogatepass")  # a key that is no text is a TypeError


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


def check_keys(data: bytes) -> None:
    """Refuse JSON of any spelling in which a key is given twice; what is no JSON is for its reader to refuse."""
    try:
        json.loads(data, object_pairs_hook=_each_once)
    except InvalidMessage:
        raise
    except (ValueError, RecursionError):
        return


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


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidMessage(f"It holds {name}, which is not a number in JSON.", "Send finite numbers.")


def _whole(text: str) -> int | float:
    """A number without point and exponent. Beyond 2^53 - 1 it is a double, and must be spelled as one."""
    if len(text) <= 17 and text != "-0" and abs(number := int(text)) <= LARGEST:
        return number
    return _real(text)


def _real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value) or number_text(value) != text:
        raise InvalidMessage(f"The number {text[:40]} is not in its canonical form.", _FIX)
    return value


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    keys = list(values)
    if len(keys) != len(pairs) or keys != _in_order(keys):
        _each_once(pairs)
        raise InvalidMessage("It is not in its canonical form: its keys are not in order.", _FIX)
    return values


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise InvalidMessage(f"The key {key[:80]!r} is given twice.", "Send it once.")
        seen.add(key)
    return dict(pairs)
