"""Whatever is sent to a site's API, the answer is a plain one, a problem, or a refusal; never a crash."""

from __future__ import annotations

import os

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import content_type_conformance, response_schema_conformance

from crossward_site.identity import tokens
from crossward_site.site import Site
from crossward_target import app as target
from crossward_target.settings import TargetSettings

CHECKS = [content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def described(serving, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
            patch.delenv(name)  # nothing here leaves this machine
        yield from opened(serving, tmp_path_factory)


def opened(serving, tmp_path_factory):
    folder = tmp_path_factory.mktemp("target")
    chosen = TargetSettings(data_dir=folder, port=0, work=False)
    site = Site.open(chosen.database_url, folder)
    bearer = {"Authorization": f"Bearer {tokens.issue(site, 'steward', 'test')}"}
    site.close()
    with serving(target.create_app(chosen), chosen) as url:
        schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
        schema.bearer = bearer
        yield schema


def test_any_request_gets_an_answer(described) -> None:
    operations = [found.ok() for found in described.get_all_operations()]
    assert len(operations) > 20
    for operation in operations:
        if operation.path == "/v1/join":
            continue  # it would call whatever address it is given

        @settings(
            max_examples=10,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def check(case) -> None:
            response = case.call(headers=described.bearer, timeout=60)
            case.validate_response(response, checks=CHECKS)
            # Before it has joined, a site is not ready for some requests; it says so.
            assert response.status_code < 500 or response.status_code == 503, (case, response.text)
            if response.status_code >= 400:
                assert response.headers["content-type"] == ["application/problem+json"]
                assert set(response.json()) >= {"type", "title", "status", "detail", "fix", "instance"}

        check()
