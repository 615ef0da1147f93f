"""How every fit begins: check the records, then charge the release. Only then may noise be drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from crossward.errors import EmptyData, NotFinite, OneClass, WrongShape
from crossward.learning.records import Labels
from crossward.learning.stored import Rows, StoredRows
from crossward.learning.workers import BLOCK_BYTES
from crossward.privacy.filters import Accountant, charge
from crossward.privacy.noise import Randomness
from crossward.privacy.release import Release

R_co = TypeVar("R_co", bound=Release, covariant=True)
_Number = TypeVar("_Number", bound=np.number[Any])

LARGEST = 1e100
"""Numbers up to this size can be squared, summed and scaled (by at most `records.EXTREME`) without overflow, so that no
record can make arithmetic fail after the charge."""


@overload
def check_matrix(X: NDArray[np.floating], columns: int | None = None) -> NDArray[np.floating]: ...
@overload
def check_matrix(X: Rows, columns: int | None = None) -> Rows: ...
def check_matrix(X: Rows, columns: int | None = None) -> Rows:
    """A finite floating-point matrix with records, features and, if given, that many columns."""
    if not isinstance(X, StoredRows):
        X = np.asarray(X)
    if X.ndim != 2:
        raise WrongShape(f"The records must be a matrix (n, d), not {X.ndim}-dimensional.", "Give one row per record.")
    if X.shape[0] == 0 or X.shape[1] == 0:
        raise EmptyData(f"The data has {X.shape[0]} records and {X.shape[1]} features.", "Give at least one of each.")
    if columns is not None and X.shape[1] != columns:
        raise WrongShape(f"The data has {X.shape[1]} columns and the model {columns}.", "Encode both the same way.")
    if not isinstance(X, StoredRows) and X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float64)
    if not (X.largest <= LARGEST if isinstance(X, StoredRows) else _is_usable(X)):
        raise NotFinite(
            f"The data holds NaN, infinity or a number beyond {LARGEST:g}.",
            "Drop such records or give their features a default.",
        )
    return X


def check_labels(y: Labels, n: int) -> Labels:
    """Labels in {-1, +1}, both present, one per record. Those of one byte stay so."""
    labels: Labels = y if isinstance(y, np.ndarray) and y.dtype == np.int8 else np.asarray(y, dtype=np.float64)
    if labels.shape != (n,):
        raise WrongShape(f"There are {n} records and labels of shape {labels.shape}.", "Give one label per record.")
    if not all(bool(np.all(np.abs(block) == 1.0)) for block in _blocks(labels, 8)):
        raise OneClass("Labels must be -1 or +1.", "Encode the two classes as -1 and +1.")
    if all(bool(np.all(block == labels[0])) for block in _blocks(labels, 8)):
        raise OneClass(
            f"All {n} records are of one class ({labels[0]:+.0f}).",
            "Bring records of both classes to learn the difference.",
        )
    return labels


class Describes(Protocol[R_co]):
    """A learner that can say beforehand what it will release."""

    def release(self, n: int, features: int) -> R_co:
        """What `fit` on n records will release."""
        ...


def check_and_charge(
    learner: Describes[R_co],
    X: Rows,
    y: Labels,
    randomness: Randomness,
    accountant: Accountant | None,
) -> tuple[Rows, Labels, R_co]:
    """Usable records, labels in {-1, +1}, and the release they are now charged for."""
    X = check_matrix(X)
    labels = check_labels(y, len(X))
    release = learner.release(*X.shape).with_seed_mark(randomness.seeded)
    charge(accountant, release)
    return X, labels, release


def _is_usable(X: NDArray[np.floating]) -> bool:
    """Whether every number is within LARGEST. The sum of squares says so for most data, and is quicker to see."""
    with np.errstate(over="ignore", invalid="ignore"):
        if X.flags.forc and float(np.vdot(X.ravel(order="K"), X.ravel(order="K"))) <= LARGEST**2:
            return True
    return all(bool(np.all(np.abs(block) <= LARGEST)) for block in _blocks(X, X.itemsize * X.shape[1]))


def _blocks(rows: NDArray[_Number], row_bytes: int) -> Iterator[NDArray[_Number]]:
    """A few rows at a time, so that what is computed of them stays in cache."""
    few = max(64, BLOCK_BYTES // row_bytes)
    return (rows[start : start + few] for start in range(0, len(rows), few))
