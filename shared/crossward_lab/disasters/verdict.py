"""What must never be."""

from __future__ import annotations


class Violation(Exception):
    """Something that must never be, is."""


class Overdrawn(Violation):
    """Somebody has lost more than was paid for, or may have."""


def must(holds: bool, otherwise: str) -> None:
    """Object if it does not hold."""
    if not holds:
        raise Violation(otherwise)
