"""People and their roles: a token is shown once and stored hashed."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from crossward.errors import Conflict, InvalidSetting, NotFound
from crossward_coordinator.tables import tokens
from crossward_service.http.access import Holder, new_token

ROLES = ("operator", "lead", "auditor")


def issue(connection: Connection, role: str, name: str, now: float) -> str:
    """A new token; the caller shows it once."""
    if role not in ROLES:
        raise InvalidSetting(f"{role!r} is not a role.", f"Use {', '.join(ROLES)}.")
    if not 1 <= len(name) <= 64 or not name.isprintable():
        raise InvalidSetting("A token's name is 1 to 64 printable characters.", "Name the person who will hold it.")
    if connection.execute(select(tokens.c.hash).where(tokens.c.name == name)).first():
        raise Conflict(f"{name!r} holds a token already.", "Choose another name.")
    made = new_token(role)
    connection.execute(insert(tokens).values(hash=made.stored_hash, role=role, name=name, created=now))
    return made.secret


def issue_first(connection: Connection, now: float) -> dict[str, str]:
    """One token per role in a database that has none; nothing where there are some."""
    if connection.execute(select(tokens.c.hash).limit(1)).first():
        return {}
    return {role: issue(connection, role, f"first {role}", now) for role in ROLES}


def held(connection: Connection) -> list[tuple[str, str, float]]:
    """Name, role and time of making of every token, the oldest first."""
    query = select(tokens.c.name, tokens.c.role, tokens.c.created).order_by(tokens.c.created, tokens.c.name)
    return [(row.name, row.role, row.created) for row in connection.execute(query)]


def revoke(connection: Connection, name: str) -> None:
    """Forget the token of this name: from now on it opens nothing."""
    if not connection.execute(delete(tokens).where(tokens.c.name == name)).rowcount:
        raise NotFound(f"Nobody named {name!r} holds a token here.", "The command `tokens` lists who does.")


def holder_of(connection: Connection, stored_hash: str) -> Holder | None:
    """Who holds the token of this hash."""
    row = connection.execute(select(tokens).where(tokens.c.hash == stored_hash)).one_or_none()
    return None if row is None else Holder(row.name, row.role, row.hash)
