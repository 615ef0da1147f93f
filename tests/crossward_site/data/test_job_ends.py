"""Jobs: each comes to one end, whatever fails while it is written down, and is done once though a process dies."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossward.errors import InvalidSetting, StorageFailed
from crossward.privacy.budget import Budget
from crossward.values import MOST_COLUMNS
from crossward_service.db.engine import read
from crossward_site.data import jobs, requests, service
from crossward_site.data.jobs import Job, JobRunner
from crossward_site.data.mapping import DataMap
from crossward_site.data.places import FilePlace
from crossward_site.data.service import Vault
from crossward_site.data.tables import JobKind, JobState
from crossward_site.site import Site

PLACE = FilePlace(kind="csv", path="table.csv")
MAP = DataMap(person="pid")
CHECK = requests.Check(place=PLACE, mapping=MAP).model_dump(mode="json")


@pytest.fixture(autouse=True)
def table(site: Site, tmp_path: Path) -> None:
    (tmp_path / "files" / "table.csv").write_text("pid,x\n" + "".join(f"p{k},{k}\n" for k in range(100)))


def found(site: Site, number: int) -> Job:
    with read(site.engine) as connection:
        return jobs.find(connection, number)


def test_an_end_that_cannot_be_written_is_written_later(site, monkeypatch) -> None:
    runner, move = JobRunner(site, requests.WORKS), JobRunner._move

    def full(self, connection, number, to, of, **values) -> None:
        if of is JobState.RUNNING:
            raise StorageFailed("The disk is full.", "Make room.")
        move(self, connection, number, to, of, **values)

    job = jobs.ask(site, JobKind.CHECK, CHECK)
    monkeypatch.setattr(JobRunner, "_move", full)
    with pytest.raises(StorageFailed):
        runner.run_one()
    assert found(site, job.number).state is JobState.RUNNING
    monkeypatch.setattr(JobRunner, "_move", move)
    runner.run_one()
    assert found(site, job.number).state is JobState.DONE


@pytest.mark.parametrize("versions", [1, 2, 3])
def test_a_version_is_undone_once_though_the_process_dies_right_after(site, monkeypatch, versions: int) -> None:
    vault = Vault(site)
    vault.open("a", PLACE, MAP, Budget.of(1))
    for _ in range(versions - 1):
        vault.refresh("a")
    job = jobs.ask(site, JobKind.UNDO, {"name": "a"}, "a")

    class Killed(BaseException):
        pass

    def killed(site: Site) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(service, "tidy", killed)
        with pytest.raises(Killed):
            JobRunner(site, requests.WORKS).run_one()
    assert [dataset.version for dataset in vault.datasets()] == [versions - 1][: versions - 1]
    again = JobRunner(site, requests.WORKS)
    monkeypatch.setattr(site.machine, "start", lambda loop, name: None)
    again.start()
    again.run_one()
    assert found(site, job.number).state is JobState.DONE
    assert [dataset.version for dataset in vault.datasets()] == [versions - 1][: versions - 1]


def test_asking_and_listing_read_no_request_and_no_result(site, monkeypatch) -> None:
    """Either may have megabytes, and all else that writes waits meanwhile."""
    job = jobs.ask(site, JobKind.CHECK, CHECK)
    JobRunner(site, requests.WORKS).run_one()
    assert found(site, job.number).result
    waiting = jobs.ask(site, JobKind.CHECK, CHECK)
    monkeypatch.setattr(jobs.json, "loads", None)
    assert jobs.ask(site, JobKind.CHECK, CHECK) == waiting
    assert jobs.ask(site, JobKind.CHECK, CHECK | {"records_per_person": 2}).number == waiting.number + 1
    with read(site.engine) as connection:
        assert [(each.number, each.request, each.result) for each in jobs.listed(connection)] == [
            (number, "{}", None) for number in (3, 2, 1)
        ]


def test_a_mapping_has_no_more_entries_than_a_table_columns() -> None:
    with pytest.raises(InvalidSetting, match="features"):
        DataMap.from_data({"person": "pid", "features": {f"f{k}": "x" for k in range(MOST_COLUMNS + 1)}})
