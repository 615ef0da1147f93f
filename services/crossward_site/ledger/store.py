"""The site's ledger in its database, and what a study took by it."""

from __future__ import annotations

from sqlalchemy import Connection

from crossward.privacy.budget import Cost
from crossward.protocol.ledger.lines import ReserveBody
from crossward_service.db.ledger import SqlLedger
from crossward_site.ledger.tables import ledger

OWNER = "self"
"""The site's database holds one chain: its own."""


class SiteLedger(SqlLedger):
    """A site's own chain. What a study took is looked up by an index, however long the chain has become."""

    def __init__(self) -> None:
        super().__init__(ledger, OWNER)

    def taken_by(self, connection: Connection, study: str, but: str = "") -> Cost:
        """What a study's reservations add up to, other than the task `but`."""
        charges = (body.cost for body in self._charges(connection, study) if body.task != but)
        return sum(charges, Cost(0))

    def hashes_of(self, connection: Connection, study: str) -> frozenset[str]:
        """The hashes of all studies of this id that were charged."""
        return frozenset(body.study_hash for body in self._charges(connection, study))

    def _charges(self, connection: Connection, study: str) -> list[ReserveBody]:
        bodies = [line.body for line in self.charges(connection, study)]
        return [body for body in bodies if isinstance(body, ReserveBody)]
