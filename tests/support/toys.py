"""Toys: the smallest things of a kind, for tests that need one and do not care which."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from crossward.privacy.release import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyRelease(Release):
    """A release of a mechanism that there is not; with n = 0 it does not say how many records it was made from."""

    name: ClassVar[str] = "toy"

    n: int = 0

    @property
    def records(self) -> int | None:
        """How many records it was made from."""
        return self.n or None
