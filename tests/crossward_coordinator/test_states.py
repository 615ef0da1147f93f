"""States follow their tables: in the code, where they are written, and in the database, on SQLite and PostgreSQL."""

import ast
import re
from pathlib import Path

import pytest
from sqlalchemy import Boolean, Enum, Float, Integer, insert, inspect, select, text
from sqlalchemy.exc import IntegrityError

import crossward_coordinator
from crossward.protocol.states import KeyState, PartyState, StudyState, TaskState
from crossward_coordinator.app import create_app  # noqa: F401 - with it come the tables of all features
from crossward_coordinator.database import MIGRATIONS, metadata
from crossward_coordinator.parties.tables import KEY_STATES, PARTY_STATES, keys, parties
from crossward_coordinator.studies.tables import RUNNING, STUDY_STATES, studies
from crossward_coordinator.tasks.tables import OPEN, TASK_STATES, tasks
from crossward_service.db.engine import connect, read, write

FIRST = {
    PARTY_STATES: PartyState.ACTIVE,
    KEY_STATES: KeyState.ACTIVE,
    STUDY_STATES: StudyState.DRAFT,
    TASK_STATES: TaskState.READY,
}
"""Each lifecycle, and the state that a new row has."""

TABLES = {PARTY_STATES: parties, KEY_STATES: keys, STUDY_STATES: studies, TASK_STATES: tasks}
WORDS = [column for table in metadata.sorted_tables for column in table.c if isinstance(column.type, Enum)]
"""Every column that holds one of a few words: all states, roles and kinds."""

lifecycles = pytest.mark.parametrize("lifecycle", list(FIRST), ids=lambda lifecycle: lifecycle.states.__name__)


@pytest.fixture
def database(url):
    """A migrated database with one row in every table."""
    engine = connect(url)
    MIGRATIONS.upgrade(engine)
    with write(engine) as connection:
        for table in metadata.sorted_tables:
            connection.execute(insert(table).values({column.name: sample(column) for column in table.c}))
    yield engine
    engine.dispose()


def sample(column):
    """A value that fits; the same for all texts, so that rows may refer to one another."""
    if isinstance(column.type, Enum):
        return next(iter(column.type.enum_class))
    return 1 if isinstance(column.type, Boolean | Integer | Float) else "x"


# -- the tables of steps ----------------------------------------------------------------------------------------------
@lifecycles
def test_every_state_is_reached_from_the_first(lifecycle):
    reached = [FIRST[lifecycle]]
    for state in reached:
        reached += [after for after in lifecycle.steps[state] if after not in reached]
    assert set(reached) == set(lifecycle.states)


def test_where_things_end():
    assert STUDY_STATES.ends == {StudyState.COMPLETE, StudyState.FAILED, StudyState.CANCELLED}
    assert STUDY_STATES.ends.isdisjoint(RUNNING)
    assert TASK_STATES.ends == {TaskState.LATE, TaskState.DECLINED, TaskState.FAILED}
    assert TASK_STATES.ends.isdisjoint(OPEN)
    assert KEY_STATES.ends == {KeyState.REVOKED}
    assert PARTY_STATES.ends == set()  # who was revoked may be invited again


# -- writing ----------------------------------------------------------------------------------------------------------
@lifecycles
def test_a_step_that_is_not_in_the_table_is_not_written(lifecycle, database):
    table, first = TABLES[lifecycle], FIRST[lifecycle]
    for before in lifecycle.states:
        for after in set(lifecycle.states) - {before} - lifecycle.steps[before]:
            with (
                write(database) as connection,
                pytest.raises(AssertionError, match=f"never goes from {before} to {after}"),
            ):
                lifecycle.move(connection, table, table.c.state.is_not(None), after, of=before)
    with read(database) as connection:
        assert connection.execute(select(table.c.state)).scalar_one() is first


@lifecycles
def test_a_step_in_the_table_is_written_unless_the_row_has_moved_on(lifecycle, database):
    table, first = TABLES[lifecycle], FIRST[lifecycle]
    after = min(lifecycle.steps[first])
    with write(database) as connection:
        everything = table.c.state.is_not(None)
        assert lifecycle.move(connection, table, everything, after, of=first) == 1
        assert lifecycle.move(connection, table, everything, after, of=first) == 0
        assert connection.execute(select(table.c.state)).scalar_one() is after


def test_no_state_is_written_past_the_tables():
    """Updates of a state go through `Lifecycle.move`; rows begin in the first state."""
    begun, updated = set(), []
    for file in Path(crossward_coordinator.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Dict):
                pairs = zip(node.keys, node.values, strict=True)
                begun |= {ast.unparse(value) for key, value in pairs if getattr(key, "value", None) == "state"}
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "values":
                updated += [(file.name, word.lineno) for word in node.keywords if word.arg == "state"]
    assert updated == []
    assert begun == {f"{type(state).__name__}.{state.name}" for state in FIRST.values()}


# -- the database -----------------------------------------------------------------------------------------------------
def test_the_columns_that_hold_one_of_a_few_words():
    assert {str(column) for column in WORDS} == {
        "tokens.role",
        "parties.role",
        "parties.state",
        "invites.role",
        "keys.state",
        "studies.state",
        "events.kind",
        "tasks.kind",
        "tasks.state",
    }


def test_the_database_knows_the_words_that_the_code_knows(database):
    checks = inspect(database)
    for column in WORDS:
        [words] = [
            set(re.findall(r"'([a-z-]+)'", check["sqltext"]))
            for check in checks.get_check_constraints(column.table.name)
            if re.search(rf"\b{column.name}\b", check["sqltext"])
        ]
        assert words == set(column.type.enum_class), column


@pytest.mark.parametrize("column", WORDS, ids=str)
def test_the_database_refuses_any_other_word(database, column):
    table = column.table.name
    for word in column.type.enum_class:
        with write(database) as connection:
            connection.execute(text(f"UPDATE {table} SET {column.name} = :word"), {"word": word.value})
    for word in ("other", "", column.type.enums[0].upper()):
        with pytest.raises(IntegrityError), write(database) as connection:
            connection.execute(text(f"UPDATE {table} SET {column.name} = :word"), {"word": word})
