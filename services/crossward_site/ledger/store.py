"""The site's ledger in its database: with every `reserve` line goes a charge, by which a study's are found again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, select

from crossward.privacy.budget import Cost
from crossward.protocol.ledger.chain import Verified, broken
from crossward.protocol.ledger.lines import Body, Head, Line, ReserveBody
from crossward_service.db.engine import new_row, storage, whole
from crossward_service.db.ledger import SqlLedger
from crossward_site.ledger.tables import charges, ledger

OWNER = "self"
"""The site's database holds one chain: its own."""


class SiteLedger(SqlLedger):
    """A site's own chain. What a study took is looked up by an index, however long the chain has become."""

    def __init__(self) -> None:
        super().__init__(ledger, OWNER)

    # -- writing: lines and charges in one go ---------------------------------------------------------------------
    def append(self, connection: Connection, body: Body, time: int) -> Line:
        """Extend the chain by one line; a reservation also counts as its study's."""
        with whole(connection):
            line = super().append(connection, body, time)
            _keep(connection, [body])
        return line

    def extend(self, connection: Connection, lines: Sequence[Line]) -> Head:
        """Take over the site's own lines from the mirror, and with them what each study took."""
        with whole(connection):
            head = super().extend(connection, lines)
            _keep(connection, [line.body for line in lines])
        return head

    # -- looking up -----------------------------------------------------------------------------------------------
    def taken_by(self, connection: Connection, study: str, dataset: str, but: str = "") -> Cost:
        """What a study's reservations on a dataset add up to, other than the task `but`."""
        query = select(charges.c.nano_epsilon, charges.c.atto_delta).where(
            charges.c.study == study, charges.c.dataset == dataset, charges.c.task != but
        )
        with storage():
            rows = connection.execute(query).all()
        return sum((Cost(row.nano_epsilon, row.atto_delta) for row in rows), Cost(0))

    def hashes_of(self, connection: Connection, study: str) -> frozenset[str]:
        """The hashes of all studies of this id that were charged."""
        query = select(charges.c.study_hash).where(charges.c.study == study).distinct()
        with storage():
            return frozenset(connection.execute(query).scalars())

    # -- verifying ------------------------------------------------------------------------------------------------
    def verify(self, connection: Connection, head: Head | None = None) -> Verified:
        """Check the lines by the rule, and the tables by the lines: spends as in every ledger, and charges."""
        verified = super().verify(connection, head)
        with storage():
            stored = {row["task"]: dict(row) for row in connection.execute(select(charges)).mappings()}
        for line in self.lines(connection):
            if isinstance(line.body, ReserveBody) and stored.pop(line.body.task, None) != _row(line.body):
                raise broken(line.sequence, f"the charge stored for task {line.body.task} is not the line's.")
        if stored:
            raise broken(verified.head.sequence, f"a charge is stored for task {min(stored)}, which has no line.")
        return verified


def _keep(connection: Connection, bodies: Iterable[Body]) -> None:
    rows = [_row(body) for body in bodies if isinstance(body, ReserveBody)]
    if rows:
        connection.execute(new_row(connection, charges).on_conflict_do_nothing(), rows)


def _row(body: ReserveBody) -> dict[str, Any]:
    return {
        "task": body.task,
        "study": body.study,
        "study_hash": body.study_hash,
        "dataset": body.dataset,
        "nano_epsilon": body.nano_epsilon,
        "atto_delta": body.atto_delta,
    }
