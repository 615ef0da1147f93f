"""What is tried, by the number of sites: one (stacking), a source and targets, alike partners, and a newcomer.

One site, its features or its records cut into K parts (000, Figures 1 to 3).

The parts of an outcome may be combiners: C-hl, the level-1 model that the method is; C-mv and C-wmv, votes of the same
level-0 models; and C-0, C-1, ..., each of those models alone, the most important group first.


A source and its targets (002 Tables 1, 2 and 4; 000 Table 2): alone, from the source, and both.

N sites and an aggregator with public records (004 Figures 1 to 3): their average, or the feature method.

The training records are cut into N + 1 equal parts, one of them the aggregator's. With `m`, sites use only m of theirs.


Partners help one that has just begun (003): boosting over their private models' scores, on its few records.

Every partner releases a model of all its records. A target that has only seen a month boosts the scores of the others'
models and of its own private one; the ensemble never leaves it. Beside it stand models of the target alone: private
and not, of its month ("cold") and of its year ("ramped up").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from crossward.learning.aggregation import BoostedEnsemble, FeatureMethod, average
from crossward.learning.amp import AMP
from crossward.learning.combining import MajorityVote, StackedModel, WeightedVote, source_directly
from crossward.learning.defaults import Circumstances, Defaults, Party
from crossward.learning.dppsgd import DPPSGD
from crossward.learning.losses import Huber
from crossward.learning.model import SplitModel
from crossward.learning.plr import PLR
from crossward.learning.records import Ball
from crossward.privacy.budget import NON_PRIVATE
from crossward.privacy.noise import Array
from crossward_lab.bench.presets import preset
from crossward_lab.bench.public import Public
from crossward_lab.bench.settings import PAPER, Outcome, Run, Setting, score


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


LEARN_ALONE = ("Direct", "PST-F")


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
        alone = run.method.startswith(LEARN_ALONE)
        released = None
        if not alone:
            released = rules.source(run.method).fit(sites.X, sites.y, randomness=randomness)
        found: Outcome = {}
        for target in sites.targets:
            if alone:
                model = rules.alone(run.method, len(target.y)).fit(target.X, target.y, randomness=randomness)
            elif run.method.startswith("SourceD"):
                assert released is not None
                model = source_directly(released) if isinstance(released, SplitModel) else released
            else:
                learner = rules.target(run.method, len(target.y), released)
                model = learner.fit(target.X, target.y, randomness=randomness)
            found[target.name] = score(model.margins(target.X_test), target.y_test)
        return found


AVERAGE, FEATURE = "average", "feature method"
PARTNER_SITES, HUBER = 10, Huber(0.5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Partners(Setting):
    """A setting with N alike sites. `draw` gives all training records and the test records of a repeat."""

    draw: Callable[[int, str], OneSite]

    def measure(self, run: Run) -> Outcome:
        """Every site learns alone; the aggregator combines what they release."""
        whole, randomness = self.draw(run.repeat, run.preset), run.randomness()
        count = int(run.number("N", PARTNER_SITES))
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


TARGETS = 8
"""Every state is a partner; these many, from the largest to the smallest, are looked at as targets."""

MONTH, YEAR = "a month, not private", "a year, not private"
PRINTED_NOISE = "DPPSGD, printed noise"
"""DPPSGD with the noise that 003 prints, which is not private: at batches of b it costs b epsilon."""

LAMBDA, WEIGHT, PASSES = 0.001, 5.0, 5
"""003 Table 2: lambda, and of its C the smallest, since noise grows with C."""


@dataclass(frozen=True, slots=True, eq=False)
class Start:
    """A state: a year of records, of which a month came first, and records to test on."""

    name: str
    X: Array
    y: Array
    X_cold: Array
    y_cold: Array
    X_test: Array
    y_test: Array


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """All states of a repeat."""

    public: Public
    states: tuple[Start, ...]

    @property
    def targets(self) -> tuple[int, ...]:
        """Which states are looked at as targets."""
        return tuple(np.linspace(0, len(self.states) - 1, TARGETS).round().astype(int).tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdStart(Setting):
    """A setting in which every state is a partner. Methods: a learner's name, "boosted" or "alone" before it."""

    draw: Any

    def measure(self, run: Run) -> Outcome:
        """Partners release; each target boosts, or stays alone."""
        split: States = self.draw(run.repeat)
        how, _, name = run.method.partition(" ")
        if how == "boosted":
            return _boosted(split, run, name)
        found, randomness = {}, run.randomness()
        for state in (split.states[i] for i in split.targets):
            X, y = (state.X, state.y) if name == YEAR else (state.X_cold, state.y_cold)
            model = _learner(name, run, split.public, len(y)).fit(X, y, randomness=randomness)
            found[state.name] = score(model.margins(state.X_test), state.y_test)
        return found


def _boosted(split: States, run: Run, name: str) -> Outcome:
    """Every partner's model of its year and the target's own of its month, boosted on the target's month."""
    randomness = run.randomness()
    released = [
        _learner(name, run, split.public, len(state.y)).fit(state.X, state.y, randomness=randomness)
        for state in split.states
    ]
    count = int(run.number("partners", len(released) - 1))
    rng = np.random.default_rng([run.repeat, 3])
    found = {}
    for i in split.targets:
        state = split.states[i]
        mine = _learner(name, run, split.public, len(state.y_cold)).fit(
            state.X_cold, state.y_cold, randomness=randomness
        )
        others = rng.permutation([j for j in range(len(released)) if j != i])[:count]
        model = BoostedEnsemble().fit([*(released[j] for j in others), mine], state.X_cold, state.y_cold)
        found[state.name] = score(model.margins(state.X_test), state.y_test)
    return found


def _learner(name: str, run: Run, public: Public, n: int) -> Any:
    """The learner that a method names, for n records."""
    ball = Ball(public.largest(), intercept=0.1)
    if name in (MONTH, YEAR):
        return PLR(ball, 1e-4, NON_PRIVATE)
    if run.preset == PAPER:
        if name == "AMP":
            return AMP(ball, run.budget, delta=1 / n**2, lam=LAMBDA)
        batch = max(16, n // 100)
        # The paper divides its noise by the batch size: this costs batch times the epsilon that it says.
        budget = batch * (run.epsilon or 0.0) if name == PRINTED_NOISE else run.budget
        return DPPSGD(ball, LAMBDA, budget, WEIGHT, PASSES, batch, projection=1 / LAMBDA)
    party = Party(n, run.budget)
    rules = Defaults.of(Circumstances(public.importance, (party,), (), public.prevalence, public.sizes))
    if name == "AMP":
        return rules.amp(party, 1 / n**2)
    return rules.dppsgd(party) if name == "DPPSGD" else rules.direct(party)
