"""Release descriptions on the wire: back to the library's `Release`, and compared across machines.

Two machines may differ in the last bit of a logarithm or a power, so derived numbers are compared to nine digits;
names, counts and epsilons exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from crossward.errors import InvalidInput, InvalidMessage
from crossward.privacy.budget import check_epsilon
from crossward.privacy.release import Release
from crossward.values import LARGEST

CLOSE = 1e-9
_MINE = ("version", "seeded", "pull")
"""Which code made a release, and with what randomness, is its own affair when it is compared with another. A pull is
named by the hash of a computed mixture, which another machine may round otherwise; a message names its inputs."""

_KEYS = {"mechanism", "epsilon", "delta", "neighbours", "seeded", "version", "parameters"}


def read_release(described: Mapping[str, Any], depth: int = 0) -> Release:
    """The release that describes itself so; refuses what no private release would say of itself."""
    composed = {"composition", "parts"} if "parts" in described else set()
    if set(described) != _KEYS | composed or not isinstance(described["parameters"], Mapping) or depth > 2:
        raise InvalidMessage("The release description is not complete.", "Send what `Release.describe()` gives.")
    try:
        simple = Release.of(
            str(described["mechanism"]),
            check_epsilon(described["epsilon"]),
            described["parameters"],
            delta=_delta(described["delta"]),
            seeded=described["seeded"] is not False,
        )
        parts = tuple(read_release(part, depth + 1) for part in described.get("parts", ()))
        release = replace(
            simple,
            neighbours=str(described["neighbours"]),
            version=str(described["version"]),
            composition=described.get("composition"),
            parts=parts,
        )
    except InvalidMessage:
        raise
    except (InvalidInput, TypeError, AttributeError, ArithmeticError) as error:
        raise InvalidMessage(f"The release description is not usable: {error}", "Release again.") from None
    return release


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


def records_of(release: Release) -> int | None:
    """The records a simple release says it used."""
    n = release.settings.get("n")
    return n if type(n) is int and 0 < n <= LARGEST else None


def grids_of(release: Release) -> list[float]:
    """The grid of each model of a simple release."""
    grid = release.settings.get("grid")
    grids = grid if isinstance(grid, tuple) else (grid,)
    return [float(step) for step in grids if isinstance(step, float | int) and not isinstance(step, bool) and step > 0]


def _delta(delta: Any) -> float:
    if isinstance(delta, bool) or not isinstance(delta, float | int) or not 0 <= delta < 1:
        raise InvalidMessage(f"The release has a delta of {delta!r}.", "It lies between 0 and 1.")
    return float(delta)
