"""The public facts of a study that is being planned: its features, who takes part, and how many records each has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from crossward.errors import InvalidSetting
from crossward.learning.defaults import Circumstances, Defaults, Party
from crossward.learning.encoding import Schema
from crossward.planning.assumptions import Assumptions
from crossward.study import Study
from crossward.study.auto import training_records

MOST_RECORDS = 100_000
"""A party with more is simulated as if it had so many: more would take long, and noise hardly matters there."""

HOLDOUT = 4
"""Cells that every forecast holds out, as a study does by default."""


@dataclass(frozen=True, slots=True)
class Setting:
    """Record counts of the sources and of the targets, and what is assumed of the records.

    `ratio` is what a source pays for every epsilon of a target.
    """

    schema: Schema
    sources: tuple[int, ...]
    targets: tuple[int, ...]
    assumed: Assumptions
    ratio: float = 1.0

    @classmethod
    def of(cls, study: Study, records: Mapping[str, int], assumed: Assumptions) -> Setting:
        """The setting of a study, with counts from `records` or, where it has none, from the study's own."""
        counts = {**(study.records or {}), **records}
        for party in counts.keys() - {*study.sources, *study.targets}:
            raise InvalidSetting(f"{party} takes no part in the study.", "Count the records of its parties.")
        source, target = study.epsilon.source, study.epsilon.target
        ratio = source / target if source and target else 1.0
        sizes = [tuple(_count(counts, party) for party in parties) for parties in (study.sources, study.targets)]
        return cls(study.schema, sizes[0], sizes[1], assumed, ratio)

    @property
    def simulated(self) -> Setting:
        """The setting as it is simulated: nobody has more than MOST_RECORDS."""
        sources, targets = (tuple(min(n, MOST_RECORDS) for n in sizes) for sizes in (self.sources, self.targets))
        return replace(self, sources=sources, targets=targets)

    @staticmethod
    def trained(records: int) -> int:
        """How many of a party's records train."""
        return training_records(records, HOLDOUT)

    def rules(self, epsilon: float) -> Defaults:
        """The public rules where a target pays `epsilon`."""
        sources = tuple(Party(self.trained(n), epsilon * self.ratio) for n in self.sources)
        targets = tuple(Party(self.trained(n), epsilon) for n in self.targets)
        rate = self.assumed.positive_rate
        return Defaults.of(Circumstances.from_schema(self.schema, sources=sources, targets=targets, prevalence=rate))


def _count(counts: Mapping[str, int], party: str) -> int:
    if party not in counts:
        raise InvalidSetting(
            f"Nothing says how many records {party} has.",
            f"Add {party} to the study's `records`, or pass --records {party}=5000. A public, rough count is enough.",
        )
    if counts[party] < 1:
        raise InvalidSetting(f"{party} has {counts[party]} records.", "Count at least 1.")
    return counts[party]
