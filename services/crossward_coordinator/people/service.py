"""The first people. Whoever may run commands on the coordinator's machine makes further tokens (`TOKENS.issue`)."""

from __future__ import annotations

from sqlalchemy import Connection

from crossward_coordinator.people.tables import TOKENS, PersonRole


def issue_first(connection: Connection, now: float) -> dict[PersonRole, str]:
    """One token per role in a database that has none; nothing where there are some."""
    if TOKENS.any(connection):
        return {}
    return {role: TOKENS.issue(connection, role, f"first {role}", now) for role in PersonRole}
