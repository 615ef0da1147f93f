"""The table of seats is the ledger's, or nothing is charged; and there is a way back."""

from __future__ import annotations

import shutil

import pytest

from crossward.errors import Conflict, InvalidData, LedgerRefused, NotReady
from crossward.privacy.budget import Budget
from crossward.protocol.ledger.lines import LineKind, ReleaseBody, ReserveBody
from crossward_service.db.engine import read, write
from crossward_site import facts
from crossward_site.data import seating
from crossward_site.data.mapping import DataMap
from crossward_site.data.places import FilePlace
from crossward_site.data.service import Vault, tidy, tidy_at_start

MAP, PLACE, BUDGET = DataMap(person="pid"), FilePlace(kind="csv", path="table.csv"), Budget.of(1)


@pytest.fixture
def people(tmp_path):
    def write_people(first: int, last: int) -> None:
        text = "pid,x\n" + "".join(f"p{k},{k}\n" for k in range(first, last))
        (tmp_path / "files" / "table.csv").write_text(text)

    write_people(0, 40)
    return write_people


def charge(site, task: str, cells: tuple[int, ...] = (0,), nano: int = 10**8) -> None:
    with write(site.engine) as connection:
        site.append(connection, ReserveBody(task, "s", "0" * 64, cells, nano, 0, "1" * 64))


def spends(site) -> list[int]:
    with read(site.engine) as connection:
        return [spend.nano_epsilon for spend in site.ledger.balance(connection).spends]


def seats_file(site):
    [file] = site.home.glob("vault-*.seats")
    return file


def test_a_sound_table_is_nothing_to_speak_of(site, people) -> None:
    assert seating.examine(site) == ""
    Vault(site).open("a", PLACE, MAP, BUDGET)
    assert seating.examine(site) == ""
    with pytest.raises(Conflict, match="nothing to recover"):
        seating.recover(site)


@pytest.mark.parametrize("harm", ["gone", "flipped", "empty"])
def test_a_lost_table_is_noticed_and_nothing_is_charged_until_it_is_back(site, people, tmp_path, harm) -> None:
    Vault(site).open("a", PLACE, MAP, BUDGET)
    charge(site, "t1")
    file = seats_file(site)
    shutil.copy(file, tmp_path / "kept")
    if harm == "gone":
        file.unlink()
    else:
        data = bytearray(file.read_bytes())
        data[-3] ^= 4
        file.write_bytes(b"" if harm == "empty" else data)
    assert "recover" in seating.examine(site)
    seating.settle(site)
    with pytest.raises(NotReady, match="table of seats is lost"):
        charge(site, "t2")
    with pytest.raises(InvalidData, match="table of seats is lost"):
        Vault(site).refresh("a")
    shutil.copy(tmp_path / "kept", file)
    seating.settle(site)
    charge(site, "t2")


def test_after_a_recovery_everyone_has_spent_the_most(site, people) -> None:
    vault = Vault(site)
    vault.open("a", PLACE, MAP, BUDGET)
    charge(site, "t1", (0, 1), 3 * 10**8)
    charge(site, "t2", (1, 2), 10**8)
    with write(site.engine) as connection:
        site.append(connection, ReleaseBody("t2", "2" * 64))
    seats_file(site).unlink()
    seating.settle(site)
    seating.recover(site)
    tidy(site)
    assert vault.datasets() == []
    assert spends(site) == [4 * 10**8] * 20
    with pytest.raises(LedgerRefused):  # nobody is seated
        charge(site, "t3")
    with pytest.raises(LedgerRefused):  # the cells that were charged hold others now
        charge_release(site, "t1")
    report = vault.open("a", PLACE, MAP).report  # with the budget that all have
    assert (report.new, report.known) == (40, 0)
    charge(site, "t3", (5,), 6 * 10**8)
    with pytest.raises(LedgerRefused):
        charge(site, "t4", (5,), 1)
    with read(site.engine) as connection:
        assert facts.SEATS_LOST.get(connection) is None
        kinds = [line.kind for line in site.ledger.lines(connection)]
    assert kinds.count(LineKind.RECOVER) == 1
    seats_file(site).unlink()
    seating.settle(site)
    seating.recover(site)
    assert spends(site) == [10**9] * 20


def charge_release(site, task: str) -> None:
    with write(site.engine) as connection:
        site.append(connection, ReleaseBody(task, "3" * 64))


def test_an_old_backup_works_on_with_whom_it_knows(site, people, tmp_path) -> None:
    """The database and its files as of the first version; the ledger from the mirror has a second."""
    vault = Vault(site)
    vault.open("a", PLACE, MAP, BUDGET)
    charge(site, "t1")
    first = seats_file(site)
    shutil.copy(first, tmp_path / "first")
    with read(site.engine) as connection:
        row = connection.execute(seating._LAST).one()
    people(0, 50)
    vault.refresh("a")
    shutil.copy(tmp_path / "first", first)
    with write(site.engine) as connection:  # as a restored database has it
        connection.exec_driver_sql("DELETE FROM seat_tables")
        connection.execute(seating.seat_tables.insert().values(row._asdict()))
    assert seating.examine(site) == ""
    charge(site, "t2")
    with pytest.raises(NotReady, match="old backup"):
        vault.refresh("a")
    seating.recover(site)
    assert spends(site) == [2 * 10**8] * 20


def test_a_table_of_no_line_is_lost(site, people) -> None:
    Vault(site).open("a", PLACE, MAP, BUDGET)
    with write(site.engine) as connection:
        connection.exec_driver_sql("UPDATE seat_tables SET commitment = 'f00'")
    assert "not the one that the ledger names" in seating.examine(site)
    with write(site.engine) as connection:
        connection.exec_driver_sql("DELETE FROM seat_tables")
    assert "there is none here" in seating.examine(site)


def test_two_at_once_cannot_both_seat(site, people) -> None:
    Vault(site).open("a", PLACE, MAP, BUDGET)
    with write(site.engine) as connection:
        seating.put(site, connection, "one", "1" * 64, after=1)
    with write(site.engine) as connection, pytest.raises(Conflict, match="meanwhile"):
        seating.put(site, connection, "two", "2" * 64, after=1)


def test_there_is_nothing_to_recover_before_anything_was_opened(site) -> None:
    with pytest.raises(Conflict, match="Nothing was ever opened"):
        seating.recover(site)


def test_an_old_database_put_back_alone_takes_no_file_of_the_newer_one(site, people) -> None:
    """Started with it by mistake: with the right database back, nothing is lost and nobody pays for it."""
    vault = Vault(site)
    vault.open("a", PLACE, MAP, BUDGET)
    with read(site.engine) as connection:
        tables = connection.exec_driver_sql("SELECT * FROM seat_tables").all()
        versions = connection.exec_driver_sql("SELECT sealed FROM versions").all()
    files = {path.name for path in site.home.glob("vault-*")}
    with write(site.engine) as connection:  # as an earlier database has it, whose table is not here any more
        connection.exec_driver_sql("UPDATE seat_tables SET file = 'earlier'")
        connection.exec_driver_sql("UPDATE versions SET sealed = 'earlier'")
    seating.settle(site)
    tidy_at_start(site)
    assert {path.name for path in site.home.glob("vault-*")} == files
    with write(site.engine) as connection:
        connection.exec_driver_sql("UPDATE seat_tables SET file = ?", (tables[0].file,))
        connection.exec_driver_sql("UPDATE versions SET sealed = ?", (versions[0].sealed,))
    seating.settle(site)
    tidy_at_start(site)
    charge(site, "t1")
    assert vault.refresh("a").report.stayed == 40
