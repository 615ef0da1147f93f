"""Work on data that ends in the middle, or of which nobody knows whether it happened."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from shutil import copytree

import pytest

from crossward.errors import NotReady, StorageFailed
from crossward.privacy.budget import Budget
from crossward.protocol.ledger.lines import ReserveBody
from crossward_service.db.engine import read, write
from crossward_service.http.views import Form
from crossward_service.ops.machine import HERE, Machine
from crossward_site.data import jobs, seating, service
from crossward_site.data.jobs import JobRunner
from crossward_site.data.mapping import DataMap
from crossward_site.data.places import FilePlace
from crossward_site.data.requests import WORKS, Named, Open
from crossward_site.data.service import Vault, kept_files, tidy
from crossward_site.data.tables import JobKind, JobState
from crossward_site.site import Site

MAP = DataMap(person="pid")
BUDGET = Budget.of(3)


def place(folder: Path, persons: int = 60) -> FilePlace:
    rows = "".join(f"p{k},{4 + k % 7},{k % 2},{'yes' if k % 3 else 'no'},{int(k % 5 == 0)}\n" for k in range(persons))
    (folder / "files" / "table.csv").write_text(f"pid,glucose,family,smoker,ill\n{rows}")
    return FilePlace(kind="csv", path="table.csv")


def files(site: Site) -> set[str]:
    return {path.name for path in site.home.glob("vault-*")}


def named(site: Site) -> set[str]:
    with read(site.engine) as connection:
        return kept_files(connection)


def test_what_was_written_down_stays_where_the_commit_seemed_to_fail(site, tmp_path, monkeypatch) -> None:
    @contextmanager
    def unheard(engine) -> Iterator:
        with write(engine) as connection:
            yield connection
        raise StorageFailed("The answer to the commit was lost.", "Ask again.")

    monkeypatch.setattr(service, "write", unheard)
    with pytest.raises(StorageFailed):
        Vault(site).open("a", place(tmp_path), MAP, BUDGET)
    assert len(files(site)) == 3
    assert named(site) == files(site)
    assert Vault(site).dataset("a").report.rows == 60


class Dies(BaseException):
    """The process ends here."""


def ends_at(point: str) -> Machine:
    """A machine whose process ends at a named point."""

    class Mortal(Machine):
        def reach(self, name: str) -> None:
            if name == point:
                raise Dies

    return Mortal()


def job(site: Site, kind: JobKind, request: Form, machine: Machine = HERE) -> tuple[str, str]:
    """Ask for a job, do all that wait, and say how it ended."""
    asked = jobs.ask(site, kind, request.model_dump(mode="json"))
    runner = JobRunner(replace(site, machine=machine), WORKS)
    while runner.run_one():
        pass
    with read(site.engine) as connection:
        ended = jobs.find(connection, asked.number)
    return ended.state.value, ended.cause


@pytest.mark.parametrize("point", ["job-begun", "vault-sealed", "vault-registered"])
def test_a_job_does_its_work_once_wherever_a_process_ended_over_it(site, tmp_path, point) -> None:
    request = Open(name="a", place=place(tmp_path), mapping=MAP, epsilon=1.0)
    with pytest.raises(Dies):
        job(site, JobKind.OPEN, request, ends_at(point))
    runner = JobRunner(site, WORKS)
    while runner.run_one():
        pass
    with read(site.engine) as connection:
        [listed] = jobs.listed(connection)
        only = jobs.find(connection, listed.number)
    assert (only.state, only.cause) == ("done", "")
    assert json.loads(only.result)["rows"] == 60
    tidy(site)
    assert named(site) == files(site)
    assert Vault(site).dataset("a").version == 1


def test_a_version_is_undone_once(site, tmp_path, monkeypatch) -> None:
    Vault(site).open("a", place(tmp_path), MAP, BUDGET)
    for _ in range(2):
        Vault(site).refresh("a")
    monkeypatch.setattr(service, "tidy", lambda site: (_ for _ in ()).throw(Dies))
    with pytest.raises(Dies):
        job(site, JobKind.UNDO, Named(name="a"))
    monkeypatch.undo()
    assert not JobRunner(site, WORKS).run_one()
    assert Vault(site).dataset("a").version == 2


def test_a_job_whose_end_could_not_be_written_down_ends_later(site, tmp_path, monkeypatch) -> None:
    place(tmp_path)
    jobs.ask(site, JobKind.UNDO, Named(name="nobody").model_dump(mode="json"))
    runner, move = JobRunner(site, WORKS), JobRunner._move

    def full(self, connection, number, to, of, **values) -> None:
        if to is JobState.FAILED:
            raise StorageFailed("The disk is full.", "Make room.")
        move(self, connection, number, to, of, **values)

    monkeypatch.setattr(JobRunner, "_move", full)
    with pytest.raises(StorageFailed):
        runner.run_one()
    monkeypatch.undo()
    assert runner.run_one()
    with read(site.engine) as connection:
        [only] = jobs.listed(connection)
    assert (only.state, only.cause) == ("failed", "There is no dataset nobody.")


def test_an_old_backup_of_before_a_recovery_charges_nobody_where_they_sat(site, tmp_path) -> None:
    Vault(site).open("a", place(tmp_path), MAP, BUDGET)
    copytree(tmp_path, tmp_path / "backup")
    [table] = site.home.glob("*.seats")
    table.unlink()
    seating.settle(site)
    seating.recover(site)
    Vault(site).open("a", place(tmp_path), MAP)
    with read(site.engine) as connection:
        lines = list(site.ledger.lines(connection))
    assert [line.kind.value for line in lines] == ["open", "seats", "recover", "seats"]

    old = Site.open(f"sqlite:///{tmp_path}/backup/site.sqlite3", tmp_path / "backup" / "home")
    with write(old.engine) as connection:
        old.ledger.extend(connection, lines)
        seating.note(old, connection)
    charge = ReserveBody("t1", "s", "0" * 64, (0, 1), 1000, 0, "1" * 64)
    with pytest.raises(NotReady, match="table of seats is lost"), write(old.engine) as connection:
        old.append(connection, charge)
    with write(site.engine) as connection:
        site.append(connection, charge)
    seating.recover(old)
    old.close()


def test_an_old_backup_goes_on_with_whom_it_knows(site, tmp_path) -> None:
    Vault(site).open("a", place(tmp_path), MAP, BUDGET)
    copytree(tmp_path, tmp_path / "backup")
    place(tmp_path, 70)
    Vault(site).refresh("a")
    with read(site.engine) as connection:
        lines = list(site.ledger.lines(connection))

    old = Site.open(f"sqlite:///{tmp_path}/backup/site.sqlite3", tmp_path / "backup" / "home")
    with write(old.engine) as connection:
        old.ledger.extend(connection, lines)
        seating.note(old, connection)
        old.append(connection, ReserveBody("t1", "s", "0" * 64, (0, 1), 1000, 0, "1" * 64))
        with pytest.raises(NotReady, match="old backup"):
            seating.current(old, connection)
    old.close()
