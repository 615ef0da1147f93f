"""How every fit begins: check the records, then charge the release. Only then may noise be drawn."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from crossward.learning.checks import check_labels, check_matrix
from crossward.privacy.filters import Accountant, charge
from crossward.privacy.noise import Array, Randomness
from crossward.privacy.release import Release


class Describes(Protocol):
    """A learner that can say beforehand what it will release."""

    def release(self, n: int, features: int) -> Release:
        """What `fit` on n records will release."""
        ...


def check_and_charge(
    learner: Describes,
    X: NDArray[np.floating],
    y: NDArray[np.floating],
    randomness: Randomness,
    accountant: Accountant | None,
) -> tuple[NDArray[np.floating], Array, Release]:
    """Usable records, labels in {-1, +1}, and the release they are now charged for."""
    X = check_matrix(X)
    labels = check_labels(y, len(X))
    release = learner.release(*X.shape).with_seed_mark(randomness.seeded)
    charge(accountant, release)
    return X, labels, release
