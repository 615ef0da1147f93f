"""A source that is revoked after its release, or is overtaken by the quorum: what counts, and what is told to stop."""

from __future__ import annotations

import pytest
from sqlalchemy import update

from crossward.protocol import keys
from crossward_coordinator.parties.tables import keys as coordinators_keys
from crossward_service.db.engine import connect, write
from crossward_site.identity import pins
from crossward_site.identity.service import Identity
from crossward_site.tasks.steps import advance


@pytest.fixture
def revoked(federation, study):
    """A study whose source was revoked after it had released, and a target that has not begun."""
    main, branch = federation.hospital("main", "source"), federation.hospital("branch", "target")
    federation.start(study())
    main.settle()
    federation.call("operator", "DELETE", "/v1/parties/main")
    return federation, main, branch


def backdate(federation, seconds: float) -> None:
    """As if the coordinator had accepted the release after the revocation."""
    engine = connect(f"sqlite:///{federation.folder}/coordinator/coordinator.sqlite3")
    with write(engine) as connection:
        connection.execute(update(coordinators_keys).values(revoked=coordinators_keys.c.revoked - seconds))
    engine.dispose()


def test_a_release_accepted_before_the_revocation_counts(revoked) -> None:
    federation, _, branch = revoked
    branch.settle()
    assert federation.study("sugar")["state"] == "complete"
    with write(branch.site.engine) as connection:
        assert pins.pinned(connection) == []  # a revoked key is good for that release, and for nothing after


def test_one_accepted_after_it_does_not(revoked) -> None:
    federation, _, branch = revoked
    backdate(federation, 3600)
    branch.settle()
    [task] = branch.tasks()
    assert (task.state, task.reason) == ("declined", "unfit-inputs")
    assert branch.lines("reserve") == []


def test_nor_one_by_a_key_revoked_nobody_knows_when(revoked) -> None:
    federation, _, branch = revoked
    engine = connect(f"sqlite:///{federation.folder}/coordinator/coordinator.sqlite3")
    with write(engine) as connection:
        connection.execute(update(coordinators_keys).values(revoked=None))
    engine.dispose()
    branch.settle()
    assert [task.state for task in branch.tasks()] == ["declined"]


def test_the_stewards_pins_decide_whatever_the_coordinator_says(revoked) -> None:
    federation, main, branch = revoked
    with write(branch.site.engine) as connection:
        pins.pin(connection, "main", keys.public_text(keys.generate()), 1.0)
    branch.drive()
    [task] = branch.tasks()
    assert task.state == "held"  # it has a pin, and this is not it
    with write(branch.site.engine) as connection:
        pins.pin(connection, "main", keys.public_text(Identity.load(main.site).key), 1.0)
    backdate(federation, 3600)
    find = pins.key_finder(branch.site, branch.runners[-1].coordinator(), task.message.inputs)
    [release] = task.message.inputs
    assert release.verify(find("main", release.key_id)).party == "main"


@pytest.mark.parametrize("state", ["approved", "reserved"])
def test_when_the_quorum_is_reached_a_source_that_has_paid_goes_on(federation, study, state: str) -> None:
    main, slow = federation.hospital("main", "source"), federation.hospital("slow", "source")
    federation.hospital("branch", "target", data=False)
    federation.start(study(sources=("main", "slow"), quorum={"sources": 1}))
    slow.drive_until(state)  # charged, if at all, in its own ledger only: the mirror has not heard
    assert [line.kind for line in federation.mirror("slow")] == ["open", "seats"]
    main.settle()
    runner = slow.runners[-1]
    runner.beat(slow.tasks()[0])
    if state == "approved":
        assert (slow.tasks()[0].state, slow.lines("reserve")) == ("cancelled", [])
        return
    assert slow.tasks()[0].state == "reserved"
    slow.settle()
    assert slow.tasks()[0].state == "settled"
    shown = {task["party"]: task["state"] for task in federation.study("sugar")["tasks"]}
    assert shown["slow"] == "late"
    assert federation.mirror("slow") == slow.lines()


def test_what_nobody_waits_for_any_more_is_not_charged(federation, study) -> None:
    """Approved in time, and its turn comes when the quorum has been reached."""
    main, slow = federation.hospital("main", "source"), federation.hospital("slow", "source")
    federation.hospital("branch", "target", data=False)
    federation.start(study(sources=("main", "slow"), quorum={"sources": 1}))
    slow.drive_until("approved")
    main.settle()
    slow.drive()
    assert slow.tasks()[0].state == "cancelled"
    assert slow.lines("reserve") == []


def test_an_answer_about_a_state_that_has_passed_ends_nothing(federation, study) -> None:
    """The worker charged while the heartbeat was under way."""
    main, slow = federation.hospital("main", "source"), federation.hospital("slow", "source")
    federation.hospital("branch", "target", data=False)
    federation.start(study(sources=("main", "slow"), quorum={"sources": 1}))
    slow.drive_until("approved")
    before, runner = slow.tasks()[0], slow.runners[-1]
    advance(slow.site, runner.coordinator(), before)
    main.settle()
    runner.beat(before)
    assert slow.tasks()[0].state == "reserved"
    slow.settle()
    assert slow.tasks()[0].state == "settled"
