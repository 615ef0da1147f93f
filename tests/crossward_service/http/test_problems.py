"""Every refusal has one shape, every error has its row, and private words stay at the site."""

import logging
import re

import pytest
from fastapi import APIRouter
from pydantic import BaseModel, Field

from crossward import errors
from crossward.protocol import problems as catalogue
from crossward.protocol.problems import TABLE, Text
from crossward_service.http import problems
from crossward_service.http.app import new_app

FIELDS = {"type", "title", "status", "detail", "fix", "instance"}


def everyone(kind=errors.CrosswardError):
    return {kind}.union(*(everyone(child) for child in kind.__subclasses__()))


class Measured(BaseModel):
    pulse: float = Field(gt=0)


def app_raising(error, *, local):
    app = new_app("Test", "1", local=local)
    router = APIRouter(prefix="/v1")

    @router.get("/fail")
    def fail():
        raise error

    @router.post("/measured")
    def measured(body: Measured) -> Measured:
        return body

    app.include_router(router)
    return app


def test_every_error_has_its_own_entry():
    # What only the command line raises never crosses HTTP, and is known here only if another test has loaded it.
    ours = {kind for kind in everyone() if re.match(r"crossward(?!_cli\.)", kind.__module__)}
    assert ours - set(TABLE) == set(), "add an entry to crossward.protocol.problems.TABLE"
    assert len({catalogue.urn(kind) for kind in TABLE}) == len(TABLE)


def test_data_errors_are_never_public():
    quoting = everyone(errors.InvalidData) | {errors.InvalidInput, errors.CrosswardError, errors.NotConverged}
    assert all(TABLE[kind].text is Text.LOCAL for kind in quoting)


def test_every_401_says_how_to_ask():
    assert all(row.challenge for row in TABLE.values() if row.status == 401)


def test_urns_read_like_the_class():
    assert catalogue.urn(errors.BudgetExceeded) == "urn:crossward:problem:budget-exceeded"


def test_an_unlisted_class_answers_as_its_parent():
    class Novel(errors.BudgetExceeded):
        """Made here, listed nowhere."""

    answer = problems.of_error(Novel("Too much.", "Ask for less."), "id", local=False)
    assert answer.status_code == 409
    assert answer.kind == "budget-exceeded"


def test_a_domain_error_is_a_problem_with_a_fix(serve, http):
    url = serve(app_raising(errors.BudgetExceeded("Cell 3 has 0.2 left.", "Ask for less."), local=False))
    answer = http.get(url + "/v1/fail", headers={"X-Request-ID": "my-id.7"})
    assert answer.status_code == 409
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json() == {
        "type": "urn:crossward:problem:budget-exceeded",
        "title": "Privacy budget exceeded",
        "status": 409,
        "detail": "Cell 3 has 0.2 left.",
        "fix": "Ask for less.",
        "instance": "my-id.7",
    }


@pytest.mark.parametrize("local", [True, False])
def test_private_words_are_shown_at_home_only(serve, http, local):
    secret = "Record 17 has pulse 44114411441."
    url = serve(app_raising(errors.NotFinite(secret, "Drop record 17."), local=local))
    answer = http.get(url + "/v1/fail")
    assert answer.status_code == 422
    assert ("44114411441" in answer.text) is local
    assert ("17" in answer.json()["fix"]) is local
    assert answer.json()["type"].endswith("not-finite")


@pytest.mark.parametrize("local", [True, False])
def test_an_unexpected_error_says_nothing_but_its_id(serve, http, local, caplog):
    url = serve(app_raising(RuntimeError("patient 44114411441"), local=local))
    with caplog.at_level(logging.ERROR):
        answer = http.get(url + "/v1/fail")
    assert answer.status_code == 500
    assert answer.json().keys() == FIELDS
    assert "44114411441" not in answer.text
    assert answer.json()["instance"] == answer.headers["x-request-id"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    found = [record for record in caplog.records if getattr(record, "request_id", None) == answer.json()["instance"]]
    assert len(found) == 1
    assert found[0].exc_info


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nowhere", 404), ("DELETE", "/v1/fail", 405), ("POST", "/healthz", 405)]
)
def test_the_frameworks_refusals_are_problems_too(serve, http, method, path, status):
    url = serve(app_raising(errors.NotReady("x"), local=False))
    answer = http.request(method, url + path)
    assert answer.status_code == status == answer.json()["status"]
    assert answer.json().keys() == FIELDS
    assert answer.headers["content-type"] == "application/problem+json"
    assert status != 405 or answer.headers["allow"]


@pytest.mark.parametrize(
    "content", [b'{"pulse": -44114411441}', b'{"pulse": "44114411441x"}', b'{"pulse": 44114411441']
)
def test_a_misfit_request_names_the_field_and_never_the_value(serve, http, content):
    url = serve(app_raising(errors.NotReady("x"), local=False))
    answer = http.post(url + "/v1/measured", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 422
    assert answer.json()["type"] == "urn:crossward:problem:invalid-request"
    assert answer.json()["fields"][0]["where"].startswith("body.")
    assert "44114411441" not in answer.text


def test_the_api_description_names_the_problem_shape(serve, http):
    described = http.get(serve(app_raising(errors.NotReady("x"), local=False)) + "/openapi.json").json()
    responses = described["paths"]["/v1/measured"]["post"]["responses"]
    assert set(responses["422"]["content"]) == {"application/problem+json"}
    assert set(responses["default"]["content"]) == {"application/problem+json"}
    assert "HTTPValidationError" not in str(responses)
