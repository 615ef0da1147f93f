"""States follow one another by one table: in the code, and by CHECK in each database."""

from __future__ import annotations

from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Column, Engine, Integer, MetaData, String, Table, insert, select, text
from sqlalchemy.exc import IntegrityError

from crossward.errors import StorageFailed
from crossward_service.db.engine import connect, read, write
from crossward_service.db.lifecycle import Lifecycle, enum_column


class Job(StrEnum):
    """A state machine with a loop, two ends and a word as long as the column allows."""

    READY = "ready"
    LEASED = "leased"
    DONE = "done"
    CANCELLED = "cancelled"


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


JOBS = Lifecycle(Job, {Job.READY: (Job.LEASED, Job.CANCELLED), Job.LEASED: (Job.READY, Job.DONE, Job.CANCELLED)})
METADATA = MetaData()
TABLE = Table(
    "jobs",
    METADATA,
    Column("id", Integer, primary_key=True, autoincrement=False),
    JOBS.column(),
    enum_column("colour", Colour, nullable=True, index=True),
    Column("note", String(20)),
)


@pytest.fixture
def jobs(engine: Engine) -> Engine:
    """One job in each state, numbered in their order."""
    with write(engine) as connection:
        METADATA.create_all(connection)
        connection.execute(insert(TABLE), [{"id": number, "state": state} for number, state in enumerate(Job)])
    return engine


def states(engine: Engine) -> list[Job]:
    with read(engine) as connection:
        return list(connection.execute(select(TABLE.c.state).order_by(TABLE.c.id)).scalars())


def test_rows_give_back_members_of_the_enumeration(jobs):
    assert states(jobs) == list(Job)
    assert {type(state) for state in states(jobs)} == {Job}
    with write(jobs) as connection:
        connection.execute(TABLE.update().where(TABLE.c.id == 0).values(colour=Colour.BLUE))
        colours = connection.execute(select(TABLE.c.colour).order_by(TABLE.c.id)).scalars().all()
    assert colours == [Colour.BLUE, None, None, None]


@pytest.mark.parametrize("word", ["'unheard'", "''", "'READY'", "NULL"])
def test_the_database_itself_refuses_a_state_that_is_none(jobs, word):
    with pytest.raises(IntegrityError), write(jobs) as connection:
        connection.execute(text(f"UPDATE jobs SET state = {word} WHERE id = 0"))
    with pytest.raises(IntegrityError), write(jobs) as connection:
        connection.execute(text(f"INSERT INTO jobs (id, state) VALUES (9, {word})"))
    assert states(jobs) == list(Job)


def test_the_database_itself_refuses_a_word_that_is_none_and_takes_nothing_where_it_may(jobs):
    with pytest.raises(IntegrityError), write(jobs) as connection:
        connection.execute(text("UPDATE jobs SET colour = 'pink'"))
    with write(jobs) as connection:
        connection.execute(text("UPDATE jobs SET colour = NULL"))


def test_a_step_moves_the_rows_that_are_in_the_state_named_and_says_how_many(jobs):
    with write(jobs) as connection:
        assert JOBS.move(connection, TABLE, TABLE.c.id == 1, Job.DONE, of=Job.LEASED, note="by hand") == 1
        assert JOBS.move(connection, TABLE, TABLE.c.id == 1, Job.DONE, of=Job.LEASED) == 0  # it has moved on
        assert JOBS.move(connection, TABLE, TABLE.c.id >= 0, Job.CANCELLED, of=(Job.READY, Job.LEASED)) == 1
        assert connection.execute(select(TABLE.c.note).where(TABLE.c.id == 1)).scalar() == "by hand"
    assert states(jobs) == [Job.CANCELLED, Job.DONE, Job.DONE, Job.CANCELLED]


def test_a_row_may_keep_its_state_and_change_the_rest(jobs):
    with write(jobs) as connection:
        assert JOBS.move(connection, TABLE, TABLE.c.id == 2, Job.DONE, of=Job.DONE, note="again") == 1
    assert states(jobs) == list(Job)


@pytest.mark.parametrize(("before", "after"), [(Job.READY, Job.DONE), (Job.DONE, Job.READY), (Job.CANCELLED, Job.DONE)])
def test_a_step_that_is_not_in_the_table_is_never_written(jobs, before, after):
    with write(jobs) as connection, pytest.raises(AssertionError, match=f"Job never goes from {before} to {after}"):
        JOBS.move(connection, TABLE, TABLE.c.id >= 0, after, of=before)
    with write(jobs) as connection, pytest.raises(AssertionError):  # nor where another of the states could take it
        JOBS.move(connection, TABLE, TABLE.c.id >= 0, after, of=(Job.LEASED, before))
    assert states(jobs) == list(Job)


def test_the_states_that_nothing_follows():
    assert JOBS.ends == {Job.DONE, Job.CANCELLED}
    assert Lifecycle(Job, {}).ends == set(Job)


@given(st.dictionaries(st.sampled_from(Job), st.sets(st.sampled_from(Job))))
def test_check_is_the_table_and_what_stays_takes_no_step(steps):
    lifecycle = Lifecycle(Job, steps)
    assert lifecycle.ends == {state for state in Job if not steps.get(state)}
    for before in Job:
        for after in Job:
            if before is after or after in steps.get(before, ()):
                lifecycle.check(before, after)
            else:
                with pytest.raises(AssertionError):
                    lifecycle.check(before, after)


def test_a_word_that_no_state_has_is_named(tmp_path):
    """As a damaged file, or a later version, would leave it; the database itself refuses to store it."""
    engine = connect(f"sqlite:///{tmp_path}/test.db")
    with write(engine) as connection:
        METADATA.create_all(connection)
        connection.execute(insert(TABLE), {"id": 1, "state": Job.READY})
        connection.execute(text("PRAGMA ignore_check_constraints = ON"))
        connection.execute(text("UPDATE jobs SET state = 'asleep'"))
    with pytest.raises(StorageFailed, match="a word that this version does not know") as failure:
        states(engine)
    assert "restore a backup" in failure.value.fix
    for mistake in (KeyError, IndexError):
        with pytest.raises(mistake), read(engine):
            raise mistake
    engine.dispose()


def test_a_name_that_is_no_columns_is_a_mistake(tmp_path):
    """Nothing would be written for it, and nobody would see."""
    engine = connect(f"sqlite:///{tmp_path}/test.db")
    with write(engine) as connection:
        METADATA.create_all(connection)
        with pytest.raises(AssertionError, match="jobs has no column lasst"):
            JOBS.move(connection, TABLE, TABLE.c.id == 1, Job.DONE, of=Job.LEASED, lasst=1)
    engine.dispose()
