"""/studies: the target's models, their evaluation at home, and a paid AUC."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict

from crossward.values import Positive, Slug
from crossward_site import paid_auc
from crossward_site.api.access import OpenSite, SiteRunner, anyone, steward
from crossward_site.evaluation import evaluate
from crossward_site.models import describe
from crossward_target.routers.access import KnownModels
from crossward_target.routers.views import EvaluationView, ModelView, PaidAucView, TargetStudiesView

router = APIRouter(tags=["studies"])


class Price(BaseModel):
    """What the AUC may cost each person of the holdout."""

    model_config = ConfigDict(extra="forbid")

    epsilon: Positive


@router.get("/studies", response_model=TargetStudiesView, dependencies=[Depends(anyone)])
def get_studies(models: KnownModels) -> dict[str, Any]:
    """The studies that this site works on or has a model for."""
    return {"studies": models.studies()}


@router.get("/studies/{study}/model", response_model=ModelView, dependencies=[Depends(anyone)])
def get_model(site: OpenSite, models: KnownModels, study: Slug) -> dict[str, Any]:
    """What the model is, and the signed release it was published as."""
    return describe(site, models.of(study))


@router.get("/studies/{study}/evaluation", response_model=EvaluationView, dependencies=[Depends(steward)])
def get_evaluation(site: OpenSite, models: KnownModels, study: Slug) -> dict[str, Any]:
    """AUC, ROC and calibration on the holdout. Not paid for, so it stays in the house."""
    served = models.of(study)
    return evaluate(site, served) | {"released": paid_auc.released(site, study)}


@router.post("/studies/{study}/auc", response_model=PaidAucView, dependencies=[Depends(steward)])
def post_auc(site: OpenSite, models: KnownModels, runner: SiteRunner, study: Slug, price: Price) -> dict[str, Any]:
    """Release the AUC on the holdout at this epsilon. The same epsilon again is the same answer, at no cost."""
    return paid_auc.paid_auc(site, runner.coordinator(), models.of(study), price.epsilon)
