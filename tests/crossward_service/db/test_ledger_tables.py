"""What the ledger is asked for with every task is found by an index: a long ledger answers as fast as a short one."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import MetaData, select, text

from crossward_service.db.engine import connect, write
from crossward_service.db.ledger_tables import queries, tables


@pytest.mark.parametrize(
    ("columns", "index"),
    [({"study": "s"}, "ledger_lines_study"), ({"kind": "reserve", "subject": "t"}, "sqlite_autoindex_ledger_lines_2")],
)
def test_looking_up_reads_by_an_index(tmp_path: Path, columns: dict[str, str], index: str) -> None:
    metadata = MetaData()
    lines = tables(metadata).lines
    engine = connect(f"sqlite:///{tmp_path}/ledger.db")
    query = select(lines.c.body).where(lines.c.owner == "site", *(lines.c[name] == v for name, v in columns.items()))
    with write(engine) as connection:
        metadata.create_all(connection)
        words = query.compile(connection, compile_kwargs={"literal_binds": True})
        [step] = connection.execute(text(f"EXPLAIN QUERY PLAN {words}")).all()
    engine.dispose()
    assert f"USING INDEX {index} " in step.detail


def test_the_last_line_of_a_kind_is_found_by_an_index_and_not_back_from_the_end(tmp_path: Path) -> None:
    metadata = MetaData()
    query = queries(tables(metadata)).last_of_kind.params(owner="site", kind="recover")
    engine = connect(f"sqlite:///{tmp_path}/ledger.db")
    with write(engine) as connection:
        metadata.create_all(connection)
        words = query.compile(connection, compile_kwargs={"literal_binds": True})
        steps = connection.execute(text(f"EXPLAIN QUERY PLAN {words}")).all()
    engine.dispose()
    assert "USING INDEX sqlite_autoindex_ledger_lines_2 (owner=? AND kind=?)" in steps[0].detail
