"""A simulated federation shaped like the RUIJIN study: a main hospital and up to 16 branches (000, Tables 3 and 4).

    t_ij = m_sj + f_i . a_j + sqrt(1 - |a_j|^2) e_ij      the hidden variable of person i's answer j at site s
    P(y_i = +1) = sigma(c_s + sum_j beta_sj u_ij)         u_ij: the answer, standardised

beta_j follows importance_j with a random factor; sites differ in their means m_s, in their effects beta_s and in their
prevalence (10 to 15 %), which fixes c_s. Nothing here is a patient, so what a site draws may look at its own data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from crossward.errors import InvalidSetting
from crossward.learning.encoding import Schema
from crossward.privacy.noise import Array
from crossward_lab.simulate.survey import SURVEY

SCHEMA = Schema(tuple(item.feature for item in SURVEY))
MAIN = 12_702
BRANCHES = (4334, 4739, 6121, 2327, 5619, 6360, 4966, 5793, 6215, 3659, 5579, 2316, 4285, 6017, 6482, 4493)
FEWEST = 50

SIGNAL = 1.3
"""The deviation of the log odds at every site: a logistic model then reaches an AUC of .76 to .80 at a site."""

PREVALENCE = 0.125
"""The share of the ill that is known of such people; a site has up to a fifth more or less."""

MEAN_SHIFT, EFFECT_SHIFT = 0.2, 0.5
"""How far sites lie apart: in deviations of a hidden variable, and relative to an effect."""


@dataclass(frozen=True, slots=True, eq=False)
class Hospital:
    """A site's records in raw units, with gaps, and whether each person became ill."""

    name: str
    table: dict[str, NDArray[Any]]
    labels: NDArray[np.bool_]

    def encode(self, schema: Schema) -> tuple[Array, Array]:
        """The encoded records (n, columns) and the labels, -1 or +1."""
        return schema.encode(self.table), schema.encode_labels(self.labels)


@dataclass(frozen=True, slots=True, eq=False)
class Federation:
    """A main hospital, its branches, and the schema they share."""

    schema: Schema
    main: Hospital
    branches: tuple[Hospital, ...]

    @classmethod
    def simulate(cls, branches: int = 4, seed: int = 0, scale: float = 1.0) -> Federation:
        """The main hospital and the first `branches` of 16, all sizes times `scale`.

        A site depends on the seed and its number alone: asking for more branches leaves the first ones as they were.
        """
        if not 1 <= branches <= len(BRANCHES):
            raise InvalidSetting(f"There are no {branches!r} branches.", f"Ask for 1 to {len(BRANCHES)}.")
        if not (math.isfinite(scale) and scale > 0):
            raise InvalidSetting(f"The scale must be a finite number above 0, not {scale!r}.", "1 is the study's size.")
        sizes = [max(FEWEST, round(size * scale)) for size in (MAIN, *BRANCHES[:branches])]
        effects = _effects(np.random.default_rng([seed, 0]))
        sites = [_site(np.random.default_rng([seed, 1 + s]), s, size, effects) for s, size in enumerate(sizes)]
        return cls(SCHEMA, sites[0], tuple(sites[1:]))


def _effects(rng: np.random.Generator) -> Array:
    """beta, up to its length: the sign of the risk times the importance times a random factor."""
    importance = np.array([item.risk * item.feature.importance for item in SURVEY])
    return np.asarray(importance * np.exp(0.5 * rng.normal(size=len(SURVEY))))


def _with_signal(effects: Array) -> Array:
    """The effects, as long as log odds of deviation SIGNAL need, by the covariance of the hidden variables."""
    loads = np.array([item.factors for item in SURVEY])
    covariance = loads @ loads.T
    np.fill_diagonal(covariance, 1.0)
    return effects * (SIGNAL / math.sqrt(effects @ covariance @ effects))


def _site(rng: np.random.Generator, number: int, size: int, effects: Array) -> Hospital:
    """One site: the main hospital (number 0) as the survey describes it, a branch moved away from that."""
    moved = float(number > 0)
    means = moved * MEAN_SHIFT * rng.normal(size=len(SURVEY))
    effects = _with_signal(effects * (1 + moved * EFFECT_SHIFT * rng.normal(size=len(SURVEY))))
    prevalence = rng.uniform(PREVALENCE - 0.025, PREVALENCE + 0.025)

    table: dict[str, NDArray[Any]] = {}
    odds = np.zeros(size)
    hidden = rng.normal(size=(size, 3))
    for item, mean, effect in zip(SURVEY, means, effects, strict=True):
        own = math.sqrt(1 - sum(a * a for a in item.factors))
        values, acting = item.answers(mean + hidden @ np.array(item.factors) + own * rng.normal(size=size))
        odds += effect * acting
        if item.missing:
            values = np.where(rng.random(size) < item.missing, np.nan, values)
        table[item.feature.name] = values
    start = brentq(lambda c: float(np.mean(expit(c + odds))) - prevalence, -50.0, 50.0)
    return Hospital(f"Branch {number}" if number else "Main", table, rng.random(size) < expit(start + odds))
