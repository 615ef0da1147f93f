"""Who may ask: parties by their signature, people by their token, over a real server."""

import re
import runpy
import threading
from pathlib import Path
from typing import Annotated

import pytest
from fastapi import Body, Depends, Request

from crossward.client.http import NEVER, HttpClient, Token
from crossward.client.remote import remote
from crossward.errors import (
    Expired,
    InvalidSetting,
    KeyRevoked,
    MissingToken,
    UnknownParty,
    Unsigned,
    WrongRole,
    WrongToken,
)
from crossward.protocol import keys
from crossward_service.http.access import Holder, Trust, hash_token, new_token, require, require_party, same_token
from crossward_service.http.app import new_app
from crossward_service.http.signing import PartyKey, Signer

MemoryNonces = runpy.run_path(str(Path(__file__).with_name("memory_nonces.py")))["MemoryNonces"]

KEY, OLD_KEY = keys.generate(), keys.generate()
LEAD, AUDITOR = new_token("lead"), new_token("auditor")


def trust(request: Request) -> Trust:
    return request.app.state.trust


def lookup(request: Request, stored_hash: str) -> Holder | None:
    return request.app.state.holders.get(stored_hash)


def coordinator():
    app = new_app("Coordinator", "1", local=False)
    enrolled = {
        ("ward-7", keys.key_id(KEY)): PartyKey(keys.public_text(KEY)),
        ("ward-7", keys.key_id(OLD_KEY)): PartyKey(keys.public_text(OLD_KEY), revoked=True),
    }
    app.state.trust = Trust(lambda party, key_id: enrolled.get((party, key_id)), MemoryNonces())
    app.state.holders = {
        token.stored_hash: Holder(role, role, token.stored_hash)
        for role, token in (("lead", LEAD), ("auditor", AUDITOR))
    }

    @app.post("/v1/tasks/{task}/result")
    def result(
        task: str, party: Annotated[str, Depends(require_party(trust))], body: Annotated[dict, Body()]
    ) -> dict[str, str]:
        return {"party": party, "task": task, **body}

    @app.get("/v1/studies")
    def studies(holder: Annotated[Holder, Depends(require("lead", lookup=lookup))]) -> dict[str, str]:
        return {"role": holder.role}

    return app


@pytest.fixture(scope="module")
def url(serve_all):
    return serve_all(coordinator())


def signer(key=KEY, party="ward-7", **given):
    return Signer(party, keys.key_id(key), key, **given)


def test_a_signed_request_arrives_as_its_party(url):
    with HttpClient(url, auth=signer(), retry=NEVER) as client:
        answer = client.request("POST", "/v1/tasks/a b/result", body={"n": "ü"}, params={"x": " &ü"}).json()
    assert answer == {"party": "ward-7", "task": "a b", "n": "ü"}


@pytest.mark.parametrize(
    ("auth", "error", "status"),
    [
        (None, Unsigned, 401),
        (signer(party="ward-8"), UnknownParty, 401),
        (signer(OLD_KEY), KeyRevoked, 403),
        (signer(clock=lambda: 1_600_000_000), Expired, 401),
    ],
)
def test_anyone_else_is_refused_by_name(url, auth, error, status):
    with HttpClient(url, auth=auth, retry=NEVER) as client, pytest.raises(error) as refused:
        client.post("/v1/tasks/1/result", {})
    assert remote(refused.value).status == status


def test_one_signed_request_sent_twice_at_once_passes_once(url, http):
    headers = {"Content-Type": "application/json", **signer().headers("POST", "/v1/tasks/1/result", "", b"{}")}
    statuses, start = [], threading.Barrier(2)

    def ask():
        start.wait()
        statuses.append(http.post(url + "/v1/tasks/1/result", content=b"{}", headers=headers).status_code)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(statuses) == [200, 401]


def test_a_body_changed_on_the_way_is_refused(url, http):
    headers = {"Content-Type": "application/json", **signer().headers("POST", "/v1/tasks/1/result", "", b"{}")}
    answer = http.post(url + "/v1/tasks/1/result", content=b'{"n":1}', headers=headers)
    assert answer.status_code == 401
    assert answer.json()["type"].endswith("wrong-signature")
    assert answer.headers["www-authenticate"].startswith("Signature")


def test_a_token_opens_what_its_role_may(url):
    with HttpClient(url, auth=Token(LEAD.secret), retry=NEVER) as client:
        assert client.get("/v1/studies").json() == {"role": "lead"}


@pytest.mark.parametrize(
    ("auth", "error", "status", "challenge"),
    [
        (None, MissingToken, 401, 'Bearer realm="crossward"'),
        (Token("cw_lead_" + "A" * 43), WrongToken, 401, "invalid_token"),
        (Token("nonsense"), WrongToken, 401, "invalid_token"),
        (Token(LEAD.stored_hash), WrongToken, 401, "invalid_token"),
        (Token(AUDITOR.secret), WrongRole, 403, "insufficient_scope"),
    ],
)
def test_any_other_token_does_not(url, http, auth, error, status, challenge):
    with HttpClient(url, auth=auth, retry=NEVER) as client, pytest.raises(error):
        client.get("/v1/studies")
    answer = http.get(url + "/v1/studies", auth=auth)
    assert answer.status_code == status
    assert challenge in answer.headers["www-authenticate"]


def test_tokens_are_stored_as_hashes_and_told_apart():
    secret, stored = new_token("operator")
    assert re.fullmatch(r"cw_operator_[A-Za-z0-9_-]{43}", secret)
    assert stored == hash_token(secret)
    assert same_token(secret, stored)
    assert not same_token(secret + "x", stored)
    assert new_token("operator").secret != secret
    with pytest.raises(InvalidSetting):
        new_token("Lead!")
