"""Feature groups for PLR-FS: K balls over the encoded columns (000 section 4.1 with eq. (6); 002 section 3.2).

    uniform      columns in a seeded random order, cut into K near-equal parts,   q_k = 1/K
    importance   columns by falling importance v, cut into K near-equal parts,    q_k = sum_{i in k} v_i / sum_j v_j

Everything is public: the seed is published with the study, and importance comes from doctors, not from records.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from crossward.errors import InvalidBounds, InvalidImportance, InvalidSetting, WrongShape
from crossward.learning.records import Ball


@dataclass(frozen=True, slots=True)
class NormShare:
    """A radius for each group by its size: `typical_radius` of the group's columns with this share."""

    share: float


Radius = float | Sequence[float] | NormShare
"""One radius for all groups, one for each of the K, or a share of each group's largest possible norm."""


def typical_radius(columns: int, share: float, scale: Sequence[float] | None = None) -> float:
    """share * sqrt(columns), or share * ||scale|| for scaled columns.

    An encoded column is within [-1, 1], so a record's norm is at most sqrt(columns). A radius near the typical norm
    is better: shorter records suffer more from the noise.
    """
    if not (math.isfinite(share) and share > 0):
        raise InvalidBounds(f"A share of the largest norm must be a finite number above 0, not {share!r}.")
    return share * (math.sqrt(columns) if scale is None else math.hypot(*scale))


def uniform_groups(
    columns: int | Sequence[object],
    K: int,
    seed: int,
    radius: Radius,
    *,
    intercept: float = 0.0,
    scale: Sequence[float] | None = None,
) -> tuple[Ball, ...]:
    """K groups of the columns (their number, or their names) in an order fixed by the seed, with q_k = 1/K."""
    count = columns if isinstance(columns, int) else len(columns)
    parts = _cut(sorted(range(count), key=lambda column: _ticket(seed, column)), K)
    return _balls(parts, [1 / K] * K, radius, intercept, scale)


def importance_groups(
    importance: Sequence[float],
    K: int,
    radius: Radius,
    *,
    intercept: float = 0.0,
    scale: Sequence[float] | None = None,
) -> tuple[Ball, ...]:
    """K groups by falling importance, one value per column; equals keep their order. A group with q_k = 0 is dropped.

    `radius`, if one per group, counts all K groups. q_k is the correctly rounded quotient, so the q sum to at most 1.
    """
    _check_importance(importance)
    exact = [Fraction(float(value)) for value in importance]
    parts = _cut(sorted(range(len(exact)), key=lambda column: -exact[column]), K)
    total = sum(exact)
    return _balls(parts, [float(sum(exact[j] for j in part) / total) for part in parts], radius, intercept, scale)


def alpha_importance(d: int, alpha: float) -> tuple[float, ...]:
    """(alpha, alpha^2, ..., alpha^d): 000's stand-in when only the order of the features is known; alpha < 1 falls."""
    if not (math.isfinite(alpha) and alpha > 0):
        raise InvalidSetting(
            f"alpha must be a finite number above 0, not {alpha!r}.", "Below 1 the first columns matter most."
        )
    if d < 1 or d * math.log(alpha) > 700:
        raise InvalidSetting(f"There is no importance alpha^i for d = {d} and alpha = {alpha!r}.", "Use 0 < alpha < 1.")
    return tuple(float(alpha) ** i for i in range(1, d + 1))


def importance_scale(importance: Sequence[float], p: float) -> tuple[float, ...]:
    """s_j = (v_j / max v)^p for `Ball.scale`; p = 0 leaves the columns as they are.

    Noise is the same in all directions, so a longer column is a less noisy one: p > 0 favours the important ones.
    """
    _check_importance(importance)
    if not (math.isfinite(p) and p >= 0):
        raise InvalidSetting(f"The power p must be a finite number of at least 0, not {p!r}.", "Try 0.5 to 1.")
    largest = max(importance)
    return tuple(float(value / largest) ** p for value in importance)


def _check_importance(importance: Sequence[float]) -> None:
    if not all(math.isfinite(value) and value >= 0 for value in importance):
        raise InvalidImportance("Importances must be finite numbers of at least 0.", "Correct the schema.")
    if not any(value > 0 for value in importance):
        raise InvalidImportance("No column has an importance above 0.", "Give at least one, or use uniform groups.")


def _ticket(seed: int, column: int) -> bytes:
    """A column's place in the draw. A hash, since sites with other versions of a generator must get the same groups."""
    return hashlib.sha256(f"crossward groups {seed} {column}".encode()).digest()


def _cut(order: list[int], K: int) -> list[tuple[int, ...]]:
    """K consecutive parts whose sizes differ by at most one, the larger first."""
    if isinstance(K, bool) or not isinstance(K, int) or K < 1:
        raise InvalidSetting(f"The number of groups K must be a whole number of at least 1, not {K!r}.", "Try 2 to 5.")
    if len(order) < K:
        raise InvalidSetting(f"{len(order)} columns cannot make K = {K} groups.", f"Use K of at most {len(order)}.")
    size, larger = divmod(len(order), K)
    starts = [k * size + min(k, larger) for k in range(K + 1)]
    return [tuple(sorted(order[start:stop])) for start, stop in pairwise(starts)]


def _balls(
    parts: Sequence[tuple[int, ...]],
    q: Sequence[float],
    radius: Radius,
    intercept: float,
    scale: Sequence[float] | None,
) -> tuple[Ball, ...]:
    count = sum(map(len, parts))
    if scale is not None and len(scale) != count:
        raise WrongShape(f"There are {count} columns and {len(scale)} scales.", "Give one scale per column.")
    scales = [None if scale is None else tuple(float(scale[j]) for j in part) for part in parts]
    if isinstance(radius, NormShare):
        radii = [typical_radius(len(part), radius.share, s) for part, s in zip(parts, scales, strict=True)]
    else:
        radii = [float(radius)] * len(parts) if isinstance(radius, int | float) else [float(r) for r in radius]
    if len(radii) != len(parts):
        raise InvalidSetting(f"There are {len(parts)} groups and {len(radii)} radii.", "Give one for all or one each.")
    return tuple(
        Ball(r, qk, part, s, intercept) for r, qk, part, s in zip(radii, q, parts, scales, strict=True) if qk > 0
    )
