"""Whole studies, of every method, from file to certificate."""

import json

import pytest

from crossward.errors import Conflict, Forged
from crossward.protocol import keys
from crossward.protocol.certificate import verify_certificate
from crossward.protocol.constants import certificate_id
from crossward.protocol.envelopes import SignedRelease
from crossward.protocol.ledger.chain import verify
from crossward.protocol.ledger.lines import Head, Line

METHODS = {
    "direct": {"name": "direct"},
    "dppsgd": {"name": "dppsgd", "batch": 20},
    "amp": {"name": "amp", "delta": 1e-6},
    "pst-s": {"name": "pst-s"},
    "pst-f": {"name": "pst-f"},
    "simcomb": {"name": "simcomb"},
    "pst-h": {"name": "pst-h"},
    "pst-h-scores": {"name": "pst-h", "mix": "scores"},
    "sourced": {"name": "sourced"},
    "average": {"name": "average", "learner": {"name": "amp", "delta": 1e-6}},
    "feature": {"name": "feature", "public_set": "survey"},
    "boosted": {"name": "boosted", "iterations": 10},
}


BOTH = {"pst-h", "feature"}


@pytest.fixture(params=list(METHODS))
def method(request):
    return request.param


def run(world, method):
    study = world.create(method=METHODS[method], sources=["main", "west"], targets=["branch-1", "branch-2"])
    for role, names in (("source", study.sources), ("target", study.targets)):
        for name in names:
            world.site(name, role)
    if method == "feature":
        with pytest.raises(Conflict, match="public set"):
            world.start(study)
        world.ask("lead", "PUT", f"/studies/{study.id}/public-set", body=world.public_csv(study))
    world.start(study)
    for name in (*study.sources, *study.targets):
        world.sites[name].work()
    return study


def test_every_method_runs_to_its_certificate(method, small):
    check(small, method)


@pytest.mark.parametrize("method", sorted(BOTH))
def test_the_same_on_each_database(method, world):
    check(world, method)


def check(world, method):
    study = run(world, method)
    shown = world.show(study)
    assert shown["state"] == "complete", shown
    assert shown["cause"] == ""
    assert {task["state"] for task in shown["tasks"]} == {"done"}
    public_key = world.ask("lead", "GET", "/coordinator").json()["public_key"]
    data = world.ask("auditor", "GET", f"/studies/{study.id}/certificate").body
    certificate = verify_certificate(data, public_key)
    assert certificate.study_hash == study.digest
    assert certificate.id == certificate_id(study.digest)
    payers = set(study.sources if study.method.has_sources else ()) | set(
        study.targets if study.method.target_pays else ()
    )
    released = {party.party for party in certificate.parties if party.release and party.party != "coordinator"}
    assert released == payers
    for party in certificate.parties:
        check_party(world, study, party)
    with pytest.raises(Forged):
        verify_certificate(data, keys.public_text(keys.generate()))
    text = world.ask("auditor", "GET", f"/studies/{study.id}/certificate", params={"form": "text"}).body.decode()
    assert all(name in text for name in (*study.sources, *study.targets, study.digest, study.method.name))


def check_party(world, study, party):
    """What an auditor does offline: digest, signature, ledger up to the head named."""
    if party.release is not None:
        signed = SignedRelease.from_json(world.ask("auditor", "GET", f"/releases/{party.release.digest}").body)
        key = world.sites[study.targets[0]].coordinator_key
        if party.party != "coordinator":
            key = keys.public_key(party.release.public_key)
        assert signed.verify(key).study_hash == study.digest
        assert party.release.nano_epsilon == 2 * 10**9
    if party.party == "coordinator":
        return
    answer = world.ask("auditor", "GET", f"/ledger/{party.party}").json()
    lines = [Line.from_text(line) for line in answer["lines"]][: party.head.sequence]
    verified = verify(lines, Head(party.head.sequence, party.head.hash))
    if party.release is not None:
        assert verified.state.released[party.task] == party.release.digest
        assert lines == world.sites[party.party].lines[: len(lines)]


def test_a_lead_watches_a_study_until_it_ends(small):
    study = small.begin()
    small.sites["main"].work()
    small.sites["branch-1"].work()
    lines = list(small.person("lead").lines(f"/v1/studies/{study.id}/events"))
    kinds = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    assert kinds == [
        "study-created",
        "study-started",
        "sources",
        "task-taken",
        "task-done",
        "targets",
        "task-taken",
        "task-done",
        "study-complete",
    ]
    numbers = [json.loads(line[6:])["number"] for line in lines if line.startswith("data: ")]
    assert numbers == list(range(1, 10))
    later = list(small.person("auditor").lines(f"/v1/studies/{study.id}/events", params={"after": 7}))
    assert [line for line in later if line.startswith("id: ")] == ["id: 8", "id: 9"]


def test_two_studies_add_up_and_a_party_pays_once_each(small):
    for number in (1, 2):
        small.begin(id=f"study-{number}")
        small.sites["main"].work()
        small.sites["branch-1"].work()
    head = small.ask("auditor", "GET", "/ledger/main/verify").json()
    assert head["holds"]
    assert head["head"]["sequence"] == 6
