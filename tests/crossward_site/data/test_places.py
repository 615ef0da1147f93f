"""Where records lie: what cannot be read is named, without what opens it."""

from __future__ import annotations

import pytest

from crossward.errors import (
    CrosswardError,
    InvalidData,
)
from crossward.privacy.budget import Budget
from crossward_site.data.mapping import DataMap
from crossward_site.data.places import CsvPlace, ParquetPlace, SqlPlace
from crossward_site.data.service import Vault

MAP = DataMap(person="pid")


BUDGET = Budget.of(3)


@pytest.mark.parametrize(
    "where",
    [
        CsvPlace(path="/nowhere/table.csv"),
        ParquetPlace(kind="parquet", path="/nowhere/table.parquet"),
        SqlPlace(kind="sql", url="sqlite:////nowhere/clinic.db", query="SELECT 1"),
        SqlPlace(kind="sql", url="nosuch://u:hunter2@host/db", query="SELECT 1"),
    ],
)
def test_a_place_that_cannot_be_read(site, where) -> None:
    with pytest.raises(CrosswardError) as refusal:
        Vault(site).connect("a", where, MAP, BUDGET)
    assert "nowhere" in str(refusal.value) or "host" in str(refusal.value)
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:////data/clinic.db", "sqlite:////data/clinic.db"),
        ("postgresql://host:5432/clinic?sslmode=require", "postgresql://host:5432/clinic"),
        ("postgresql://u:hunter2@host/clinic", "postgresql://host/clinic"),
        ("postgresql://u:hun@ter2@host/clinic", "postgresql://host/clinic"),
        ("postgresql://u:hun?ter2@host/clinic", "postgresql://"),
        ("postgresql://host/clinic?password=hun@ter2", "postgresql://"),
        ("banana://banana", "banana://banana"),
        ("banana", "banana"),
        ("${CLINIC_URL}", "${CLINIC_URL}"),
        ("host=h password=hunter2", "a database"),
        ("u:hunter2@host", "a database"),
    ],
)
def test_a_database_is_named_without_what_opens_it(url, shown) -> None:
    assert SqlPlace(kind="sql", url=url, query="SELECT 1").where == f"the query on {shown}"


@pytest.mark.parametrize(
    ("url", "query", "words"),
    [
        ("banana", "SELECT 1", "banana fails: this is no URL such as"),
        ("banana://banana", "SELECT 1", "banana://banana fails: no such kind of database"),
        ("mysql+nosuchdriver://host/db", "SELECT 1", "no such kind of database"),
        ("sqlite://", "CREATE TABLE visit (pid TEXT)", "the query on sqlite:// gives no table. Give a query that only"),
        ("sqlite://", "SELECT * FROM nowhere", "no such table: nowhere. Check"),
    ],
)
def test_a_query_that_makes_no_sense_is_named_in_words(url, query, words) -> None:
    where = SqlPlace(kind="sql", url=url, query=query)
    for read_it in (where.names, lambda: where.read(["pid"])):
        with pytest.raises(InvalidData) as refusal:
            read_it()
        assert words in str(refusal.value)


@pytest.mark.parametrize(
    "url", ["sqlite:////tmp/\0.db", "postgresql://host:port/db", "sqlite:///x.db?timeout=soon", "://", "\0"]
)
def test_a_sql_address_that_makes_no_sense_is_a_named_error(url) -> None:
    with pytest.raises(InvalidData, match="Check URL"):
        SqlPlace(kind="sql", url=url, query="SELECT 1").names()
