"""What a target answers about its models."""

from __future__ import annotations

from typing import Literal

from pydantic import AliasChoices, Field, JsonValue

from crossward.protocol.times import Time
from crossward_service.http.views import View
from crossward_site.tasks.tables import TaskState


class Contribution(View):
    """What a group of features added to the margin."""

    group: str
    features: list[str]
    contribution: float


class Remark(View):
    """A feature whose value was not used as it came: it was missing, recoded, or clipped to its range.

    `used` is what stands for it: the study's default, or the bound; None where it was recoded.
    """

    feature: str
    what: Literal["missing", "recoded", "clipped"]
    used: bool | float | str | None


class Prediction(View):
    """One record's probability, its class, what led there, and the values that were not used as they came."""

    probability: float
    positive: bool = Field(validation_alias=AliasChoices("class", "positive"), serialization_alias="class")
    contributions: list[Contribution]
    remarks: list[Remark]


class PredictionsView(View):
    """Predictions, with the release and the certificate behind them."""

    study: str
    label: str
    release: str | None
    certificate: str
    predictions: list[Prediction]


class TargetStudyView(View):
    """A study that the target works on; `model`: whether it has one."""

    study: str
    hash: str
    task: str
    state: TaskState
    method: str
    model: bool
    updated: Time


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
    published: Time | None
    learned_from: list[str]
    signed_release: dict[str, JsonValue] | None
    features: list[dict[str, JsonValue]]


class PaidAuc(View):
    """An AUC that was paid for: the noised value, the deviation of its noise, and its release."""

    study: str
    model: str | None
    auc: float
    deviation: float
    release: dict[str, JsonValue]


class CalibrationPoint(View):
    """A tenth of the records by predicted probability: what was predicted, and what came true."""

    predicted: float
    observed: float
    records: int


class Evaluation(View):
    """How well the model does on records it was not trained on. It stays at the site."""

    study: str
    records: int
    positives: int
    auc: float
    interval: tuple[float, float]
    confidence: float
    roc: list[tuple[float, float]]
    calibration: list[CalibrationPoint]


class EvaluationView(Evaluation):
    """An evaluation, and what of it was paid for."""

    released: list[PaidAuc]
