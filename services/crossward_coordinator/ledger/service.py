"""The copy of a party's ledger. Lines that do not extend it stop the party: both sides then know that they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from crossward.errors import ChainBroken, CrosswardError, LedgerRefused
from crossward.protocol.constants import LINES
from crossward.protocol.envelopes import SignedReceipt
from crossward.protocol.ledger.lines import Head, Line, LineKind
from crossward.protocol.messages import Receipt
from crossward.protocol.states import PartyState, TaskState
from crossward.protocol.times import moment
from crossward_coordinator.identity import Identity
from crossward_coordinator.ledger.tables import ledger
from crossward_coordinator.parties import service as parties
from crossward_coordinator.parties.tables import Party
from crossward_coordinator.tasks.tables import StoredTask, move_tasks, tasks
from crossward_coordinator.times import Moment
from crossward_service.db.ledger import SqlLedger


@dataclass(frozen=True, slots=True)
class Stopped:
    """The party was stopped for this reason. The caller must commit that, and then refuse the request with it."""

    error: CrosswardError


def mirror(party: str) -> SqlLedger:
    """The mirror of a party's ledger."""
    return SqlLedger(ledger, party)


def charge(connection: Connection, task: StoredTask) -> Line | None:
    """The line that pays for a task, if the mirror has it. A site shows it there before it reads a record."""
    return mirror(task.party).find(connection, LineKind.RESERVE, task.id)


def count_verified(connection: Connection) -> tuple[int, int]:
    """How many mirrors there are, with how many lines in all, once every line was judged anew."""
    names = parties.names(connection)
    return len(names), sum(mirror(name).verify(connection).head.sequence for name in names)


def extend(connection: Connection, party: Party, lines: Sequence[Line], now: Moment) -> Head | Stopped:
    """Take over a party's lines, all or none. The caller has locked the party."""
    copy = mirror(party.id)
    try:
        before = copy.head(connection) if party.state is PartyState.STOPPED else None
        head = copy.extend(connection, lines)
    except (LedgerRefused, ChainBroken) as error:
        parties.stop(connection, party.id, error.cause, now.time)
        _end_leases(connection, party.id, now)
        return Stopped(error)
    if before is not None and lines and lines[-1].sequence >= before.sequence:
        parties.note_agreement(connection, party.id, now.time)
    return head


def take_lines(
    connection: Connection, own: Identity, party: str, lines: Sequence[Line], now: Moment
) -> SignedReceipt | Stopped:
    """Lines without a result: a budget, seats, a task that was given up. A stopped party may show that it is sound."""
    who = parties.lock_signer(connection, party)
    head = extend(connection, who, lines, now)
    return head if isinstance(head, Stopped) else receipt(own, who.id, who.version, LINES, None, head, now.time)


def receipt(
    own: Identity, party: str, version: int, task: str, release: str | None, head: Head, now: float
) -> SignedReceipt:
    """A countersigned receipt, in a version of the protocol that the party reads."""
    receipt = Receipt(version=version, party=party, task=task, release=release, head=head, time=moment(now))
    return own.sign(receipt)


def _end_leases(connection: Connection, party: str, now: Moment) -> None:
    move_tasks(
        connection, tasks.c.party == party, TaskState.READY, of=TaskState.LEASED, now=now.time, available=now.age
    )
