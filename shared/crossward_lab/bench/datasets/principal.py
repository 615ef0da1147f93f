"""Principal components of a sample: where its mean lies, the directions it varies in most, and how much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from crossward.privacy.noise import Array


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
