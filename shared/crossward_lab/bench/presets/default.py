"""Our settings: rules of public quantities, from `crossward.learning.defaults`. Nothing is tuned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from crossward.learning.defaults import Circumstances, Defaults, Party
from crossward.learning.plr import PLR, PLRFS
from crossward_lab.bench.public import Public
from crossward_lab.bench.settings import Run

DIRECTED = ", directed"
"""Ends the name of a method that also starts from the declared direction in which each feature acts."""


@dataclass(frozen=True, slots=True)
class Default:
    """Our rules for one run, in a study of sites of these public sizes."""

    run: Run
    public: Public
    sources: tuple[int, ...]
    targets: tuple[int, ...]

    def alone(self, method: str, records: int) -> Any:
        """Direct, PST-S or PST-F by the rules for a site without sources."""
        rules, party = self._rules(method), self._party(records)
        if method.startswith("Direct"):
            return rules.direct(party)
        if method == "PST-S":
            return rules.pst_s(party, parts=self._k)
        return rules.pst_f(party)

    def source(self, method: str) -> PLR | PLRFS:
        """What a source releases for SimComb, or for PST-H."""
        rules, party = self._rules(method), self._party(self.sources[0])
        return rules.source_split(party) if method.startswith("PST-H") else rules.source(party)

    def target(self, method: str, records: int, released: Any) -> Any:
        """SimComb or PST-H."""
        rules, party = self._rules(method), self._party(records)
        return rules.simcomb(party, released) if method.startswith("SimComb") else rules.pst_h(party, released)

    @property
    def _k(self) -> int | None:
        k = dict(self.run.options).get("K")
        return None if k is None else int(k)

    def _party(self, records: int) -> Party:
        return Party(records, self.run.budget)

    def _rules(self, method: str) -> Defaults:
        facts = Circumstances(
            importance=self.public.importance,
            sources=tuple(self._party(n) for n in self.sources),
            targets=tuple(self._party(n) for n in self.targets),
            prevalence=self.public.prevalence,
            sizes=self.public.sizes,
            directions=self.public.directions if method.endswith(DIRECTED) else None,
        )
        if method.endswith("(U)"):
            return Defaults.of(facts, K=self._k, grouping="uniform", seed=self.run.repeat)
        return Defaults.of(facts, K=self._k)
