"""That the table of seats here is the one of the ledger, also after backups and recoveries."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from crossward.errors import NotReady, Unreachable
from crossward.privacy.budget import Budget
from crossward.protocol.constants import LINES, Role
from crossward.protocol.ledger.lines import START, Head, Line, ReserveBody
from crossward.protocol.messages import Receipt
from crossward_service.db.engine import read, write
from crossward_site import facts
from crossward_site.data import jobs, seating
from crossward_site.data.connector import InProcess
from crossward_site.data.jobs import JobRunner
from crossward_site.data.mapping import DataMap
from crossward_site.data.places import FilePlace, Sources
from crossward_site.data.requests import WORKS, works
from crossward_site.data.service import Vault
from crossward_site.data.tables import JobKind, JobState
from crossward_site.ledger import service as ledger
from crossward_site.site import Site

PLACE = FilePlace(kind="csv", path="table.csv")
MAP = DataMap(person="pid")


def opened(home: Path) -> Site:
    connectors = InProcess(Sources({"files": home.parent / "files"}))
    return Site.open(f"sqlite:///{home}/site.sqlite3", home, connectors=connectors)


def reserve(site: Site, task: str) -> None:
    with write(site.engine) as connection:
        site.append(connection, ReserveBody(task, "s", "0" * 64, (0, 1), 1000, 0, "1" * 64))


def chain(site: Site) -> list[Line]:
    with read(site.engine) as connection:
        return list(site.ledger.lines(connection))


class Mirror:
    """A coordinator that has these lines."""

    def __init__(self, lines: list[Line]) -> None:
        self._lines = lines

    def mirror(self, after: int) -> list[Line]:
        return [line for line in self._lines if line.sequence > after]


@pytest.fixture
def recovered(tmp_path: Path, monkeypatch) -> Iterator[tuple[Site, list[Line]]]:
    """A backup from before the table of seats was lost, put back; and the lines of the site that went on without it."""
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "table.csv").write_text("pid,x\n" + "".join(f"p{k},{k}\n" for k in range(100)))
    site = opened(tmp_path / "home")
    Vault(site).open("a", PLACE, MAP, Budget.of(1))
    site.close()
    shutil.copytree(tmp_path / "home", tmp_path / "backup")
    site = opened(tmp_path / "home")
    next(site.home.glob("vault-*.seats")).unlink()
    seating.settle(site)
    seating.recover(site)
    Vault(site).open("a", PLACE, MAP)
    reserve(site, "t1")
    lines = chain(site)
    site.close()
    monkeypatch.setattr(ledger, "sync", lambda site, coordinator: lines[-1].head)
    site = opened(tmp_path / "backup")
    seating.settle(site)
    yield site, lines
    site.close()


def test_a_backup_from_before_a_recovery_charges_nothing(recovered) -> None:
    """Everyone was seated anew since: by the old table people would pay from cells that they no longer sit in."""
    site, lines = recovered
    ledger.reconcile(site, Mirror(lines))
    with pytest.raises(NotReady, match="recover"):
        reserve(site, "t2")
    assert "recover" in seating.examine(site)
    seating.recover(site)
    Vault(site).open("a", PLACE, MAP)
    reserve(site, "t2")


def test_a_backup_of_the_same_seats_works_on(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "table.csv").write_text("pid,x\n" + "".join(f"p{k},{k}\n" for k in range(100)))
    site = opened(tmp_path / "home")
    Vault(site).open("a", PLACE, MAP, Budget.of(1))
    site.close()
    shutil.copytree(tmp_path / "home", tmp_path / "backup")
    site = opened(tmp_path / "home")
    Vault(site).refresh("a")
    lines = chain(site)
    site.close()
    monkeypatch.setattr(ledger, "sync", lambda site, coordinator: lines[-1].head)
    site = opened(tmp_path / "backup")
    ledger.reconcile(site, Mirror(lines))
    reserve(site, "t2")
    assert seating.examine(site) == ""
    with pytest.raises(NotReady, match="old backup"):
        Vault(site).refresh("a")
    site.close()


# -- before lines about data are written -------------------------------------------------------------------------------
OPEN = {"name": "b", "place": {"kind": "csv", "path": "table.csv"}, "mapping": {"person": "pid"}}
ENROLLED = facts.StoredIdentity(
    party="here",
    role=Role.SOURCE,
    key_file="party.key",
    coordinator_url="https://coordinator",
    coordinator_key="0" * 64,
)


class Answering:
    """A coordinator that has so many lines of a chain."""

    def __init__(self, head: Head) -> None:
        self.head, self.asked = head, 0

    def send_lines(self, lines) -> Receipt:
        self.asked += 1
        last = max([self.head, *(line.head for line in lines)], key=lambda head: head.sequence)
        return Receipt(task=LINES, party="here", release=None, head=last, time=datetime.now(UTC))


def unreachable() -> Answering:
    raise Unreachable("The coordinator cannot be reached.", "Check the network.")


@pytest.fixture
def enrolled(tmp_path: Path) -> Iterator[Site]:
    """A site with a dataset, that has joined, in a process that has not asked anybody yet."""
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "table.csv").write_text("pid,x\n" + "".join(f"p{k},{k}\n" for k in range(100)))
    site = opened(tmp_path / "home")
    Vault(site).open("a", PLACE, MAP, Budget.of(1))
    with write(site.engine) as connection:
        facts.IDENTITY.put(connection, ENROLLED)
    yield site
    site.close()


def job(site: Site, coordinator, kind: JobKind = JobKind.OPEN, request=OPEN) -> jobs.Job:
    number = jobs.ask(site, kind, request).number
    assert JobRunner(site, works(coordinator)).run_one()
    with read(site.engine) as connection:
        return jobs.find(connection, number)


@pytest.mark.parametrize(
    ("kind", "request_"),
    [(JobKind.OPEN, OPEN), (JobKind.REFRESH, {"name": "a"}), (JobKind.UNDO, {"name": "a"}), (JobKind.RECOVER, {})],
)
def test_a_process_that_has_never_seen_the_mirror_writes_nothing_about_data(enrolled, kind, request_) -> None:
    if kind is JobKind.RECOVER:
        next(enrolled.home.glob("vault-*.seats")).unlink()
        seating.settle(enrolled)
    before = chain(enrolled)
    ended = job(enrolled, unreachable, kind, request_)
    assert ended.state is JobState.FAILED
    assert ended.cause.endswith("only the coordinator can tell: The coordinator cannot be reached.")
    assert ended.fix == "Nothing was changed. Check the network. Then ask again."
    assert chain(enrolled) == before
    assert [dataset.name for dataset in Vault(enrolled).datasets()] == ["a"]


def test_nor_does_anybody_who_does_not_ask(enrolled) -> None:
    before = chain(enrolled)
    for kind, request in ((JobKind.OPEN, OPEN), (JobKind.REFRESH, {"name": "a"}), (JobKind.UNDO, {"name": "a"})):
        number = jobs.ask(enrolled, kind, request).number
        JobRunner(enrolled, WORKS).run_one()
        with read(enrolled.engine) as connection:
            assert "has not seen, since it started" in jobs.find(connection, number).cause
    assert chain(enrolled) == before


def test_what_writes_no_line_asks_nobody(enrolled) -> None:
    asked = {key: OPEN[key] for key in ("place", "mapping")}
    assert job(enrolled, unreachable, JobKind.CHECK, asked).state is JobState.DONE
    assert job(enrolled, unreachable, JobKind.ERASE, {"persons": ["p1"]}).state is JobState.DONE


def test_one_that_has_been_in_step_goes_on_without_the_coordinator(enrolled) -> None:
    coordinator = Answering(START)
    assert job(enrolled, lambda: coordinator).state is JobState.DONE
    assert coordinator.asked == 1
    assert job(enrolled, unreachable, JobKind.REFRESH, {"name": "a"}).state is JobState.DONE


def test_an_old_backup_is_found_before_a_job_writes_a_line(enrolled) -> None:
    before = chain(enrolled)
    ahead = Answering(Head(before[-1].sequence + 3, "f" * 64))
    ended = job(enrolled, lambda: ahead)
    assert ended.state is JobState.FAILED
    assert "restored from an old backup" in ended.cause
    assert chain(enrolled) == before
    with read(enrolled.engine) as connection:
        assert "old backup" in (facts.STOPPED.get(connection) or "")


def test_a_site_that_joined_nobody_asks_nobody(enrolled) -> None:
    with write(enrolled.engine) as connection:
        facts.IDENTITY.forget(connection)
    assert job(enrolled, unreachable).state is JobState.DONE
