"""A study file is checked with lines, stored once in its canonical form, and refused when it is strange."""

import hashlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from crossward.client.http import NEVER, HttpClient, Token
from crossward.errors import BodyTooLarge, Conflict, RemoteProblem, StudyInvalid
from crossward.study import Study, example


def test_a_bad_file_is_refused_with_lines_and_fields(small):
    text = example().replace("level0: 12", "level0: 99").replace("epsilon: {source: 1", "epsilon: {source: -1")
    for path in ("/studies", "/studies/check"):
        with pytest.raises(StudyInvalid) as caught:
            small.ask("lead", "POST", path, body=text.encode())
        found = {problem.field: problem.line for problem in caught.value.problems}
        assert found.keys() == {"cells", "epsilon.source"}
        assert all(found.values())
    with pytest.raises(StudyInvalid, match="UTF-8"):
        small.ask("lead", "POST", "/studies", body=b"\xff\xfe")
    with pytest.raises(BodyTooLarge):
        small.ask("lead", "POST", "/studies", body=b"x" * (5 << 20))
    assert small.ask("lead", "GET", "/studies").json() == {"items": [], "next": None}


def test_a_study_is_created_once(world):
    study = world.study()
    first = world.ask("lead", "POST", "/studies", body=study.to_yaml().encode())
    again = world.ask("lead", "POST", "/studies", body=study.to_yaml().encode())
    assert (first.status, again.status) == (201, 200)
    assert first.json() == again.json()
    assert first.json()["digest"] == study.digest
    with pytest.raises(Conflict, match="Another study"):
        world.create(title="Another title")
    checked = world.ask("auditor", "POST", "/studies/check", body=study.to_yaml().encode()).json()
    assert checked["digest"] == study.digest


def test_the_same_study_from_many_at_once(world):
    body = world.study().to_yaml().encode()
    people = [HttpClient(world.url, auth=Token(world.initialised.tokens["lead"]), retry=NEVER) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        statuses = list(pool.map(lambda person: person.post("/v1/studies", body).status, people))
    for person in people:
        person.close()
    assert sorted(statuses) == [200, 200, 200, 201]


def test_auto_is_resolved_before_a_study_is_stored(world):
    """Whoever sends it: what is kept, hashed and later approved names the method and its numbers."""
    made = world.ask("lead", "POST", "/studies", body=example().encode()).json()
    frozen = Study.from_yaml(example())
    assert (made["method"], made["digest"]) == ("simcomb", frozen.digest)
    kept = world.ask("lead", "GET", f"/studies/{frozen.id}/document").body
    assert kept == frozen.canonical()
    assert world.ask("lead", "GET", f"/studies/{frozen.id}").json()["chosen"] == frozen.chosen.why
    again = world.ask("lead", "POST", "/studies", body=frozen.to_yaml().encode())
    assert again.status == 200


def test_the_document_hashes_to_the_digest(small):
    study = small.create()
    body = small.ask("auditor", "GET", f"/studies/{study.id}/document").body
    assert hashlib.sha256(body).hexdigest() == study.digest


def test_strange_text_is_refused(world):
    study = world.create()
    for reason in (b'"\\ud800"', b'"\\u0000"', b'"a\\nb"'):
        with pytest.raises(RemoteProblem) as caught:
            world.ask("lead", "POST", f"/studies/{study.id}/cancel", body=b'{"reason": ' + reason + b"}")
        assert caught.value.status == 422
    for path in ("/parties", "/studies"):
        with pytest.raises(RemoteProblem) as caught:
            world.ask("lead", "GET", path, params={"after": "\0"})
        assert caught.value.status == 422
