"""The data vault: what is refused, what is read, and who sits where."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import func, select

from crossward.errors import (
    AlreadyOpen,
    EmptyData,
    InvalidData,
    InvalidEpsilon,
    InvalidSetting,
    OneClass,
)
from crossward.privacy.budget import Budget
from crossward.protocol.constants import FilterKind, Role
from crossward.study.work import levels as levels_of
from crossward_service.db.engine import read, write
from crossward_site.data.mapping import DataMap
from crossward_site.data.persons import persons_of
from crossward_site.data.places import CsvPlace, ParquetPlace, Raw, SqlPlace
from crossward_site.data.service import Vault, _seated, load_counts, load_records_per_person
from crossward_site.data.tables import seats
from crossward_site.identity.secret import keyed

HEAD = "pid,glucose,family,smoker,ill\n"


BUDGET = Budget.of(3)


def table(count: int, start: int = 0) -> str:
    return "".join(
        f"p{k},{4 + k % 7},{k % 2},{'yes' if k % 3 else 'no'},{int(k % 5 == 0)}\n" for k in range(start, start + count)
    )


def place(folder: Path, text: str, name: str = "table.csv") -> CsvPlace:
    path = folder / name
    path.write_text(text)
    return CsvPlace(path=str(path))


MAP = DataMap(person="pid")


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
    pyarrow.parquet.write_table(pa.table(typed), tmp_path / "table.parquet")
    with closing(sqlite3.connect(tmp_path / "clinic.db")) as database:
        database.execute("CREATE TABLE visit (pid TEXT, glucose REAL, family INTEGER, smoker TEXT, ill INTEGER)")
        database.executemany("INSERT INTO visit VALUES (?, ?, ?, ?, ?)", rows)
        database.commit()
    sql = SqlPlace(kind="sql", url=f"sqlite:///{tmp_path}/clinic.db", query="SELECT * FROM visit")
    parquet = ParquetPlace(kind="parquet", path=str(tmp_path / "table.parquet"))
    vault = Vault(site)
    found = []
    vault.connect("a", csv, MAP, BUDGET, study=study)
    for where in (csv, parquet, sql):
        vault.add_version("a", where, study=study)
        levels = list(levels_of(study, Role.TARGET))
        got = vault.rows(study, Role.TARGET, "a", levels)
        assert got.present.all()
        found.append(sorted(map(tuple, np.column_stack([got.X, got.y]).tolist())))
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 100


@pytest.mark.parametrize(
    ("text", "mapping", "error", "words"),
    [
        ("", {}, EmptyData, ["table.csv is empty"]),
        (HEAD, {}, EmptyData, ["table.csv has no records"]),
        (
            "pid,ill\np1,1\np2,0\n",
            {},
            InvalidData,
            ["table.csv", "no column 'glucose', 'family', 'smoker'", "pid, ill"],
        ),
        (HEAD + "p1,high,0,no,1\np2,5,0,no,0\n", {}, InvalidData, ["table.csv, line 2", "'glucose'", "'high'"]),
        (HEAD + "p1,5,0,no,1\np2,inf,0,no,0\n", {}, InvalidData, ["line 3", "'inf'"]),
        (
            HEAD + "p1,5,0,pipe,1\np2,5,0,no,0\n",
            {},
            InvalidData,
            ["table.csv, line 2: column 'smoker' (feature 'smoker') is 'pipe'; the schema lists 'no', 'yes'."],
        ),
        (HEAD + "p1,5,0,no,1\np2,5,0,no,1\n", {}, OneClass, ["table.csv", "all 2 labels 'ill'", "positive"]),
        (HEAD + "p1,5,0,no,1\np2,5,0,no,\n", {}, InvalidData, ["line 3", "label 'ill'"]),
        (HEAD + ",5,0,no,1\n", {}, InvalidData, ["line 2", "'pid'", "is empty"]),
        (HEAD + "p1,5,0,no,1\np1,5,0,no,0\n", {"record": "pid"}, InvalidData, ["line 3", "'p1'", "line 2"]),
        (HEAD + "p1,5,0\n", {}, InvalidData, ["table.csv cannot be read", "Expected 5 columns, got 3"]),
        (
            HEAD + table(20),
            {"features": {"glucose": {"column": "glucose", "unit": "stone"}}},
            InvalidSetting,
            ["stone", "mmol/L", "factor"],
        ),
        (HEAD + table(20), {"person": "nobody"}, InvalidData, ["no column 'nobody'"]),
        (
            HEAD + "p1,5,0,no,1\np2,5,,no,0\n",
            {},
            InvalidData,
            ["table.csv, line 3: column 'family' (feature 'family') is missing, as in 1 of 2 rows, and has no"],
        ),
        (
            HEAD + "p1,5,0,no,1\np2,5,0,no,maybe\n",
            {},
            InvalidData,
            ["table.csv, line 3: column 'ill' (label 'ill') is 'maybe'; "],
        ),
        (
            "pid,glucose,fam,smoker,dx\np1,5,0,no,1\np2,5,J,no,E11\n",
            {"features": {"family": "fam"}, "labels": {"ill": "dx"}},
            InvalidData,
            ["table.csv, line 3: column 'fam' (feature 'family') is 'J'; "],
        ),
        (
            "pid,glucose,fam,smoker,dx\np1,5,0,no,1\np2,5,1,no,E11\n",
            {"features": {"family": "fam"}, "labels": {"ill": "dx"}},
            InvalidData,
            ["table.csv, line 3: column 'dx' (label 'ill') is 'E11'; "],
        ),
    ],
)
def test_bad_data_is_refused_by_name_and_nothing_is_opened(site, study, tmp_path, text, mapping, error, words) -> None:
    with pytest.raises(error) as refusal:
        Vault(site).connect("a", place(tmp_path, text), DataMap(**{"person": "pid"} | mapping), BUDGET, study=study)
    for word in words:
        assert word in str(refusal.value)
    assert refusal.value.fix
    with read(site.engine) as connection:
        assert site.ledger.head(connection).sequence == 0
        assert connection.execute(select(func.count()).select_from(seats)).scalar_one() == 0


@pytest.mark.parametrize(
    ("budget", "rule", "words"),
    [
        ((1e30, 0.0), "basic", r"epsilon is too large\. The largest is 1000000;"),
        ((1e6 + 1, 0.0), FilterKind.ZCDP, "epsilon is too large"),
        ((1.0, 1.5), "basic", r"delta is too large\. The largest is 1\."),
        ((1.0, 0.0), FilterKind.ZCDP, "needs a delta between 0 and 1"),
        ((1.0, 1.0), FilterKind.ZCDP, "needs a delta between 0 and 1"),
    ],
)
def test_a_budget_that_cannot_be_is_refused_in_the_stewards_words(site, tmp_path, budget, rule, words) -> None:
    where = place(tmp_path, HEAD + table(20))
    with pytest.raises(InvalidEpsilon, match=words):
        Vault(site).connect("a", where, MAP, Budget.of(*budget), rule=rule)
    Vault(site).connect("a", where, MAP, Budget.of(1e6, 1.0))  # the largest


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
    vault.connect("a", place(tmp_path, text), mapping, BUDGET, study=study)
    rows = vault.rows(study, Role.TARGET, "a", list(levels_of(study, Role.TARGET)))
    expected = study.schema.encode(
        [{"glucose": 5.0, "family": True, "smoker": "yes"}, {"glucose": None, "family": False, "smoker": "no"}]
    )
    order = np.argsort(-rows.y)
    assert rows.X[order] == pytest.approx(expected)
    assert rows.y[order].tolist() == [1.0, -1.0]
    assert vault.report("a", study).fit.features["glucose"].model_dump() == {"missing": 1, "clipped": 0}


def test_a_mapping_that_is_wrong_is_named() -> None:
    for data, words in (
        ({}, "person"),
        ({"person": "a", "features": {"g": {"column": "c", "unit": "cm", "factor": 2.0}}}, "Both a unit and a factor"),
        ({"person": "a", "features": {"g": {"column": "c", "factor": 0}}}, "factor of 0"),
        ({"person": "a", "feature": {}}, "feature"),
    ):
        with pytest.raises(InvalidSetting, match=words):
            DataMap.from_data(data)


def test_persons_keep_seat_cell_and_spend_through_versions(site, study, tmp_path) -> None:
    vault = Vault(site)
    vault.connect("a", place(tmp_path, HEAD + table(60)), MAP, BUDGET)
    with read(site.engine) as connection:
        before = {row.person: (row.seat, row.cell) for row in connection.execute(select(seats))}
    vault.add_version("a", place(tmp_path, HEAD + table(70, start=20), "next.csv"))
    with read(site.engine) as connection:
        after = {row.person: (row.seat, row.cell) for row in connection.execute(select(seats))}
    assert len(after) == 90
    assert before.items() <= after.items()
    rows = vault.rows(study, Role.TARGET, "a", list(levels_of(study, Role.TARGET)))
    assert len(rows.y) == 90
    assert rows.present.sum() == 70
    assert not rows.X[~rows.present].any()
    assert set(rows.y[~rows.present].tolist()) == {-1.0}
    assert vault.dataset("a").version == 2
    with pytest.raises(AlreadyOpen):
        vault.connect("a", place(tmp_path, HEAD + table(60)), MAP, BUDGET)


def test_newcomers_wait_for_a_version_and_a_wrong_file_is_noticed(site, study, tmp_path) -> None:
    vault = Vault(site)
    where = place(tmp_path, HEAD + table(40))
    vault.connect("a", where, MAP, BUDGET)
    place(tmp_path, HEAD + table(60))
    assert len(vault.rows(study, Role.TARGET, "a", list(levels_of(study, Role.TARGET))).y) == 40
    place(tmp_path, HEAD + table(60, start=1000))
    with pytest.raises(InvalidData, match="lost more than half"):
        vault.rows(study, Role.TARGET, "a", list(levels_of(study, Role.TARGET)))


def test_no_record_and_no_name_is_in_the_database(site, tmp_path) -> None:
    text = HEAD + "".join(f"secretperson{k},{7.123 + k / 1000},1,yes,{k % 2}\n" for k in range(30))
    Vault(site).connect("a", place(tmp_path, text), MAP, BUDGET)
    with write(site.engine) as connection:
        connection.exec_driver_sql("SELECT 1")
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("site.sqlite3*"))
    assert b"secretperson" not in stored
    assert b"7.123" not in stored


@given(st.lists(st.integers(0, 8), min_size=1, max_size=40), st.integers(1, 4))
def test_at_most_m_records_of_a_person_chosen_without_their_values(persons, most) -> None:
    mapping = DataMap(person="pid", record="rid")
    records = [f"r{k}" for k in range(len(persons))]
    raw = Raw("x", {"pid": [f"p{p}" for p in persons], "rid": records}, len(persons), str)
    chosen = persons_of(raw, mapping, "a", b"k" * 32, most)
    assert len(chosen.records_of) == len(set(persons))
    for person in set(persons):
        rows = chosen.records_of[keyed(b"k" * 32, "person", "a", f"p{person}")]
        assert len(rows) == min(most, persons.count(person))
        assert {persons[row] for row in rows} == {person}
    # The same records in another order: the same choice, though every row number is another.
    order = list(reversed(range(len(persons))))
    turned = Raw("x", {name: [raw.columns[name][k] for k in order] for name in raw.columns}, len(persons), str)
    again = persons_of(turned, mapping, "a", b"k" * 32, most)
    names = {person: {records[row] for row in rows} for person, rows in chosen.records_of.items()}
    assert names == {person: {turned.columns["rid"][row] for row in rows} for person, rows in again.records_of.items()}


def test_several_records_of_a_person_cost_as_many_times(site, study, tmp_path) -> None:
    text = HEAD + table(60) + table(60)
    vault = Vault(site)
    vault.connect("two", place(tmp_path, text), MAP, BUDGET, records_per_person=2)
    others = HEAD + table(60, start=1000) * 2
    vault.connect("one", place(tmp_path, others, "others.csv"), MAP, BUDGET)
    with read(site.engine) as connection:
        for name, most, rows in (("two", 2, 120), ("one", 1, 60)):
            assert load_records_per_person(connection, name) == most
            assert sum(load_counts(connection, study, Role.TARGET, name).values()) == rows
    assert vault.report("one").records_dropped == 60


def test_long_names_of_levels_are_kept_whole() -> None:
    first, second = "a" * 40, "a" * 39 + "b"
    seated = np.array([0, 1, 2])
    rows = _seated(np.zeros((3, 1)), np.ones(3), seated, seated, {first: (0,), second: (1, 2)})
    assert rows.level.tolist() == [first, second, second]
