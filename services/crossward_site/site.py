"""An open site: its database, its ledger, its folder, the machine it runs on.

Who opens a transaction shows in the signature, here and in every feature: a function that is given a `Connection`
works inside its caller's transaction, and one that is given a `Site` alone opens its own.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection, Engine

from crossward.errors import NotReady
from crossward.protocol.ledger.lines import Body, Line, OpenBody, RecoverBody, ReserveBody, SeatsBody
from crossward_service.db.engine import read, write
from crossward_service.ops.machine import HERE, Machine
from crossward_site import facts
from crossward_site.data.connector import Connectors, Processes
from crossward_site.data.places import Sources
from crossward_site.identity.secret import known_secret, site_secret
from crossward_site.ledger.store import SiteLedger
from crossward_site.migrations import MIGRATIONS, migrate

NO_PLACES = Processes(Sources())
"""A site whose settings declare no place reads none."""

MEMORY = 512 << 20
"""Bytes of rows that training holds in memory at once; more are on disk."""


@dataclass(frozen=True)
class Site:
    """Everything a site's parts need of one another.

    `in_step` is set once this process has seen that its ledger and the coordinator's mirror are one chain.
    """

    engine: Engine
    home: Path
    secret: bytes
    machine: Machine = HERE
    connectors: Connectors = NO_PLACES
    memory: int = MEMORY
    ledger: SiteLedger = field(default_factory=SiteLedger)
    in_step: threading.Event = field(default_factory=threading.Event)

    @classmethod
    def open(
        cls,
        database_url: str,
        home: Path,
        machine: Machine = HERE,
        connectors: Connectors = NO_PLACES,
        memory: int = MEMORY,
    ) -> Site:
        """Open a site's folder and database, making both if they are not there.

        `connectors` read the places that its settings declare, `memory` bounds the rows that training holds at once.
        """
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        engine = machine.database(database_url)
        migrate(engine)
        return cls(engine, home, site_secret(engine, home, machine), machine, connectors, memory)

    @classmethod
    def look(cls, engine: Engine, home: Path) -> Site:
        """A site that is there already, as it is: nothing is made and nothing migrated."""
        with read(engine) as connection:
            MIGRATIONS.check_newest(connection)
            secret = known_secret(connection, home)
        return cls(engine, home, secret)

    def clock(self) -> float:
        """The time that is written down, for people: it may be wrong, so nothing is measured by it."""
        return self.machine.now()

    def append(self, connection: Connection, body: Body) -> Line:
        """Extend the ledger by one line, now. A site that has stopped extends nothing, nor one that lost its seats."""
        self.check_running(connection)
        if isinstance(body, ReserveBody | SeatsBody) and (cause := facts.SEATS_LOST.get(connection)):
            raise NotReady(cause, "Nothing is charged until then.")
        if isinstance(body, OpenBody | SeatsBody | RecoverBody):
            self._check_in_step(connection)
        return self.ledger.append(connection, body, int(self.clock() * 1000))

    def _check_in_step(self, connection: Connection) -> None:
        """Refuse lines about data that the mirror might part from: this database may be an old backup."""
        if facts.IDENTITY.get(connection) is not None and not self.in_step.is_set():
            raise NotReady(
                "This site has not seen, since it started, that its ledger is the one of the coordinator's mirror.",
                "Nothing was changed. Ask again once the coordinator can be reached; crossward doctor tells why not.",
            )

    def check_running(self, connection: Connection) -> None:
        """Refuse to work while the ledgers disagree."""
        if cause := facts.STOPPED.get(connection):
            raise NotReady(f"This site has stopped: {cause}", "Compare the two ledgers, then reconcile.")

    def stop(self, cause: str) -> None:
        """Stop the site's work until its ledger agrees with the mirror again; the first cause stays."""
        with write(self.engine) as connection:
            if facts.STOPPED.get(connection) is None:
                facts.STOPPED.put(connection, cause)

    def close(self) -> None:
        """Give the database's connections back."""
        self.engine.dispose()
