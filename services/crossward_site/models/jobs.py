"""Jobs that read a target's holdout: its evaluation, and an AUC that is paid for.

What a job has paid for is never lost: one that is done again goes on under the reservation that it made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from crossward.values import Positive, Slug
from crossward_service.http.views import Form
from crossward_site.coordinator import Coordinator
from crossward_site.data.jobs import Report, Work
from crossward_site.data.tables import JobKind
from crossward_site.models import paid_auc
from crossward_site.models.evaluation import evaluate
from crossward_site.models.service import Models
from crossward_site.models.views import EvaluationView
from crossward_site.site import Site


class Price(Form):
    """What the AUC may cost each person of the holdout."""

    epsilon: Positive


class NamedStudy(Form):
    """A study that has a model here."""

    study: Slug


class NamedPrice(Price):
    """The AUC of a study's model, at this price."""

    study: Slug


def works(models: Models, coordinator: Callable[[], Coordinator]) -> dict[JobKind, Work]:
    """What each kind of job does."""

    def evaluated(site: Site, request: dict[str, Any], report: Report) -> Any:
        study = NamedStudy.model_validate(request).study
        evaluation = evaluate(site, models.of(study), report)
        view = EvaluationView(**dict(evaluation), released=paid_auc.released(site, study))
        return view.model_dump(mode="json")

    def paid(site: Site, request: dict[str, Any], report: Report) -> Any:
        asked = NamedPrice.model_validate(request)
        report(0.0, "charging")
        document = paid_auc.paid_auc(site, coordinator(), models.of(asked.study), asked.epsilon, report)
        return document.model_dump(mode="json")

    return {JobKind.EVALUATE: evaluated, JobKind.AUC: paid}
