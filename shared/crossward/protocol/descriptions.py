"""Release descriptions on the wire: back to the library's typed releases, and compared across machines.

Two machines may differ in the last bit of a logarithm or a power, so derived numbers are compared to nine digits;
names, counts and costs exactly.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from crossward.errors import InvalidInput, InvalidMessage
from crossward.privacy.budget import Cost, atto_delta
from crossward.privacy.mechanisms import MECHANISMS, ObjectivePerturbation
from crossward.privacy.release import NEIGHBOURS, Composing, Composition, Release, parallel, sequential
from crossward.protocol.canonical import canonical, read_canonical, sha256
from crossward.protocol.constants import MOST_ATTO_DELTA
from crossward.protocol.messages import Paid
from crossward.values import LARGEST, MOST_PARTIES

CLOSE = 1e-9
"""How far two machines' numbers may lie apart."""

_PULL = re.compile(r"[0-9a-f]{16}")
_EXACT = ("nano_epsilon", "atto_delta")
"""What is charged is compared to the last unit."""

_MINE = ("seeded", "pull")
"""With what randomness a release was made is its own affair when it is compared with another. A pull is named by the
hash of a computed mixture, which another machine may round otherwise; a message names its inputs."""


def written(release: Release) -> dict[str, Any]:
    """A description as plain JSON values."""
    text = canonical(release.describe())
    plain: dict[str, Any] = read_canonical(text, len(text))
    return plain


def description_digest(release: Release) -> str:
    """How a ledger's reservation names what will be released: the SHA-256 of the description, as it will be sent."""
    return sha256(canonical(release.describe()))


def read_release(described: Mapping[str, Any]) -> Release:
    """The release that describes itself so; refuses what no private release would say of itself, or spell so.

    A composition is of single mechanisms, and of no more than a study has parties.
    """
    try:
        release = _composition(described) if "parts" in described else _simple(described)
    except InvalidMessage as error:
        raise InvalidMessage(f"The release description is not usable: {error.cause}", "Release again.") from None
    except (InvalidInput, LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        cause = error.cause if isinstance(error, InvalidInput) else type(error).__name__
        raise InvalidMessage(f"The release description is not usable: {cause}", "Release again.") from None
    if canonical(release.describe()) != canonical(dict(described)):
        raise InvalidMessage("The release description is not complete.", "Send what `Release.describe()` gives.")
    return release


def _head(described: Mapping[str, Any]) -> dict[str, Any]:
    """What every release says, each in its range: no field of it may carry words of somebody's own."""
    cost = Cost(*_paid(described))
    if cost.atto_delta >= MOST_ATTO_DELTA:
        raise InvalidMessage("Its delta is out of range.")
    if described["neighbours"] != NEIGHBOURS:
        raise InvalidMessage("Its neighbours are not known.")
    head = {name: described[name] for name in ("neighbours", "seeded")}
    return head | {"epsilon": cost.epsilon, "delta": _delta(cost)}


def _delta(cost: Cost) -> float:
    """The delta that is charged so: beyond 2^53 - 1 atto-delta it may lie one double below."""
    near = cost.delta
    for delta in (near, math.nextafter(near, 0.0), math.nextafter(near, 1.0)):
        if atto_delta(delta) == cost.atto_delta:
            return delta
    raise InvalidMessage("No release has this delta.")


def _simple(described: Mapping[str, Any]) -> Release:
    if described["mechanism"] not in MECHANISMS:
        raise InvalidMessage("Its mechanism is not known.")
    try:
        release: Release = _reader(described["mechanism"]).validate_python(_head(described) | described["parameters"])
    except ValidationError as error:
        fields = ", ".join(sorted({str(detail["loc"][0]) for detail in error.errors() if detail["loc"]}))
        raise InvalidMessage(f"Its {fields or 'parameters'} cannot be read.") from None
    if not 0 < (LARGEST if release.records is None else release.records) <= LARGEST:
        raise InvalidMessage("Its record count is out of range.")
    if isinstance(release, ObjectivePerturbation):
        pulls = [group.pull for group in release.groups if group.pull is not None]
        if not all(_PULL.fullmatch(pull) for pull in pulls):
            raise InvalidMessage("It names what it was pulled to in another way than by a hash.")
    return release


def _composition(described: Mapping[str, Any]) -> Composition:
    parts = described["parts"]
    if not isinstance(parts, list) or len(parts) > MOST_PARTIES or any("parts" in part for part in parts):
        raise InvalidMessage("It is composed of too much, or too deeply.")
    members = tuple(_simple(part) for part in parts)
    head, compose = _head(described), _COMPOSE[Composing(described["composition"])]
    whole = compose(str(described["mechanism"]), *members)
    if whole.seeded != head["seeded"]:
        raise InvalidMessage("It is seeded exactly if a part of it is.")
    if (whole.cost.nano_epsilon, whole.cost.atto_delta) != _paid(described):
        raise InvalidMessage("It claims a cost that is not what its parts add up to.")
    return whole


_COMPOSE = {Composing.PARALLEL: parallel, Composing.SEQUENTIAL: sequential}


def _paid(described: Mapping[str, Any]) -> tuple[int, int]:
    paid = Paid.model_validate({name: described[name] for name in _EXACT})
    return paid.nano_epsilon, paid.atto_delta


@cache
def _reader(mechanism: str) -> TypeAdapter[Any]:
    return TypeAdapter(MECHANISMS[mechanism])


def same_release(one: Any, other: Any) -> bool:
    """Whether two descriptions (or parts of them) say the same, but for the seed mark and last digits."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        keys = set(one) - set(_MINE)
        if keys != set(other) - set(_MINE) or any(one[key] != other[key] for key in keys & set(_EXACT)):
            return False
        return all(same_release(one[key], other[key]) for key in keys)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same_release, one, other))
    if isinstance(one, float) or isinstance(other, float):
        return _is_number(one) and _is_number(other) and math.isclose(one, other, rel_tol=CLOSE, abs_tol=1e-300)
    return type(one) is type(other) and bool(one == other)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
