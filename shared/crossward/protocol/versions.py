"""Versions of the protocol. A release of Crossward speaks its own version and the one before.

So two sides that are one version apart have one in common, and work together in it. What is further apart is refused,
with the name of the side that must be upgraded.
"""

from __future__ import annotations

from crossward.errors import UnknownVersion

NEWEST = 1
"""The version of the protocol that docs/protocol.md describes."""


def newest() -> int:
    """The version that is written where nobody has asked for an older one."""
    return NEWEST


def understood() -> range:
    """The versions that can be read here, and written if need be."""
    return range(max(1, NEWEST - 1), NEWEST + 1)


def agree(theirs: object, they: str, we: str) -> int:
    """The version to speak with a side whose newest is `theirs`; refuses one that is more than one version away."""
    if type(theirs) is not int or theirs < 1:
        raise UnknownVersion(f"{they.capitalize()} names no version of the protocol.", f"Upgrade {they}.")
    if abs(theirs - NEWEST) > 1:
        raise UnknownVersion(
            f"{they.capitalize()} speaks version {theirs} of the protocol and {we} version {NEWEST}: too far apart.",
            f"Upgrade {we if theirs > NEWEST else they}.",
        )
    return min(theirs, NEWEST)


def check(version: object, what: str) -> int:
    """The version of something that was received, if it can be read here."""
    if type(version) is not int or version < 1:
        raise UnknownVersion(f"{what} has no version, or none that is a number from 1.", "Send it as documented.")
    if version not in understood():
        who = "this side" if version > NEWEST else "the side that wrote it"
        raise UnknownVersion(
            f"{what} is of version {version} of the protocol; understood here: {_spoken()}.", f"Upgrade {who}."
        )
    return version


def _spoken() -> str:
    return " and ".join(str(version) for version in understood())
