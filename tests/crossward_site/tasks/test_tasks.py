"""The tasks a site took: where each goes on, who is busy with it, what it names."""

from __future__ import annotations

from crossward.protocol.constants import TaskKind
from crossward.protocol.tasks import TaskMessage
from crossward.study.wire import task_message
from crossward_service.db.engine import write
from crossward_site.tasks import service as tasks
from crossward_site.tasks.tables import TaskState


def test_a_task_taken_again_goes_on_where_it_was(site, study) -> None:
    first = task_message(study, id="t1", kind=TaskKind.TRAIN_TARGET, lease_seconds=10)
    with write(site.engine) as connection:
        task = tasks.take(site, connection, first)
        assert task.state == "taken"
        tasks.move(connection, task, TaskState.WAITING, 1.0)
        again = tasks.take(site, connection, first.model_copy(update={"attempt": 2}))
        assert (again.state, again.attempt) == ("waiting", 2)
        assert not tasks.move(connection, task, TaskState.APPROVED, 1.0)  # it is no longer `taken`
        tasks.move(connection, again, TaskState.CANCELLED, 1.0)
        assert tasks.take(site, connection, first).state == "taken"


def test_a_claim_keeps_others_off(site, study) -> None:
    with write(site.engine) as connection:
        tasks.take(site, connection, task_message(study, id="t1", kind=TaskKind.TRAIN_TARGET, lease_seconds=10))
        assert tasks.claim(connection, "one", 100.0, 5.0).id == "t1"
        assert tasks.claim(connection, "two", 104.0, 5.0) is None
        assert tasks.claim(connection, "one", 104.0, 5.0).id == "t1"
        assert tasks.claim(connection, "two", 110.0, 5.0).id == "t1"


def test_a_task_of_an_older_coordinator_names_no_lead(study) -> None:
    message = task_message(study, id="t", kind=TaskKind.TRAIN_TARGET, lease_seconds=10)
    assert TaskMessage.model_validate(message.model_dump(exclude={"lead"})).lead == ""
