"""A release, described: an immutable value that says what left a site and what it cost.

The description holds public numbers only, so it exists, and is charged, before any record is touched. Each mechanism
has a class of its own in `crossward.privacy.mechanisms`; releases that belong together are a `Composition`.
"""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, Self

from crossward.errors import InvalidEpsilon, InvalidSetting
from crossward.privacy.budget import Cost, atto_delta, nano_epsilon

NEIGHBOURS = "replace-one-record"


def _frozen(value: Any, declared: str) -> Any:
    """A public number as a release keeps it: plain, finite, unchangeable, and of the kind that is declared."""
    if isinstance(value, list | tuple):
        return tuple(_frozen(item, declared) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        inside = {item.name: _frozen(getattr(value, item.name), str(item.type)) for item in fields(value)}
        return replace(value, **inside)
    if isinstance(value, float):
        _finite(value)
    if value is None and "None" in declared:
        return None
    if isinstance(value, str) and not ("float" in declared or "int" in declared):
        return value
    if _is_real(value) and "float" in declared:
        return _finite(float(value))
    if _is_real(value) and "int" in declared and isinstance(value, numbers.Integral):
        return int(value)
    raise InvalidSetting(
        f"A release describes itself with plain values, not {type(value).__name__} where {declared} is declared.",
        "Give text, numbers, or lists of them.",
    )


def _is_real(value: Any) -> bool:
    """A number, of Python's or numpy's; a bool is none."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise InvalidSetting(
            f"A release describes itself with finite numbers, not {value}.", "Leave it out, or use None."
        )
    return value + 0.0  # one zero


def _check_head(release: Release) -> None:
    """Refuse an epsilon, delta or mark that no release can have."""
    epsilon, delta = release.epsilon, release.delta
    if not (_is_real(epsilon) and _is_real(delta) and epsilon >= 0 and 0 <= delta <= 1):
        raise InvalidEpsilon(f"A release has no epsilon {epsilon!r} and delta {delta!r}.", "Give numbers from 0 on.")
    if type(release.seeded) is not bool or not isinstance(release.neighbours, str):
        raise InvalidSetting("`seeded` is true or false, and `neighbours` a text.")


def _plain(value: Any) -> Any:
    """A frozen value as JSON has it."""
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    return str(value) if isinstance(value, StrEnum) else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What every release says of itself; a subclass adds the public numbers that fix its mechanism.

    `epsilon` is infinite for a non-private twin, which no filter admits. `seeded`: made with a generator that others
    could repeat.
    """

    name: ClassVar[str] = ""
    """What the mechanism is called."""
    proof: ClassVar[str] = ""
    """Its page in docs/proofs/."""

    epsilon: float
    delta: float = 0.0
    seeded: bool = False
    neighbours: str = NEIGHBOURS

    def __post_init__(self) -> None:
        _check_head(self)
        object.__setattr__(self, "epsilon", float(self.epsilon) + 0.0)
        object.__setattr__(self, "delta", float(self.delta) + 0.0)
        for item in fields(self):
            if item.name not in _COMMON:
                object.__setattr__(self, item.name, _frozen(getattr(self, item.name), str(item.type)))

    @classmethod
    def _own(cls) -> list[str]:
        """The fields that this mechanism has beyond those of every release."""
        return [item.name for item in fields(cls) if item.name not in _COMMON]

    @property
    def mechanism(self) -> str:
        """What made it."""
        return self.name

    @property
    def private(self) -> bool:
        """Whether the release carries any guarantee at all."""
        return math.isfinite(self.epsilon)

    @property
    def records(self) -> int | None:
        """How many records it was made from; None where it does not say."""
        return None

    @property
    def grids(self) -> tuple[float, ...]:
        """The grid of each vector of weights that it releases."""
        return ()

    @property
    def parts(self) -> tuple[Release, ...]:
        """The releases it is composed of; none for a single mechanism."""
        return ()

    @property
    def cost(self) -> Cost:
        """What a record pays, in integers, rounded up."""
        self._check_private()
        return Cost(nano_epsilon(self.epsilon), atto_delta(self.delta))

    def _check_private(self) -> None:
        if not self.private:
            raise InvalidEpsilon(
                f"{self.mechanism} is non-private: it carries no guarantee and can never be charged.",
                "Keep it at the site, or train with a finite epsilon.",
            )

    def with_seed_mark(self, seeded: bool) -> Self:
        """The same release, marked if it was made with a seeded generator. A mark never comes off."""
        return replace(self, seeded=True) if seeded else self

    def describe(self) -> dict[str, Any]:
        """Plain values, ready for JSON. What it costs is in whole numbers, as it is charged."""
        return self._head() | {"parameters": {own: _plain(getattr(self, own)) for own in self._own()}}

    def _head(self) -> dict[str, Any]:
        return {
            "mechanism": self.mechanism,
            "nano_epsilon": self.cost.nano_epsilon if self.private else None,
            "atto_delta": self.cost.atto_delta if self.private else 0,
            "neighbours": self.neighbours,
            "seeded": self.seeded,
        }


_COMMON = frozenset(item.name for item in fields(Release))


class Composing(StrEnum):
    """How releases belong together."""

    PARALLEL = "parallel"
    """Made on disjoint records: a record pays for the dearest part."""
    SEQUENTIAL = "sequential"
    """Made on the same records: a record pays for all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Composition(Release):
    """Several releases, made by one method; `parallel` and `sequential` build it."""

    method: str
    how: Composing
    members: tuple[Release, ...]

    def __post_init__(self) -> None:
        _check_head(self)
        object.__setattr__(self, "members", tuple(self.members))
        if self.how not in set(Composing):
            raise InvalidSetting(f"Releases are composed {' or '.join(Composing)}, not {self.how!r}.")
        object.__setattr__(self, "how", Composing(self.how))
        if not self.members or not all(isinstance(part, Release) for part in self.members):
            raise InvalidSetting(f"{self.method} composes no releases.", "Give at least one part.")
        if self.seeded != any(part.seeded for part in self.members):
            raise InvalidSetting(f"{self.method} is seeded exactly if a part of it is.", "A mark never comes off.")
        if any(part.neighbours != self.neighbours for part in self.members):
            raise InvalidSetting(f"The parts of {self.method} speak of other neighbours.", "Compose what is alike.")
        if repr((self.epsilon, self.delta)) != repr(_total(self.members, self.how)):
            raise InvalidSetting(
                f"{self.method} claims epsilon {self.epsilon:g}, which is not what its parts add up to.",
                "Compose releases with `parallel` or `sequential`.",
            )

    @property
    def mechanism(self) -> str:
        """The method that made all of them."""
        return self.method

    @property
    def parts(self) -> tuple[Release, ...]:
        """The releases it is composed of."""
        return self.members

    @property
    def records(self) -> int | None:
        """All records of disjoint parts, or those of the largest part; None where a part does not say."""
        counts = [part.records for part in self.members]
        known = [count for count in counts if count is not None]
        if len(known) != len(counts):
            return None
        return sum(known) if self.how is Composing.PARALLEL else max(known)

    @property
    def grids(self) -> tuple[float, ...]:
        """The grids of all parts, in their order."""
        return tuple(grid for part in self.members for grid in part.grids)

    @property
    def cost(self) -> Cost:
        """What a record pays, in integers, rounded up part by part."""
        self._check_private()
        costs = [part.cost for part in self.members]
        if self.how is Composing.PARALLEL:
            return Cost(max(cost.nano_epsilon for cost in costs), max(cost.atto_delta for cost in costs))
        return sum(costs, Cost(0))

    def with_seed_mark(self, seeded: bool) -> Self:
        """The same release, parts included, marked if it was made with a seeded generator."""
        if not seeded:
            return self
        return replace(self, seeded=True, members=tuple(part.with_seed_mark(True) for part in self.members))

    def describe(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return self._head() | {"composition": str(self.how), "parts": [part.describe() for part in self.members]}


def _total(parts: tuple[Release, ...], how: Composing) -> tuple[float, float]:
    total = max if how is Composing.PARALLEL else math.fsum
    return total(part.epsilon for part in parts), total(part.delta for part in parts)


def _compose(method: str, parts: tuple[Release, ...], how: Composing) -> Composition:
    epsilon, delta = _total(parts, how) if parts else (0.0, 0.0)
    seeded = any(part.seeded for part in parts)
    return Composition(epsilon=epsilon, delta=delta, seeded=seeded, method=method, how=how, members=parts)


def parallel(method: str, *parts: Release) -> Composition:
    """Releases on disjoint sets of records: a record is in at most one, so it pays for the dearest part only."""
    return _compose(method, parts, Composing.PARALLEL)


def sequential(method: str, *parts: Release) -> Composition:
    """Releases on the same records: a record pays for every part."""
    return _compose(method, parts, Composing.SEQUENTIAL)
