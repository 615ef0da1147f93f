"""The charge comes before the records, and after it nothing is lost: held, trained again, released once."""

from __future__ import annotations

import pytest

from crossward.errors import Conflict, NotConverged
from crossward.protocol.ledger.lines import ReleaseBody
from crossward.study import wire
from crossward_service.db.engine import write
from crossward_site.approvals import service as approvals
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
    assert seen == [["open", "reserve"]]


def test_not_converged_is_held_and_stays_visible_when_cancelled(federation, study, monkeypatch) -> None:
    branch = federation.hospital("branch", "target")

    def stop(*given):
        raise NotConverged("The solver found no step.")

    monkeypatch.setattr(steps, "train", stop)
    federation.start(study(method="direct"))
    branch.drive()
    [held] = approvals.waiting(branch.site)
    assert held.state == "held"
    assert "no step" in held.cause
    federation.call("lead", "POST", "/v1/studies/sugar/cancel", {"reason": "enough"})
    branch.runners[-1].beat(branch.tasks()[0])
    [ended] = approvals.waiting(branch.site)
    assert ended.state == "cancelled"
    assert "no step" in ended.cause
    with pytest.raises(Conflict):
        approvals.answer(branch.site, held.task, True)
    approvals.answer(branch.site, held.task, False)
    assert approvals.waiting(branch.site) == []
    assert branch.tasks()[0].state == "cancelled"


@pytest.mark.parametrize("method", ["direct", "pst-f"])
def test_an_upgrade_after_the_charge_wastes_nothing(federation, study, monkeypatch, method) -> None:
    branch = federation.hospital("branch", "target")
    federation.start(study(method=method))
    branch.drive_until("reserved")
    upgrade(monkeypatch)
    branch.settle()
    assert [line.kind for line in branch.lines()] == ["open", "reserve", "release"]


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
