"""Audits of private choice, with a candidate whose law is known: randomised response.

The candidate asks whether any of its records is special and answers truthfully with probability 1/(1 + exp(-eps)): it
uses up its epsilon exactly, so that whatever a choice adds to it shows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from crossward.privacy.noise import Array, Randomness
from crossward.privacy.release import Release
from crossward.privacy.selection import (
    NumberOfTries,
    choose_by_chunks,
    choose_by_random_stopping,
    exponential_mechanism,
)
from crossward_lab.audit.closed_forms import generating_function, worst_best_of
from crossward_lab.audit.report import Audit, Effort, MechanismVerdict
from crossward_lab.audit.sampled import compare, verdict

EPSILON = 1.0


@dataclass(frozen=True, slots=True)
class Answer:
    """A model that says the same of every record."""

    sign: float

    def margins(self, X: NDArray[np.floating]) -> Array:
        """The answer, once per record."""
        return np.full(len(X), self.sign)


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomisedAnswer(Release):
    """What randomised response releases."""

    name: ClassVar[str] = "randomised-response"

    n: int


@dataclass(frozen=True, slots=True)
class RandomisedResponse:
    """The candidate. Special records have a first column above zero."""

    epsilon: float = EPSILON

    def release(self, n: int, features: int) -> Release:
        """What `train` on n records will release."""
        return RandomisedAnswer(epsilon=self.epsilon, n=n)

    def train(self, X: NDArray[np.floating], labels: Array, randomness: Randomness) -> Answer:
        """+1 for a special record, the wrong way round with probability 1/(1 + exp(eps))."""
        truth = 1.0 if np.any(X[:, 0] > 0) else -1.0
        honest = float(randomness.uniform(1)[0]) < 1 / (1 + math.exp(-self.epsilon))
        return Answer(truth if honest else -truth)


def exponential(mutant: bool = False) -> Audit:
    """The exponential mechanism on counts that one record turns round, one against ten.

    The ten make up the sum that probabilities are divided by, so that it changes as much as the one does. The mutant
    forgets to halve epsilon.
    """

    def audit(name: str, effort: Effort) -> MechanismVerdict:
        claimed = 2.0
        epsilon = 2 * claimed if mutant else claimed

        def run(mistakes: Sequence[int]) -> Sequence[float]:
            return [float(exponential_mechanism(mistakes, epsilon, effort.randomness) == 0)]

        bound = compare(lambda: run([3] + [4] * 10), lambda: run([4] + [3] * 10), effort.runs(4_000))
        return verdict(name, claimed, [bound])

    return audit


def _records(n: int) -> tuple[Array, Array, Array]:
    """Records with and without a special one; all labels say +1, so +1 is the answer with no mistakes."""
    X, other = np.zeros((n, 1)), np.zeros((n, 1))
    X[0] = 1.0
    return X, other, np.ones(n)


def chunks(mutant: bool = False) -> Audit:
    """Choice by chunks. In the mutant every candidate, and the count of mistakes, sees all the records."""

    def audit(name: str, effort: Effort) -> MechanismVerdict:
        candidates = [RandomisedResponse()] * 3
        X, other, y = _records(20 if mutant else 4)

        def run(X: Array) -> Sequence[float]:
            if mutant:
                return _overlapping(candidates, X, y, effort.randomness)
            choice = choose_by_chunks(candidates, X, y, EPSILON, randomness=effort.randomness)
            return [choice.model.sign]

        bound = compare(lambda: run(X), lambda: run(other), effort.runs(1_500))
        return verdict(name, EPSILON, [bound])

    return audit


def _overlapping(
    candidates: Sequence[RandomisedResponse], X: Array, y: Array, randomness: Randomness
) -> Sequence[float]:
    models = [candidate.train(X, y, randomness) for candidate in candidates]
    mistakes = [int(np.sum(model.margins(X) != y)) for model in models]
    chosen = exponential_mechanism(mistakes, EPSILON, randomness)
    return [models[chosen].sign]


def stopping(name: str, effort: Effort) -> MechanismVerdict:
    """Choice by random stopping on real runs: a candidate that hides a special record among tries that agree."""
    X, other, y = _records(4)

    def run(X: Array) -> Sequence[float]:
        choice = choose_by_random_stopping(
            [RandomisedResponse()], X, y, EPSILON, expected_tries=3.0, randomness=effort.randomness
        )
        return [choice.model.sign]

    bound = compare(lambda: run(X), lambda: run(other), effort.runs(1_000))
    return verdict(name, 2 * EPSILON, [bound])


def stopping_law(cost: float) -> Audit:
    """The law of the number of tries, outcome by outcome, charged at `cost` times epsilon: 2 + eta is right."""

    def audit(name: str, effort: Effort) -> MechanismVerdict:
        tries = 150.0 if effort.full else 60.0
        law = NumberOfTries.expecting(tries, eta=0.0)
        loss, detail = worst_best_of(generating_function(law.pmf), EPSILON, points=80 if effort.full else 40)
        return MechanismVerdict.of(name, cost * EPSILON, loss, "exact", f"{detail}; {tries:g} tries expected")

    return audit
