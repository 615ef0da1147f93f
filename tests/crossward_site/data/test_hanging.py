"""A place that hangs: whoever reads from it can be ended at once, by a cancellation or by the site's stop."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import SecretStr

from crossward_connector.tables import Limits
from crossward_service.db.engine import read
from crossward_site.data import beside, connector, jobs
from crossward_site.data.connector import Processes
from crossward_site.data.jobs import JobRunner
from crossward_site.data.places import Connection, QueryPlace, Sources
from crossward_site.data.requests import WORKS
from crossward_site.data.service import Vault
from crossward_site.data.tables import JobKind, JobState

ENDLESS = """
WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k) SELECT 'p0' AS pid UNION ALL SELECT count(n) FROM k
"""
SPEAKS_NOT = "import time; time.sleep(1000)"
LIMITS = Limits(silence=60.0)
"""Whoever notices nothing before is told so after a minute, and the job fails."""


@pytest.fixture(params=["connecting", "reading"])
def hanging(request, tmp_path: Path, site, monkeypatch):
    """A site with one open dataset, whose connection then hangs: before it says a word, or in its rows."""
    with closing(sqlite3.connect(tmp_path / "clinic.db")) as connection, connection:
        connection.execute("CREATE TABLE visit (pid, a)")
        connection.executemany("INSERT INTO visit VALUES (?, ?)", [(f"p{k}", k) for k in range(50)])
    url = SecretStr(f"sqlite:///{tmp_path}/clinic.db")
    here = replace(site, connectors=Processes(Sources({}, {"clinic": Connection(url=url)}), LIMITS))
    done(here, JobKind.OPEN, {"name": "old", "place": place("SELECT * FROM visit"), **OPENING})
    if request.param == "connecting":
        monkeypatch.setattr(connector, "_BOOT", SPEAKS_NOT)
    return here


OPENING = {"mapping": {"person": "pid"}, "epsilon": 1.0}
REQUESTS = {
    JobKind.CHECK: lambda: {"place": place(ENDLESS), "mapping": {"person": "pid"}},
    JobKind.OPEN: lambda: {"name": "new", "place": place(ENDLESS), **OPENING},
    JobKind.REFRESH: lambda: {"name": "old", "place": place(ENDLESS)},
}
KINDS = pytest.mark.parametrize("kind", REQUESTS)


def place(query: str) -> dict[str, str]:
    return QueryPlace(kind="sql", connection="clinic", query=query).model_dump(mode="json")


def done(site, kind: JobKind, request) -> None:
    number = jobs.ask(site, kind, request).number
    assert JobRunner(site, WORKS).run_one()
    assert state(site, number) is JobState.DONE


def state(site, number: int) -> JobState:
    with read(site.engine) as connection:
        return jobs.find(connection, number).state


@pytest.fixture
def started(monkeypatch) -> list:
    """The connectors that were started."""
    popen, processes = connector._popen, []

    def start(files):
        processes.append(popen(files))
        return processes[-1]

    monkeypatch.setattr(connector, "_popen", start)
    return processes


def begin(site, kind: JobKind, started) -> tuple[JobRunner, int]:
    """A job that is under way, in a place that hangs."""
    number = jobs.ask(site, kind, REQUESTS[kind]()).number
    worker = JobRunner(site, WORKS)
    worker.start()
    while not started:
        time.sleep(0.01)
    return worker, number


@KINDS
def test_a_job_is_cancelled_while_nothing_comes(hanging, kind, started) -> None:
    worker, number = begin(hanging, kind, started)
    jobs.cancel(hanging, number)
    while (now := state(hanging, number)) is JobState.RUNNING:
        time.sleep(0.01)
    assert now is JobState.CANCELLED
    worker.stop(600)
    assert all(process.returncode is not None for process in started)
    assert [dataset.name for dataset in Vault(hanging).datasets()] == ["old"]


@KINDS
def test_the_site_stops_while_nothing_comes_and_the_job_waits_for_its_next_start(hanging, kind, started) -> None:
    worker, number = begin(hanging, kind, started)
    worker.stop(600)
    assert state(hanging, number) is JobState.RUNNING
    assert all(process.returncode is not None for process in started)


def test_progress_is_written_down_now_and_then_alone(hanging, started, monkeypatch) -> None:
    """However often whoever waits looks up."""
    elapsed, looks, written = 0.0, 0, 0
    report = JobRunner.report

    def count(self, *words):
        nonlocal written
        written += 1
        report(self, *words)

    class Clock(type(hanging.machine)):
        def elapsed(self) -> float:
            nonlocal elapsed, looks
            looks += 1
            elapsed += jobs.PULSE / 4
            return elapsed

    monkeypatch.setattr(JobRunner, "report", count)
    monkeypatch.setattr(beside, "BEAT", 0.01)
    worker, number = begin(replace(hanging, machine=Clock()), JobKind.CHECK, started)
    while looks < 40:
        time.sleep(0.01)
    worker.stop(600)
    assert state(hanging, number) is JobState.RUNNING
    assert looks / 5 <= written <= looks / 4 + 2


class Ended(Exception):
    """Wanted no more."""


def test_what_a_pulse_raises_cuts_what_is_under_way() -> None:
    cut = threading.Event()

    def pulse() -> None:
        raise Ended

    def endless():
        yield 1
        assert cut.wait(600)

    items = beside.ahead(endless(), pulse, cut.set)
    assert next(items) == 1
    with pytest.raises(Ended):
        next(items)
    assert cut.is_set()
    cut.clear()
    with pytest.raises(Ended):
        beside.apart(lambda: cut.wait(600), pulse, cut.set)


def test_a_stream_that_is_left_is_cut() -> None:
    """Whoever works on a batch and fails does not wait for the next."""
    cut = threading.Event()

    def endless():
        yield 1
        assert cut.wait(600)

    items = beside.ahead(endless(), None, cut.set)
    assert next(items) == 1
    items.close()
    assert cut.is_set()
