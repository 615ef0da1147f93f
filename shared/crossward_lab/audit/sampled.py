"""Sampling audits: the real code, run afresh on two neighbouring data sets of a few records.

The pairs are chosen to hurt. With the Huber loss a record at +1 against one at -1 moves the gradient by the full 2
while the weights are small, and at the bend the two also differ in curvature: the loss comes near the whole epsilon
there, where the logistic loss would show half of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from crossward.learning.amp import AMP
from crossward.learning.combining import LevelOne, LevelOneModel, StackedModel
from crossward.learning.dppsgd import DPPSGD
from crossward.learning.losses import Huber
from crossward.learning.plr import PLR, PLRFS, groups_of
from crossward.learning.records import Ball
from crossward.learning.stacking import PSTF, PSTH, PSTS
from crossward.privacy.auc import PAIRS_SHARE, private_auc, twice_mann_whitney
from crossward.privacy.exact import discrete_laplace
from crossward.privacy.noise import Array, Randomness
from crossward.privacy.output import OutputStep, grid_for
from crossward_lab.audit.report import Audit, Effort, MechanismVerdict
from crossward_lab.audit.sampling import Bound, collect, epsilon_lower_bound

HUBER = Huber(0.5)

Run = Callable[[], Sequence[float]]


def compare(here: Run, there: Run, runs: int, *, delta: float = 0.0) -> Bound:
    """The lower bound on epsilon from this many runs on each side."""
    return epsilon_lower_bound(collect(here, runs), collect(there, runs), delta=delta)


def verdict(name: str, claimed: float, bounds: Sequence[Bound], *, delta: float = 0.0) -> MechanismVerdict:
    """The largest of the bounds against the claim."""
    worst = max(bounds, key=lambda bound: bound.epsilon)
    return MechanismVerdict.of(name, claimed, worst.epsilon, "sampling", worst.event, delta=delta)


def _pair(n: int, features: int = 1, at: int = 0) -> tuple[Array, Array, Array]:
    """Records, neighbours and labels: record `at` is all ones in D and all minus ones in D', the others are zero."""
    X = np.zeros((n, features))
    X[at] = 1.0
    y = np.where(np.arange(n) % 2 == at % 2, 1.0, -1.0)
    return X, -X, y


def plr(draws: int = 1, runs: int = 2_500) -> Audit:
    """PLR from records to released weights. The mutant draws again, a few times, until the model fits its records."""

    def audit(name: str, effort: Effort) -> MechanismVerdict:
        learner = PLR(Ball(1.0), 1.25, 2.0, loss=HUBER)
        X, other, y = _pair(2)

        def run(X: Array) -> Sequence[float]:
            model = learner.fit(X, y, randomness=effort.randomness)
            for _ in range(draws - 1):
                if model.margins(X)[0] * y[0] > 0:
                    break
                model = learner.fit(X, y, randomness=effort.randomness)
            return list(model.weights)

        bound = compare(lambda: run(X), lambda: run(other), effort.runs(runs))
        return verdict(name, 2.0, [bound])

    return audit


def one_class(name: str, effort: Effort) -> MechanismVerdict:
    """PLR where the replaced record is the only one of its class: whether it answers at all must not tell."""
    learner = PLR(Ball(1.0), 1.0, 1.0)
    X = np.zeros((4, 1))

    def run(last: float) -> Sequence[float]:
        return list(learner.fit(X, np.array([1.0, 1.0, 1.0, last]), randomness=effort.randomness).weights)

    bound = compare(lambda: run(-1.0), lambda: run(1.0), effort.runs(1_000))
    return verdict(name, 1.0, [bound])


def plr_fs(name: str, effort: Effort) -> MechanismVerdict:
    """Two groups released together: the least of both weights sees what the two say jointly."""
    learner = PLRFS(groups_of([Ball(1.0, 0.5, (0,)), Ball(1.0, 0.5, (1,))], 0.6), 3.0, HUBER)
    X, other, y = _pair(2, 2)

    def run(X: Array) -> Sequence[float]:
        a, b = (float(m.weights[0]) for m in learner.fit(X, y, randomness=effort.randomness).groups)
        return [a, b, a + b, min(a, b)]

    bound = compare(lambda: run(X), lambda: run(other), effort.runs(1_500))
    return verdict(name, 3.0, [bound])


def _weights(model: StackedModel) -> list[float]:
    """All released numbers of a stacked model, and a few of their combinations."""
    assert isinstance(model.combiner, LevelOneModel)
    low = [float(w) for level0 in model.level0 for w in level0.weights]
    high = [float(v) for v in model.combiner.model.weights]
    return [*low, sum(low), min(low), max(low), *high, sum(high)]


def pst_f(*, transfer: bool = False) -> Audit:
    """PST-F end to end, the replaced record in level-0 and in level-1. Its price is the dearer level, not the sum.

    With `transfer` PST-H: the same, pulled towards what another site released.
    """

    def audit(name: str, effort: Effort) -> MechanismVerdict:
        level0 = PLRFS(groups_of([Ball(1.0, 0.5, (0,)), Ball(1.0, 0.5, (1,))], 0.6), 3.0, HUBER)
        top = LevelOne(3.0, lam=1.25, prior=0.0, intercept=False, loss=HUBER)
        learner = PSTF(level0, top)
        if transfer:
            learner = PSTH(level0, top, level0.fit(*_pair(4, 2)[::2], randomness=effort.randomness))
        in_level1 = np.array([False, False, True, True])

        def run(X: Array, y: Array) -> Sequence[float]:
            return _weights(learner.fit(X, y, level1=in_level1, randomness=effort.randomness))

        bounds = []
        for at in (0, 2):
            X, other, y = _pair(4, 2, at)
            bounds.append(compare(partial(run, X, y), partial(run, other, y), effort.runs(700)))
        return verdict(name, learner.release(4, 2, 2).epsilon, bounds)

    return audit


def pst_s(name: str, effort: Effort) -> MechanismVerdict:
    """PST-S end to end. Chance decides which part a record is in, and the loss is a mixture over that."""
    learner = PSTS(PLR(Ball(1.0), 1.25, 3.0, loss=HUBER), 2, LevelOne(3.0, lam=1.25, prior=0.0, loss=HUBER))
    X, other, y = _pair(5)

    def run(X: Array) -> Sequence[float]:
        return _weights(learner.fit(X, y, randomness=effort.randomness))

    bound = compare(lambda: run(X), lambda: run(other), effort.runs(1_000))
    return verdict(name, learner.release(5, 1).epsilon, [bound])


def dppsgd(name: str, effort: Effort) -> MechanismVerdict:
    """DPPSGD from records to released weights."""
    learner = DPPSGD(Ball(1.0), 1.0, 2.0, passes=2, batch=1, loss=HUBER)
    X, other, y = _pair(2)

    def run(X: Array) -> Sequence[float]:
        return list(learner.fit(X, y, randomness=effort.randomness).weights)

    bound = compare(lambda: run(X), lambda: run(other), effort.runs(2_500))
    return verdict(name, 2.0, [bound])


def amp(name: str, effort: Effort) -> MechanismVerdict:
    """AMP from records to released weights, at its delta."""
    learner = AMP(Ball(1.0), 2.0, 0.01, loss=HUBER)
    X, other, y = _pair(2)

    def run(X: Array) -> Sequence[float]:
        return list(learner.fit(X, y, randomness=effort.randomness).weights)

    bound = compare(lambda: run(X), lambda: run(other), effort.runs(2_500), delta=0.01)
    return verdict(name, 2.0, [bound], delta=0.01)


def release_step(mutant: bool = False) -> Audit:
    """The noise and the grid of the release step, on two answers as far apart as it hides.

    The mutant takes its grid from the answer, so that the last digits tell which answer it was.
    """
    right = OutputStep.hiding(0.2, 1.0)

    def audit(name: str, effort: Effort) -> MechanismVerdict:
        def run(w: float) -> Sequence[float]:
            step = OutputStep(right.scale, grid_for(w)) if mutant else right
            (published,) = step.publish(np.array([w]), effort.randomness)
            return [published, published / grid_for(1.1) % 1.0]

        bound = compare(lambda: run(0.9), lambda: run(1.1), effort.runs(6_000))
        return verdict(name, 1.0, [bound])

    return audit


def auc(mutant: bool = False) -> Audit:
    """The private AUC of eight records, one of which goes from the best score to the worst.

    The mutant adds noise as if one record could change one pair only.
    """
    scores = np.arange(8.0)
    other = np.array([*scores[:-1], -1.0])
    y = np.array([-1.0] * 7 + [1.0])
    epsilon = 2.0

    def audit(name: str, effort: Effort) -> MechanismVerdict:
        def run(scores: Array) -> Sequence[float]:
            if mutant:
                return _auc_of_one_pair(scores, y, epsilon, effort.randomness)
            found = private_auc(scores, y, epsilon, randomness=effort.randomness)
            return [found.auc, found.deviation]

        bound = compare(lambda: run(scores), lambda: run(other), effort.runs(1_500))
        return verdict(name, epsilon, [bound])

    return audit


def _auc_of_one_pair(scores: Array, y: Array, epsilon: float, randomness: Randomness) -> Sequence[float]:
    exact = Fraction(epsilon)
    pairs = twice_mann_whitney(scores, y) + discrete_laplace(2 / (PAIRS_SHARE * exact), randomness)
    positives = int(np.sum(y == 1)) + discrete_laplace(1 / ((1 - PAIRS_SHARE) * exact), randomness)
    return [float(pairs), float(positives)]
