"""Exact audits of objective perturbation: the real calibration, the real encoding, the loss from the densities.

A subject is what is audited at one size. `subject_of` builds it from a learner; a mutant is a subject with one thing
changed. The loss of the release step, which the learner pays for separately, is added to what the search finds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from crossward.learning.plr_fs import PLRFS
from crossward.privacy.budget import NonPrivate
from crossward.privacy.calibration import Calibration
from crossward.privacy.noise import Array
from crossward_lab.audit.effort import Audit, Effort
from crossward_lab.audit.measures.distance import exponential_loss
from crossward_lab.audit.measures.exact import Encode, Law, Scenario, Worst, worst_loss
from crossward_lab.audit.measures.report import MechanismVerdict


@dataclass(frozen=True, slots=True)
class Subject:
    """A mechanism at one size, the epsilon it claims, and the loss of its release step."""

    scenario: Scenario
    claimed: float
    output_loss: float = 0.0


def calibration_of(learner: PLRFS, n: int) -> Calibration:
    """The calibration the learner would run with."""
    calibration = learner.calibration(n)
    assert calibration is not None
    return calibration


def subject_of(learner: PLRFS, n: int, features: int) -> Subject:
    """The learner as it is."""
    calibration = calibration_of(learner, n)
    assert not isinstance(learner.epsilon, NonPrivate)
    laws = []
    for k, group in enumerate(learner.groups):
        centre = group.centre(features)
        ridge = np.full(len(centre), calibration.strength(k))
        laws.append(Law(learner.loss, 1 / calibration.noise_scale(), ridge, n * group.lam * centre))
    columns = tuple(tuple(range(features)) if g.ball.columns is None else g.ball.columns for g in learner.groups)
    reach = max(group.ball.radius for group in learner.groups)
    scenario = Scenario(tuple(laws), encoding_of(learner), n, columns, reach)
    return Subject(scenario, learner.epsilon, output_loss(learner, n))


def encoding_of(learner: PLRFS) -> Encode:
    """The learner's own balls, a record at a time."""

    def encode(X: Array, y: Array) -> list[Array]:
        rows = X.reshape(-1, X.shape[2])
        placed = [(group.ball.place(rows).reshape(*y.shape, -1), group.ball.offset) for group in learner.groups]
        return [y[:, :, None] * (np.pad(Z, ((0, 0), (0, 0), (0, 1)), constant_values=o) if o else Z) for Z, o in placed]

    return encode


def output_loss(learner: PLRFS, n: int) -> float:
    """What the release step loses when both solvers err as far as their tolerance lets them, in every group."""
    calibration = calibration_of(learner, n)
    steps = learner.output_steps(calibration)
    distances = [2 * learner.tolerance / calibration.strength(k) for k in range(len(steps))]
    return sum(exponential_loss(distance, step.scale) for distance, step in zip(distances, steps, strict=True))


def audit_subjects(name: str, subjects: Iterable[Subject], effort: Effort) -> MechanismVerdict:
    """The subject whose loss comes closest to its claim, or goes farthest beyond."""
    found: list[tuple[Subject, Worst]] = []
    for subject in subjects:
        worst = worst_loss(subject.scenario, effort.generator, starts=effort.starts, rounds=effort.rounds)
        found.append((subject, worst))
    subject, worst = max(found, key=lambda pair: (pair[1].loss + pair[0].output_loss) / pair[0].claimed)
    return MechanismVerdict.of(name, subject.claimed, worst.loss + subject.output_loss, "exact", worst.detail)


Size = tuple[int, int]
"""n and the number of raw columns."""


def exact(make: Callable[[int, int], Subject], *sizes: Size) -> Audit:
    """The audit of a mechanism at these sizes; a full effort adds larger ones."""

    def audit(name: str, effort: Effort) -> MechanismVerdict:
        larger = [(n + 2, features) for n, features in sizes] if effort.full else []
        return audit_subjects(name, (make(*size) for size in (*sizes, *larger)), effort)

    return audit
