"""The charge comes before the records, and after it nothing is lost: held, trained again, released once."""

from __future__ import annotations

import pytest

from crossward.errors import Conflict, InvalidMessage, NotConverged, RemoteProblem
from crossward.protocol.constants import DeclineReason
from crossward.protocol.ledger.lines import ReleaseBody
from crossward.study import wire
from crossward_service.db.engine import read, write
from crossward_site.approvals import service as approvals
from crossward_site.coordinator import Coordinator
from crossward_site.data import seating
from crossward_site.data.service import Vault
from crossward_site.tasks import steps


def upgrade(monkeypatch) -> None:
    """From here on the code has another version."""
    monkeypatch.setattr(wire, "__version__", "99.0")


def test_no_record_is_read_before_the_charge_is_durable_and_mirrored(federation, study, monkeypatch) -> None:
    branch = federation.hospital("branch", "target")
    seen = []

    def rows(self, *given, original=Vault.rows):
        seen.append([line.kind for line in federation.mirror("branch")])
        return original(self, *given)

    monkeypatch.setattr(Vault, "rows", rows)
    federation.start(study(method="direct"))
    branch.settle()
    assert seen == [["open", "seats", "reserve"]]


@pytest.mark.parametrize("approve", [True, False])
def test_not_converged_is_held_also_when_its_study_is_cancelled(federation, study, monkeypatch, approve) -> None:
    """It was paid for: only the steward gives it up. Trained again, it is kept here though nobody takes it."""
    branch = federation.hospital("branch", "target")

    def stop(*given):
        raise NotConverged("The solver found no step.")

    with monkeypatch.context() as patched:
        patched.setattr(steps, "train", stop)
        federation.start(study(method="direct"))
        branch.drive()
    federation.call("lead", "POST", "/v1/studies/sugar/cancel", {"reason": "enough"})
    branch.runners[-1].beat(branch.tasks()[0])
    [held] = approvals.waiting(branch.site)
    assert held.state == "held"
    assert "no step" in held.cause
    approvals.answer(branch.site, held.task, approve)
    branch.settle()
    assert approvals.waiting(branch.site) == []
    [task] = branch.tasks()
    assert task.state == ("refused" if approve else "declined")
    assert [line.kind for line in branch.lines()] == ["open", "seats", "reserve", *["release"] * approve]
    assert federation.mirror("branch") == branch.lines()
    assert (branch.outbox() is not None) == approve
    assert federation.study("sugar")["tasks"][0]["release"] is None


@pytest.mark.parametrize("state", ["reserved", "stored"])
def test_what_was_paid_for_is_finished_after_its_study_was_cancelled(federation, study, state) -> None:
    branch = federation.hospital("branch", "target")
    federation.start(study(method="direct"))
    branch.drive_until(state)
    federation.call("lead", "POST", "/v1/studies/sugar/cancel", {"reason": "enough"})
    branch.runners[-1].beat(branch.tasks()[0])
    assert branch.tasks()[0].state == state
    branch.settle()
    [task] = branch.tasks()
    assert (task.state, task.cause) == ("refused", "The task was cancelled: enough")
    assert branch.outbox() is not None
    assert federation.mirror("branch") == branch.lines()
    assert [line.kind for line in branch.lines()] == ["open", "seats", "reserve", "release"]


def test_what_is_in_the_way_of_a_paid_task_is_the_stewards(federation, study, monkeypatch) -> None:
    """Before the charge it would be declined."""
    branch = federation.hospital("branch", "target")
    federation.start(study(method="direct"))
    branch.drive_until("reserved")

    def refuse(*given):
        raise steps.Declined(DeclineReason.NO_DATA, "The dataset is not open.")

    with monkeypatch.context() as patched:
        patched.setattr(steps, "_announced", refuse)
        branch.drive()
    [held] = approvals.waiting(branch.site)
    assert (held.state, held.cause) == ("held", "The dataset is not open.")
    approvals.answer(branch.site, held.task, True)
    branch.settle()
    assert federation.study("sugar")["state"] == "complete"


def test_the_mirror_has_the_release_line_before_the_bytes_leave(federation, study, monkeypatch) -> None:
    branch = federation.hospital("branch", "target")
    seen = []

    def result(self, message, original=Coordinator.result):
        seen.append([line.kind for line in federation.mirror("branch")])
        return original(self, message)

    monkeypatch.setattr(Coordinator, "result", result)
    federation.start(study(method="direct"))
    branch.settle()
    assert seen == [["open", "seats", "reserve", "release"]]


def test_lines_that_are_not_taken_refuse_no_release(federation, study, monkeypatch) -> None:
    """Nothing was said about the bytes: they were not sent."""
    branch = federation.hospital("branch", "target")
    federation.start(study(method="direct"))
    branch.drive_until("stored")
    [task] = branch.tasks()

    def refuse(self, lines):
        raise InvalidMessage("No.", "Mend.") from RemoteProblem("No.")

    with monkeypatch.context() as patched:
        patched.setattr(Coordinator, "send_lines", refuse)
        with pytest.raises(InvalidMessage):
            branch.stepped(task)
    assert branch.tasks()[0].state == "stored"
    branch.settle()
    assert federation.study("sugar")["state"] == "complete"


@pytest.mark.parametrize("method", ["direct", "pst-f"])
def test_an_upgrade_after_the_charge_wastes_nothing(federation, study, monkeypatch, method) -> None:
    branch = federation.hospital("branch", "target")
    federation.start(study(method=method))
    branch.drive_until("reserved")
    upgrade(monkeypatch)
    branch.settle()
    assert [line.kind for line in branch.lines()] == ["open", "seats", "reserve", "release"]


def test_a_release_whose_bytes_are_lost_is_held(federation, study) -> None:
    branch = federation.hospital("branch", "target")
    federation.start(study(method="direct"))
    branch.drive_until("reserved")
    [task] = branch.tasks()
    with write(branch.site.engine) as connection:
        branch.site.append(connection, ReleaseBody(task.id, "0" * 64))
    held = branch.stepped(task)
    assert held.state == "held"
    assert "does not have its bytes" in held.cause


def test_a_version_that_comes_before_the_charge_puts_it_off(federation, study, monkeypatch) -> None:
    """The charge would describe data that are no longer there, and could never be released."""
    branch = federation.hospital("branch", "target")
    federation.start(study(method="direct"))
    branch.drive_until("approved")
    [task] = branch.tasks()
    line = branch.runners[-1].coordinator()

    def heartbeat(beat, original=line.heartbeat):
        table = branch.files / "table.csv"
        head, *rows = table.read_text().splitlines()
        table.write_text("\n".join([head, *rows, *(f"new-{row}" for row in rows)]))
        Vault(branch.site).refresh("patients")
        return original(beat)

    with monkeypatch.context() as patched:
        patched.setattr(line, "heartbeat", heartbeat)
        with pytest.raises(Conflict, match="new version"):
            steps.advance(branch.site, line, task)
    assert branch.tasks()[0].state == "approved"
    assert branch.lines("reserve") == []
    branch.settle()
    assert branch.tasks()[0].state == "settled"


def test_a_version_that_comes_after_the_charge_changes_nothing(federation, study) -> None:
    """The task is bound to the version that it was charged for, whose sealed copy stays until it is released."""
    branch = federation.hospital("branch", "target")
    federation.start(study(method="direct"))
    branch.drive_until("reserved")
    table = branch.files / "table.csv"
    head, *rows = table.read_text().splitlines()
    table.write_text("\n".join([head, *rows[100:], *(f"new-{row}" for row in rows)]))
    for _ in range(3):
        Vault(branch.site).refresh("patients")
    branch.settle()
    [task] = branch.tasks()
    assert (task.state, task.version) == ("settled", 1)
    assert [line.kind for line in branch.lines()] == ["open", "seats", "reserve", *["seats"] * 3, "release"]
    assert federation.study("sugar")["state"] == "complete"


def test_a_dataset_that_is_undone_before_the_charge_is_none(federation, study) -> None:
    branch = federation.hospital("branch", "target")
    federation.start(study(method="direct"))
    branch.drive_until("approved")
    assert Vault(branch.site).undo("patients") is None
    branch.settle()
    [task] = branch.tasks()
    assert (task.state, task.reason) == ("declined", "no-data")
    assert branch.lines("reserve") == []


def test_what_was_charged_cannot_be_undone(federation, study) -> None:
    branch = federation.hospital("branch", "target")
    federation.start(study(method="direct"))
    branch.drive_until("reserved")
    with pytest.raises(Conflict, match="people have paid"):
        Vault(branch.site).undo("patients")
    branch.settle()
    assert federation.study("sugar")["state"] == "complete"


def test_a_task_whose_version_was_lost_after_the_charge_is_left_to_the_steward(federation, study) -> None:
    """Also once the same people are opened again by the same name: those are other data."""
    branch = federation.hospital("branch", "target")
    federation.start(study(method="direct"))
    branch.drive_until("reserved")
    before = Vault(branch.site).dataset("patients")
    for path in branch.home.glob("vault-*.seats"):
        path.unlink()
    seating.settle(branch.site)
    seating.recover(branch.site)
    Vault(branch.site).open("patients", before.place, before.mapping)
    branch.drive()
    [held] = approvals.waiting(branch.site)
    assert held.state == "held"
    assert "charged for a version of patients that is not here" in held.cause
    assert [cost.problem for cost in held.costs] == ["There is no version 1 of patients. Restore a backup that has it."]
    assert branch.lines("release") == []
    with read(branch.site.engine) as connection:
        balance = branch.site.ledger.balance(connection)
    assert {cell.nano_epsilon for cell in balance.spends} == {2 * 10**9}
    assert Vault(branch.site).undo("patients") is None  # for these nobody has paid
