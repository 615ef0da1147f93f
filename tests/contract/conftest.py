"""Every contract test runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, MetaData

from crossward_service.db.engine import connect, write
from crossward_service.db.ledger import SqlLedger
from crossward_service.db.ledger_tables import tables

POSTGRES = runpy.run_path(str(Path(__file__).parents[1] / "postgres.py"))
PROGRAMS = POSTGRES["programs"]()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    with POSTGRES["cluster"](PROGRAMS) as url:
        yield url


@pytest.fixture
def both_databases() -> None:
    """Skips where there is only one, so that a run says so once and not once per test."""
    if PROGRAMS is None:
        pytest.skip(POSTGRES["NOT_FOUND"])


@pytest.fixture(params=["sqlite", "postgresql"] if PROGRAMS else ["sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database that holds the ledger's tables."""
    url = f"sqlite:///{tmp_path}/ledger.db" if request.param == "sqlite" else request.getfixturevalue("postgresql")
    metadata = MetaData()
    tables(metadata)
    engine = connect(url, patience=120)
    try:
        with write(engine) as connection:
            metadata.drop_all(connection)
            metadata.create_all(connection)
    finally:
        engine.dispose()
    return url


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    engine = connect(url, patience=120)
    yield engine
    engine.dispose()


@pytest.fixture
def ledger() -> SqlLedger:
    return SqlLedger(tables(MetaData()), "site-a")


@pytest.fixture
def mirror() -> SqlLedger:
    return SqlLedger(tables(MetaData()), "mirror-of-a")
