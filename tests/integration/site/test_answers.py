"""A site's answers are what its OpenAPI document says, to the last field."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import httpx
import pytest

from crossward_site.approvals.views import ApprovalsView
from crossward_site.data.report import ReportView
from crossward_site.data.views import DatasetsView, JobsView, JobView
from crossward_site.desk.views import StatusView
from crossward_site.identity import tokens
from crossward_site.identity.views import KeysView
from crossward_site.ledger.views import LedgerView, SoundnessView
from crossward_site.models.views import EvaluationView, ModelView, PaidAuc, PredictionsView, TargetStudiesView
from crossward_site.tasks.views import TasksView
from crossward_target import app as target
from crossward_target.settings import TargetSettings

ANSWERS = {
    "/v1/status": StatusView,
    "/v1/tasks": TasksView,
    "/v1/ledger": LedgerView,
    "/v1/ledger/verify": SoundnessView,
    "/v1/datasets": DatasetsView,
    "/v1/jobs": JobsView,
    "/v1/datasets/patients/report": ReportView,
    "/v1/datasets/patients/report?study=sugar": ReportView,
    "/v1/approvals": ApprovalsView,
    "/v1/keys": KeysView,
    "/v1/studies": TargetStudiesView,
    "/v1/studies/sugar/model": ModelView,
}


RECORD = {"glucose": 9.0, "bmi": 33.0, "family": True, "smoker": "current"}


@pytest.fixture
def client(federation, study, api):
    """A target with everything there is to show: a model, a task that waits, one that has trouble, a pin."""
    main, branch = federation.hospital("main", "source"), federation.hospital("branch", "target", rows=900)
    federation.start(study())
    main.settle()
    branch.settle()
    branch.policy(decide="ask")
    federation.start(study("next", method="direct"))
    branch.drive()
    with api(branch) as http:
        yield http


def test_every_field_is_documented(client, ended) -> None:
    evaluation = client.post("/v1/studies/sugar/evaluation")
    EvaluationView.model_validate(ended(client, evaluation)["result"])
    paid = client.post("/v1/studies/sugar/auc", json={"epsilon": 2.0})
    PaidAuc.model_validate(ended(client, paid)["result"])
    asked = client.post("/v1/predict", json={"study": "sugar", "record": RECORD, "words": "study"})
    version = client.post("/v1/datasets/patients/versions", json={})
    ReportView.model_validate(ended(client, version)["result"])
    answers = {path: (client.get(path), view) for path, view in ANSWERS.items()} | {
        "evaluation": (evaluation, JobView),
        "auc": (paid, JobView),
        "predict": (asked, PredictionsView),
        "version": (version, JobView),
    }
    for path, (answer, view) in answers.items():
        assert answer.is_success, (path, answer.text)
        view.model_validate(answer.json())  # a field that the view does not name would be refused
    assert {item["state"] for item in answers["/v1/approvals"][0].json()["approvals"]} == {"waiting"}
    assert answers["/v1/keys"][0].json()["keys"]
    assert asked.json()["predictions"][0]["class"] in (True, False)


TIMES = {"taken", "asked", "updated", "since", "stored", "published"}


def times_in(part: object) -> Iterator[str]:
    """Every time in an answer."""
    if isinstance(part, list):
        for item in part:
            yield from times_in(item)
    elif isinstance(part, dict):
        for name, value in part.items():
            yield from [value] if name in TIMES and value is not None else times_in(value)


def test_every_time_is_in_iso_8601_and_utc(client) -> None:
    times = [time for path in ANSWERS for time in times_in(client.get(path).json())]
    assert len(times) > 5
    for time in times:
        assert datetime.fromisoformat(time).utcoffset() == timedelta(0), time


def test_every_answer_has_a_schema(client) -> None:
    document = client.get("/openapi.json").json()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if path == "/metrics":
                continue
            done = next(answer for status, answer in operation["responses"].items() if status.startswith("2"))
            schema = done["content"]["application/json"]["schema"]
            assert "$ref" in schema or path in ("/healthz", "/readyz"), (method, path)


def test_a_site_that_is_new(serving, tmp_path) -> None:
    settings = TargetSettings(data_dir=tmp_path / "new", port=0, work=False)
    app = target.create_app(settings)
    bearer = {"Authorization": f"Bearer {tokens.issue(app.state.site, 'steward', 'test')}"}
    with serving(app, settings) as url, httpx.Client(base_url=url, headers=bearer, trust_env=False, timeout=60) as http:
        for path in ("/v1/status", "/v1/keys", "/v1/ledger/verify", "/v1/approvals", "/v1/studies"):
            ANSWERS[path].model_validate(http.get(path).json())
        assert http.get("/v1/keys").json() == {"own": None, "keys": []}
