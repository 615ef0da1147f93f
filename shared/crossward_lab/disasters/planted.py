"""Faults planted in the services, each of which thousands of histories must find: else they prove nothing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
from sqlalchemy import update

from crossward.errors import NotReady
from crossward.privacy.budget import Cost
from crossward.protocol.envelopes import SignedRelease
from crossward.protocol.ledger.lines import LineKind, ReserveBody
from crossward.protocol.ledger.rules import Balance
from crossward_coordinator.times import Moment, Timekeeper
from crossward_lab.disasters import disk
from crossward_lab.disasters.accounts import replaced
from crossward_lab.disasters.plan import LIES, TWINS, Kind, Plan
from crossward_service.db.engine import write
from crossward_site.data import requests, seating, seats
from crossward_site.data import service as vault
from crossward_site.data.jobs import JobRunner
from crossward_site.data.seats import SeatTable
from crossward_site.data.tags import Tagger
from crossward_site.ledger.tables import ledger
from crossward_site.site import Site
from crossward_site.tasks import outbox, runner, service, steps, tables
from crossward_site.tasks.tables import TaskState, tasks
from crossward_site.tasks.training import rows_for


@contextmanager
def _refund() -> Iterator[None]:
    """A release that the coordinator would not take gets its charge back."""
    publish = steps._publish

    def refunding(site: Any, coordinator: Any, task: Any) -> None:
        publish(site, coordinator, task)
        with write(site.engine) as connection:
            line = site.ledger.find(connection, LineKind.RESERVE, task.id)
            ended = service.find(connection, task.id).state is TaskState.REFUSED
            if ended and line is not None and isinstance(line.body, ReserveBody):
                spend = ledger.spend
                charged = spend.c.cell.in_(line.body.cells)
                for row in connection.execute(spend.select().where(charged)).all():
                    less = str(int(row.nano_epsilon) - line.body.nano_epsilon)
                    connection.execute(update(spend).where(charged, spend.c.cell == row.cell).values(nano_epsilon=less))

    with replaced(steps, "_STEPS", steps._STEPS | {TaskState.STORED: refunding}):
        yield


@contextmanager
def _unflushed() -> Iterator[None]:
    """A commit is acknowledged before it is flushed."""
    with replaced(disk, "SYNCHRONOUS", "OFF"):
        yield


@contextmanager
def _second_draw() -> Iterator[None]:
    """What is sent again was drawn again."""
    sent: set[tuple[Path, str]] = set()
    publish = outbox.publish

    def drawing_again(site: Any, coordinator: Any, task: Any) -> Any:
        if (site.home, task.id) in sent:
            with write(site.engine) as connection:
                _draw_again(site, connection, coordinator, task)
        sent.add((site.home, task.id))
        return publish(site, coordinator, task)

    with replaced(outbox, "publish", drawing_again):
        yield


def _draw_again(site: Any, connection: Any, coordinator: Any, task: Any) -> None:
    table = tables.outbox
    text = connection.execute(table.select().where(table.c.task == task.id)).one().release
    if text is not None:
        message = SignedRelease.from_json(text).content()
        other = message.model_copy(update={"code_version": f"{message.code_version}.1"})
        signed = SignedRelease.sign(type(message).from_json(other.canonical()), coordinator.identity.key)
        values = {"release": signed.canonical().decode(), "digest": signed.digest}
        connection.execute(update(table).where(table.c.task == task.id).values(**values))


@contextmanager
def _wall_clock() -> Iterator[None]:
    """Leases and deadlines are moments of the wall clock."""

    def now(self: Any, connection: Any) -> Moment:
        time = self._machine.now()
        return Moment(time, time)

    with replaced(Timekeeper, "now", now), replaced(Timekeeper, "tick", now):
        yield


@contextmanager
def _given_up() -> Iterator[None]:
    """What was paid for is given up when nobody wants it any more."""

    def end(self: Any, task: Any, cause: str) -> None:
        with write(self.site.engine) as connection:
            open_states = (*service.GIVEN_UP, TaskState.RESERVED)
            if task.state in open_states:
                connection.execute(
                    update(tasks).where(tasks.c.id == task.id).values(state=TaskState.CANCELLED, cause=cause)
                )

    with replaced(runner.Runner, "_end", end):
        yield


@contextmanager
def _late() -> Iterator[None]:
    """A process whose clock is late answers by the age that it knew."""

    def now(self: Any, connection: Any) -> Moment:
        last = self._last or self._look(connection)[0]
        return Moment(self.time(), self._age(*last, self._machine.elapsed()))

    with replaced(Timekeeper, "now", now):
        yield


@contextmanager
def _overdraft() -> Iterator[None]:
    """A ledger, and its mirror, that admit ten times the budget."""
    charge = Balance.charge

    def generous(self: Balance, cells: Iterable[int], cost: Cost) -> Balance:
        more = replace(self.opened, nano_epsilon=10 * self.opened.nano_epsilon)
        return replace(charge(replace(self, opened=more), cells, cost), opened=self.opened)

    with replaced(Balance, "charge", generous):
        yield


@contextmanager
def _telling() -> Iterator[None]:
    """A sign of life that says how many of the records are positive."""
    positives: dict[str, int] = {}
    beat_of = steps.beat_of

    def counting(site: Any, task: Any, numbers: Any) -> Any:
        rows = rows_for(site, task, numbers)
        positives[task.id] = int(rows.y.sum())
        return rows

    def telling(task: Any) -> Any:
        return beat_of(task).model_copy(update={"note": f"{positives.get(task.id, 0)} found"})

    with replaced(steps, "rows_for", counting), replaced(runner, "beat_of", telling):
        yield


@contextmanager
def _second_seat() -> Iterator[None]:
    """A refresh that seats everybody anew."""
    seat = seats.seat

    def anew(table: SeatTable, dataset: str, *others: Any, **more: Any) -> Any:
        return seat(SeatTable.empty() if dataset in table.rows else table, dataset, *others, **more)

    with replaced(vault, "seat", anew):
        yield


@contextmanager
def _forgotten_seats() -> Iterator[None]:
    """A recovery, here and in the mirror, after which cells have spent what they had: others sit in them."""
    with replaced(Balance, "recover", lambda self: self):
        yield


@contextmanager
def _tags_by_dataset() -> Iterator[None]:
    """Tags that hang on the dataset: whoever is in two has two seats."""
    taking, persons = vault.Vault._taking, Tagger.persons
    names: list[str] = []

    def named(self: Any, name: str, *others: Any) -> Any:
        names[:] = [name]
        return taking(self, name, *others)

    def tagged(self: Any, ids: Any) -> Any:
        return persons(self, pc.binary_join_element_wise(ids, "".join(names), ""))

    with replaced(vault.Vault, "_taking", named), replaced(Tagger, "persons", tagged):
        yield


@contextmanager
def _seated_behind() -> Iterator[None]:
    """An old backup whose next version deals all seats anew."""
    current = seating.current

    def behind(site: Any, connection: Any) -> Any:
        try:
            return current(site, connection)
        except NotReady:
            return SeatTable.empty(), site.ledger.seats(connection).version

    with replaced(seating, "current", behind):
        yield


@contextmanager
def _freed_seats() -> Iterator[None]:
    """A version that is taken back takes the seats of those who came with it, also where they are in other data."""
    undo, with_rows = vault.Vault.undo, SeatTable.with_rows

    def freeing(self: SeatTable, dataset: str, rows: Any) -> SeatTable:
        table, left = with_rows(self, dataset, rows), 0 if rows is None else rows
        stay = self.rows_of(dataset) <= left
        columns = {name: column[stay] for name, column in table.rows.items()}
        return SeatTable(table.tags[stay], table.cells[stay], columns)

    def undoing(self: Any, *others: Any, **named: Any) -> Any:
        with replaced(SeatTable, "with_rows", freeing):
            return undo(self, *others, **named)

    with replaced(vault.Vault, "undo", undoing):
        yield


@contextmanager
def _erased_returns() -> Iterator[None]:
    """A refresh that takes those in who opted out."""
    with replaced(vault, "_opted_out", lambda connection: np.empty(0, np.uint64)):
        yield


@contextmanager
def _twice() -> Iterator[None]:
    """A job that ends after what it did was written down, and not with it."""
    with replaced(JobRunner, "end", lambda self, connection, number, result: None):
        yield


@contextmanager
def _unasked() -> Iterator[None]:
    """Data are opened, refreshed and undone before the mirror was asked whether this is an old backup."""
    unasked = replaced(requests, "sync_if_joined", lambda site, coordinator: None)
    with unasked, replaced(Site, "_check_in_step", lambda self, connection: None):
        yield


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault, and the disasters that it needs to show: one of each set; `every` so many seeds it may show at all.

    Among those that `hide` it, what it does looks like what they do. `accounts_only`: it must be found by what persons
    have lost; nobody looks at seats, cells and spends, where it would be seen before.
    """

    planted: Callable[[], AbstractContextManager[None]]
    needs: tuple[set[Kind], ...] = ()
    every: int = 1
    hide: frozenset[Kind] = frozenset()
    accounts_only: bool = False

    def may_show(self, seed: int) -> bool:
        """Whether the history of this seed has what the fault needs."""
        if seed % self.every:
            return False
        kinds = Plan.draw(random.Random(seed)).kinds
        return not self.hide & kinds and all(some & kinds for some in self.needs)

    def plan(self, seed: int) -> Plan:
        """What the history of this seed has in store; where persons must lose too much, more is done with them.

        Then there are no disasters but those that the fault needs, and they are many.
        """
        plan = Plan.draw(random.Random(seed))
        if not self.accounts_only:
            return plan
        busy = replace(plan, sources=1, targets=2, studies=3, care=10.0, spread=200.0, events=20.0, deadline=400.0)
        kinds = frozenset(kind for some in self.needs for kind in some)
        return replace(busy, kinds=kinds, loss=0.0, crash=0.0, disk=0.0, forgets=False)


FAULTS = {
    "refund": Fault(_refund, ({Kind.CANCEL, Kind.HASTE, Kind.REVOKED, Kind.CLONE, *LIES},)),
    "unflushed": Fault(_unflushed, ({Kind.POWER},)),
    "second-draw": Fault(_second_draw, ({Kind.LOSS, Kind.CRASH, Kind.DISK, Kind.HANG, *LIES},)),
    "wall-clock": Fault(_wall_clock, ({Kind.CLOCK},)),
    "given-up": Fault(_given_up, ({Kind.CANCEL, Kind.HASTE, Kind.REVOKED},), hide=frozenset({Kind.BACKUP, Kind.LOST})),
    "overdraft": Fault(_overdraft),
    "telling": Fault(_telling, every=TWINS),
    "second-seat": Fault(_second_seat, ({Kind.DATA},)),
    "forgotten-seats": Fault(_forgotten_seats, ({Kind.LOST},)),
    "erased-returns": Fault(_erased_returns, ({Kind.DATA},)),
    "twice": Fault(_twice, ({Kind.DATA}, {Kind.CRASH, Kind.POWER})),
    "moved": Fault(_second_seat, ({Kind.DATA},), accounts_only=True),
    "two-tags": Fault(_tags_by_dataset, ({Kind.DATA},), accounts_only=True),
    "seated-behind": Fault(_seated_behind, ({Kind.DATA}, {Kind.BACKUP}), accounts_only=True),
    "freed-seats": Fault(_freed_seats, ({Kind.DATA},), accounts_only=True),
    "unlifted": Fault(_forgotten_seats, ({Kind.LOST},), accounts_only=True),
    "unasked": Fault(_unasked, ({Kind.DATA}, {Kind.BACKUP})),
    "late-age": Fault(_late, ({Kind.WORKERS}, {Kind.HANG})),
}
"""By name. Each is one that somebody might make, and that no test of a single service sees."""
