"""The vault: what is refused, what is sealed, who sits where, and that tasks read nothing else."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from sqlalchemy import insert

from crossward.errors import (
    AlreadyOpen,
    Conflict,
    EmptyData,
    InvalidData,
    InvalidEpsilon,
    InvalidSetting,
    StorageFailed,
)
from crossward.privacy.budget import Budget
from crossward.protocol.constants import FilterKind, Role, TaskKind
from crossward.protocol.ledger.lines import LineKind, ReserveBody
from crossward.study.work import levels as levels_of
from crossward_service.db.engine import read, write
from crossward_service.ops.machine import Machine
from crossward_site.data import straight
from crossward_site.data.connector import InProcess
from crossward_site.data.mapping import DataMap
from crossward_site.data.places import Connection, FilePlace, QueryPlace, Sources
from crossward_site.data.service import Vault, kept_files, load_counts, load_dataset, open_copy, tidy
from crossward_site.data.survey import survey
from crossward_site.data.tags import Tagger
from crossward_site.site import Site
from crossward_site.tasks.tables import TaskState, tasks

HEAD = "pid,glucose,family,smoker,ill\n"
BUDGET = Budget.of(3)
MAP = DataMap(person="pid")


def table(count: int, start: int = 0) -> str:
    return "".join(
        f"p{k},{4 + k % 7},{k % 2},{'yes' if k % 3 else 'no'},{int(k % 5 == 0)}\n" for k in range(start, start + count)
    )


def place(folder: Path, text: str, name: str = "table.csv") -> FilePlace:
    (folder / "files" / name).write_text(text)
    return FilePlace(kind="csv", path=name)


def all_rows(vault: Vault, study, name: str, version: int | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = vault.rows(study, Role.TARGET, name, list(levels_of(study, Role.TARGET)), version)
    return rows.X.read(0, len(rows.X)), rows.y, rows.present


def lines(site: Site) -> list[str]:
    with read(site.engine) as connection:
        return [line.kind.value for line in site.ledger.lines(connection)]


def charge(site: Site, name: str, version: int, task: str = "t1", *, state: TaskState = TaskState.RESERVED) -> None:
    """A task that was charged for a version, as the runner writes it down."""
    body = ReserveBody(task, "s", "0" * 64, (0, 1), 1000, 0, "1" * 64)
    blank = {
        "study": "s",
        "study_hash": "0" * 64,
        "kind": TaskKind.TRAIN_TARGET,
        "message": "{}",
        "cause": "",
        "trouble": "",
    }
    zero = dict.fromkeys(("attempt", "failures", "begun", "taken", "updated", "lease_seconds", "progress"), 0)
    with write(site.engine) as connection:
        site.append(connection, body)
        number = int(task.strip("t"))
        bound = {"id": task, "state": state, "dataset": name, "version": version, "number": number}
        connection.execute(insert(tasks).values(**bound, **blank, **zero))


# -- opening ----------------------------------------------------------------------------------------------------------
def test_csv_parquet_and_sql_give_the_same_rows(site, study, tmp_path) -> None:
    csv = place(tmp_path, HEAD + table(100))
    rows = [line.split(",") for line in table(100).splitlines()]
    columns = list(zip(*rows, strict=True))
    typed = {
        "pid": list(columns[0]),
        "glucose": [float(value) for value in columns[1]],
        "family": [bool(int(value)) for value in columns[2]],
        "smoker": list(columns[3]),
        "ill": [int(value) for value in columns[4]],
    }
    pyarrow.parquet.write_table(pa.table(typed), tmp_path / "files" / "table.parquet")
    with closing(sqlite3.connect(tmp_path / "clinic.db")) as database:
        database.execute("CREATE TABLE visit (pid TEXT, glucose REAL, family INTEGER, smoker TEXT, ill INTEGER)")
        database.executemany("INSERT INTO visit VALUES (?, ?, ?, ?, ?)", rows)
        database.commit()
    connections = {"clinic": Connection(url=f"sqlite:///{tmp_path}/clinic.db")}
    sources = Sources({"files": tmp_path / "files"}, connections)
    site = Site(site.engine, site.home, site.secret, connectors=InProcess(sources))
    vault, found = Vault(site), []
    vault.open("a", csv, MAP, BUDGET, study=study)
    sql = QueryPlace(kind="sql", connection="clinic", query="SELECT * FROM visit")
    for where in (csv, FilePlace(kind="parquet", path="table.parquet"), sql):
        assert vault.refresh("a", where, study=study).report.stayed == 100
        X, y, present = all_rows(vault, study, "a")
        assert present.all()
        found.append(sorted(map(tuple, np.column_stack([X, y]).tolist())))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 100


@pytest.mark.parametrize(
    ("text", "mapping", "error", "words"),
    [
        ("", {}, InvalidData, ["table.csv"]),
        (HEAD, {}, EmptyData, ["table.csv", "no records"]),
        ("pid,ill\np1,1\np2,0\n", {}, InvalidData, ["no column 'glucose', 'family', 'smoker'", "data check"]),
        (HEAD + ",5,0,no,1\n", {}, InvalidData, ["table.csv, line 2", "'pid'", "is empty"]),
        (HEAD + "p1,5,0,no,1\np1,5,0,no,0\n", {"record": "pid"}, InvalidData, ["1 records have the id of another"]),
        (HEAD + "p1,5,0\n", {}, InvalidData, ["table.csv, line 2"]),
        (
            HEAD + table(20),
            {"features": {"glucose": {"column": "glucose", "unit": "stone"}}},
            InvalidSetting,
            ["stone", "mmol/L", "factor"],
        ),
        (HEAD + table(20), {"person": "nobody"}, InvalidData, ["no column 'nobody'"]),
    ],
)
def test_bad_data_is_refused_by_name_and_nothing_is_opened(site, study, tmp_path, text, mapping, error, words) -> None:
    with pytest.raises(error) as refusal:
        Vault(site).open("a", place(tmp_path, text), DataMap(**{"person": "pid"} | mapping), BUDGET, study=study)
    for word in words:
        assert word in str(refusal.value)
    assert refusal.value.fix
    assert lines(site) == []
    assert Vault(site).datasets() == []
    assert not list(site.home.glob("vault-*"))


def test_every_record_encodes(site, study, tmp_path) -> None:
    """What a cell says is no reason to fail: a bad value takes its default, a bad label leaves the seat empty."""
    odd = HEAD + "p1,high,0,no,1\np2,5,?,pipe,0\np3,99999,1,yes,maybe\np4,,1,yes,\np5,7,1,yes,1\n"
    vault = Vault(site)
    report = vault.open("a", place(tmp_path, odd), MAP, BUDGET, study=study).report
    assert report.fit is not None
    assert (report.fit.rows, report.fit.positives, report.fit.unlabelled) == (5, 2, 2)
    X, y, present = all_rows(vault, study, "a")
    assert len(y) == 5
    assert present.sum() == 3
    assert not X[~present].any()
    assert set(y[~present].tolist()) == {-1}
    assert np.abs(X).max() <= 1


@pytest.mark.parametrize(
    ("budget", "rule", "words"),
    [
        ((1e30, 0.0), "basic", r"epsilon is too large to promise anything\. The largest is 100;"),
        ((101, 0.0), FilterKind.ZCDP, "epsilon is too large"),
        ((1.0, 0.01), "basic", r"delta is too large to promise anything\. The largest is 0\.001\."),
        ((1.0, 0.0), FilterKind.ZCDP, "needs a delta above 0"),
    ],
)
def test_a_budget_that_promises_nothing_is_refused(site, tmp_path, budget, rule, words) -> None:
    where = place(tmp_path, HEAD + table(20))
    with pytest.raises(InvalidEpsilon, match=words):
        Vault(site).open("a", where, MAP, Budget.of(*budget), rule=rule)
    Vault(site).open("a", where, MAP, Budget.of(100, 0.001))  # the largest


def test_units_codes_and_missing_words(site, study, tmp_path) -> None:
    text = "pid,glu,fam,smoke,dx\np1,90.08,J,1,E11\np2,NA,N,0,none\n"
    mapping = DataMap.from_data(
        {
            "person": "pid",
            "missing": ["NA"],
            "features": {
                "glucose": {"column": "glu", "unit": "mg/dL", "substance": "glucose"},
                "family": {"column": "fam", "recode": {"J": True, "N": False}},
                "smoker": {"column": "smoke", "recode": {"1": "yes", "0": "no"}},
            },
            "labels": {"ill": {"column": "dx", "recode": {"E11": True, "none": False}}},
        }
    )
    vault = Vault(site)
    vault.open("a", place(tmp_path, text), mapping, BUDGET, study=study)
    X, y, _ = all_rows(vault, study, "a")
    expected = study.schema.encode(
        [{"glucose": 5.0, "family": True, "smoker": "yes"}, {"glucose": None, "family": False, "smoker": "no"}]
    )
    order = np.argsort(-y)
    assert X[order] == pytest.approx(expected)
    assert y[order].tolist() == [1, -1]
    fit = vault.report("a", study).fit
    assert fit is not None
    assert fit.features["glucose"].model_dump() == {"missing": 1, "unread": 0, "clipped": 0, "recoded": 0}


def test_a_mapping_that_is_wrong_is_named() -> None:
    for data, words in (
        ({}, "person"),
        ({"person": "a", "features": {"g": {"column": "c", "unit": "cm", "factor": 2.0}}}, "Both a unit and a factor"),
        ({"person": "a", "features": {"g": {"column": "c", "factor": 0}}}, "factor of 0"),
        ({"person": "a", "feature": {}}, "feature"),
    ):
        with pytest.raises(InvalidSetting, match=words):
            DataMap.from_data(data)


def test_nothing_of_a_record_can_be_read_in_the_site(site, tmp_path) -> None:
    text = HEAD + "".join(f"secretperson{k},{7.123 + k / 1000},1,yes,{k % 2}\n" for k in range(30))
    Vault(site).open("a", place(tmp_path, text), MAP, BUDGET)
    stored = b"".join(path.read_bytes() for path in [*tmp_path.glob("site.sqlite3*"), *site.home.iterdir()])
    assert b"secretperson" not in stored
    assert b"7.123" not in stored
    assert {path.stat().st_mode & 0o077 for path in site.home.glob("vault-*")} == {0}


# -- versions ---------------------------------------------------------------------------------------------------------
def test_persons_keep_their_rows_through_versions(site, study, tmp_path) -> None:
    vault = Vault(site)
    vault.open("a", place(tmp_path, HEAD + table(60)), MAP, BUDGET)
    report = vault.refresh("a", place(tmp_path, HEAD + table(70, start=20), "next.csv")).report
    assert (report.came, report.left, report.stayed, report.new, report.known) == (30, 20, 40, 30, 40)
    X, y, present = all_rows(vault, study, "a")
    assert len(y) == 90
    assert present.sum() == 70
    assert not X[~present].any()
    assert vault.dataset("a").version == 2
    assert lines(site) == ["open", "seats", "seats"]
    with pytest.raises(AlreadyOpen, match="data refresh a"):
        vault.open("a", place(tmp_path, HEAD + table(60)), MAP, BUDGET)


def test_what_happens_to_a_file_afterwards_changes_nothing(site, study, tmp_path) -> None:
    vault = Vault(site)
    vault.open("a", place(tmp_path, HEAD + table(40)), MAP, BUDGET)
    before = all_rows(vault, study, "a")[0]
    (tmp_path / "files" / "table.csv").unlink()
    assert np.array_equal(all_rows(vault, study, "a")[0], before)


def test_a_version_whose_ids_are_spelled_otherwise_is_refused(site, tmp_path) -> None:
    vault = Vault(site)
    vault.open("a", place(tmp_path, HEAD + table(40)), MAP, BUDGET)
    with pytest.raises(InvalidData, match=r"40 of the 40 persons that a knows are missing.*Spell the ids as before"):
        vault.refresh("a", place(tmp_path, (HEAD + table(40)).replace("p", "P").replace("Pid", "pid")))
    with pytest.raises(InvalidSetting, match=r"'pid'.*'smoker'.*look new"):
        vault.refresh("a", mapping=DataMap(person="smoker"))
    assert (
        vault.refresh("a", place(tmp_path, HEAD + table(40, start=20))).version == 2
    )  # one half has left: that happens


def test_other_peoples_rows_under_the_same_ids_are_refused(site, tmp_path) -> None:
    draw = np.random.default_rng(1)
    vault = Vault(site)

    def strangers(seed: int) -> str:
        draw = np.random.default_rng(seed)
        return HEAD + "".join(
            f"p{k},{draw.integers(4, 9)},{draw.integers(2)},{'yes' if draw.integers(2) else 'no'},{draw.integers(2)}\n"
            for k in range(500)
        )

    assert draw is not None
    vault.open("a", place(tmp_path, strangers(1)), MAP, BUDGET)
    with pytest.raises(InvalidData, match="other people under the same ids"):
        vault.refresh("a", place(tmp_path, strangers(2)))
    assert vault.refresh("a", place(tmp_path, strangers(1))).report.changed == 0


def test_a_refresh_that_exchanges_half_of_the_people_says_so(site, tmp_path) -> None:
    draw, vault = np.random.default_rng(1), Vault(site)
    rows = [
        f"{draw.integers(4, 9)},{draw.integers(2)},{'yes' if draw.integers(2) else 'no'},{draw.integers(2)}\n"
        for _ in range(500)
    ]

    def table(order: list[int]) -> str:
        return HEAD + "".join(f"p{k},{rows[row]}" for k, row in enumerate(order))

    vault.open("a", place(tmp_path, table(list(range(500)))), MAP, BUDGET)
    half = [*range(1, 250), 0, *range(250, 500)]
    assert 200 <= vault.refresh("a", place(tmp_path, table(half))).report.changed <= 255


def test_a_charge_is_for_one_version_and_it_stays(site, study, tmp_path) -> None:
    vault = Vault(site)
    vault.open("a", place(tmp_path, HEAD + table(60)), MAP, BUDGET)
    charge(site, "a", 1)
    before = all_rows(vault, study, "a", 1)
    for start in (10, 20, 30):
        vault.refresh("a", place(tmp_path, HEAD + table(60, start=start)))
    after = all_rows(vault, study, "a", 1)
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))
    with read(site.engine) as connection:
        assert sum(load_counts(connection, study, Role.TARGET, "a", 1).counts.values()) == 60
        assert sum(load_counts(connection, study, Role.TARGET, "a").counts.values()) == 90
        kept = {path.name for path in site.home.glob("vault-*")}
        assert kept == kept_files(connection)
    with pytest.raises(StorageFailed, match="gone"):  # nobody owes anything for it
        all_rows(vault, study, "a", 2)


# -- one person, one budget -------------------------------------------------------------------------------------------
def test_a_second_dataset_shares_the_seats_and_the_budget(site, study, tmp_path) -> None:
    vault = Vault(site)
    with pytest.raises(InvalidSetting, match="--epsilon"):
        vault.open("a", place(tmp_path, HEAD + table(60)), MAP)
    vault.open("a", place(tmp_path, HEAD + table(60)), MAP, BUDGET)
    report = vault.open("b", place(tmp_path, HEAD + table(60, start=30), "b.csv"), MAP).report
    assert (report.new, report.known) == (30, 30)
    assert lines(site) == ["open", "seats", "seats"]
    charge(site, "a", 1)
    with pytest.raises(AlreadyOpen, match="for life") as refusal:
        vault.open("c", place(tmp_path, HEAD + table(10), "c.csv"), MAP, Budget.of(5))
    assert "another" not in str(refusal.value)
    vault.open("c", place(tmp_path, HEAD + table(10), "c.csv"), MAP, BUDGET)
    assert lines(site).count("open") == 1


def test_until_the_first_charge_another_budget_may_be_chosen(site, tmp_path) -> None:
    vault, where = Vault(site), place(tmp_path, HEAD + table(60))
    vault.open("a", where, MAP, BUDGET)
    assert vault.undo("a") is None
    vault.open("a", where, MAP, Budget.of(1))
    assert lines(site) == ["open", "seats", "seats", "open", "seats"]
    with read(site.engine) as connection:
        assert site.ledger.balance(connection).opened.nano_epsilon == 10**9


def test_several_records_of_a_person_cost_as_many_times(site, study, tmp_path) -> None:
    vault = Vault(site)
    vault.open("two", place(tmp_path, HEAD + table(60) + table(60)), MAP, BUDGET, records_per_person=2)
    vault.open("one", place(tmp_path, HEAD + table(60) * 2, "one.csv"), MAP)
    with read(site.engine) as connection:
        for name, most, rows in (("two", 2, 120), ("one", 1, 60)):
            public = load_counts(connection, study, Role.TARGET, name)
            assert public.records_per_person == most
            assert sum(public.counts.values()) == rows
    assert vault.report("one").records_dropped == 60


@pytest.mark.parametrize("number", ["1.23457E+11", "1,23457E+11", "5e+15"])
def test_an_id_in_scientific_notation_has_lost_digits(site, tmp_path, number) -> None:
    where = place(tmp_path, HEAD.replace(",", ";") + "1E5;5;0;no;0\n" + f"{number};5;0;no;0\n")
    with pytest.raises(InvalidData, match=r"line 3: column 'pid'.*lost digits"):
        Vault(site).open("a", where, MAP, BUDGET)


# -- undo and erase ---------------------------------------------------------------------------------------------------
def test_a_version_is_taken_back_until_it_is_charged(site, study, tmp_path) -> None:
    vault = Vault(site)
    vault.open("a", place(tmp_path, HEAD + table(60)), MAP, BUDGET)
    before = all_rows(vault, study, "a")
    vault.refresh("a", place(tmp_path, HEAD + table(100), "next.csv"))
    vault.open("b", place(tmp_path, HEAD + table(10), "b.csv"), MAP)
    back = vault.undo("a")
    assert back is not None
    assert back.version == 1
    assert all(np.array_equal(one, other) for one, other in zip(before, all_rows(vault, study, "a"), strict=True))
    vault.refresh("a", place(tmp_path, HEAD + table(100), "next.csv"))
    charge(site, "a", 2)
    with pytest.raises(Conflict, match="was charged"):
        vault.undo("a")
    assert vault.undo("b") is None
    with read(site.engine) as connection:
        assert load_dataset(connection, "a").version == 2
        assert {path.name for path in site.home.glob("vault-*")} == kept_files(connection)


def test_who_is_erased_is_gone_from_every_copy_and_stays_away(site, study, tmp_path) -> None:
    vault = Vault(site)
    vault.open("a", place(tmp_path, HEAD + table(60)), MAP, BUDGET)
    charge(site, "a", 1)
    vault.refresh("a", place(tmp_path, HEAD + table(60)))
    assert vault.erase(["p7", "p8", "nobody"]) == 4
    assert vault.strangers(["p7", "p8", "nobody", '"p7"']) == 2
    for version in (1, 2):
        _, y, present = all_rows(vault, study, "a", version)
        assert len(y) == 60  # seats stay
        assert present.sum() == 58
    report = vault.refresh("a", place(tmp_path, HEAD + table(62))).report
    assert (report.opted_out, report.persons, report.left) == (2, 60, 0)  # they left when they were erased
    assert sum(vault.dataset("a").counts) == 62
    with read(site.engine) as connection:
        spent = site.ledger.balance(connection).spend.nano_epsilon
    assert spent == 1000


# -- files and crashes ------------------------------------------------------------------------------------------------
def test_what_a_process_left_behind_is_removed(site, tmp_path) -> None:
    Vault(site).open("a", place(tmp_path, HEAD + table(60)), MAP, BUDGET)
    kept = sorted(path.name for path in site.home.iterdir())
    for name in ("vault-abc.records.part", "vault-abc.cells", "vault-def.seats"):
        (site.home / name).write_bytes(b"x")
    tidy(site)
    assert sorted(path.name for path in site.home.iterdir()) == kept


def test_a_cancelled_reading_leaves_nothing(site, tmp_path) -> None:
    class Stop(Exception):
        pass

    def progress(share: float, step: str) -> None:
        if share > 0:
            raise Stop

    with pytest.raises(Stop):
        Vault(site).open("a", place(tmp_path, HEAD + table(60)), MAP, BUDGET, progress=progress)
    assert lines(site) == []
    assert not list(site.home.glob("vault-*"))


def test_the_memory_of_training_is_bounded_and_changes_nothing(site, study, tmp_path) -> None:
    big = HEAD + table(20_000)
    Vault(site).open("a", place(tmp_path, big), MAP, BUDGET)
    small = Site(site.engine, site.home, site.secret, memory=1 << 12)
    one, other = all_rows(Vault(site), study, "a"), all_rows(Vault(small), study, "a")
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    rows = Vault(small).rows(study, Role.TARGET, "a", list(levels_of(study, Role.TARGET)))
    assert rows.X.on_disk
    assert LineKind.SEATS.value in lines(site)


@pytest.mark.parametrize(
    ("ids", "words"),
    [
        (pa.array([float(2**53 + 2 * k) for k in range(9)]), "last digits"),
        (pa.array([float(2**24 + 2 * k) for k in range(9)], pa.float32()), "seven digits of an id"),
    ],
    ids=["64 bits", "32 bits"],
)
def test_an_id_that_has_lost_digits_is_refused(site, tmp_path, ids, words) -> None:
    """As a whole number elsewhere, it would be another person, with another budget."""
    typed = pa.table({"pid": ids, "x": list(range(9))})
    pyarrow.parquet.write_table(typed, tmp_path / "files" / "table.parquet")
    place = FilePlace(kind="parquet", path="table.parquet")
    with site.connectors.open(place, None, lenient=True) as source:
        told = survey(source, MAP)
    assert not told.ready
    assert any("digits" in problem.cause for problem in told.problems)
    with pytest.raises(InvalidData, match=words):
        Vault(site).open("a", place, MAP, BUDGET)
    assert lines(site) == []


def test_who_left_is_told_once_and_a_slow_turnover_is_no_reason_to_refuse(site, tmp_path) -> None:
    """Each year a third of the persons goes and as many come: in the end most who were ever there are gone."""
    vault = Vault(site)
    vault.open("a", place(tmp_path, HEAD + table(30)), MAP, BUDGET)
    for year in range(1, 7):
        report = vault.refresh("a", place(tmp_path, HEAD + table(30, 10 * year))).report
        assert (report.came, report.left, report.stayed) == (10, 10, 20)
    report = vault.refresh("a", place(tmp_path, HEAD + table(30, 50))).report
    assert (report.came, report.left, report.new) == (10, 10, 0)  # who returns has the old seat
    with pytest.raises(InvalidData, match="missing"):
        vault.refresh("a", place(tmp_path, HEAD + table(30, 70)))


def test_all_versions_are_taken_back_together_until_one_is_charged(site, tmp_path) -> None:
    vault = Vault(site)
    where = place(tmp_path, HEAD + table(60))
    vault.open("a", where, MAP, BUDGET)
    for _ in range(2):
        vault.refresh("a")
    assert vault.undo("a").version == 2
    with pytest.raises(Conflict, match="undo --all"):
        vault.undo("a")
    assert vault.undo("a", whole=True) is None
    assert vault.datasets() == []
    with read(site.engine) as connection:
        assert {path.name for path in site.home.glob("vault-*")} == kept_files(connection)
    version = vault.open("a", where, MAP).version
    assert vault.dataset("a").report.known == 60
    vault.refresh("a")
    charge(site, "a", version)
    with pytest.raises(Conflict, match="Version 1 of a was charged"):
        vault.undo("a", whole=True)
    assert vault.undo("a").version == version


def damage(site: Site, vault: Vault, name: str) -> None:
    file = site.home / f"vault-{vault.dataset(name).sealed}.records"
    data = bytearray(file.read_bytes())
    data[-5] ^= 1
    file.write_bytes(data)


def is_in_copies(site: Site, vault: Vault, name: str, person: str) -> bool:
    tag = Tagger(site.secret).person(person)
    return any(tag in batch.persons for batch in open_copy(site, vault.dataset(name)).batches(()))


def test_a_damaged_copy_holds_up_no_erasure(site, tmp_path) -> None:
    vault = Vault(site)
    where = place(tmp_path, HEAD + table(40))
    for name, budget in (("a", BUDGET), ("b", None)):
        vault.open(name, where, MAP, budget)
    damage(site, vault, "a")
    with pytest.raises(StorageFailed, match=r"still in version 1 of a, and nowhere else") as refused:
        vault.erase(["p1"])
    assert "refresh the data" in refused.value.fix
    assert not is_in_copies(site, vault, "b", "p1")
    vault.refresh("a")  # as it says
    assert not is_in_copies(site, vault, "a", "p1")
    assert len(list(site.home.glob("vault-*.records"))) == 3  # the damaged one may come back by an undo
    assert vault.erase(["p1"]) == 0
    assert len(list(site.home.glob("vault-*.records"))) == 2
    with read(site.engine) as connection:
        assert {path.name for path in site.home.glob("vault-*")} == kept_files(connection)


def test_a_damaged_copy_of_which_a_release_is_owed_is_not_given_up(site, tmp_path) -> None:
    vault = Vault(site)
    version = vault.open("a", place(tmp_path, HEAD + table(40)), MAP, BUDGET).version
    charge(site, "a", version)
    damage(site, vault, "a")
    vault.refresh("a")
    with pytest.raises(StorageFailed, match="still in version 1 of a"):
        vault.erase(["p1"])
    assert not is_in_copies(site, vault, "a", "p1")


def test_an_erasure_that_is_cut_leaves_no_copy_with_the_persons_behind(site, tmp_path) -> None:
    class CutError(Exception):
        pass

    def cut(_: float, step: str) -> None:
        if step.startswith("b"):
            raise CutError

    vault = Vault(site)
    where = place(tmp_path, HEAD + table(40))
    for name, budget in (("a", BUDGET), ("b", None)):
        vault.open(name, where, MAP, budget)
    with pytest.raises(CutError):
        vault.erase(["p1"], cut)
    assert not is_in_copies(site, vault, "a", "p1")
    with read(site.engine) as connection:
        assert {path.name for path in site.home.glob("vault-*")} == kept_files(connection)


def test_a_damaged_copy_is_mended_where_many_have_come_and_gone(site, tmp_path) -> None:
    """It cannot say who was there last, and all who ever were are no measure."""
    vault = Vault(site)
    vault.open("a", place(tmp_path, HEAD + table(100)), MAP, BUDGET)
    for start in (40, 80, 120):
        vault.refresh("a", place(tmp_path, HEAD + table(100, start)))
    damage(site, vault, "a")
    report = vault.refresh("a").report
    assert (report.new, report.persons) == (0, 100)


def test_a_name_is_on_disk_before_the_ledger_knows_it(site, tmp_path, monkeypatch) -> None:
    """Of each file of the vault: its bytes first, then its folder, then the line."""
    done, sync = [], os.fsync

    def fsync(descriptor: int) -> None:
        done.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        sync(descriptor)

    def reach(self: Machine, point: str) -> None:
        done.append(Path(point))

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(type(site.machine), "reach", reach)
    vault = Vault(site)
    vault.open("a", place(tmp_path, HEAD + table(40)), MAP, BUDGET)
    named = done[: done.index(Path("vault-sealed"))]
    assert {path.suffix for path in named if path.name.startswith("vault-")} >= {".part", ".seats"}
    for at, path in enumerate(named):
        assert path == site.home or site.home in named[at:], path
    done.clear()
    vault.undo("a")
    seats = next(at for at, path in enumerate(done) if path.suffix == ".seats")
    assert done[seats + 1] == site.home


def test_a_full_disk_keeps_no_table_of_seats(site, tmp_path, monkeypatch) -> None:
    vault = Vault(site)
    vault.open("a", place(tmp_path, HEAD + table(40)), MAP, BUDGET)
    before = {path.name for path in site.home.iterdir()}
    monkeypatch.setattr(straight, "SPARE", 1 << 62)
    with pytest.raises(StorageFailed, match="Make room"):
        vault.undo("a")
    assert {path.name for path in site.home.iterdir()} == before


def test_what_only_records_tell_of_a_table_must_be_said(site, study, tmp_path) -> None:
    """One record with a decimal comma would otherwise decide how all others are read."""
    vault = Vault(site)
    points = "".join(f"p{k};5.{k % 9};0;no;0\n" for k in range(40))
    for line, option in (("p99;5,5;0;no;0\n" * 50, "--decimal ,"), ("p99;5;0;n\u00e4;0\n", "--encoding cp1252")):
        (tmp_path / "files" / "t.csv").write_bytes((HEAD.replace(",", ";") + line + points).encode("cp1252"))
        with pytest.raises(InvalidData, match="nothing says so but its records") as refused:
            vault.open("a", FilePlace(kind="csv", path="t.csv"), MAP, BUDGET)
        assert refused.value.fix.endswith(option)
        with site.connectors.open(FilePlace(kind="csv", path="t.csv"), None, lenient=True) as found:
            report = survey(found, MAP, study)
        assert not report.ready
        assert any(option in problem.fix for problem in report.problems)
    assert vault.open("a", FilePlace(kind="csv", path="t.csv", encoding="cp1252"), MAP, BUDGET).report.rows == 41


def test_who_was_erased_is_not_missing(site, tmp_path) -> None:
    vault = Vault(site)
    where = place(tmp_path, HEAD + table(30))
    vault.open("a", where, MAP, BUDGET)
    vault.erase([f"p{k}" for k in range(20)])
    report = vault.refresh("a", where).report
    assert (report.opted_out, report.left, report.stayed) == (20, 0, 10)


@pytest.mark.parametrize("kind", ["records", "cells"])
@pytest.mark.parametrize("harm", ["gone", "flipped", "cut"])
def test_a_damaged_copy_is_mended_by_a_new_version(site, study, tmp_path, kind, harm) -> None:
    """Nobody gets another seat by it."""
    vault = Vault(site)
    where = place(tmp_path, HEAD + table(40))
    before = vault.open("a", where, MAP, BUDGET)
    file = site.home / f"vault-{before.sealed}.{kind}"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data if harm == "flipped" else data[: len(data) // 2])
    if harm == "gone":
        file.unlink()
    with pytest.raises(StorageFailed, match="refresh the data"):
        all_rows(vault, study, "a")
    report = vault.refresh("a").report
    assert (report.new, report.left, report.stayed) == (0, 0, 40)
    assert vault.dataset("a").counts == before.counts
    assert all_rows(vault, study, "a")[2].sum() == 40
