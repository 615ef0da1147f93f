"""Every way a branch may learn, by the public rules of `crossward.learning.defaults`: nothing is tuned on records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from crossward.learning.aggregation import average
from crossward.learning.combining import StackedModel
from crossward.learning.defaults import Defaults, Party
from crossward.learning.model import ReleasedModel, SplitModel
from crossward.privacy.noise import Array, Randomness

METHODS = {
    "Direct": "alone (Direct)",
    "SourceD": "main's model (SourceD)",
    "SimComb": "transfer (SimComb)",
    "PST-F (W)": "stacking (PST-F W)",
    "PST-H (W)": "both (PST-H W)",
}
"""The papers' name of each method, and what a table calls it."""

TRANSFER = ("SourceD", "SimComb", "PST-H (W)")
"""Methods that learn from sources."""

Learned = ReleasedModel | StackedModel


@dataclass(frozen=True, slots=True)
class Lent:
    """What the sources release, for every method: one model each, and one per group of columns each."""

    whole: tuple[ReleasedModel, ...] = ()
    split: tuple[SplitModel, ...] = ()

    @classmethod
    def by(cls, rules: Defaults, records: Sequence[tuple[Array, Array]], randomness: Randomness) -> Lent:
        """Train each source of the rules' facts on its records."""
        sources = list(zip(rules.facts.sources, records, strict=True))
        return cls(
            tuple(rules.source(party).fit(X, y, randomness=randomness) for party, (X, y) in sources),
            tuple(rules.source_split(party).fit(X, y, randomness=randomness) for party, (X, y) in sources),
        )


def learn(
    rules: Defaults, lent: Lent, party: Party, X: Array, y: Array, randomness: Randomness
) -> Iterator[tuple[str, Learned]]:
    """Each method's model for a target; without sources, those of a target alone."""
    yield "Direct", rules.direct(party).fit(X, y, randomness=randomness)
    if lent.whole:
        yield "SourceD", average(lent.whole, "records")
        yield "SimComb", rules.simcomb(party, lent.whole).fit(X, y, randomness=randomness)
    yield "PST-F (W)", rules.pst_f(party).fit(X, y, randomness=randomness)
    if lent.split:
        yield "PST-H (W)", rules.pst_h(party, lent.split).fit(X, y, randomness=randomness)
