"""What everybody knows before a record is touched: everything that may shape a mechanism, and nothing else.

Principal components belong to it where their sample is public; the papers compute them from private records.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from crossward.learning.defaults import Circumstances, Party
from crossward.learning.encoding import Schema
from crossward.privacy.noise import Array


@dataclass(frozen=True, slots=True, eq=False)
class Public:
    """The columns of a problem as the public sees them.

    `importance` of each column. `features`: the feature each column belongs to; of the columns of one feature, all
    within [-1, 1], at most one differs from zero (a category's levels). `sample`: public records in these columns,
    where there are any; norms are then taken from them. `sizes`: the typical size of each column, and `directions`
    in which it acts, where the public knows; `prevalence`: the declared share of positives.
    """

    importance: tuple[float, ...]
    features: tuple[str, ...] = ()
    sample: Array | None = None
    sizes: tuple[float, ...] | None = None
    directions: tuple[float, ...] | None = None
    prevalence: float = 0.5

    @classmethod
    def of_schema(cls, schema: Schema, prevalence: float) -> Public:
        """What a study's schema declares."""
        facts = Circumstances.from_schema(schema, targets=(Party(1000, 1.0),), prevalence=prevalence)
        return cls(schema.importance, schema.column_features, None, facts.sizes, facts.directions, prevalence)

    @property
    def columns(self) -> int:
        """How many columns a record has."""
        return len(self.importance)

    def largest(self, columns: Sequence[int] | None = None) -> float:
        """The largest norm of a record in these columns, as far as the public can tell."""
        return _largest(self, tuple(range(self.columns) if columns is None else columns))


@lru_cache(maxsize=1000)
def _largest(public: Public, columns: tuple[int, ...]) -> float:
    if public.sample is not None:
        return float(np.linalg.norm(public.sample[:, list(columns)], axis=1).max())
    return math.sqrt(len({public.features[column] for column in columns}))


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """The first components, by falling variance. What they show is that of the sample they were computed from."""

    mean: Array
    directions: Array
    variances: tuple[float, ...]

    def of(self, records: Array) -> Array:
        """Records in these components: (n, components)."""
        return np.ascontiguousarray((records - self.mean) @ self.directions)


def principal(records: Array, components: int) -> Basis:
    """The components of a sample (n, d), from its covariance."""
    mean = records.mean(axis=0)
    centred = records - mean
    values, vectors = np.linalg.eigh(centred.T @ centred / len(records))
    first = slice(-1, -components - 1, -1)
    return Basis(mean, np.ascontiguousarray(vectors[:, first]), tuple(float(v) for v in np.maximum(values[first], 0)))
