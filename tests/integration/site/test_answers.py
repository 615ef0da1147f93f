"""A site's answers are what its OpenAPI document says, to the last field."""

from __future__ import annotations

import httpx
import pytest
from pydantic import BaseModel

from crossward_site.access import make_token
from crossward_site.api import views
from crossward_target import app as target
from crossward_target.routers import views as target_views
from crossward_target.settings import TargetSettings

ANSWERS = {
    "/v1/status": views.StatusView,
    "/v1/tasks": views.TasksView,
    "/v1/ledger": views.LedgerView,
    "/v1/ledger/verify": views.SoundnessView,
    "/v1/datasets": views.DatasetsView,
    "/v1/datasets/patients/report": views.ReportView,
    "/v1/datasets/patients/report?study=sugar": views.ReportView,
    "/v1/approvals": views.ApprovalsView,
    "/v1/keys": views.KeysView,
    "/v1/studies": target_views.TargetStudiesView,
    "/v1/studies/sugar/model": target_views.ModelView,
    "/v1/studies/sugar/evaluation": target_views.EvaluationView,
}
RECORD = {"glucose": 9.0, "bmi": 33.0, "family": True, "smoker": "current"}


def undocumented(part: object, where: str = "") -> list[str]:
    """Fields that were sent and that no view names."""
    if isinstance(part, list):
        return [name for one in part for name in undocumented(one, where)]
    if not isinstance(part, BaseModel):
        return []
    extra = [f"{where}.{name}" for name in part.model_extra or {}]
    return extra + [name for field in part.model_fields_set for name in undocumented(getattr(part, field, None), field)]


@pytest.fixture
def client(federation, study, serving):
    """A target with everything there is to show: a model, a task that waits, one that has trouble, a pin."""
    main, branch = federation.hospital("main", "source"), federation.hospital("branch", "target", rows=900)
    federation.start(study())
    main.settle()
    branch.settle()
    branch.policy(decide="ask")
    federation.start(study("next", method="direct"))
    branch.drive()
    given = {"data_dir": branch.home, "database_url": str(branch.site.engine.url), "port": 0, "work": False}
    settings = TargetSettings(**given)
    bearer = {"Authorization": f"Bearer {make_token(branch.site, 'steward', 'test')}"}
    with (
        serving(target.create_app(settings), settings) as url,
        httpx.Client(base_url=url, headers=bearer, trust_env=False, timeout=60) as http,
    ):
        yield http


def test_every_field_is_documented(client) -> None:
    paid = client.post("/v1/studies/sugar/auc", json={"epsilon": 2.0})
    asked = client.post("/v1/predict", json={"study": "sugar", "record": RECORD})
    version = client.post("/v1/datasets/patients/versions", json={})
    answers = {path: (client.get(path), view) for path, view in ANSWERS.items()} | {
        "auc": (paid, target_views.PaidAucView),
        "predict": (asked, target_views.PredictionsView),
        "version": (version, views.OpenedView),
    }
    for path, (answer, view) in answers.items():
        assert answer.is_success, (path, answer.text)
        assert undocumented(view.model_validate(answer.json()), path) == []
    assert {item["state"] for item in answers["/v1/approvals"][0].json()["approvals"]} == {"waiting"}
    assert answers["/v1/keys"][0].json()["keys"]
    assert asked.json()["predictions"][0]["class"] in (True, False)


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
    bearer = {"Authorization": f"Bearer {make_token(app.state.site, 'steward', 'test')}"}
    with serving(app, settings) as url, httpx.Client(base_url=url, headers=bearer, trust_env=False, timeout=60) as http:
        for path in ("/v1/status", "/v1/keys", "/v1/ledger/verify", "/v1/approvals", "/v1/studies"):
            assert undocumented(ANSWERS[path].model_validate(http.get(path).json())) == []
        assert http.get("/v1/keys").json() == {"own": None, "keys": []}
