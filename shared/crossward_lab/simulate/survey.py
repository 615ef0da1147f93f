"""The 50 features of the simulated diabetes survey, and how a person's answers are drawn.

Nine names and importances (Glu0, Glu120, HDL, bmi, age, bone, weight, mchild, eggw) are those that 000, Table 3
publishes of the RUIJIN study, as its doctors gave them. The others are invented to fit: a questionnaire and a
laboratory, importances with a long tail that sum to 1.

Behind each answer stands a normal variable t = f.factors + noise of variance 1 (at the main hospital), where f are
the person's three hidden factors: metabolism, ageing, habits. A number is typical + spread * t; a flag is set for the
highest t; a category cuts t into its levels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from crossward.learning.encoding import Category, Feature, Flag, Number
from crossward.learning.encoding.kinds import Direction
from crossward.privacy.noise import Array

Factors = tuple[float, float, float]
FREE: Factors = (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Item:
    """A feature and its law. `shares`: of a flag's or category's levels; `risk`: the sign of its effect."""

    feature: Feature
    risk: int
    factors: Factors
    typical: float = 0.0
    spread: float = 1.0
    shares: tuple[float, ...] = ()
    missing: float = 0.0

    def answers(self, t: Array) -> tuple[NDArray[Any], Array]:
        """The raw column for the hidden t, and the same standardised, as it acts on the label."""
        if isinstance(self.feature, Number):
            digits = 0 if self.spread >= 5 else 1 if self.spread >= 0.5 else 2
            values = np.maximum(self.typical + self.spread * t, 0.0).round(digits)
            within: Array = np.clip(values, self.feature.low, self.feature.high)
            return values, (within - self.typical) / self.spread
        level = np.searchsorted(ndtri(np.cumsum(self.shares)[:-1]), t)
        mean = sum(i * share for i, share in enumerate(self.shares))
        deviation = math.sqrt(sum((i - mean) ** 2 * share for i, share in enumerate(self.shares)))
        names = np.array(self.feature.levels if isinstance(self.feature, Category) else (False, True))
        return names[level], np.asarray((level - mean) / deviation, dtype=np.float64)


def _direction(risk: int) -> Direction:
    """The sign of the risk as a doctor would declare it."""
    return "up" if risk > 0 else "down"


def _number(
    name: str,
    importance: float,
    bounds: tuple[float, float],
    unit: str,
    law: tuple[float, float],
    risk: int,
    factors: Factors = FREE,
    missing: float = 0.0,
) -> Item:
    typical, spread = law
    feature = Number(name, *bounds, unit, default=typical, importance=importance, direction=_direction(risk))
    return Item(feature, risk, factors, typical, spread, missing=missing)


def _flag(name: str, importance: float, share: float, risk: int, factors: Factors = FREE) -> Item:
    return Item(Flag(name, importance=importance, direction=_direction(risk)), risk, factors, shares=(1 - share, share))


def _category(name: str, importance: float, levels: dict[str, float], risk: int, factors: Factors = FREE) -> Item:
    feature = Category(name, tuple(levels), importance=importance, direction=_direction(risk))
    return Item(feature, risk, factors, shares=tuple(levels.values()))


SURVEY: tuple[Item, ...] = (
    # Laboratory: name, importance, range, unit, (typical, spread), sign of the risk, (metabolism, ageing, habits)
    _number("Glu0", 0.060, (3.5, 7.5), "mmol/L", (5.5, 0.8), +1, (0.5, 0.2, 0.0)),
    _number("HbA1c", 0.058, (4.5, 7.0), "%", (5.7, 0.5), +1, (0.5, 0.2, 0.0), missing=0.04),
    _number("Glu120", 0.055, (3.0, 11.5), "mmol/L", (7.2, 1.8), +1, (0.5, 0.2, 0.0), missing=0.03),
    _number("HDL", 0.045, (0.6, 2.2), "mmol/L", (1.35, 0.32), -1, (-0.4, 0.0, -0.1)),
    _number("TG", 0.040, (0.2, 3.2), "mmol/L", (1.6, 0.7), +1, (0.5, 0.0, 0.2)),
    _number("insulin", 0.038, (1.0, 19.0), "mU/L", (9.0, 4.0), +1, (0.6, 0.0, 0.0), missing=0.06),
    _number("LDL", 0.025, (1.2, 4.8), "mmol/L", (2.9, 0.8), +1, (0.3, 0.2, 0.1)),
    _number("ALT", 0.023, (5, 45), "U/L", (23, 9), +1, (0.4, -0.1, 0.2)),
    _number("urate", 0.022, (150, 500), "umol/L", (310, 75), +1, (0.4, 0.0, 0.2)),
    _number("GGT", 0.020, (5, 60), "U/L", (29, 12), +1, (0.3, 0.0, 0.3)),
    _number("CRP", 0.017, (0.0, 5.0), "mg/L", (2.2, 1.1), +1, (0.4, 0.2, 0.1), missing=0.05),
    _number("TC", 0.016, (3.0, 7.4), "mmol/L", (5.1, 0.95), +1, (0.2, 0.3, 0.1)),
    _number("creatinine", 0.012, (40, 110), "umol/L", (72, 15), +1, (0.0, 0.3, 0.0)),
    _number("AST", 0.009, (8, 40), "U/L", (23, 7), +1, (0.3, 0.0, 0.2)),
    # Physical examination
    _number("bmi", 0.043, (16, 34), "kg/m2", (24.5, 3.6), +1, (0.7, 0.0, 0.1)),
    _number("waist", 0.042, (60, 110), "cm", (85, 10), +1, (0.7, 0.1, 0.1)),
    _number("sbp", 0.030, (90, 180), "mmHg", (132, 18), +1, (0.3, 0.5, 0.0)),
    _number("whr", 0.027, (0.70, 1.06), "", (0.88, 0.07), +1, (0.6, 0.1, 0.1)),
    _number("dbp", 0.019, (50, 106), "mmHg", (78, 11), +1, (0.3, 0.2, 0.0)),
    _number("age", 0.018, (40, 80), "years", (57, 9.5), +1, (0.0, 0.8, 0.0)),
    _number("pulse", 0.013, (50, 108), "1/min", (78, 11), +1, (0.2, 0.0, 0.1)),
    _number("bone", 0.013, (1.2, 3.8), "kg", (2.5, 0.5), -1, (0.1, -0.5, 0.0)),
    _number("neck", 0.008, (28, 44), "cm", (36, 3.2), +1, (0.5, 0.0, 0.1)),
    _number("grip", 0.002, (10, 55), "kg", (31, 9), -1, (0.0, -0.5, 0.0)),
    # History
    _flag("famdm", 0.052, 0.18, +1),
    _flag("gestdm", 0.032, 0.05, +1, (0.2, 0.0, 0.0)),
    _flag("hypertension", 0.030, 0.30, +1, (0.4, 0.4, 0.0)),
    _flag("lipiddrug", 0.015, 0.08, +1, (0.3, 0.3, 0.0)),
    _flag("fattyliver", 0.013, 0.22, +1, (0.6, 0.0, 0.1)),
    _flag("male", 0.013, 0.38, +1, (0.1, 0.0, 0.4)),
    _number("weight", 0.012, (2.0, 4.6), "kg", (3.2, 0.5), -1, FREE, missing=0.20),
    _flag("snoring", 0.011, 0.35, +1, (0.4, 0.1, 0.1)),
    _number("mchild", 0.010, (0, 6), "", (2, 1), +1, (0.0, 0.5, 0.0)),
    _flag("thyroid", 0.007, 0.06, +1, (0.0, 0.1, 0.0)),
    _flag("married", 0.004, 0.85, -1, (0.0, -0.2, 0.0)),
    # Habits
    _category("smoker", 0.018, {"never": 0.64, "former": 0.12, "current": 0.24}, +1, (0.0, 0.0, 0.6)),
    _category("activity", 0.018, {"low": 0.35, "moderate": 0.45, "high": 0.20}, -1, (-0.2, -0.2, -0.3)),
    _category("alcohol", 0.014, {"never": 0.55, "rarely": 0.22, "weekly": 0.15, "daily": 0.08}, +1, (0.0, 0.0, 0.6)),
    _number("sleep", 0.014, (4.0, 10.0), "h", (7.2, 1.2), -1, (-0.1, -0.2, -0.1)),
    _number("sitting", 0.010, (0.0, 12.0), "h", (5.2, 2.3), +1, (0.2, 0.1, 0.1)),
    _number("softdrink", 0.010, (0, 9), "1/week", (3.5, 2.2), +1, (0.1, -0.3, 0.4)),
    _number("redmeat", 0.010, (0, 11), "1/week", (5, 2.4), +1, (0.2, -0.1, 0.4)),
    _category(
        "education", 0.009, {"none": 0.12, "primary": 0.30, "secondary": 0.43, "higher": 0.15}, -1, (0.0, -0.4, -0.1)
    ),
    _number("rice", 0.008, (0, 8), "bowls/day", (3.5, 1.6), +1, (0.1, 0.0, 0.1)),
    _number("vegetables", 0.008, (0, 8), "1/day", (3.6, 1.6), -1, (0.0, 0.1, -0.4)),
    _category("region", 0.007, {"urban": 0.5, "town": 0.3, "rural": 0.2}, -1, (0.0, 0.1, 0.0)),
    _number("fruit", 0.006, (0, 14), "1/week", (6.5, 3), -1, (0.0, 0.0, -0.4)),
    _number("eggw", 0.005, (0, 11), "1/week", (4.5, 2.4), +1),
    _number("tea", 0.005, (0, 10), "cups/day", (3.5, 2.4), -1, (0.0, 0.2, 0.2)),
    _number("milk", 0.004, (0, 10), "1/week", (4, 2.6), -1, (0.0, 0.1, -0.2)),
)
