"""The mirror must agree. A site that finds it does not stops, says why, and stays so until the ledgers are one again.

ours is longer            the coordinator has not heard the last lines yet: send them
the mirror is longer      our database is an old copy: what it has forgotten was spent, so nothing may be spent
they part                 one of the two was rewritten
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy import Connection

from crossward.errors import (
    AccessRefused,
    ChainBroken,
    CrosswardError,
    LedgerRefused,
    NotReady,
    RemoteProblem,
    Unreachable,
)
from crossward.protocol.constants import LINES
from crossward.protocol.ledger.lines import START, Head, Line, LineKind
from crossward.protocol.messages import Receipt
from crossward_service.db.engine import read, write
from crossward_service.http.views import HeadView
from crossward_site import facts
from crossward_site.coordinator import Coordinator
from crossward_site.data import seating
from crossward_site.ledger.views import SoundnessView
from crossward_site.site import Site

LINES_PER_MESSAGE = 1000


def unconfirmed(site: Site, connection: Connection, known: Head) -> list[Line]:
    """The lines that the coordinator has not acknowledged, and the last that it has: it must be the same there."""
    return list(site.ledger.lines(connection, after=max(0, known.sequence - 1)))


def sync(site: Site, coordinator: Coordinator) -> Head:
    """Make sure, before anything is spent, that the mirror and this ledger are one chain, and the mirror has all of it.

    A stop at the coordinator alone is no finding of this site's: it is reported, and asked about again.
    """
    with read(site.engine) as connection:
        site.check_running(connection)
        own, known = site.ledger.head(connection), confirmed(connection)
        lines = unconfirmed(site, connection, known)
    head = START
    last = lines[-1].head if lines else START
    agrees = own if own == known == last else None  # our line, our head and the mirror's, when it was last asked
    for first in range(0, max(1, len(lines)), LINES_PER_MESSAGE):
        head = _send(site, coordinator, lines[first : first + LINES_PER_MESSAGE], agrees)
    site.in_step.set()
    return head


def sync_if_joined(site: Site, coordinator: Callable[[], Coordinator]) -> None:
    """The same before lines about data are written; a site that has joined nobody has nobody to ask.

    Where the coordinator cannot be asked, a process that has been in step goes on: nobody else writes this chain. One
    that never was may serve an old backup, and what it wrote would part from the mirror for good.
    """
    with read(site.engine) as connection:
        if facts.IDENTITY.get(connection) is None:
            return
    try:
        sync(site, coordinator())
    except (AccessRefused, NotReady, RemoteProblem, Unreachable) as error:
        with read(site.engine) as connection:
            site.check_running(connection)  # it may just have been found that they part
        if not site.in_step.is_set():
            raise NotReady(
                f"Whether this database is an old backup, only the coordinator can tell: {error.cause}",
                f"Nothing was changed. {error.fix} Then ask again.",
            ) from error


def _send(site: Site, coordinator: Coordinator, lines: Sequence[Line], agrees: Head | None) -> Head:
    """Send lines, and check and note the head that the mirror then has, unless it is one of which that was done."""
    try:
        receipt = coordinator.send_lines(lines)
    except (LedgerRefused, ChainBroken) as error:
        site.stop(error.cause)
        raise
    head = Head(receipt.head.sequence, receipt.head.hash)
    problem = _doubt(receipt, lines)
    if not problem and head != agrees:
        with write(site.engine) as connection:
            problem = confirm(site, connection, head)
    if problem:
        site.stop(problem)
        raise NotReady(f"This site has stopped: {problem}", "Compare the two ledgers, then reconcile.")
    return head


def _doubt(receipt: Receipt, lines: Sequence[Line]) -> str:
    """Why a receipt does not say that the mirror has these lines; empty if it does, once its head is one of ours.

    A later head of ours is one that another thread of this site has sent meanwhile.
    """
    if receipt.task != LINES or receipt.release is not None:
        return f"the coordinator signed a receipt for {receipt.task} where one for ledger lines was due."
    if lines and receipt.head.sequence < lines[-1].sequence:
        return (
            f"the coordinator was sent line {lines[-1].sequence} and signed that the mirror ends at line "
            f"{receipt.head.sequence}."
        )
    return ""


def confirm(site: Site, connection: Connection, head: Head) -> str:
    """Note a head that the coordinator signed; gives the reason to stop if it is no head of ours."""
    own = site.ledger.head(connection)
    if head.sequence > own.sequence:
        return (
            f"the mirror has {head.sequence} lines and this ledger {own.sequence}: the database was restored from an "
            "old backup."
        )
    if not site.ledger.contains(connection, head):
        return f"line {head.sequence} of this ledger is not the line {head.sequence} of the mirror."
    if confirmed(connection).sequence < head.sequence:
        facts.MIRROR_HEAD.put(connection, head)
    return ""


def confirmed(connection: Connection) -> Head:
    """The last head that both sides have."""
    return facts.MIRROR_HEAD.get(connection) or START


def reconcile(site: Site, coordinator: Coordinator) -> Head:
    """Take over what the mirror has beyond this ledger, then go on, if the two are one chain.

    An old backup has also forgotten who came after it was made: a person who returned might get another cell, whose
    spend is not that person's. The last line `seats` shows whether the table of seats here is the one of that moment;
    where it is none that counts, that is noted before the site goes on.
    """
    with read(site.engine) as connection:
        own = site.ledger.head(connection)
    lines = coordinator.mirror(own.sequence)
    with write(site.engine) as connection:
        if lines:
            site.ledger.extend(connection, lines)
            seating.note(site, connection)  # before anything is charged: they may say that all were seated anew
        facts.STOPPED.forget(connection)
        facts.MIRROR_HEAD.forget(connection)
    return sync(site, coordinator)


def verify(site: Site) -> SoundnessView:
    """Check the whole ledger, that it is the one which was confirmed, and the table of seats that its lines name.

    The first line that is wrong is named.
    """
    with read(site.engine) as connection:
        try:
            verified = site.ledger.verify(connection)
        except ChainBroken as error:
            return SoundnessView(sound=False, line=error.line, cause=error.cause, fix=error.fix)
        except CrosswardError as error:
            return SoundnessView(sound=False, cause=error.cause, fix=error.fix)
        mirror = confirmed(connection)
        agreed = site.ledger.contains(connection, mirror)
    head = HeadView.of(verified.head)
    if agreed:
        return _seats_sound(site, head)
    return SoundnessView(
        sound=False,
        line=mirror.sequence,
        cause=f"Line {mirror.sequence} is not the one that the coordinator confirmed.",
        fix="Compare the two ledgers, then reconcile.",
        head=head,
    )


def _seats_sound(site: Site, head: HeadView) -> SoundnessView:
    """Whether the table of seats is the one that the last line `seats` commits to."""
    if (problem := seating.problem(site)) is None:
        return SoundnessView(sound=True, head=head)
    with read(site.engine) as connection:
        seats = site.ledger.seats(connection)
        line = None if seats is None else site.ledger.find(connection, LineKind.SEATS, seats.subject)
    at = None if line is None else line.sequence
    return SoundnessView(sound=False, line=at, cause=problem.cause, fix=problem.fix, head=head)
