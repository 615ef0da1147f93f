"""What a site stores: its migrations lead to its tables, and its facts keep their types."""

from __future__ import annotations

from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from pydantic import TypeAdapter
from sqlalchemy import inspect, text
from sqlalchemy.exc import IntegrityError

import crossward_site.app  # noqa: F401  (all tables)
from crossward.protocol.constants import TaskKind
from crossward.protocol.ledger.lines import Head
from crossward.study.wire import task_message
from crossward_service.db.engine import connect, read, write
from crossward_site import facts
from crossward_site.facts import Fact
from crossward_site.migrations import migrate
from crossward_site.tables import metadata
from crossward_site.tasks import service as tasks
from crossward_site.tasks.tables import TaskState


def test_migrations_lead_to_the_tables(site) -> None:
    migrate(site.engine)
    with read(site.engine) as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def test_facts(site) -> None:
    one = Fact("f", TypeAdapter(Any))
    with write(site.engine) as connection:
        for value in ({"a": 1}, [1, 2], "x"):
            one.put(connection, value)
            assert one.get(connection) == value
        one.forget(connection)
        assert one.get(connection) is None
        facts.MIRROR_HEAD.put(connection, Head(3, "0" * 64))
        assert facts.MIRROR_HEAD.get(connection) == Head(3, "0" * 64)


@pytest.mark.parametrize("table", metadata.sorted_tables, ids=str)
def test_the_database_has_the_same_checks_as_the_code(site, tmp_path, table) -> None:
    """Alembic's comparison does not look at them."""
    fresh = connect(f"sqlite:///{tmp_path}/fresh.sqlite3")
    metadata.create_all(fresh)
    checks = [inspect(engine).get_check_constraints(table.name) for engine in (site.engine, fresh)]
    fresh.dispose()
    assert checks[0] == checks[1]


def test_no_other_word_than_a_state_is_stored(site, study) -> None:
    with write(site.engine) as connection:
        tasks.take(site, connection, task_message(study, id="t1", kind=TaskKind.TRAIN_TARGET, lease_seconds=10))
    for column in ("state", "kind", "reason"):
        with pytest.raises(IntegrityError), write(site.engine) as connection:
            connection.execute(text(f"UPDATE tasks SET {column} = 'strange'"))


def test_only_steps_of_the_table_are_taken(site, study) -> None:
    with write(site.engine) as connection:
        task = tasks.take(site, connection, task_message(study, id="t1", kind=TaskKind.TRAIN_TARGET, lease_seconds=10))
        with pytest.raises(AssertionError, match="never goes from taken to stored"):
            tasks.move(connection, task, TaskState.STORED, 1.0)
