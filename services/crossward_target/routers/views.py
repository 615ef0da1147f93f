"""What a target answers beyond what every site does, as documents. Times are seconds since 1970 in UTC."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from crossward_site.api.views import View


class ContributionView(View):
    """What a group of features added to the margin."""

    group: str
    features: list[str]
    contribution: float


class PredictionView(View):
    """One record's probability, its class, and what led there."""

    probability: float
    positive: bool = Field(alias="class")
    contributions: list[ContributionView]


class PredictionsView(View):
    """Predictions, with the release and the certificate behind them."""

    study: str
    label: str
    release: str | None
    certificate: str
    predictions: list[PredictionView]


class TargetStudyView(View):
    """A study that the target works on; `model`: whether it has one."""

    study: str
    hash: str
    task: str
    state: str
    method: str
    model: bool
    updated: float


class TargetStudiesView(View):
    """Every study that the target works on or has a model for."""

    studies: list[TargetStudyView]


class ModelView(View):
    """What a model is. `published`: since when its release has a receipt."""

    study: str
    hash: str
    method: str
    certificate: str
    release: str | None
    published: float | None
    learned_from: list[str]
    signed_release: dict[str, Any] | None
    features: list[dict[str, Any]]


class PaidAucView(View):
    """An AUC that was paid for: the noised value, the deviation of its noise, and its release."""

    study: str
    model: str | None
    auc: float
    deviation: float
    release: dict[str, Any]


class CalibrationView(View):
    """A tenth of the records by predicted probability: what was predicted, and what came true."""

    predicted: float
    observed: float
    records: int


class EvaluationView(View):
    """How well the model does on records it was not trained on. Only what is in `released` was paid for."""

    study: str
    records: int
    positives: int
    auc: float
    interval: list[float]
    confidence: float
    roc: list[list[float]]
    calibration: list[CalibrationView]
    released: list[PaidAucView]
