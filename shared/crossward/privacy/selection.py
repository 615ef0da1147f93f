"""Private choice of hyper-parameters: when fixed public defaults will not do.

- `choose_by_chunks` (Chaudhuri et al. 2011, Alg. 3): each candidate trains on its own chunk of the records, one more
  chunk counts mistakes, and the exponential mechanism picks. Disjoint chunks: eps in total, but little data each.
- `choose_by_random_stopping` (Papernot and Steinke 2022): try random candidates on all the data a random
  number of times and keep the best. Costs (2 + eta) eps, however many tries; their number is never told.

Candidates are learners: settings with a `release` known in advance and a `train`. Proof: docs/proofs/selection.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from crossward.errors import InvalidSetting, NotFinite, TooFewRecords, WrongShape
from crossward.privacy.budget import NANO, check_epsilon, nano_epsilon
from crossward.privacy.exact import bernoulli_exp, discrete_laplace
from crossward.privacy.filters import Accountant, charge
from crossward.privacy.mechanisms import ExponentialChoice, RandomStopping
from crossward.privacy.noise import SYSTEM, Array, Randomness
from crossward.privacy.release import Release, parallel


class Candidate(Protocol):
    """A learner with its hyper-parameters: PLR, DPPSGD."""

    def release(self, n: int, features: int) -> Release:
        """What `fit` on n records will release."""
        ...

    def train(self, X: NDArray[np.floating], labels: Array, randomness: Randomness) -> Any:
        """A model with `margins(X)`, from records that the caller has checked and paid for."""
        ...


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidate chosen, its model, and what choosing cost."""

    candidate: Candidate
    model: Any
    release: Release


def choose_by_chunks(
    candidates: Sequence[Candidate],
    X: NDArray[np.floating],
    y: NDArray[np.floating],
    epsilon: float,
    *,
    randomness: Randomness = SYSTEM,
    accountant: Accountant | None = None,
) -> Choice:
    """Train each candidate on its own chunk; pick i with probability proportional to exp(-eps mistakes_i / 2).

    Each candidate may cost at most `epsilon`; a record lies in one chunk, so the whole costs `epsilon`.
    """
    epsilon = check_epsilon(epsilon)
    labels = _checked(candidates, X, y)
    n, features = X.shape
    sizes = _chunk_sizes(n, len(candidates))
    trained = [_affordable(c, size, features, epsilon) for c, size in zip(candidates, sizes, strict=False)]
    counted = ExponentialChoice(epsilon=epsilon, n=sizes[-1], candidates=len(candidates))
    release = parallel("choice-by-chunks", *trained, counted).with_seed_mark(randomness.seeded)
    charge(accountant, release)

    chunks = np.split(randomness.permutation(n), np.cumsum(sizes)[:-1])
    models = [c.train(X[chunk], labels[chunk], randomness) for c, chunk in zip(candidates, chunks, strict=False)]
    mistakes = [_mistakes(model, X[chunks[-1]], labels[chunks[-1]]) for model in models]
    chosen = exponential_mechanism(mistakes, epsilon, randomness)
    return Choice(candidates[chosen], models[chosen], release)


def choose_by_random_stopping(
    candidates: Sequence[Candidate],
    X: NDArray[np.floating],
    y: NDArray[np.floating],
    epsilon: float,
    *,
    eta: float = 0.0,
    expected_tries: float = 10.0,
    validation_share: float = 0.25,
    randomness: Randomness = SYSTEM,
    accountant: Accountant | None = None,
) -> Choice:
    """Try random candidates a random number of times; keep the one with the fewest (noisy) mistakes.

    One try trains on the training records and counts mistakes on the others with Laplace noise, at `epsilon` each on
    disjoint records: it is eps-private. The number of tries follows the truncated negative binomial law with `eta`
    (0: logarithmic, 1: geometric), and the whole costs (2 + eta) `epsilon`.
    """
    epsilon = check_epsilon(epsilon)
    if not 0 < validation_share < 1:
        raise InvalidSetting(f"validation_share must lie between 0 and 1, not {validation_share!r}.", "Try 0.25.")
    labels = _checked(candidates, X, y)
    n, features = X.shape
    cut = n - max(1, round(validation_share * n))
    if cut < 1:
        raise TooFewRecords(f"{n} records cannot be split into training and validation.", "Bring more records.")
    for candidate in candidates:
        _affordable(candidate, cut, features, epsilon)
    law = NumberOfTries.expecting(expected_tries, eta)
    # A try may cost epsilon rounded up to whole nano-epsilon, so that is what is multiplied.
    base = nano_epsilon(epsilon)
    release = RandomStopping(
        epsilon=(2 + eta) * (base / 10**NANO),
        n=n,
        base_epsilon=epsilon,
        eta=eta,
        gamma=law.gamma,
        candidates=len(candidates),
        seeded=randomness.seeded,
    )
    charge(accountant, release)

    order = randomness.permutation(n)
    train, held = order[:cut], order[cut:]
    noise_scale = Fraction(10**NANO, base)
    best: tuple[int, Candidate, Any] | None = None
    for _ in range(law.draw(randomness)):
        candidate = candidates[randomness.below(len(candidates))]
        model = candidate.train(X[train], labels[train], randomness)
        mistakes = _mistakes(model, X[held], labels[held]) + discrete_laplace(noise_scale, randomness)
        if best is None or mistakes < best[0]:
            best = mistakes, candidate, model
    assert best is not None
    return Choice(best[1], best[2], release)


def exponential_mechanism(mistakes: Sequence[int], epsilon: float, randomness: Randomness) -> int:
    """An index i with probability proportional to exp(-eps mistakes_i / 2), exactly, for counts of sensitivity 1.

    By rejection: a uniform i is kept with probability exp(-eps (mistakes_i - fewest) / 2).
    """
    half = Fraction(nano_epsilon(epsilon), 2 * 10**NANO)
    fewest = min(mistakes)
    while True:
        i = randomness.below(len(mistakes))
        if bernoulli_exp(half * (mistakes[i] - fewest), randomness):
            return i


_LOGARITHMIC = 1e-12
"""An eta below this gives the logarithmic law to within rounding."""


@dataclass(frozen=True, slots=True)
class NumberOfTries:
    """The truncated negative binomial law on 1, 2, ...: P(k) ~ (1 - gamma)^k prod_{l<k} (l + eta) / (l + 1).

    At eta = 0 the logarithmic law, P(k) ~ (1 - gamma)^k / k.
    """

    gamma: float
    eta: float

    @classmethod
    def expecting(cls, tries: float, eta: float) -> NumberOfTries:
        """The law with this expected number of tries."""
        if not 0 <= eta <= 100:
            raise InvalidSetting(f"eta must lie between 0 and 100, not {eta!r}.", "0 is the cheapest.")
        if not 1.01 <= tries <= 10_000:
            raise InvalidSetting(f"expected_tries must lie between 1.01 and 10000, not {tries!r}.", "Try 10.")
        low, high = -40.0, -1e-9  # log gamma; the mean falls as gamma rises
        for _ in range(100):
            middle = (low + high) / 2
            low, high = (middle, high) if cls(math.exp(middle), eta).mean > tries else (low, middle)
        return cls(math.exp(low), eta)

    @property
    def mean(self) -> float:
        """The expected number of tries."""
        if self.eta < _LOGARITHMIC:
            return (1 / self.gamma - 1) / math.log(1 / self.gamma)
        return self.eta * (1 - self.gamma) / (self.gamma * -math.expm1(self.eta * math.log(self.gamma)))

    def pmf(self, k: int) -> float:
        """P(k)."""
        if self.eta < _LOGARITHMIC:
            return (1 - self.gamma) ** k / (k * math.log(1 / self.gamma))
        log_rising = math.lgamma(k + self.eta) - math.lgamma(self.eta) - math.lgamma(k + 1)
        log_norm = math.log(math.expm1(-self.eta * math.log(self.gamma)))
        return math.exp(k * math.log1p(-self.gamma) + log_rising - log_norm)

    def draw(self, randomness: Randomness) -> int:
        """A number of tries, by inversion."""
        left = float(randomness.uniform(1)[0])
        k, chance = 1, self.pmf(1)
        # Past the mean, chances below 1e-18 are less than the rounding of what is left.
        while (left := left - chance) > 0 and (chance > 1e-18 or k < self.mean):
            k += 1
            chance = self.pmf(k)
        return k


def _checked(candidates: Sequence[Candidate], X: NDArray[np.floating], y: NDArray[np.floating]) -> Array:
    """Labels in {-1, +1}; everything a candidate could stumble over is refused here, before the charge."""
    if not candidates:
        raise InvalidSetting("There are no candidates to choose from.", "Give at least one.")
    if X.ndim != 2 or y.shape != X.shape[:1]:
        raise WrongShape(f"Records of shape {X.shape} and labels of shape {y.shape}.", "One row and one label each.")
    if not np.all(np.isfinite(X)):
        raise NotFinite("The data holds NaN or infinity.", "Drop such records or give their features a default.")
    labels: Array = np.asarray(y, dtype=np.float64)
    if not np.all(np.abs(labels) == 1.0):
        raise WrongShape("Labels must be -1 or +1.", "Encode the two classes as -1 and +1.")
    return labels


def _chunk_sizes(n: int, candidates: int) -> list[int]:
    """One chunk for each candidate and one to judge them, as equal as can be."""
    size, larger = divmod(n, candidates + 1)
    if size < 1:
        raise TooFewRecords(
            f"{n} records cannot be cut into {candidates + 1} chunks.",
            "Bring more records or fewer candidates.",
        )
    return [size + 1] * larger + [size] * (candidates + 1 - larger)


def _affordable(candidate: Candidate, n: int, features: int, epsilon: float) -> Release:
    release = candidate.release(n, features)
    cost = release.cost
    if cost.nano_epsilon > nano_epsilon(epsilon) or cost.atto_delta:
        raise InvalidSetting(
            f"A candidate costs epsilon {cost.epsilon:g}, delta {cost.delta:g}; the choice pays {epsilon:g} for each.",
            "Give every candidate a pure epsilon of at most that.",
        )
    return release


def _mistakes(model: Any, X: NDArray[np.floating], y: NDArray[np.floating]) -> int:
    return int(np.count_nonzero(np.sign(model.margins(X)) != y))
