"""Studies: checked with lines, created once, started when everyone can take part, cancelled."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from crossward.client.http import NEVER, HttpClient, Token
from crossward.errors import BodyTooLarge, Conflict, InvalidMessage, NotFound, RemoteProblem, StudyInvalid
from crossward.study import Study, example
from crossward_coordinator.clock import Gauges
from crossward_service.db.engine import connect
from crossward_service.http.telemetry import RequestMetrics


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


def test_a_study_starts_when_everyone_can_take_part(world):
    study = world.create(sources=["main", "west"], targets=["branch-1"])
    world.site("main", "target")
    world.site("branch-1", "target")
    with pytest.raises(Conflict) as caught:
        world.start(study)
    assert "main is a target, not a source" in caught.value.cause
    assert "west is not enrolled" in caught.value.cause
    assert "branch-1" not in caught.value.cause
    world.ask("operator", "DELETE", "/parties/branch-1")
    with pytest.raises(Conflict, match="branch-1 is revoked"):
        world.start(study)
    assert world.show(study)["state"] == "draft"
    with pytest.raises(NotFound):
        world.ask("lead", "POST", "/studies/nothing/start")


def test_to_start_again_changes_nothing(world):
    study = world.begin()
    world.sites["main"].work()
    before = world.show(study)
    world.start(study)
    assert world.show(study) == before


def test_a_study_is_cancelled_once(world):
    study = world.begin()
    task = world.sites["main"].next()
    shown = world.ask("lead", "POST", f"/studies/{study.id}/cancel", body={"reason": "Wrong label."}).json()
    assert (shown["state"], shown["cause"]) == ("cancelled", "Wrong label.")
    assert [task["state"] for task in shown["tasks"]] == ["cancelled"]
    pulse = world.sites["main"].heartbeat(task)
    assert (pulse["cancelled"], pulse["cause"]) == (True, "Wrong label.")
    assert world.sites["main"].decline(task).status == 204
    world.ask("lead", "POST", f"/studies/{study.id}/cancel")
    assert world.show(study)["events"] == shown["events"]
    with pytest.raises(Conflict, match="cancelled"):
        world.start(study)


def test_what_has_ended_cannot_be_cancelled(small):
    study = small.begin(method="direct")
    small.sites["branch-1"].work()
    with pytest.raises(Conflict, match="complete"):
        small.ask("lead", "POST", f"/studies/{study.id}/cancel")


def test_no_certificate_before_the_end(small):
    study = small.begin()
    with pytest.raises(Conflict, match="sources"):
        small.ask("auditor", "GET", f"/studies/{study.id}/certificate")
    small.ask("lead", "POST", f"/studies/{study.id}/cancel")
    text = small.ask("auditor", "GET", f"/studies/{study.id}/certificate", params={"form": "text"}).body.decode()
    assert "cancelled" in text


@pytest.mark.parametrize(
    ("csv", "cause"),
    [
        (b"", "no column"),
        (b"\xff", "UTF-8"),
        (b"a,a\n1,2\n", "twice"),
        (b"a,b\n1\n", "uneven"),
        (b"a,b\n1,2\n", "no column"),
        (b'a,b\n1,"2', "not a CSV"),
        (b"a,b\n1," + b"2" * 200_000, "not a CSV"),
    ],
)
def test_a_public_set_must_fit_its_study(small, csv, cause):
    study = small.create(method={"name": "feature", "public_set": "survey"})
    with pytest.raises(InvalidMessage, match=cause):
        small.ask("lead", "PUT", f"/studies/{study.id}/public-set", body=csv)


def test_only_the_feature_method_has_a_public_set(small):
    study = small.create()
    with pytest.raises(Conflict, match="no public set"):
        small.ask("lead", "PUT", f"/studies/{study.id}/public-set", body=b"a\n1\n")


def test_a_cancelled_draft_takes_no_public_set(small):
    study = small.create(method={"name": "feature", "public_set": "survey"})
    small.ask("lead", "POST", f"/studies/{study.id}/cancel")
    with pytest.raises(Conflict, match="cancelled"):
        small.ask("lead", "PUT", f"/studies/{study.id}/public-set", body=b"a\n1\n")


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


def test_states_are_counted(small):
    small.begin()
    metrics, engine = RequestMetrics(), connect(small.settings["database_url"])
    Gauges(metrics).count(engine)
    engine.dispose()
    counted = metrics.exposition().decode()
    assert 'crossward_studies{state="sources"} 1.0' in counted
    assert 'crossward_tasks{state="ready"} 1.0' in counted
    assert 'crossward_parties{state="active"} 2.0' in counted


def test_the_same_study_from_many_at_once(world):
    body = world.study().to_yaml().encode()
    people = [HttpClient(world.url, auth=Token(world.made.tokens["lead"]), retry=NEVER) for _ in range(4)]
    with ThreadPoolExecutor(4) as pool:
        statuses = list(pool.map(lambda person: person.post("/v1/studies", body).status, people))
    for person in people:
        person.close()
    assert sorted(statuses) == [200, 200, 200, 201]


def test_heartbeats_write_few_events(small):
    study = small.begin()
    site = small.sites["main"]
    task = site.next()
    before = small.show(study)["events"]
    for progress in (0.5, 0.0, 0.5, 0.1, 0.5):
        site.heartbeat(task, progress)
    assert small.show(study)["events"] == before + 1
