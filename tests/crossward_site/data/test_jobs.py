"""Jobs: written down before they are done, done once, cancelled, done again after a crash; no word of a cell leaves."""

from __future__ import annotations

import json
import time

import pytest

from crossward.errors import Conflict, InvalidData, NotFound, Unreachable
from crossward.protocol.problems import UNEXPECTED, urn
from crossward_service.db.engine import read, write
from crossward_site.data import jobs
from crossward_site.data.jobs import MOST_WAITING, Cancelled, JobRunner
from crossward_site.data.requests import WORKS
from crossward_site.data.service import Vault
from crossward_site.data.tables import JOB_STATES, JobKind, JobState
from crossward_site.data.tables import jobs as table

PLACE = {"kind": "csv", "path": "table.csv"}
OPEN = {"name": "a", "place": PLACE, "mapping": {"person": "pid"}, "epsilon": 1.0}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "files" / "table.csv"
    path.write_text("pid,x\n" + "".join(f"p{k},{k}\n" for k in range(50)))
    return path


def state(site, number: int) -> jobs.Job:
    with read(site.engine) as connection:
        return jobs.find(connection, number)


def wait_for(site, number: int) -> None:
    """Until a job is done."""
    while (now := state(site, number).state) is not JobState.DONE:
        assert now in (JobState.WAITING, JobState.RUNNING)
        time.sleep(0.01)


def runner(site, **works) -> JobRunner:
    return JobRunner(site, WORKS | works)


def test_a_job_is_done_and_says_what_it_gave(site, file) -> None:
    job = jobs.ask(site, JobKind.OPEN, OPEN, "a")
    assert (job.state, job.number, job.dataset) == (JobState.WAITING, 1, "a")
    assert runner(site).run_one()
    done = state(site, 1)
    assert (done.state, done.progress, json.loads(done.result)["persons"]) == (JobState.DONE, 1.0, 50)
    assert done.request == "{}"
    assert not runner(site).run_one()
    assert [data.name for data in Vault(site).datasets()] == ["a"]


def test_check_open_refresh_erase_and_undo_through_jobs(site, file) -> None:
    asked = [
        (JobKind.CHECK, {key: OPEN[key] for key in ("place", "mapping")}),
        (JobKind.OPEN, OPEN),
        (JobKind.REFRESH, {"name": "a"}),
        (JobKind.ERASE, {"persons": ["p1"]}),
        (JobKind.UNDO, {"name": "a"}),
        (JobKind.RECOVER, {}),
    ]
    for kind, request in asked:
        jobs.ask(site, kind, request)
    worker = runner(site)
    while worker.run_one():
        pass
    found = {kind: state(site, number) for number, (kind, _) in enumerate(asked, 1)}
    assert json.loads(found[JobKind.CHECK].result)["persons"] == 50
    assert json.loads(found[JobKind.REFRESH].result)["stayed"] == 50
    assert json.loads(found[JobKind.ERASE].result) == {"rows": 2, "strangers": 0}
    assert json.loads(found[JobKind.UNDO].result) == {"version": 1}
    assert found[JobKind.RECOVER].state is JobState.FAILED  # nothing is lost
    assert "nothing to recover" in found[JobKind.RECOVER].fix


@pytest.mark.parametrize("error", [Unreachable("No answer.", "Wait."), RuntimeError("The client has been closed.")])
def test_what_breaks_because_the_site_stops_is_done_again_after_the_next_start(site, file, error) -> None:
    """Its connections are cut then, also one on which a job waits for the coordinator."""

    def cut(*_):
        stopped.stop()
        raise error

    jobs.ask(site, JobKind.OPEN, OPEN)
    stopped = runner(site, **{JobKind.OPEN: cut})
    stopped.run_one()
    assert state(site, 1).state is JobState.RUNNING
    assert runner(site).run_one()
    assert state(site, 1).state is JobState.DONE


def test_a_refusal_is_told_with_its_fix_and_nothing_is_opened(site, file) -> None:
    file.write_text("pid,x\n,1\n")
    jobs.ask(site, JobKind.OPEN, OPEN)
    runner(site).run_one()
    job = state(site, 1)
    assert job.state is JobState.FAILED
    assert "line 2" in job.cause
    assert job.fix
    assert job.problem == urn(InvalidData)
    assert Vault(site).datasets() == []


def test_words_that_cannot_be_stored_end_a_job_all_the_same(site, file) -> None:
    def strange(*_):
        raise InvalidData("A half character: \ud800.", "Mend it.")

    jobs.ask(site, JobKind.OPEN, OPEN)
    worker = runner(site, **{JobKind.OPEN: strange})
    worker.run_one()
    job = state(site, 1)
    assert (job.state, job.problem) == (JobState.FAILED, UNEXPECTED)
    assert not worker.run_one()


def test_who_was_erased_is_named_in_no_file_of_the_site(site, file, tmp_path) -> None:
    jobs.ask(site, JobKind.OPEN, OPEN)
    jobs.ask(site, JobKind.ERASE, {"persons": ["somebody-4711"]})
    worker = runner(site)
    assert any(b"somebody-4711" in path.read_bytes() for path in tmp_path.glob("site.sqlite3*"))
    while worker.run_one():
        pass
    for path in [*tmp_path.glob("site.sqlite3*"), *site.home.iterdir()]:
        assert b"somebody-4711" not in path.read_bytes(), path


def test_an_unexpected_error_is_told_by_its_kind_alone(site, file, caplog) -> None:
    def broken(*_):
        raise ValueError("the cell secretcell")

    jobs.ask(site, JobKind.OPEN, OPEN)
    runner(site, **{JobKind.OPEN: broken}).run_one()
    job = state(site, 1)
    assert "ValueError" in job.cause
    assert job.problem == UNEXPECTED
    assert "secretcell" not in job.cause + job.fix + caplog.text


def test_the_same_again_is_the_same_job_until_it_has_ended(site, file) -> None:
    first, again = (jobs.ask(site, JobKind.OPEN, OPEN) for _ in range(2))
    assert first.number == again.number
    assert jobs.ask(site, JobKind.OPEN, OPEN | {"name": "b"}).number == 2
    runner(site).run_one()
    assert jobs.ask(site, JobKind.OPEN, OPEN).number == 3


def test_only_so_many_wait(site) -> None:
    for number in range(MOST_WAITING):
        jobs.ask(site, JobKind.ERASE, {"persons": [f"p{number}"]})
    with pytest.raises(Conflict, match="wait already"):
        jobs.ask(site, JobKind.ERASE, {"persons": ["one more"]})


def test_one_that_waits_is_cancelled_at_once_and_one_that_runs_as_it_looks_up(site, file) -> None:
    jobs.ask(site, JobKind.OPEN, OPEN)
    assert jobs.cancel(site, 1).state is JobState.CANCELLED
    assert not runner(site).run_one()

    def slow(here, request, report):
        jobs.cancel(here, 2)
        report(0.5, "half")
        raise AssertionError("it went on")

    jobs.ask(site, JobKind.OPEN, OPEN)
    runner(site, **{JobKind.OPEN: slow}).run_one()
    assert state(site, 2).state is JobState.CANCELLED
    assert jobs.cancel(site, 2).state is JobState.CANCELLED
    with pytest.raises(NotFound):
        jobs.cancel(site, 3)


def test_a_job_that_a_crash_left_is_done_again(site, file) -> None:
    jobs.ask(site, JobKind.OPEN, OPEN)
    with write(site.engine) as connection:
        JOB_STATES.move(connection, table, table.c.number == 1, JobState.RUNNING, of=JobState.WAITING)
    worker = runner(site)
    worker.start()
    wait_for(site, 1)
    worker.stop()
    assert [data.name for data in Vault(site).datasets()] == ["a"]


def test_a_job_under_way_waits_again_when_the_site_stops(site, file) -> None:
    jobs.ask(site, JobKind.OPEN, OPEN)
    worker = runner(site)

    def stopped(here, request, report):
        worker.stop()
        report(0.5, "half")

    worker._works = worker._works | {JobKind.OPEN: stopped}
    worker.run_one()
    assert state(site, 1).state is JobState.RUNNING
    again = runner(site)
    again.start()
    wait_for(site, 1)
    again.stop()


def test_a_cancelled_job_is_no_failure() -> None:
    assert not issubclass(Cancelled, InvalidData)
