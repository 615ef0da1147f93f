"""What the rules may look at: public facts of a study, known before any record is read."""

from __future__ import annotations

import math
from dataclasses import dataclass

from crossward.errors import InvalidImportance, InvalidSetting, WrongShape
from crossward.learning.encoding import Category, Flag, Schema
from crossward.privacy.budget import Epsilon, NonPrivate, check_epsilon
from crossward.privacy.calibration import check_records

NO_NOISE = 100.0
"""The epsilon that rules reckon with for a non-private twin: noise is then far below sampling error."""


@dataclass(frozen=True, slots=True)
class Party:
    """A source or a target: how many records it trains on, and at which epsilon."""

    records: int
    epsilon: Epsilon

    def __post_init__(self) -> None:
        if not isinstance(self.epsilon, NonPrivate):
            check_epsilon(self.epsilon)
        check_records(self.records, self.budget)

    @property
    def budget(self) -> float:
        """Epsilon as a number."""
        return NO_NOISE if isinstance(self.epsilon, NonPrivate) else float(self.epsilon)

    @property
    def reach(self) -> float:
        """n eps: what signal is measured against, since a sum over n records carries noise of the order of 1/eps."""
        return self.records * self.budget


@dataclass(frozen=True, slots=True)
class Circumstances:
    """All that the rules know, one entry per encoded column where there is one per column.

    `importance`: how much a column tells, in the doctors' judgement. `sizes`: its typical root mean square once
    encoded. `directions`: from -1, a larger value lowers the risk, to +1, it raises it; 0 unknown. `prevalence`: the
    declared share of positives.
    """

    importance: tuple[float, ...]
    sources: tuple[Party, ...] = ()
    targets: tuple[Party, ...] = ()
    prevalence: float = 0.5
    sizes: tuple[float, ...] | None = None
    directions: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("importance", "sources", "targets", "sizes", "directions"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(getattr(self, name)))
        if not all(math.isfinite(v) and v >= 0 for v in self.importance) or not any(v > 0 for v in self.importance):
            raise InvalidImportance("Importances must be finite, none negative, not all zero.", "Correct the schema.")
        if not self.sources and not self.targets:
            raise InvalidSetting("A study has at least one party.", "Give its sources or its targets.")
        if not 0 < self.prevalence < 1:
            raise InvalidSetting(f"prevalence must lie between 0 and 1, not {self.prevalence!r}.", "0.5 if unknown.")
        for name, per_column in (("sizes", self.sizes), ("directions", self.directions)):
            if per_column is not None and len(per_column) != len(self.importance):
                raise WrongShape(f"{name} has {len(per_column)} entries for {len(self.importance)} columns.")
        if self.sizes is not None and not all(math.isfinite(size) and size > 0 for size in self.sizes):
            raise InvalidSetting("Typical sizes of columns are finite numbers above 0.", "Try 0.5.")
        if self.directions is not None and not all(-1 <= sign <= 1 for sign in self.directions):
            raise InvalidSetting("Directions lie between -1 and +1.", "0 where the direction is not known.")

    @property
    def contrast(self) -> float:
        """What uneven classes leave of the signal: 1 for even ones, 2p where a share p is rare.

        A loss whose slope is at most 1 weighs each of the rare class by 1, and the many of the other class by as little
        as balances them: their means then differ by p times what even classes would make of p = 1/2.
        """
        return 2 * min(self.prevalence, 1 - self.prevalence)

    @property
    def typical_sizes(self) -> tuple[float, ...]:
        """The sizes, or half the range for every column where none are declared."""
        return (0.5,) * len(self.importance) if self.sizes is None else self.sizes

    @classmethod
    def from_schema(
        cls,
        schema: Schema,
        *,
        sources: tuple[Party, ...] = (),
        targets: tuple[Party, ...] = (),
        prevalence: float = 0.5,
        with_directions: bool = True,
    ) -> Circumstances:
        """The facts of a schema; the directions that its features declare may be left aside."""
        sizes = [typical_size(feature) for feature in schema.features for _ in feature.columns()]
        directions = schema.directions if with_directions and any(schema.directions) else None
        return cls(schema.importance, sources, targets, prevalence, tuple(sizes), directions)


def typical_size(feature: object) -> float:
    """The root mean square of an encoded column, as its kind alone suggests it.

    A number spreads over its public range; a flag is usually off; of L levels each is taken once in L.
    """
    if isinstance(feature, Category):
        return 1 / math.sqrt(len(feature.levels))
    return 0.4 if isinstance(feature, Flag) else 0.5
