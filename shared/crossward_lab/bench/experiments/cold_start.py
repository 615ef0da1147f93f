"""Partners help one that has just begun (003): boosting over their private models' scores, on its few records.

Every partner releases a model of all its records. A target that has only seen a month boosts the scores of the others'
models and of its own private one; the ensemble never leaves it. Beside it stand models of the target alone: private
and not, of its month ("cold") and of its year ("ramped up").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from crossward.learning.aggregation import BoostedEnsemble
from crossward.learning.amp import AMP
from crossward.learning.defaults import Circumstances, Defaults, Party
from crossward.learning.dppsgd import DPPSGD
from crossward.learning.plr import PLR
from crossward.learning.records import Ball
from crossward.privacy.budget import NON_PRIVATE
from crossward.privacy.noise import Array
from crossward_lab.bench.experiments.base import PAPER, Outcome, Run, Setting, score
from crossward_lab.bench.public import Public

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
