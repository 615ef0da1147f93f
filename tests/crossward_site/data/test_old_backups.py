"""That the table of seats here is the one of the ledger, also after backups and recoveries."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from crossward.errors import NotReady
from crossward.privacy.budget import Budget
from crossward.protocol.ledger.lines import Line, ReserveBody
from crossward_service.db.engine import read, write
from crossward_site.data import seating
from crossward_site.data.connector import InProcess
from crossward_site.data.mapping import DataMap
from crossward_site.data.places import FilePlace, Sources
from crossward_site.data.service import Vault
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
