"""That the table of seats is the one that the ledger names; and the way back when it is not.

    current     the last table here is that of the last `seats` line
    behind      it is that of an earlier line: an old backup. Who is known sits where they sat, so charges are right;
                but nobody new may be seated, since who came later may be among them
    lost        it is that of no line since the last recovery, is not there, or is damaged: nothing may be charged

`recover` goes on from a lost table: all are seated anew, and every cell is at the largest spend that any cell had.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from crossward.errors import Conflict, InvalidData, NotReady
from crossward.protocol.ledger.lines import LineKind, RecoverBody, SeatsBody
from crossward_service.db.engine import read, write
from crossward_site import facts
from crossward_site.data.seats import SeatTable, digest_of, seats_lost
from crossward_site.data.tables import datasets, seat_tables, versions
from crossward_site.site import Site

PREFIX = "vault-"
_LAST = select(seat_tables).order_by(seat_tables.c.version.desc()).limit(1)


def current(site: Site, connection: Connection) -> tuple[SeatTable, int]:
    """The table that new persons may be seated by, and its version; an empty one where nobody has a seat yet."""
    named, row = _named(site, connection), connection.execute(_LAST).one_or_none()
    if named is None and row is None:
        return SeatTable.empty(), 0
    if row is None or named is None:
        raise seats_lost("the ledger names one, and there is none here" if row is None else "the ledger names none")
    if (row.version, row.commitment) != (named.version, named.commitment):
        if _is_earlier(site, connection, row):
            raise NotReady(
                "This database is an old backup: it does not know who came to the data after it was made.",
                "Restore a later backup, or run crossward site recover. Until then it works on with whom it knows.",
            )
        raise seats_lost("it is not the one that the ledger names")
    return SeatTable.load(_file(site, row.file), row.commitment), row.version


def table_at(site: Site, connection: Connection, version: int) -> SeatTable:
    """An earlier table that is still here."""
    row = connection.execute(select(seat_tables).where(seat_tables.c.version == version)).one_or_none()
    if row is None:
        raise Conflict(
            "The seats of the version before are not here any more.",
            "Take the whole dataset back (undo --all), or bring a new version.",
        )
    return SeatTable.load(_file(site, row.file), row.commitment)


def put(site: Site, connection: Connection, file: str, digest: str, after: int) -> int:
    """Make a file the table of seats, with the ledger's line about it; refused if another came meanwhile."""
    named, last = _named(site, connection), site.ledger.seats(connection)
    if (0 if named is None else named.version) != after:
        raise Conflict("The table of seats has changed meanwhile.", "Try again.")
    version = 1 if last is None else last.version + 1
    site.append(connection, SeatsBody(version, digest))
    connection.execute(insert(seat_tables).values(version=version, file=file, commitment=digest, made=site.clock()))
    return version


def prune(site: Site, connection: Connection) -> None:
    """Forget tables but the last, and those that a version which may be undone would bring back."""
    last = connection.execute(_LAST).one_or_none()
    if last is None:
        return
    now = (versions.c.dataset == datasets.c.name) & (versions.c.version == datasets.c.version)
    made = connection.execute(select(versions.c.seats).join(datasets, now).where(versions.c.version > 1)).scalars()
    kept = {last.version, *(version - 1 for version in made)}
    connection.execute(delete(seat_tables).where(seat_tables.c.version.not_in(kept)))


def problem(site: Site) -> InvalidData | None:
    """What is wrong with the table of seats, the whole file read; None if nothing is. An old backup is not wrong."""
    with read(site.engine) as connection:
        return _problem(site, connection)


def _problem(site: Site, connection: Connection) -> InvalidData | None:
    row = connection.execute(_LAST).one_or_none()
    try:
        current(site, connection)
    except NotReady:
        whole = row is not None and digest_of(_file(site, row.file)) == row.commitment
        return None if whole else seats_lost("it is damaged")
    except InvalidData as error:
        return error
    return None


def examine(site: Site) -> str:
    """What is wrong with the table of seats, in words; empty if nothing is."""
    return str(problem(site) or "")


def settle(site: Site) -> None:
    """As a site starts: note that its table of seats is lost, or that it is there again."""
    lost = examine(site)
    with read(site.engine) as connection:
        if (facts.SEATS_LOST.get(connection) or "") == lost:  # a disk that cannot be written is no reason not to start
            return
    with write(site.engine) as connection:
        note(site, connection)


def note(site: Site, connection: Connection) -> None:
    """Note that the table of seats is lost, or that it is there again: also where the mirror has told of lines."""
    lost = _problem(site, connection)
    if lost is not None:
        facts.SEATS_LOST.put(connection, str(lost))
    elif facts.SEATS_LOST.get(connection) is not None:
        facts.SEATS_LOST.forget(connection)


def recover(site: Site, ending: Callable[[Connection, int], None] = lambda connection, line: None) -> int:
    """Go on without the table of seats; gives the number of the ledger's line.

    All datasets are gone, and are opened again from their places: whoever comes is seated anew, in cells that have all
    spent the most that any had. Refused while the table is there: nobody's budget is thrown away by mistake. `ending`
    hears of the line in its transaction.
    """
    with write(site.engine) as connection:
        if site.ledger.balance(connection) is None:
            raise Conflict("Nothing was ever opened here.", "There is nothing to recover. Open data as usual.")
        if facts.SEATS_LOST.get(connection) is None:
            try:
                current(site, connection)
            except (InvalidData, NotReady):
                pass
            else:
                raise Conflict(
                    "The table of seats is here, and is the one that the ledger names.", "There is nothing to recover."
                )
        facts.SEATS_LOST.forget(connection)
        for table in (versions, datasets, seat_tables):
            connection.execute(delete(table))
        last = site.ledger.recovery(connection)
        line = site.append(connection, RecoverBody(1 if last is None else int(last.body.subject) + 1))
        ending(connection, line.sequence)
    return line.sequence


def _named(site: Site, connection: Connection) -> SeatsBody | None:
    """The table that the ledger names, unless it says that it was lost since."""
    return site.ledger.seats(connection) if site.ledger.seated(connection) else None


def _is_earlier(site: Site, connection: Connection, row: Any) -> bool:
    """Whether a table is that of an earlier line. One of before a recovery is not: all were seated anew since."""
    line, recovery = site.ledger.find(connection, LineKind.SEATS, str(row.version)), site.ledger.recovery(connection)
    if line is None or (recovery is not None and line.sequence < recovery.sequence):
        return False
    return isinstance(line.body, SeatsBody) and line.body.commitment == row.commitment


def _file(site: Site, name: str) -> Path:
    return site.home / f"{PREFIX}{name}.seats"
