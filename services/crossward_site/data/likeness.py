"""Are these still the same people? What seldom changes about a person, such as sex, is compared between two versions.

For columns of few values the agreement beyond chance (Cohen's kappa) is counted over persons who are in both versions:

    kappa = (agree - chance) / (1 - chance),    chance = sum_v share_old(v) share_new(v)

Where a share e of the persons has been exchanged for others, no column of theirs has a kappa above 1 - e, except by
accident, such as a number that follows from the id. So where hardly a column agrees, the rows are other people's under
the same ids. Else a person's changes are weighed against the two ways they can come about (a mixture of two classes, by
expectation and maximisation; Dempster, Laird and Rubin 1977):

    a stranger    agrees in column k with probability share_new(v), v the person's old value
    the same      differs in column k with probability d_k, whatever changes in the other columns

e and d_k are fitted together: what a column changes by itself is not taken from those who changed in all at once. Who
is more likely a stranger has changed beyond belief, and so has who differs in a column whose words have been turned
around. Only the steward hears of any. Of many persons a sample is compared, those with the smallest tags; tags are
chance.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from crossward.errors import InvalidData
from crossward_site.data.beside import Pulse, unwatched
from crossward_site.data.sealed import SealedCopy
from crossward_site.data.tags import Tags

SAMPLE = 200_000
FEW_VALUES, MOST_COLUMNS = 12, 16
FEWEST_PERSONS, FEWEST_COLUMNS = 30, 2
STRANGERS, TURNED = 0.2, -0.1
"""Below the first kappa two columns have nothing to do with one another; below the second they contradict."""
BY_ACCIDENT = 4
"""One column of so many may agree by accident, whoever the rows belong to."""
CORRECTED, STEPS = 0.005, 40
"""In every column at least this share of the persons is believed to differ; and the steps of the fit."""


@dataclass(slots=True)
class Likeness:
    """What persons of a version are like, by columns of few values."""

    columns: tuple[str, ...]
    below: np.uint64
    persons: list[Tags] = field(default_factory=list)
    codes: list[NDArray[np.int64]] = field(default_factory=list)

    def add(self, batch: pa.RecordBatch, persons: Tags) -> None:
        """Take in a batch: the rows of sampled persons."""
        rows = np.flatnonzero(persons <= self.below)
        if rows.size and self.columns:
            here = batch.select(list(self.columns)).take(rows)
            self.persons.append(persons[rows])
            self.codes.append(np.column_stack([_codes(column) for column in here.columns]))

    def firsts(self) -> tuple[Tags, NDArray[np.int64]]:
        """One row of each person, in the order of tags."""
        if not self.persons:
            return np.empty(0, np.uint64), np.empty((0, len(self.columns)), np.int64)
        persons, first = np.unique(np.concatenate(self.persons), return_index=True)
        return persons, np.concatenate(self.codes)[first]


def sampled(rows: int) -> np.uint64:
    """The largest tag of a sample: of few rows everyone is in it."""
    return np.uint64(((1 << 64) - 1) * min(1.0, SAMPLE / max(1, rows)) * (1 - 2**-50))


def steady_columns(copy: SealedCopy, names: Sequence[str]) -> tuple[str, ...]:
    """Columns of few values, by the first rows of a copy."""
    first = next(copy.batches(names), None)
    if first is None:
        return ()
    few = [name for name in names if 2 <= _distinct(first.columns.column(name)) <= FEW_VALUES]
    return tuple(few[:MOST_COLUMNS])


def of_copy(copy: SealedCopy, columns: tuple[str, ...], below: np.uint64, pulse: Pulse = unwatched) -> Likeness:
    """What the persons of a sealed copy are like."""
    likeness = Likeness(columns, below)
    if columns:
        for batch in copy.batches(columns):
            likeness.add(batch.columns, batch.persons)
            pulse()
    return likeness


def changed(old: Likeness, new: Likeness, where: str, share: float = 1.0) -> int:
    """How many persons have changed beyond belief, from a sample of this share; refused where most seem to have."""
    persons, before, after = _both(old, new)
    if len(persons) < FEWEST_PERSONS or len(old.columns) < FEWEST_COLUMNS:
        return 0
    kappas = np.array([_kappa(before[:, k], after[:, k]) for k in range(len(old.columns))])
    tell = np.flatnonzero(~np.isnan(kappas))
    if len(tell) < FEWEST_COLUMNS:
        return 0
    before, after, kappas = before[:, tell], after[:, tell], kappas[tell]
    by_accident = len(kappas) // BY_ACCIDENT
    if np.count_nonzero(kappas >= STRANGERS) <= by_accident:
        raise InvalidData(
            f"{where} seems to hold other people under the same ids: in hardly any column of few values do persons "
            "agree with what was known of them.",
            "Is it another hospital's table, or were ids dealt anew? Then nobody here is who the seats say.",
        )
    exchanged = 1.0 - float(np.sort(kappas)[-1 - by_accident])
    beyond = _strangers(before, after, kappas, max(0.0, min(1.0, exchanged))) | _turned(before, after, kappas)
    return round(np.count_nonzero(beyond) / share)


def _strangers(
    before: NDArray[np.int64], after: NDArray[np.int64], kappas: NDArray[np.float64], most: float
) -> NDArray[np.bool_]:
    """Who is more likely another person than the same; `most`: the largest share that the columns leave room for."""
    differ = (before != after).astype(np.float64)
    alike = np.column_stack([_shares(one, other) for one, other in zip(before.T, after.T, strict=True)])
    stranger = (differ * np.log1p(-alike) + (1 - differ) * np.log(alike)).sum(axis=1)
    own = (1 - alike).mean(axis=0) * (1 - kappas / max(1 - most, CORRECTED))  # the best column has no change of its own
    share = most
    for _ in range(STEPS):
        own, share = np.clip(own, CORRECTED, 1 - CORRECTED), min(max(share, 1 / len(before)), most, 1 - CORRECTED)
        if share <= 0:
            return np.zeros(len(before), bool)
        same = differ @ (np.log(own) - np.log1p(-own)) + np.log1p(-own).sum()
        odds = np.log(share) - np.log1p(-share) + stranger - same
        likely = 1 / (1 + np.exp(-np.clip(odds, -500, 500)))
        own, share = (1 - likely) @ differ / max(1.0, float((1 - likely).sum())), float(likely.mean())
    found: NDArray[np.bool_] = odds > 0
    return found


def _shares(before: NDArray[np.int64], after: NDArray[np.int64]) -> NDArray[np.float64]:
    """For each old value the share of persons who have it now: how often a stranger would agree. Never 0 or 1."""
    values, places = np.unique(before, return_inverse=True)
    ordered = np.sort(after)
    counts = np.searchsorted(ordered, values, "right") - np.searchsorted(ordered, values, "left")
    shares: NDArray[np.float64] = np.clip(counts / len(after), 0.5 / len(after), 1 - 0.5 / len(after))[places]
    return shares


def _turned(before: NDArray[np.int64], after: NDArray[np.int64], kappas: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Who differs in a column that has the same values as before and agrees less often than strangers would."""
    turned = [
        k for k in np.flatnonzero(kappas < TURNED) if np.array_equal(np.unique(before[:, k]), np.unique(after[:, k]))
    ]
    differ: NDArray[np.bool_] = (before != after)[:, turned].any(axis=1)
    return differ


def _both(old: Likeness, new: Likeness) -> tuple[Tags, NDArray[np.int64], NDArray[np.int64]]:
    (one, before), (other, after) = old.firsts(), new.firsts()
    persons, here, there = np.intersect1d(one, other, assume_unique=True, return_indices=True)
    return persons, before[here], after[there]


def _kappa(before: NDArray[np.int64], after: NDArray[np.int64]) -> float:
    values, codes = np.unique(np.concatenate([before, after]), return_inverse=True)
    one, other = codes[: len(before)], codes[len(before) :]
    shares = [np.bincount(side, minlength=len(values)) / len(before) for side in (one, other)]
    chance = float(shares[0] @ shares[1])
    return float("nan") if chance > 1 - 1e-9 else (float(np.mean(one == other)) - chance) / (1 - chance)


def _codes(column: pa.Array) -> NDArray[np.int64]:
    """A number for each value, the same in every batch: that of its text."""
    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    words = [zlib.crc32(_text(value).encode()) for value in coded.dictionary.to_pylist()]
    places = coded.indices.fill_null(len(words)).to_numpy(zero_copy_only=False)
    found: NDArray[np.int64] = np.array([*words, -1], np.int64)[places]
    return found


def _text(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _distinct(column: pa.Array) -> int:
    return len(column.drop_null().unique())
