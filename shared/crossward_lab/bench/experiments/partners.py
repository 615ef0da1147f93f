"""N sites and an aggregator with public records (004 Figures 1 to 3): their average, or the feature method.

The training records are cut into N + 1 equal parts, one of them the aggregator's. With `m`, sites use only m of theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from crossward.learning.aggregation import FeatureMethod, average
from crossward.learning.losses import Huber
from crossward.learning.plr import PLR
from crossward.learning.records import Ball
from crossward_lab.bench.experiments.base import PAPER, Outcome, Run, Setting, score
from crossward_lab.bench.experiments.stacking import OneSite
from crossward_lab.bench.presets import preset

AVERAGE, FEATURE = "average", "feature method"
SITES, HUBER = 10, Huber(0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partners(Setting):
    """A setting with N alike sites. `draw` gives all training records and the test records of a repeat."""

    draw: Callable[[int, str], OneSite]

    def measure(self, run: Run) -> Outcome:
        """Every site learns alone; the aggregator combines what they release."""
        whole, randomness = self.draw(run.repeat, run.preset), run.randomness()
        count = int(run.number("N", SITES))
        parts = np.array_split(np.arange(len(whole.y)), count + 1)
        size = min(int(run.number("m", len(whole.y))), *map(len, parts))
        if run.preset == PAPER:
            lam = run.number("lambda")
            learner: PLR = PLR(Ball(whole.public.largest()), lam, run.budget, loss=HUBER)
            aggregator = FeatureMethod(lam)
        else:
            rules = preset(run, whole.public, sources=(size,) * count)
            learner, aggregator = rules.source(run.method), FeatureMethod()  # type: ignore[assignment]
        sites = [learner.fit(whole.X[p[:size]], whole.y[p[:size]], randomness=randomness) for p in parts[1:]]
        mine = parts[0]
        model = average(sites) if run.method == AVERAGE else aggregator.fit(sites, whole.X[mine], whole.y[mine])
        return {"": score(model.margins(whole.X_test), whole.y_test)}
