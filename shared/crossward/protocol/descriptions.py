"""Release descriptions on the wire: back to the library's typed releases, and compared across machines.

Two machines may differ in the last bit of a logarithm or a power, so derived numbers are compared to nine digits;
names, counts and epsilons exactly.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from crossward.errors import InvalidInput, InvalidMessage
from crossward.privacy.budget import check_epsilon
from crossward.privacy.mechanisms import MECHANISMS
from crossward.privacy.release import Composing, Composition, Release
from crossward.protocol.canonical import canonical
from crossward.values import LARGEST

CLOSE = 1e-9
"""How far two machines' numbers may lie apart."""

DEEPEST = 2
"""How deep compositions of compositions may be."""

_MINE = ("version", "seeded", "pull")
"""Which code made a release, and with what randomness, is its own affair when it is compared with another. A pull is
named by the hash of a computed mixture, which another machine may round otherwise; a message names its inputs."""


def written(release: Release) -> dict[str, Any]:
    """A description as plain JSON values."""
    plain: dict[str, Any] = json.loads(release.canonical())
    return plain


def read_release(described: Mapping[str, Any], depth: int = 0) -> Release:
    """The release that describes itself so; refuses what no private release would say of itself, or spell so."""
    try:
        release = _composition(described, depth) if "parts" in described else _simple(described)
        check_epsilon(release.epsilon)
        if not 0 <= release.delta < 1 or not 0 < (release.records or 1) <= LARGEST:
            raise InvalidMessage("Its delta or its record count is out of range.")
    except InvalidMessage as error:
        raise InvalidMessage(f"The release description is not usable: {error.cause}", "Release again.") from None
    except (InvalidInput, LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        kind = type(error).__name__
        cause = error.cause if isinstance(error, InvalidInput) else kind
        raise InvalidMessage(f"The release description is not usable: {cause}", "Release again.") from None
    if canonical(release.describe()) != canonical(dict(described)):
        raise InvalidMessage("The release description is not complete.", "Send what `Release.describe()` gives.")
    return release


def _head(described: Mapping[str, Any]) -> dict[str, Any]:
    return {name: described[name] for name in ("epsilon", "delta", "neighbours", "seeded", "version")}


def _simple(described: Mapping[str, Any]) -> Release:
    if described["mechanism"] not in MECHANISMS:
        raise InvalidMessage("Its mechanism is not known.")
    try:
        release: Release = _reader(described["mechanism"]).validate_python(_head(described) | described["parameters"])
    except ValidationError as error:
        fields = ", ".join(sorted({str(detail["loc"][0]) for detail in error.errors() if detail["loc"]}))
        raise InvalidMessage(f"Its {fields or 'parameters'} cannot be read.") from None
    return release


def _composition(described: Mapping[str, Any], depth: int) -> Composition:
    if depth > DEEPEST:
        raise InvalidMessage("It is composed too deeply.")
    parts = tuple(read_release(part, depth + 1) for part in described["parts"])
    how = Composing(described["composition"])
    return Composition(method=str(described["mechanism"]), how=how, members=parts, **_head(described))


@cache
def _reader(mechanism: str) -> TypeAdapter[Any]:
    return TypeAdapter(MECHANISMS[mechanism])


def same_release(one: Any, other: Any) -> bool:
    """Whether two descriptions (or parts of them) say the same, but for code version, seed and last digits."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        keys = set(one) - set(_MINE)
        return keys == set(other) - set(_MINE) and all(same_release(one[key], other[key]) for key in keys)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same_release, one, other))
    if isinstance(one, float) and isinstance(other, float | int) and not isinstance(other, bool):
        return math.isclose(one, other, rel_tol=CLOSE, abs_tol=1e-300)
    return type(one) is type(other) and bool(one == other)
