"""The one byte string of a value: JSON with sorted keys, no blanks, shortest exact floats, UTF-8, nothing infinite."""

from __future__ import annotations

import hashlib
import json
from typing import Any, NoReturn

from crossward.errors import InvalidMessage


def canonical(value: Any) -> bytes:
    """The canonical bytes of plain values. Refuses NaN and infinity, which JSON does not have."""
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        return text.encode()
    except ValueError as error:
        raise InvalidMessage(
            f"It cannot be written as JSON: {error}.", "Give finite numbers and plain texts."
        ) from None


def read_json(data: bytes | str, most_bytes: int) -> Any:
    """Plain values from JSON, refusing what two readers could read differently: NaN, keys given twice, stray bytes."""
    if len(data) > most_bytes:
        raise InvalidMessage(f"It has {len(data)} bytes and may have {most_bytes}.", "Send less.")
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_pairs)
    except InvalidMessage:
        raise
    except (ValueError, RecursionError) as error:
        raise InvalidMessage(f"It is not JSON: {error}.", "Send one JSON object.") from None


def sha256(data: bytes) -> str:
    """The digest by which bytes are named, in hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidMessage(f"It holds {name}, which is not a number in JSON.", "Send finite numbers.")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        keys = [key for key, _ in pairs]
        raise InvalidMessage(f"The key {next(k for k in keys if keys.count(k) > 1)!r} is given twice.", "Send it once.")
    return values
