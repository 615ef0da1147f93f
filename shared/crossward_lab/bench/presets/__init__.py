"""The same methods under two sets of public settings: as the papers print them, and by our rules.

A preset answers three questions: how does a site learn alone, what does a source release, and what does a target make
of that. Everything else (data, splits, noise, measures) is shared.
"""

from __future__ import annotations

from typing import Any, Protocol

from crossward.learning.plr import PLR, PLRFS
from crossward_lab.bench.presets.default import Default
from crossward_lab.bench.presets.paper import Paper
from crossward_lab.bench.public import Public
from crossward_lab.bench.settings import DEFAULT, Run

DIRECT, SOURCED, SIMCOMB = "Direct", "SourceD", "SimComb"
PST_S, PST_F_U, PST_F_W, PST_H_U, PST_H_W = "PST-S", "PST-F (U)", "PST-F (W)", "PST-H (U)", "PST-H (W)"


class Preset(Protocol):
    """How methods are set. Every answer is a learner with `fit(X, y, randomness=...)`."""

    def alone(self, method: str, records: int) -> Any:
        """Direct, PST-S, PST-F (U) or PST-F (W) on this many records."""
        ...

    def source(self, method: str) -> PLR | PLRFS:
        """What the source runs and releases for this method."""
        ...

    def target(self, method: str, records: int, released: Any) -> Any:
        """What a target of this many records makes of it: SimComb, PST-H (U) or PST-H (W)."""
        ...


def preset(run: Run, public: Public, sources: tuple[int, ...] = (), targets: tuple[int, ...] = ()) -> Preset:
    """The preset of a run, for sites of these public sizes."""
    return Default(run, public, sources, targets) if run.preset == DEFAULT else Paper(run, public)
