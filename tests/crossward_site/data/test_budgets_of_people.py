"""One person, one budget: who is in several datasets, and who hears of it."""

from __future__ import annotations

import contextlib
import json
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet
import pytest
from sqlalchemy import func, select

from crossward.errors import InvalidData, InvalidSetting
from crossward.privacy.budget import Budget
from crossward_cli import site as commands
from crossward_service.db.engine import read
from crossward_site.data.mapping import DataMap
from crossward_site.data.places import CsvPlace, ParquetPlace
from crossward_site.data.service import Vault
from crossward_site.data.tables import datasets, versions
from crossward_site.desk.service import status

BUDGET, MAP = Budget.of(3), DataMap(person="pid")


def table(folder, first: int, last: int, name: str = "table.csv", spelled: str = "{:03}") -> CsvPlace:
    rows = (f"{spelled.format(k)},q{k},{k % 2}\n" for k in range(first, last))
    (folder / name).write_text("pid,other,ill\n" + "".join(rows))
    return CsvPlace(path=str(folder / name))


def add(place: CsvPlace, *people: int) -> CsvPlace:
    """The same file with these people as well."""
    with open(place.path, "a") as file:
        file.writelines(f"{k:03},q{k},{k % 2}\n" for k in people)
    return place


def test_a_version_keeps_the_column_that_names_persons(site, tmp_path) -> None:
    vault, where = Vault(site), table(tmp_path, 0, 40)
    vault.connect("a", where, MAP, BUDGET)
    with pytest.raises(InvalidSetting, match=r"'pid'.*'other'.*fresh budget"):
        vault.add_version("a", mapping=DataMap(person="other"))
    assert vault.dataset("a").version == 1


def test_a_version_whose_ids_are_spelled_otherwise_is_refused(site, tmp_path) -> None:
    vault = Vault(site)
    vault.connect("a", table(tmp_path, 0, 40), MAP, BUDGET)
    path = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(pa.table({"pid": list(range(40)), "ill": [k % 2 for k in range(40)]}), path)
    with pytest.raises(InvalidData, match=r"lacks 40 of the 40 persons.*Spell the ids as before"):
        vault.add_version("a", ParquetPlace(kind="parquet", path=str(path)))
    vault.add_version("a", table(tmp_path, 20, 60))  # one half has left: that happens
    with pytest.raises(InvalidData, match="lacks 40 of the 60"):
        vault.add_version("a", table(tmp_path, 40, 60))


def test_the_same_people_get_no_second_budget_under_another_name(site, tmp_path) -> None:
    vault = Vault(site)
    vault.connect("a", table(tmp_path, 0, 100), MAP, BUDGET)
    for first, last in ((0, 100), (0, 20), (0, 900), (50, 120)):
        with pytest.raises(InvalidData, match=r"in the dataset a too.*Add the data to a as a new version"):
            vault.connect("b", table(tmp_path, first, last, "b.csv"), MAP, BUDGET)
    with read(site.engine) as connection:
        assert site.ledger.head(connection).sequence == 1
        assert connection.execute(select(func.count()).select_from(datasets)).scalar_one() == 1
    vault.connect("b", table(tmp_path, 95, 195, "b.csv"), MAP, BUDGET)  # a few in both
    with pytest.raises(InvalidData, match="in the dataset a too"):
        vault.add_version("b", table(tmp_path, 0, 195, "b.csv"))


def test_nobody_gets_a_third_budget_however_many_datasets_there_are(site, tmp_path) -> None:
    vault, third = (
        Vault(site),
        r"in 2 other datasets already: {}\. Here they would get a third budget.*as a new version",
    )
    a, b = table(tmp_path, 0, 100), table(tmp_path, 95, 195, "b.csv")  # 95 to 99 are in both
    vault.connect("a", a, MAP, BUDGET)
    vault.connect("b", b, MAP, BUDGET)
    with pytest.raises(InvalidData, match=third.format(1)) as refusal:
        vault.connect("c", add(table(tmp_path, 300, 400, "c.csv"), 99), MAP, BUDGET)
    assert "99" not in str(refusal.value)  # who it is, it does not say
    c = table(tmp_path, 300, 400, "c.csv")
    vault.connect("c", c, MAP, BUDGET)
    add(c, 97, 98)
    with pytest.raises(InvalidData, match=third.format(2)):
        vault.add_version("c")
    add(b, 300)
    vault.add_version("b")  # in c, and now here: a second
    vault.add_version("a")  # 95 to 99 have this budget already
    add(a, 300)
    with pytest.raises(InvalidData, match=third.format(1)):
        vault.add_version("a")
    assert vault.in_several() == {2: 6}


def test_who_has_left_the_data_still_has_the_budget(site, tmp_path) -> None:
    vault = Vault(site)
    vault.connect("a", table(tmp_path, 0, 100), MAP, BUDGET)
    vault.connect("b", table(tmp_path, 95, 195, "b.csv"), MAP, BUDGET)
    vault.add_version("a", table(tmp_path, 0, 95))
    vault.add_version("b", table(tmp_path, 100, 195, "b.csv"))
    with pytest.raises(InvalidData, match="already: 1"):
        vault.connect("c", add(table(tmp_path, 300, 400, "c.csv"), 99), MAP, BUDGET)


def test_versions_that_change_their_people_bring_no_more_than_a_few_a_second_budget(site, tmp_path) -> None:
    vault = Vault(site)
    vault.connect("a", table(tmp_path, 0, 100), MAP, BUDGET)
    vault.connect("b", add(table(tmp_path, 300, 400, "b.csv"), *range(8)), MAP, BUDGET)
    with pytest.raises(InvalidData, match="16 of the 116 persons are in the dataset a too"):
        vault.add_version("b", add(table(tmp_path, 300, 400, "b.csv"), *range(8, 16)))  # eight others, in their stead


def test_the_steward_alone_hears_how_many_have_two_budgets(site, tmp_path, caplog, capsys, monkeypatch) -> None:
    caplog.set_level("DEBUG")
    vault, words = Vault(site), "persons_in_two_datasets"
    in_two = lambda name: vault.report(name).persons_in_two_datasets  # noqa: E731
    vault.connect("a", table(tmp_path, 0, 100), MAP, BUDGET)
    assert in_two("a") == 0
    b = table(tmp_path, 97, 197, "b.csv")
    vault.connect("b", b, MAP, BUDGET)
    assert in_two("a") == in_two("b") == 3  # of the first too, which came before
    add(b, 0)
    vault.add_version("b")
    assert in_two("a") == in_two("b") == 4
    latest = vault.report("b").model_dump(mode="json")
    answer = {"rows": 101, "persons": 101, "epsilon": 3.0, "report": latest}
    for report, line in ((latest, "4 people are in two datasets and have both budgets."), ({words: 0}, "")):
        client = SimpleNamespace(add_dataset=lambda *_, report=report, **__: answer | {"report": report})
        client.add_version = lambda _, report=report: {"version": 2, "rows": 101, "report": report}
        monkeypatch.setattr(commands, "at_site", lambda *_, client=client: contextlib.nullcontext(client))
        commands.add_data("b", 3.0, "pid", "token", csv=tmp_path / "b.csv")
        assert "".join(capsys.readouterr().out.splitlines()[1:]) == line
        commands.update_data("b", "token")
        assert "".join(capsys.readouterr().out.splitlines()[1:]) == line
    # What others may see, or be sent, has it nowhere; and nothing of it is logged.
    assert words not in status(site).model_dump_json()
    with read(site.engine) as connection:
        assert words not in json.dumps([line.text for line in site.ledger.lines(connection)])
        assert not any(words in row.report for row in connection.execute(select(versions)))
    assert not [record for record in caplog.records if record.name.startswith("crossward")]
