"""How well a target's model does on its own `holdout` cells. It never leaves the site: only a paid AUC may.

AUC with DeLong's variance (DeLong et al. 1988, by ranks: Sun and Xu 2014): with V_i the share of negatives that
positive i beats, and W_j the share of positives that beat negative j (ties a half),

    AUC = mean V,   var = var(V) / n_pos + var(W) / n_neg

and a 95 % interval on the logit scale, which stays inside (0, 1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri

from crossward.errors import InvalidData, OneClass
from crossward.learning.stored import StoredRows
from crossward.methods.base import HOLDOUT
from crossward.privacy.noise import Array
from crossward.protocol.constants import Role
from crossward_site.data.intake import Progress, unheard
from crossward_site.data.service import Vault
from crossward_site.models.service import Served
from crossward_site.models.views import CalibrationPoint, Evaluation
from crossward_site.site import Site

CONFIDENCE = 0.95
ROC_POINTS = 101
CALIBRATION_GROUPS = 10


@dataclass(frozen=True, slots=True)
class AUC:
    """An AUC with its interval."""

    auc: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Scored:
    """The rows of the holdout, the model's score of each, and its label; `present` is False where no record is."""

    X: StoredRows
    scores: Array
    y: NDArray[np.int8]
    present: NDArray[np.bool_]


def holdout(
    site: Site,
    served: Served,
    version: int | None = None,
    dataset: str | None = None,
    progress: Progress = unheard,
) -> Scored:
    """The rows that the study did not train on, from a version of its dataset, scored; without, the current one."""
    name = dataset_of(site, served) if dataset is None else dataset
    vault = Vault(site)
    rows = vault.rows(
        served.study, Role.TARGET, name, [HOLDOUT], version, lambda share, step: progress(share / 2, step)
    )
    scores, done = np.empty(len(rows.X)), 0
    for block in rows.X.blocks():
        scores[done : done + len(block)] = served.model.scores(block)
        done += len(block)
        progress(0.5 + done / len(scores) / 2, f"{done:,} rows scored")
    return Scored(rows.X, scores, rows.y, rows.present)


def dataset_of(site: Site, served: Served) -> str:
    """The dataset the model was trained on; a target that trained nothing evaluates on the one that fits the study."""
    if served.task.dataset is not None:
        return served.task.dataset
    names = [dataset.name for dataset in Vault(site).for_study(served.study)]
    if len(names) != 1:
        raise InvalidData(
            f"{len(names)} datasets fit the study.", "Connect the one to evaluate on, with its features and label."
        )
    return names[0]


def evaluate(site: Site, served: Served, progress: Progress = unheard) -> Evaluation:
    """AUC with a 95 % interval, ROC and calibration points, on records of the holdout."""
    rows = holdout(site, served, progress=progress)
    y = rows.y[rows.present].astype(np.float64)
    if len(np.unique(y)) < 2:
        raise OneClass("The holdout holds one class only.", "Evaluate once there are records of both.")
    scores = rows.scores[rows.present]
    area = auc(scores, y)
    return Evaluation(
        study=served.study.id,
        records=len(y),
        positives=int(np.count_nonzero(y > 0)),
        auc=area.auc,
        interval=(area.low, area.high),
        confidence=CONFIDENCE,
        roc=roc(scores, y),
        calibration=calibration(scores, y),
    )


def auc(scores: Array, y: Array, confidence: float = CONFIDENCE) -> AUC:
    """DeLong's interval."""
    positive = scores[y > 0]
    negative = scores[y < 0]
    n, m = len(positive), len(negative)
    beaten = _below(negative, positive) / m
    beating = 1 - _below(positive, negative) / n
    value = float(beaten.mean())
    variance = _variance(beaten) / n + _variance(beating) / m
    if not 0 < value < 1 or variance <= 0:
        # All pairs in one order: the interval ends where that would be as rare as 5 % among the fewer class.
        edge = 0.05 ** (1 / min(n, m))
        return AUC(value, min(value, edge), max(value, 1 - edge))
    width = float(ndtri(0.5 + confidence / 2)) * math.sqrt(variance) / (value * (1 - value))
    return AUC(value, float(expit(logit(value) - width)), float(expit(logit(value) + width)))


def _below(others: Array, values: Array) -> Array:
    """How many of the others each value exceeds, ties a half."""
    ordered = np.sort(others)
    return (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / 2


def _variance(values: Array) -> float:
    return float(values.var(ddof=1)) if len(values) > 1 else 0.0


def roc(scores: Array, y: Array) -> list[tuple[float, float]]:
    """(false positive rate, true positive rate) from (0, 0) to (1, 1), at most 101 points."""
    order = np.argsort(-scores, kind="stable")
    ranked, hits = scores[order], y[order] > 0
    ends = np.flatnonzero(np.append(np.diff(ranked) != 0, True))
    true = np.append(0.0, np.cumsum(hits)[ends] / hits.sum())
    false = np.append(0.0, np.cumsum(~hits)[ends] / (~hits).sum())
    kept = np.unique(np.linspace(0, len(true) - 1, min(ROC_POINTS, len(true))).round().astype(int))
    return [(float(false[k]), float(true[k])) for k in kept]


def calibration(scores: Array, y: Array) -> list[CalibrationPoint]:
    """Ten groups of equal size by predicted probability: what was predicted, and what came true."""
    parts = np.array_split(np.argsort(scores, kind="stable"), min(CALIBRATION_GROUPS, len(scores)))
    return [
        CalibrationPoint(predicted=float(scores[part].mean()), observed=float((y[part] > 0).mean()), records=len(part))
        for part in parts
    ]
