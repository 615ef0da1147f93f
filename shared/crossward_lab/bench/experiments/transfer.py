"""A source and its targets (002 Tables 1, 2 and 4; 000 Table 2): alone, from the source, and both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from crossward.learning.transfer import source_directly
from crossward.privacy.noise import Array
from crossward_lab.bench.experiments.base import Outcome, Run, Setting, score
from crossward_lab.bench.presets import preset
from crossward_lab.bench.public import Public

ALONE = ("Direct", "PST-F")


@dataclass(frozen=True, slots=True, eq=False)
class Target:
    """A target's records, those to train on and those held out."""

    name: str
    X: Array
    y: Array
    X_test: Array
    y_test: Array


@dataclass(frozen=True, slots=True, eq=False)
class Sites:
    """A random split of all sites' records."""

    public: Public
    X: Array
    y: Array
    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer(Setting):
    """A setting with a source and targets. `draw` prepares the split of a repeat, in the columns of a preset."""

    draw: Callable[[int, str], Sites]

    def measure(self, run: Run) -> Outcome:
        """The source releases once; every target learns from it."""
        sites, randomness = self.draw(run.repeat, run.preset), run.randomness()
        sizes = tuple(len(target.y) for target in sites.targets)
        rules = preset(run, sites.public, (len(sites.y),), sizes)
        alone = run.method.startswith(ALONE)
        released = None
        if not alone:
            released = rules.source(run.method).fit(sites.X, sites.y, randomness=randomness)
        found: Outcome = {}
        for target in sites.targets:
            if alone:
                model = rules.alone(run.method, len(target.y)).fit(target.X, target.y, randomness=randomness)
            elif run.method.startswith("SourceD"):
                assert released is not None
                model = source_directly(released)
            else:
                learner = rules.target(run.method, len(target.y), released)
                model = learner.fit(target.X, target.y, randomness=randomness)
            found[target.name] = score(model.margins(target.X_test), target.y_test)
        return found
