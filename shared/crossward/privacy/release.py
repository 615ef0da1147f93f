"""A release, described: an immutable value that says what left a site and what it cost.

The description holds public numbers only, so it exists, and is charged, before any record is touched.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from crossward.errors import InvalidEpsilon, InvalidSetting
from crossward.privacy.budget import Cost, atto_delta, nano_epsilon
from crossward.version import __version__

NEIGHBOURS = "replace-one-record"

Parameter = str | int | float | bool | None | tuple["Parameter", ...]


def _freeze(value: Any) -> Parameter:
    if isinstance(value, list | tuple):
        return tuple(_freeze(item) for item in value)
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidSetting(
            f"A release describes itself with finite numbers, not {value}.", "Leave it out, or use None."
        )
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise InvalidSetting(
        f"A release describes itself with plain values, not {type(value).__name__}.",
        "Give text, numbers, or lists of them.",
    )


@dataclass(frozen=True, slots=True)
class Release:
    """What a mechanism released and the guarantee it carries.

    A simple release names one mechanism. A composed one has `parts`: made on disjoint records (`parallel`: a record
    pays for the dearest part) or on the same records (`sequential`: it pays for all).
    """

    mechanism: str
    epsilon: float
    delta: float = 0.0
    parameters: tuple[tuple[str, Parameter], ...] = ()
    seeded: bool = False
    composition: Literal["parallel", "sequential"] | None = None
    parts: tuple[Release, ...] = ()
    neighbours: str = NEIGHBOURS
    version: str = __version__

    def __post_init__(self) -> None:
        if self.parts and repr((self.epsilon, self.delta)) != repr(_total(self.parts, self.composition)):
            raise InvalidSetting(
                f"{self.mechanism} claims epsilon {self.epsilon:g}, which is not what its parts add up to.",
                "Compose releases with `parallel` or `sequential`.",
            )

    @classmethod
    def of(
        cls,
        mechanism: str,
        epsilon: float,
        parameters: Mapping[str, object],
        *,
        delta: float = 0.0,
        seeded: bool = False,
    ) -> Release:
        """Describe one mechanism; `parameters` are the public numbers that fix it."""
        frozen = tuple(sorted((name, _freeze(value)) for name, value in parameters.items()))
        return cls(mechanism, float(epsilon), float(delta), frozen, seeded)

    @classmethod
    def non_private(cls, mechanism: str, parameters: Mapping[str, object]) -> Release:
        """Describe a non-private twin. Its epsilon is infinite and no filter admits it."""
        return cls.of(mechanism, math.inf, parameters)

    @property
    def private(self) -> bool:
        """Whether the release carries any guarantee at all."""
        return math.isfinite(self.epsilon)

    @property
    def cost(self) -> Cost:
        """What a record pays, in integers, rounded up part by part."""
        if not self.private:
            raise InvalidEpsilon(
                f"{self.mechanism} is non-private: it carries no guarantee and can never be charged.",
                "Keep it at the site, or train with a finite epsilon.",
            )
        if not self.parts:
            return Cost(nano_epsilon(self.epsilon), atto_delta(self.delta))
        costs = [part.cost for part in self.parts]
        if self.composition == "parallel":
            return Cost(max(cost.nano_epsilon for cost in costs), max(cost.atto_delta for cost in costs))
        return sum(costs, Cost(0))

    @property
    def settings(self) -> Mapping[str, Parameter]:
        """The public parameters by name."""
        return dict(self.parameters)

    def with_seed_mark(self, seeded: bool) -> Release:
        """The same release, parts included, marked if it was made with a seeded generator. A mark never comes off."""
        if not seeded:
            return self
        return replace(self, seeded=True, parts=tuple(part.with_seed_mark(True) for part in self.parts))

    def describe(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        described: dict[str, Any] = {
            "mechanism": self.mechanism,
            "epsilon": self.epsilon if self.private else None,
            "delta": self.delta,
            "neighbours": self.neighbours,
            "seeded": self.seeded,
            "version": self.version,
            "parameters": dict(self.parameters),
        }
        if self.parts:
            described["composition"] = self.composition
            described["parts"] = [part.describe() for part in self.parts]
        return described

    def canonical(self) -> bytes:
        """The one byte string of this description, for hashing and signing."""
        return json.dumps(self.describe(), sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _total(parts: tuple[Release, ...], how: Literal["parallel", "sequential"] | None) -> tuple[float, float]:
    total = max if how == "parallel" else math.fsum
    return total(part.epsilon for part in parts), total(part.delta for part in parts)


def _compose(name: str, parts: tuple[Release, ...], how: Literal["parallel", "sequential"]) -> Release:
    if not parts:
        raise InvalidSetting(f"{name} composes no releases.", "Give at least one part.")
    seeded = any(part.seeded for part in parts)
    return Release(name, *_total(parts, how), seeded=seeded, composition=how, parts=parts)


def parallel(name: str, *parts: Release) -> Release:
    """Releases on disjoint sets of records: a record is in at most one, so it pays for the dearest part only."""
    return _compose(name, parts, "parallel")


def sequential(name: str, *parts: Release) -> Release:
    """Releases on the same records: a record pays for every part."""
    return _compose(name, parts, "sequential")
