"""The area under the ROC curve on private records, paid for.

AUC = U / (n_pos n_neg), where U counts the (positive, negative) pairs in the right order, a tie counting a half.
Replacing one record moves U by at most n - 1 and n_pos by at most 1, so 2U + Lap(2(n - 1) / (0.8 eps)) and
n_pos + Lap(1 / (0.2 eps)) together are eps-private; the quotient is post-processing. Both are integers and both
noises exact. The scores must come from a model that does not depend on these records, or was released already.
Proof: docs/proofs/auc.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from crossward.errors import NotFinite, WrongShape
from crossward.privacy.budget import NANO, check_epsilon, nano_epsilon
from crossward.privacy.calibration import check_records
from crossward.privacy.exact import discrete_laplace
from crossward.privacy.filters import Accountant, charge
from crossward.privacy.mechanisms import NoisyAuc
from crossward.privacy.noise import SYSTEM, Randomness

PAIRS_SHARE = Fraction(4, 5)


@dataclass(frozen=True, slots=True)
class PrivateAUC:
    """A released AUC. `deviation` is the standard deviation of its noise, from the released counts alone."""

    auc: float
    deviation: float
    release: NoisyAuc


def auc_release(n: int, epsilon: float, *, seeded: bool = False) -> NoisyAuc:
    """What an AUC from n records at this epsilon will release: known before a record is touched."""
    pairs_share = float(PAIRS_SHARE)
    return NoisyAuc(epsilon=check_epsilon(epsilon), n=check_records(n, epsilon), pairs_share=pairs_share, seeded=seeded)


def private_auc(
    scores: NDArray[np.floating],
    y: NDArray[np.floating],
    epsilon: float,
    *,
    randomness: Randomness = SYSTEM,
    accountant: Accountant | None = None,
) -> PrivateAUC:
    """Release the AUC of `scores` for labels y in {-1, +1}."""
    epsilon = check_epsilon(epsilon)
    scores = np.asarray(scores, dtype=np.float64)
    y = np.asarray(y)
    if scores.ndim != 1 or scores.shape != y.shape:
        raise WrongShape(f"Scores of shape {scores.shape} and labels of shape {y.shape}.", "One of each per record.")
    if not np.all(np.isfinite(scores)):
        raise NotFinite("The scores hold NaN or infinity.", "Score with a finite model on finite records.")
    if not np.all((y == 1) | (y == -1)):
        raise WrongShape("Labels must be -1 or +1.", "Encode the two classes as -1 and +1.")
    n = len(scores)
    release = auc_release(n, epsilon, seeded=randomness.seeded)
    charge(accountant, release)

    exact = Fraction(nano_epsilon(epsilon), 10**NANO)
    pairs_scale = Fraction(2 * max(n - 1, 1)) / (PAIRS_SHARE * exact)
    count_scale = 1 / ((1 - PAIRS_SHARE) * exact)
    twice_u = twice_mann_whitney(scores, y) + discrete_laplace(pairs_scale, randomness)
    positives = int(np.count_nonzero(y == 1)) + discrete_laplace(count_scale, randomness)

    positives = min(max(positives, 1), max(n - 1, 1))
    pairs = max(positives * (n - positives), 1)
    auc = min(max(twice_u / (2 * pairs), 0.0), 1.0)
    # Lap(s) has deviation sqrt(2) s; the derivatives of U / (p (n - p)) carry both noises over, to first order.
    from_pairs = float(pairs_scale) / (2 * pairs)
    from_count = float(count_scale) * auc * abs(n - 2 * positives) / pairs
    return PrivateAUC(auc, math.sqrt(2) * math.hypot(from_pairs, from_count), release)


def area_under_curve(scores: NDArray[np.floating], y: NDArray[np.floating]) -> float:
    """The AUC as it is. Not private: for public records and simulations."""
    positives = int(np.count_nonzero(y == 1))
    return twice_mann_whitney(scores, y) / (2 * positives * (len(y) - positives))


def twice_mann_whitney(scores: NDArray[np.floating], y: NDArray[np.floating]) -> int:
    """2U: twice the number of (positive, negative) pairs in order, ties counting once."""
    negative = np.sort(scores[y == -1])
    positive = scores[y == 1]
    below, not_above = (np.searchsorted(negative, positive, side) for side in ("left", "right"))
    return int(below.sum() + not_above.sum())
