"""States that follow one another by one table: checked where they are written, and by CHECK in the database.

JOBS = Lifecycle(JobState, {JobState.READY: (JobState.LEASED,), JobState.LEASED: (JobState.READY, JobState.DONE)})
jobs = Table("jobs", metadata, Column("id", String, primary_key=True), JOBS.column())
JOBS.move(connection, jobs, jobs.c.id == "one", JobState.DONE, of=JobState.LEASED, updated=now)
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from functools import cache
from typing import Any, Generic, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, Enum, Table, Update, update

S = TypeVar("S", bound=StrEnum)


def enum_column(name: str, values: type[S], *, nullable: bool = False, index: bool = False) -> Column[S]:
    """A text column that holds these words and no others; rows give them back as members of the enumeration."""
    kind = Enum(
        values,
        native_enum=False,
        create_constraint=True,
        length=max(map(len, values)),
        values_callable=lambda members: [member.value for member in members],
    )
    return Column(name, kind, nullable=nullable, index=index)


class Lifecycle(Generic[S]):
    """Which state may follow which. What stays in its state takes no step."""

    def __init__(self, states: type[S], steps: Mapping[S, Collection[S]]) -> None:
        self.states = states
        self.steps = {state: frozenset(steps.get(state, ())) for state in states}

    @property
    def ends(self) -> frozenset[S]:
        """The states that nothing follows."""
        return frozenset(state for state, after in self.steps.items() if not after)

    def column(self, name: str = "state", *, index: bool = False) -> Column[S]:
        """The column that holds a state."""
        return enum_column(name, self.states, index=index)

    def check(self, before: S, after: S) -> None:
        """Refuse a step that is not in the table: a mistake in the code, whatever a caller asked for."""
        if before is not after and after not in self.steps[before]:
            raise AssertionError(f"{self.states.__name__} never goes from {before} to {after}")

    def move(
        self,
        connection: Connection,
        table: Table,
        rows: ColumnElement[bool],
        to: S,
        *,
        of: S | Collection[S],
        column: str = "state",
        **values: Any,
    ) -> int:
        """Write a state and `values` into those of the rows that are in a state `of`; how many they were.

        A row that has moved on since it was read is left alone.
        """
        before = (of,) if isinstance(of, StrEnum) else tuple(of)
        for state in before:
            self.check(state, to)
        still = _in_states(table, column, before, frozenset(values)).where(rows)
        return connection.execute(still, {column: to, **values}).rowcount


@cache
def _in_states(table: Table, column: str, states: tuple[StrEnum, ...], names: frozenset[str]) -> Update:
    """An UPDATE of rows in these states, written once. A name that is no column's would be left out silently."""
    if wrong := names - set(table.c.keys()):
        raise AssertionError(f"{table.name} has no column {', '.join(sorted(wrong))}")
    return update(table).where(table.c[column].in_(states))
