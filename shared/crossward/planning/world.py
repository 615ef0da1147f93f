"""Hospitals drawn from a study's schema and a lead's assumptions. No record of anyone's is looked at.

    t_ij = m_sj + d_j a_j f_i + sqrt(1 - a_j^2) e_ij           the hidden variable of person i's feature j at site s
    P(y_i = +1) = sigma(c_s + L_s sum_j beta_sj u_ij)          u_ij: the feature as it acts, standardised

d_j is the direction of feature j's effect: the declared one, or drawn. f_i is a person's general state, so features
agree in the direction of risk. beta_j is the declared importance times exp(misjudged * normal); a site's beta_s and its
means m_s are moved away from that. c_s and L_s give the site its positive rate and its non-private AUC: that of a model
which is learned, from as many records as the largest party has, as a published AUC is. The best score reaches more.

A number lies around its default, with a deviation of a fifth of its range; a flag is set for a quarter of people, or
for three quarters where its default says so; half of the people are at a category's default level.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, ndtri

from crossward.learning.encoding import Category, Feature, Flag, Number, Schema
from crossward.learning.losses import LOGISTIC
from crossward.learning.records import Records as Solved
from crossward.learning.solver import minimise
from crossward.planning.assumptions import Assumptions
from crossward.privacy.noise import Array

SPREAD = 0.4
"""Deviation of a number on its encoded range [-1, 1]: a declared range holds two and a half deviations each way."""

USUAL = 0.75
"""The share of people whose flag is at its default (false where none is declared)."""

REFERENCE = 4_000
"""People on whom a site's AUC and positive rate are set."""

LEARNT_FROM = 20_000
"""From more records than this a model loses next to nothing against the best score."""

MOST_AUC = 0.9995
"""What the best score may reach: beyond, the length of the effects says nothing."""


@dataclass(frozen=True, slots=True)
class Records:
    """A site's encoded records, the labels (-1 or +1), and the chance of +1 that each label was drawn with."""

    X: Array
    y: Array
    chance: Array

    def first(self, count: int) -> tuple[Array, Array]:
        """The first records and their labels; any are as good as others."""
        return self.X[:count], self.y[:count]


@dataclass(frozen=True, slots=True)
class SimulatedSite:
    """One hospital's law."""

    world: World
    means: Array
    effects: Array
    length: float
    start: float

    def draw(self, n: int, rng: np.random.Generator) -> Records:
        """n people."""
        X, acting = self.world.people(n, self.means, rng)
        chance = np.asarray(expit(self.start + self.length * (acting @ self.effects)))
        return Records(X, np.where(rng.random(n) < chance, 1.0, -1.0), chance)


@dataclass(frozen=True, slots=True)
class World:
    """Effects that all sites share up to their shift, and how features go together."""

    schema: Schema
    assumed: Assumptions
    directions: Array
    effects: Array
    loads: Array
    levels: tuple[Array | None, ...]

    @classmethod
    def draw(cls, schema: Schema, assumed: Assumptions, rng: np.random.Generator) -> World:
        """A world in which the doctors' importances and directions are about right."""
        count = len(schema.features)
        drawn = np.where(rng.random(count) < 0.5, 1.0, -1.0)
        wrong = np.where(rng.random(count) < assumed.wrong_direction, -1.0, 1.0)
        declared = np.array([_sign(feature) for feature in schema.features])
        importance = np.array([feature.importance for feature in schema.features])
        effects = importance * np.exp(assumed.misjudged * rng.normal(size=count))
        loads = np.minimum(math.sqrt(assumed.correlation) * rng.uniform(0.5, 1.5, size=count), 0.95)
        levels = tuple(_level_scores(feature, rng) for feature in schema.features)
        return cls(schema, assumed, np.where(declared == 0, drawn, declared * wrong), effects, loads, levels)

    def site(self, moved: bool, rng: np.random.Generator, learnt_from: int) -> SimulatedSite:
        """A site: as the world is, or moved away from it. A model of `learnt_from` records has the assumed AUC."""
        count, assumed = len(self.schema.features), self.assumed
        means = moved * assumed.mean_shift * rng.normal(size=count)
        effects = self.directions * self.effects * (1 + moved * assumed.effect_shift * rng.normal(size=count))
        X, acting = self.people(REFERENCE, means, rng)
        shape = acting @ effects
        deviation = float(shape.std()) or 1.0
        shape /= deviation

        def law(best: float) -> SimulatedSite:
            """The site at which the best score has this AUC."""
            length = brentq(lambda length: expected_auc(shape, chance(length)) - best, 0.0, 60.0, xtol=1e-4)
            return SimulatedSite(
                self, means, effects / deviation, length, _start(length * shape, assumed.positive_rate)
            )

        def chance(length: float) -> Array:
            return np.asarray(expit(_start(length * shape, assumed.positive_rate) + length * shape))

        best = law(assumed.nonprivate_auc)
        model = _learnt(best.draw(min(learnt_from, LEARNT_FROM), rng))
        lost = assumed.nonprivate_auc - expected_auc(X @ model, chance(best.length))
        return law(min(assumed.nonprivate_auc + max(lost, 0.0), MOST_AUC))

    def people(self, n: int, means: Array, rng: np.random.Generator) -> tuple[Array, Array]:
        """Encoded columns (n, columns), and how each feature acts (n, features): standardised where means are 0."""
        X = np.zeros((n, len(self.schema.columns)))
        acting = np.empty((n, len(self.schema.features)))
        state, at = rng.normal(size=n), 0
        for j, feature in enumerate(self.schema.features):
            load = self.loads[j]
            t = means[j] + self.directions[j] * load * state + math.sqrt(1 - load**2) * rng.normal(size=n)
            if isinstance(feature, Number):
                X[:, at] = np.clip(_middle(feature) + SPREAD * t, -1.0, 1.0)
                acting[:, j] = t
            elif isinstance(feature, Flag):
                share = USUAL if feature.default else 1 - USUAL
                X[:, at] = t > ndtri(1 - share)
                acting[:, j] = (X[:, at] - share) / math.sqrt(share * (1 - share))
            else:
                level = np.searchsorted(ndtri(np.cumsum(_shares(feature))[:-1]), t)
                X[np.arange(n), at + level] = 1.0
                scores = self.levels[j]
                acting[:, j] = 0.0 if scores is None else scores[level]
            at += len(feature.columns())
        return X, acting


def expected_auc(scores: Array, chance: Array) -> float:
    """The AUC of scores, expected over labels that are +1 with the given chances; ties count a half."""
    order = np.argsort(scores, kind="stable")
    values, positive = scores[order], chance[order]
    negative = 1.0 - positive
    first = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    p, q = np.add.reduceat(positive, first), np.add.reduceat(negative, first)
    below = np.cumsum(q) - q / 2
    return float(p @ below / (p.sum() * q.sum()))


def _learnt(records: Records) -> Array:
    """The weights of a plain logistic model with an intercept, which is left out: it does not rank."""
    signed = records.y[:, None] * np.column_stack([records.X, np.ones(len(records.y))])
    return minimise(Solved.of(signed), LOGISTIC, np.zeros(signed.shape[1]), ridge=1.0, tolerance=1e-3).w[:-1]


def _start(odds: Array, rate: float) -> float:
    """c with mean(sigma(c + odds)) = rate."""
    return float(brentq(lambda c: float(np.mean(expit(c + odds))) - rate, -400.0, 400.0))


def _sign(feature: Feature) -> float:
    """The declared direction of the effect, 0 where nobody said."""
    return feature.directions()[-1]


def _middle(feature: Number) -> float:
    """Where people lie on the encoded range: around the declared default, or in the middle."""
    if feature.default is None:
        return 0.0
    return 2 * (feature.default - feature.low) / (feature.high - feature.low) - 1


def _shares(feature: Category) -> Array:
    """Half of the people at the default level; evenly where there is none."""
    count = len(feature.levels)
    if feature.default is None:
        return np.full(count, 1 / count)
    return np.array([0.5 if level == feature.default else 0.5 / (count - 1) for level in feature.levels])


def _level_scores(feature: Feature, rng: np.random.Generator) -> Array | None:
    """How each level of a category acts: rising in the listed order where a direction is declared, else drawn."""
    if not isinstance(feature, Category):
        return None
    count = len(feature.levels)
    drawn = rng.normal(size=count)
    scores = np.linspace(-1.0, 1.0, count) if _sign(feature) else drawn
    shares = _shares(feature)
    centred = scores - shares @ scores
    return np.asarray(centred / math.sqrt(shares @ centred**2))
