"""What the steward is asked about a task that was charged, and what an answer may change."""

from __future__ import annotations

from pathlib import Path

from crossward.privacy.budget import Budget
from crossward.protocol.constants import TaskKind
from crossward.protocol.ledger.lines import ReserveBody
from crossward.study.wire import task_message
from crossward_service.db.engine import write
from crossward_site.approvals import service as approvals
from crossward_site.data.mapping import DataMap
from crossward_site.data.places import FilePlace
from crossward_site.data.service import Vault
from crossward_site.tasks import service as tasks
from crossward_site.tasks.tables import TaskState

MAP = DataMap(person="pid")


def place(folder: Path) -> FilePlace:
    rows = "".join(f"p{k},{4 + k % 7},{k % 2},{'yes' if k % 3 else 'no'},{int(k % 5 == 0)}\n" for k in range(60))
    (folder / "files" / "table.csv").write_text(f"pid,glucose,family,smoker,ill\n{rows}")
    return FilePlace(kind="csv", path="table.csv")


def test_what_was_charged_stays_with_the_data_that_it_was_charged_for(site, study, tmp_path) -> None:
    Vault(site).open("a", place(tmp_path), MAP, Budget.of(3))
    Vault(site).refresh("a")
    Vault(site).open("b", place(tmp_path), MAP)  # of which there is no version 2
    with write(site.engine) as connection:
        message = task_message(study, id="t1", kind=TaskKind.TRAIN_TARGET, lease_seconds=10)
        task = tasks.take(site, connection, message)
        tasks.move(connection, task, TaskState.APPROVED, 1.0)
        task = tasks.find(connection, "t1")
        tasks.move(connection, task, TaskState.RESERVED, 1.0, dataset="a", version=2)
        site.append(connection, ReserveBody("t1", study.id, study.digest, (0,), 1, 0, "b" * 64))
        tasks.hold(connection, tasks.find(connection, "t1"), "somebody must look", 1.0)

    [asked] = approvals.waiting(site)
    assert asked.datasets == ["a", "b"]
    assert [cost.dataset for cost in asked.costs] == ["a", "b"]
    answered = approvals.answer(site, "t1", approve=True, dataset="b")
    assert (answered.state, answered.dataset, answered.version) == ("reserved", "a", 2)
