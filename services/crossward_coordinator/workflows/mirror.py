"""The copy of a party's ledger. Lines that do not extend it stop the party: both sides then know that they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, update

from crossward.errors import ChainBroken, CrosswardError, LedgerRefused
from crossward.protocol import messages
from crossward.protocol.ledger.lines import Head, Line
from crossward.protocol.messages import Receipt, SignedReceipt
from crossward_coordinator.identity import Identity
from crossward_coordinator.tables import ledger, parties, tasks
from crossward_coordinator.workflows.parties import lock_signer, stop
from crossward_coordinator.workflows.rows import moment
from crossward_service.db.ledger import SqlLedger

LINES = "ledger"
"""The task that a receipt for lines without a result names."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The party was stopped for this reason. The caller must commit that, and then refuse the request with it."""

    error: CrosswardError


def of(party: str) -> SqlLedger:
    """The mirror of a party's ledger."""
    return SqlLedger(ledger, party)


def extend(connection: Connection, party: Row[Any], lines: Sequence[Line], now: float) -> Head | Stopped:
    """Take over a party's lines, all or none. The caller has locked the party."""
    mirror = of(party.id)
    try:
        before = mirror.head(connection)
        head = mirror.extend(connection, lines)
    except (LedgerRefused, ChainBroken) as error:
        stop(connection, party.id, error.cause, now)
        _end_leases(connection, party.id, now)
        return Stopped(error)
    if party.state == "stopped" and lines and lines[-1].sequence >= before.sequence:
        connection.execute(update(parties).where(parties.c.id == party.id).values(agreed=now))
    return head


def take_lines(
    connection: Connection, own: Identity, party: str, lines: Sequence[Line], now: float
) -> SignedReceipt | Stopped:
    """Lines without a result: a dataset was opened, a task was given up. A stopped party may show that it is sound."""
    head = extend(connection, lock_signer(connection, party), lines, now)
    return head if isinstance(head, Stopped) else receipt(own, LINES, None, head, now)


def receipt(own: Identity, task: str, release: str | None, head: Head, now: float) -> SignedReceipt:
    """A countersigned receipt."""
    at = messages.Head(sequence=head.sequence, hash=head.hash)
    return own.sign(Receipt(task=task, release=release, head=at, time=moment(now)))


def _end_leases(connection: Connection, party: str, now: float) -> None:
    leased = update(tasks).where(tasks.c.party == party, tasks.c.state == "leased")
    connection.execute(leased.values(state="ready", lease_until=None, available=now, updated=now))
