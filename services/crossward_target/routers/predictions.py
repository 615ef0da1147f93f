"""/predict: for a clinic's application, one record or many."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field, model_validator

from crossward.values import Slug
from crossward_site.api.access import anyone
from crossward_site.models import predict
from crossward_target.routers.access import KnownModels
from crossward_target.routers.views import PredictionsView

router = APIRouter(tags=["predictions"], dependencies=[Depends(anyone)])

Value = bool | int | float | str | None
Record = dict[Annotated[str, Field(max_length=200)], Value]

MOST = 10_000


class Question(BaseModel):
    """Records in the study's units and words: `record` for one, `records` for a batch."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    study: Slug
    record: Record | None = None
    records: Annotated[list[Record], Field(min_length=1, max_length=MOST)] | None = None

    @model_validator(mode="after")
    def _one_or_many(self) -> Question:
        if (self.record is None) == (self.records is None):
            raise ValueError("give either `record` or `records`")
        return self


@router.post("/predict", response_model=PredictionsView)
def post_predict(models: KnownModels, question: Question) -> dict[str, Any]:
    """Probability, class and the contribution of each group, with the release and certificate behind them."""
    served = models.of(question.study)
    records = [question.record] if question.record is not None else question.records or []
    return {
        "study": served.study.id,
        "label": served.study.label.name,
        "release": served.release,
        "certificate": served.certificate,
        "predictions": predict(served, records),
    }
