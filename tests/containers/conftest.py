"""One federation of containers for all tests of this folder; after each test its books are checked."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from collections import Counter
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # engine.py and federation.py, for this folder alone

import engine
from federation import EPSILON, Federation

from crossward.protocol.envelopes import SignedRelease
from crossward.protocol.ledger.chain import first_difference
from crossward_lab.demo.people import POLICY

NANO = round(EPSILON * 1e9)


@pytest.fixture(scope="session")
def running(tmp_path_factory):
    """The federation, brought up once, and what its `study` service printed."""
    if reason := engine.why_not():
        pytest.skip(reason)
    federation = Federation(f"crossward-test-{secrets.token_hex(3)}", tmp_path_factory.mktemp("federation"))
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
            patch.delenv(name)  # nothing here leaves this machine
        patch.setattr(socket, "getaddrinfo", federation.resolver())
        try:
            yield federation, federation.up()
        finally:
            federation.down()


@pytest.fixture(scope="session")
def table(running):
    """What `docker-compose up` ended with."""
    return running[1]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    report = yield
    item.has_failed = getattr(item, "has_failed", False) or report.failed
    return report


@pytest.fixture
def federation(running, request):
    """The federation. Whatever the test did to it: its studies end as they should, and nobody has paid twice."""
    federation = running[0]
    federation.begun.clear()
    before = federation.books()
    yield federation
    if request.node.has_failed:
        return  # it has said what is wrong
    for begun in federation.begun:
        federation.ended(begun)
    for name in before:
        check_books(federation, name, before[name])


def check_books(federation, name, before):
    """A hospital's ledger is sound, the mirror is the same line by line, and every study was paid for once."""
    federation.until(f"{name} has settled", lambda: federation.settled(name))
    site, auditor = federation.sites[name], federation.auditor
    lines = site.ledger()
    assert site.verify()["sound"]
    assert auditor.verify(name)["holds"]
    assert first_difference(lines, auditor.ledger(name)) is None
    assert lines[: len(before)] == before
    paid = [begun.id for begun in federation.begun if name in begun.pays]
    charges = [line.body for line in lines[len(before) :] if line.kind == "reserve"]
    assert Counter(body.study for body in charges) == Counter(paid)
    assert {body.nano_epsilon for body in charges} <= {NANO}
    check_spend(site, lines)
    released = {line.body.task: line.body.digest for line in lines[len(before) :] if line.kind == "release"}
    assert released.keys() == {body.task for body in charges}
    kept = federation.stored(name) if released else {}
    for body in charges:
        check_bytes(federation, name, body, released[body.task], kept[body.study])


def check_spend(site, lines):
    """The dearest cell has spent what the ledger's lines say, to the nano-epsilon."""
    spend = Counter()
    for line in lines:
        if line.kind == "reserve":
            spend.update(dict.fromkeys(line.body.cells, line.body.nano_epsilon))
    assert round(site.budget()["epsilon_spent"] * 1e9) == max(spend.values())


def check_bytes(federation, name, charge, digest, kept):
    """What the site keeps, what the coordinator has and what both ledgers name are the same bytes."""
    shown = federation.lead.study(charge.study)
    assert [task["release"] for task in shown["tasks"] if task["party"] == name] == [digest]
    there = federation.auditor._http.get(f"/v1/releases/{digest}").body
    assert SignedRelease.from_json(there) == SignedRelease.from_json(kept)
    assert SignedRelease.from_json(kept).canonical().decode() == kept
    assert SignedRelease.from_json(kept).digest == digest


@pytest.fixture
def asking(federation):
    """branch-1 asks its steward: a study stands still in its middle, with a lease out, until somebody decides."""
    site = federation.sites["branch-1"]
    site.set_policy(POLICY | {"decide": "ask"})
    yield site
    site.set_policy(POLICY)
