"""One site, its features or its records cut into K parts (000, Figures 1 to 3).

The parts of an outcome may be combiners: C-hl, the level-1 model that the method is; C-mv and C-wmv, votes of the same
level-0 models; and C-0, C-1, ..., each of those models alone, the most important group first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from crossward.learning.stacking import MajorityVote, StackedModel, WeightedVote
from crossward.privacy.noise import Array
from crossward_lab.bench.experiments.base import Outcome, Run, Setting, score
from crossward_lab.bench.presets import preset
from crossward_lab.bench.public import Public


@dataclass(frozen=True, slots=True, eq=False)
class OneSite:
    """A random split of one site's records."""

    public: Public
    X: Array
    y: Array
    X_test: Array
    y_test: Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacking(Setting):
    """A setting with one site. `draw` prepares the split of a repeat, in the columns of a preset."""

    draw: Callable[[int, str], OneSite]

    def measure(self, run: Run) -> Outcome:
        """Learn once; then look at every way to combine."""
        site = self.draw(run.repeat, run.preset)
        learner = preset(run, site.public, targets=(len(site.y),)).alone(run.method, len(site.y))
        model = learner.fit(site.X, site.y, randomness=run.randomness())
        margins = {"": model.margins(site.X_test)}
        if self.parts == "combiner" and isinstance(model, StackedModel):
            margins = {
                "C-hl": margins[""],
                "C-mv": MajorityVote().combine(model.level0, site.X_test),
                "C-wmv": WeightedVote().combine(model.level0, site.X_test),
            } | {f"C-{k}": group.margins(site.X_test) for k, group in enumerate(model.level0)}
        return {part: score(found, site.y_test) for part, found in margins.items()}
