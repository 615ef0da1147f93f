"""/predict and /studies: what a target alone serves. A clinic's application may ask; the rest is the steward's."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from crossward.values import MOST_COLUMNS, Slug
from crossward_service.http.views import Form
from crossward_site.access import KnownModels, OpenSite, SiteJobs, anyone, steward
from crossward_site.data.routes import asked
from crossward_site.data.tables import JobKind
from crossward_site.data.views import JobView
from crossward_site.models.evaluation import dataset_of
from crossward_site.models.jobs import NamedPrice, NamedStudy, Price
from crossward_site.models.paid_auc import check_price
from crossward_site.models.predictions import MOST_RECORDS, Value, Words, predict, predict_csv
from crossward_site.models.service import describe
from crossward_site.models.views import ModelView, PredictionsView, TargetStudiesView

router = APIRouter(tags=["models"])


def _few(record: Any) -> Any:
    """Refused before its values are looked at: each that is wrong would be told."""
    if isinstance(record, dict) and len(record) > MOST_COLUMNS:
        raise ValueError(f"a record has at most {MOST_COLUMNS} values")
    return record


Record = Annotated[dict[Annotated[str, Field(max_length=200)], Value], BeforeValidator(_few)]

MOST_CSV = 20_000_000


class Question(Form):
    """`record` for one, `records` for a batch, or `csv`, the text of a CSV file with a line of column names.

    They come in the site's own columns, units and codes, by the mapping of the dataset that the model was trained on;
    with `words: study`, or where nothing was trained here, in the study's.
    """

    model_config = ConfigDict(allow_inf_nan=False)

    study: Slug
    record: Record | None = None
    records: Annotated[list[Record], Field(min_length=1, max_length=MOST_RECORDS, fail_fast=True)] | None = None
    csv: Annotated[str, Field(min_length=1, max_length=MOST_CSV)] | None = None
    words: Words = "site"

    @model_validator(mode="after")
    def _one_way(self) -> Question:
        if sum(way is not None for way in (self.record, self.records, self.csv)) != 1:
            raise ValueError("give one of `record`, `records` and `csv`")
        return self


@router.post("/predict", dependencies=[Depends(anyone)])
def post_predict(models: KnownModels, question: Question) -> PredictionsView:
    """Probability, class and the contribution of each group, with the release and certificate behind them.

    What was missing, recoded or clipped is said; what cannot be read or be true is refused, and so is a unit that
    looks wrong.
    """
    served = models.of(question.study)
    if question.csv is not None:
        predictions = predict_csv(served, question.csv, question.words)
    else:
        records = [question.record] if question.record is not None else question.records or []
        predictions = predict(served, records, question.words)
    return PredictionsView(
        study=served.study.id,
        label=served.study.label.name,
        release=served.release,
        certificate=served.certificate,
        predictions=predictions,
    )


@router.get("/studies", dependencies=[Depends(anyone)])
def get_studies(models: KnownModels) -> TargetStudiesView:
    """The studies that this site works on or has a model for."""
    return models.studies()


@router.get("/studies/{study}/model", dependencies=[Depends(anyone)])
def get_model(site: OpenSite, models: KnownModels, study: Slug) -> ModelView:
    """What the model is, and the signed release it was published as."""
    return describe(site, models.of(study))


@router.post("/studies/{study}/evaluation", status_code=202, dependencies=[Depends(steward)])
def evaluate(site: OpenSite, models: KnownModels, runner: SiteJobs, study: Slug) -> JobView:
    """AUC, ROC and calibration on the holdout, by a job. Not paid for, so it stays in the house."""
    dataset = dataset_of(site, models.of(study))
    return asked(site, runner, JobKind.EVALUATE, NamedStudy(study=study), dataset)


@router.post("/studies/{study}/auc", status_code=202, dependencies=[Depends(steward)])
def release_auc(site: OpenSite, models: KnownModels, runner: SiteJobs, study: Slug, price: Price) -> JobView:
    """Release the AUC on the holdout at this epsilon, by a job. The same again is the same answer, at no cost."""
    dataset = check_price(site, models.of(study), price.epsilon)
    return asked(site, runner, JobKind.AUC, NamedPrice(study=study, epsilon=price.epsilon), dataset)
