"""Schemathesis sends what the document allows, and what it does not, to every operation: nothing breaks."""

from contextlib import suppress

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis.checks import content_type_conformance, not_a_server_error, response_schema_conformance

from crossward.protocol import keys
from crossward_service.http.signing import Signer

EXAMPLES = 5
LAST = ("DELETE", "/v1/parties/{party}")  # after it, nobody is left to sign
STREAM = "/v1/studies/{study}/events"
CHECKS = [not_a_server_error, content_type_conformance, response_schema_conformance]
MODES = [schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE]


class Caller:
    """Signs what parties send, and carries a token of the right role otherwise."""

    def __init__(self, world, site):
        self._tokens, self._signer = world.initialised.tokens, Signer(site.name, keys.key_id(site.key), site.key)

    def __call__(self, request):
        path, _, query = request.path_url.partition("?")
        if path.startswith("/v1/tasks") or path.endswith(("/keys", "/lines")):
            body = request.body or b""
            body = body if isinstance(body, bytes) else body.encode()
            request.headers.update(self._signer.headers(request.method, path, query, body))
        else:
            role = "operator" if path.startswith("/v1/parties") else "lead"
            request.headers["Authorization"] = f"Bearer {self._tokens[role]}"
        return request


@pytest.fixture
def small(world_of, url, monkeypatch):
    """A coordinator that nobody can make wait, asked through no proxy."""
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")
    return world_of(url, longest_wait=0.05)


@pytest.fixture
def caller(small):
    small.begin()
    return Caller(small, small.sites["main"])


@pytest.fixture
def operations(small):
    schema = schemathesis.openapi.from_dict(httpx.get(small.url + "/openapi.json", timeout=120).json())
    found = [operation.ok() for operation in schema.get_all_operations()]
    assert len(found) > 20
    return sorted(found, key=lambda operation: (operation.method.upper(), operation.path) == LAST)


def throw(url, operation, caller, **known):
    """A few requests of both kinds at one operation."""
    for mode in MODES:

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode, **known))
        def attempt(case):
            answer = case.call(base_url=url, auth=caller, timeout=120)
            case.validate_response(answer, checks=CHECKS)

        with suppress(Unsatisfiable):  # nothing can be wrong with GET /healthz
            attempt()


def test_no_request_breaks_the_coordinator(small, operations, caller):
    for operation in operations:
        throw(small.url, operation, caller)


def test_nor_does_one_about_what_is_there(small, operations, caller):
    real = {
        "study": "demo",
        "party": "main",
        "task": small.ask("lead", "GET", "/studies/demo").json()["tasks"][0]["id"],
    }
    for operation in operations:
        names = {name for name in real if f"{{{name}}}" in operation.path}
        if names and operation.path != STREAM:  # which would be watched until the study ends
            throw(small.url, operation, caller, path_parameters={name: real[name] for name in names})
