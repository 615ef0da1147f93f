"""Whom to believe: clocks that differ, a CA that nobody knows, a second coordinator, a key that counts no more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from impostor import Impostor

from crossward.errors import Conflict
from crossward_lab.demo.people import POLICY
from crossward_service.http.tls import Authority

FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
needs_faketime = pytest.mark.skipif(FAKETIME is None, reason="libfaketime is not installed: clocks were not tested")
BRANCHES = ("branch-1", "branch-2")


@pytest.fixture
def clocks(federation):
    """Sets the clocks of branch-1 ahead and of branch-2 behind; gives what a command beside them needs to agree."""
    yield lambda seconds: set_clocks(federation, seconds)
    for service in BRANCHES:
        federation.always(service)
    federation.restart(*BRANCHES)


def set_clocks(federation, seconds):
    shown = {}
    for service, sign in zip(BRANCHES, "+-", strict=True):
        (federation.faults / service / FAKETIME.name).write_bytes(FAKETIME.read_bytes())
        shown[service] = {"LD_PRELOAD": f"/faults/{FAKETIME.name}", "FAKETIME": f"{sign}{seconds}s"}
        shown[service] |= {"FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DISABLE_SHM": "1"}
        federation.always(service, **shown[service])
    federation.restart(*BRANCHES)
    return shown


def findings(federation, service, code=1, **environment):
    """What `crossward doctor` finds in a hospital's container, by check."""
    role = "source" if service == "main" else "target"
    said = federation.inside(service, "crossward", "doctor", role, "--json", code=code, **environment)
    return {item["check"]: item for item in json.loads(said)}


@needs_faketime
def test_clocks_that_differ_a_little_are_tolerated(federation, clocks):
    clocks(200)
    federation.ended(federation.begin(targets=BRANCHES))


@needs_faketime
def test_clocks_that_differ_too_much_are_named_and_nothing_is_spent(federation, clocks):
    before = federation.books()
    environment = clocks(400)
    federation.begin(targets=BRANCHES)
    for service, side in zip(BRANCHES, ("ahead of", "behind"), strict=True):
        said = federation.trouble(service, "clock")
        assert side in said
        assert "Set the clock" in said
        found = findings(federation, service, **environment[service])["clock"]
        assert found["verdict"] == "fault"
        assert side in found["observation"]
    assert (
        federation.books() == before
    )  # with the right time, which they get now, they take part as if nothing had been


def test_a_hospital_that_trusts_another_authority_talks_to_nobody(federation, tmp_path):
    Authority.open(tmp_path)
    (federation.faults / "branch-2" / "other.pem").write_bytes((tmp_path / "ca.pem").read_bytes())
    federation.always("branch-2", CROSSWARD_TLS_CA="/faults/other.pem")
    federation.restart("branch-2")
    before = federation.sites["branch-2"].ledger()
    begun = federation.begin(targets=("branch-2",))
    assert "CA bundle" in federation.trouble("branch-2", "CERTIFICATE_VERIFY_FAILED")
    assert findings(federation, "branch-2", CROSSWARD_TLS_CA="/faults/other.pem")["TLS"]["verdict"] == "fault"
    assert federation.task("branch-2", begun) is None
    assert federation.sites["branch-2"].ledger() == before
    federation.always("branch-2")
    federation.restart("branch-2")
    federation.ended(begun)


def test_a_second_coordinator_gets_nothing_but_a_signature_refused(federation, tmp_path):
    """It has the first one's name, network, certificate and mirror, and the hospital's public key; not its own key."""
    before = federation.sites["branch-2"].ledger()
    with Impostor(federation, "branch-2", tmp_path) as impostor:
        study = impostor.begin()
        federation.trouble("branch-2", "names the key")
        assert federation.sites["branch-2"].status()["tasks"] == []  # not even taken
        assert impostor.lead.study(study.id)["tasks"][0]["release"] is None
        found = findings(federation, "branch-2")["coordinator"]
        assert "Another coordinator answers" in found["observation"]
        assert federation.sites["branch-2"].ledger() == before
    federation.ended(federation.begin(targets=("branch-2",)))


def test_a_revoked_key_is_refused_until_its_hospital_is_invited_again(federation):
    """Revoked while its steward is asked: whatever the steward says, nothing is spent and the others go on."""
    site = federation.sites["branch-3"]
    site.set_policy(POLICY | {"decide": "ask"})
    before = site.ledger()
    begun = federation.begin(targets=("branch-1", "branch-3"), pays={"branch-1"})
    task = federation.in_state("branch-3", begun, "waiting")
    federation.operator.revoke("branch-3")
    site.decide(task["id"], True)
    federation.trouble("branch-3", "revoked")
    assert "Missing: branch-3 (cancelled: The party was revoked.)" in federation.ended(begun)["cause"]
    assert site.ledger() == before
    with pytest.raises(Conflict, match="branch-3 is revoked"):
        federation.begin(targets=("branch-3",), state="draft", pays=())

    site.set_policy(POLICY)
    site.join("https://coordinator:8400", federation.operator.invite("branch-3", "target")["code"])
    federation.ended(federation.begin(targets=("branch-1", "branch-3")))
