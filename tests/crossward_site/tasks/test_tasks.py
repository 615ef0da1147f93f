"""The tasks a site took: where each goes on, in which order, how many processes ended over it, what it names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crossward.protocol.constants import FilterKind, TaskKind
from crossward.protocol.ledger.lines import OpenBody, ReserveBody, SeatsBody
from crossward.protocol.tasks import TaskMessage
from crossward.study.wire import task_message
from crossward_service.db.engine import write
from crossward_site.tasks import service as tasks
from crossward_site.tasks.tables import TaskState
from machines import StillMachine


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


@pytest.mark.parametrize("charged", [True, False])
def test_what_is_held_after_its_charge_keeps_the_inputs_that_were_charged(site, study, charged) -> None:
    """Offered again with other inputs, by a coordinator that lies or was put back, it would never fit its charge."""
    first = task_message(study, id="t1", kind=TaskKind.TRAIN_TARGET, lease_seconds=10)
    with write(site.engine) as connection:
        site.append(connection, OpenBody(1, 20, FilterKind.BASIC, 10**9))
        site.append(connection, SeatsBody(1, "5" * 64))
        task = tasks.take(site, connection, first)
        if charged:
            site.append(connection, ReserveBody("t1", study.id, study.digest, (0,), 1, 0, "b" * 64))
        tasks.hold(connection, task, "somebody must look", 1.0)
        again = tasks.take(site, connection, first.model_copy(update={"lead": "another"}))
    assert again.message.lead == (first.lead if charged else "another")


def test_tasks_are_listed_in_the_order_they_came(site, study) -> None:
    site = replace(site, machine=StillMachine())
    with write(site.engine) as connection:
        for id in ("c", "a", "b"):
            site.machine.time -= 86_400  # a clock that is set back does not reorder them
            tasks.take(site, connection, task_message(study, id=id, kind=TaskKind.TRAIN_TARGET, lease_seconds=10))
        assert [task.id for task in tasks.listed(connection)] == ["c", "a", "b"]


def test_processes_that_end_over_a_task_are_counted(site, study) -> None:
    with write(site.engine) as connection:
        tasks.take(site, connection, task_message(study, id="t1", kind=TaskKind.TRAIN_TARGET, lease_seconds=10))
        assert [tasks.begin(connection, "t1", process) for process in ("one", "one", "two", "two")] == [1, 1, 2, 2]
        tasks.rest_all(connection, "one")  # it is not the last: that one may be at work
        assert tasks.begin(connection, "t1", "three") == 3
        tasks.rest_all(connection, "three")
        assert tasks.begin(connection, "t1", "four") == 1
        tasks.rest(connection, "t1")
        assert tasks.begin(connection, "t1", "five") == 1


def test_a_task_of_an_older_coordinator_names_no_lead(study) -> None:
    message = task_message(study, id="t", kind=TaskKind.TRAIN_TARGET, lease_seconds=10)
    assert TaskMessage.model_validate(message.model_dump(exclude={"lead"})).lead == ""
