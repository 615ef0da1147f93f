"""An empty database of each kind that services run on."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, text

from crossward_service.db.engine import connect, write

POSTGRES = runpy.run_path(str(Path(__file__).parents[2] / "postgres.py"))
PROGRAMS = POSTGRES["programs"]()


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    with POSTGRES["cluster"](PROGRAMS) as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"] if PROGRAMS else ["sqlite"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    url = f"sqlite:///{tmp_path}/test.db" if request.param == "sqlite" else request.getfixturevalue("postgresql")
    engine = connect(url, patience=120)
    yield engine
    if request.param == "postgresql":
        with write(engine) as connection:
            connection.execute(text("DROP SCHEMA public CASCADE"))
            connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
