"""Tasks that fail: none keeps another back, and what went wrong here stays here."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
from sqlalchemy import update

from crossward.errors import CrosswardError, InvalidData, RemoteProblem
from crossward.protocol.constants import DeclineReason, TaskKind
from crossward.study.wire import task_message
from crossward_service.db.engine import read, write
from crossward_site.tasks import runner as running
from crossward_site.tasks import service as tasks
from crossward_site.tasks import tables as task_tables
from crossward_site.tasks.runner import Pace, Runner
from crossward_site.tasks.tables import TaskState
from machines import StillMachine

PACE = Pace(poll=0.0, tick=0.01, pulse=1.0, retry=10.0)


def put(connection, id: str, state: TaskState) -> None:
    """A task in a state, however it came there."""
    connection.execute(update(task_tables.tasks).where(task_tables.tasks.c.id == id).values(state=state))


@pytest.fixture
def worker(site, study, monkeypatch):
    """A runner on a machine of its own, two tasks, and steps that a test decides."""
    machine = StillMachine(passed=1000.0)
    site = replace(site, machine=machine)
    now = SimpleNamespace(machine=machine, steps=[], step={})
    with write(site.engine) as connection:
        for id in ("old", "young"):
            machine.time -= 86_400  # the clock on the wall is no guide
            tasks.take(site, connection, task_message(study, id=id, kind=TaskKind.TRAIN_TARGET, lease_seconds=60))

    def step(site, coordinator, task):
        now.steps.append((task.id, machine.passed))
        now.step.get(task.id, lambda: None)()
        with write(site.engine) as connection:
            put(connection, task.id, TaskState.SETTLED)
            return tasks.find(connection, task.id)

    monkeypatch.setattr(running, "advance", step)
    monkeypatch.setattr(
        Runner, "coordinator", lambda self: SimpleNamespace(heartbeat=lambda beat: not beats.append(beat))
    )
    beats: list = []
    now.beats, now.runner = beats, Runner(site, pace=PACE)
    return now


def found(site, id: str) -> tasks.Task:
    with read(site.engine) as connection:
        return tasks.find(connection, id)


def failing(error: Exception):
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize("error", [ZeroDivisionError("a secret"), CrosswardError("Bad.", "Mend.")])
def test_a_poison_task_keeps_no_other_back_and_is_held_in_the_end(site, worker, error) -> None:
    worker.step["old"] = failing(error)
    assert worker.runner.work()
    assert worker.runner.work()
    assert [id for id, _ in worker.steps] == ["old", "young"]
    assert found(site, "young").state == "settled"
    assert not worker.runner.work()  # it is put off
    while found(site, "old").state == "taken":
        worker.machine.passed += 1
        worker.runner.work()
    tries = [time for id, time in worker.steps if id == "old"]
    assert len(tries) == running.FAILURES_BEFORE_HELD
    pauses = [after - before for before, after in pairwise(tries)]
    assert pauses == sorted(set(pauses))  # longer each time
    held = found(site, "old")
    assert held.state == "held"
    assert "failed 5 times" in held.cause
    assert "a secret" not in held.cause


def test_tasks_take_turns_however_often_one_fails(site, worker) -> None:
    """Both are due again at once: the one that failed does not come first for ever."""
    worker.step["old"] = worker.step["young"] = failing(RemoteProblem("Down."))
    for _ in range(6):
        with pytest.raises(RemoteProblem):
            worker.runner.work()
        worker.machine.passed += 11
    assert [id for id, _ in worker.steps] == ["old", "young"] * 3
    assert found(site, "old").state == "taken"  # no task is to blame, none is held


def test_local_trouble_never_becomes_the_public_cause(site, worker) -> None:
    with write(site.engine) as connection:
        tasks.decline(connection, tasks.find(connection, "old"), DeclineReason.POLICY, "Public words.", 1.0)
    worker.step["old"] = failing(InvalidData("/data/patients.csv, line 7: no number."))
    for _ in range(2 * running.FAILURES_BEFORE_HELD):
        worker.runner.work()
        worker.machine.passed += 2000
    task = found(site, "old")
    assert (task.state, task.cause) == ("declining", "Public words.")
    assert "line 7" in task.trouble


def test_a_step_forward_forgets_the_trouble(site, worker) -> None:
    worker.step["old"] = failing(ValueError("x"))
    worker.runner.work()
    task = found(site, "old")
    assert (task.failures, task.trouble) == (1, "An unexpected ValueError; the log has it.")
    with write(site.engine) as connection:
        tasks.move(connection, task, TaskState.APPROVED, 1.0)
        after = tasks.find(connection, "old")
    assert (after.failures, after.trouble) == (0, "")


@pytest.mark.parametrize("state", [TaskState.TAKEN, TaskState.STORED])
def test_a_task_that_processes_ended_over_is_held_unless_it_is_stored(site, worker, state) -> None:
    with write(site.engine) as connection:
        put(connection, "old", state)
        for number in range(running.PROCESSES_BEFORE_HELD):
            tasks.begin(connection, "old", f"dead {number}")
    worker.runner.work()
    assert found(site, "old").state == ("held" if state is TaskState.TAKEN else "settled")
    worker.runner.work()
    assert found(site, "young").state == "settled"


def test_a_task_that_was_held_goes_on_as_soon_as_it_is_approved(site, worker) -> None:
    worker.step["old"] = failing(ValueError("x"))
    while found(site, "old").state == "taken":
        worker.runner.work()
        worker.machine.passed += 2000
    worker.machine.passed -= 2000
    del worker.step["old"]
    with write(site.engine) as connection:
        tasks.move(connection, tasks.find(connection, "old"), TaskState.APPROVED, 1.0)
    worker.runner.work()
    assert found(site, "old").state == "settled"


def test_an_orderly_stop_is_not_counted(site, worker) -> None:
    for _ in range(running.PROCESSES_BEFORE_HELD + 2):
        runner = Runner(site, pace=PACE)
        with write(site.engine) as connection:
            assert tasks.begin(connection, "old", runner.process) == 1
        runner.stop()


def test_every_heartbeat_says_the_same(site, worker) -> None:
    for state in tasks.OPEN:
        with write(site.engine) as connection:
            put(connection, "old", state)
        worker.runner.beat(found(site, "old"))
    assert len(worker.beats) == len(tasks.OPEN)
    assert len({beat.note for beat in worker.beats}) == 1
