"""/predict and /studies: what a target alone serves. A clinic's application may ask; the rest is the steward's."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import ConfigDict, Field, model_validator

from crossward.values import Positive, Slug
from crossward_service.http.views import Form
from crossward_site.access import KnownModels, OpenSite, SiteRunner, anyone, steward
from crossward_site.models import paid_auc
from crossward_site.models.evaluation import evaluate
from crossward_site.models.predictions import Value, predict
from crossward_site.models.service import describe
from crossward_site.models.views import EvaluationView, ModelView, PaidAuc, PredictionsView, TargetStudiesView

router = APIRouter(tags=["models"])

Record = dict[Annotated[str, Field(max_length=200)], Value]

MOST_RECORDS = 10_000


class Question(Form):
    """Records in the study's units and words: `record` for one, `records` for a batch."""

    model_config = ConfigDict(allow_inf_nan=False)

    study: Slug
    record: Record | None = None
    records: Annotated[list[Record], Field(min_length=1, max_length=MOST_RECORDS)] | None = None

    @model_validator(mode="after")
    def _one_or_many(self) -> Question:
        if (self.record is None) == (self.records is None):
            raise ValueError("give either `record` or `records`")
        return self


class Price(Form):
    """What the AUC may cost each person of the holdout."""

    epsilon: Positive


@router.post("/predict", dependencies=[Depends(anyone)])
def post_predict(models: KnownModels, question: Question) -> PredictionsView:
    """Probability, class and the contribution of each group, with the release and certificate behind them."""
    served = models.of(question.study)
    records = [question.record] if question.record is not None else question.records or []
    return PredictionsView(
        study=served.study.id,
        label=served.study.label.name,
        release=served.release,
        certificate=served.certificate,
        predictions=predict(served, records),
    )


@router.get("/studies", dependencies=[Depends(anyone)])
def get_studies(models: KnownModels) -> TargetStudiesView:
    """The studies that this site works on or has a model for."""
    return models.studies()


@router.get("/studies/{study}/model", dependencies=[Depends(anyone)])
def get_model(site: OpenSite, models: KnownModels, study: Slug) -> ModelView:
    """What the model is, and the signed release it was published as."""
    return describe(site, models.of(study))


@router.get("/studies/{study}/evaluation", dependencies=[Depends(steward)])
def get_evaluation(site: OpenSite, models: KnownModels, study: Slug) -> EvaluationView:
    """AUC, ROC and calibration on the holdout. Not paid for, so it stays in the house."""
    evaluation = evaluate(site, models.of(study))
    return EvaluationView(**dict(evaluation), released=paid_auc.released(site, study))


@router.post("/studies/{study}/auc", dependencies=[Depends(steward)])
def post_auc(site: OpenSite, models: KnownModels, runner: SiteRunner, study: Slug, price: Price) -> PaidAuc:
    """Release the AUC on the holdout at this epsilon. The same epsilon again is the same answer, at no cost."""
    return paid_auc.paid_auc(site, runner.coordinator(), models.of(study), price.epsilon)
