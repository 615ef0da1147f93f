"""People and their roles, as a service stores them: a token is shown once and kept hashed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from sqlalchemy import Column, Connection, Float, MetaData, String, Table, delete, insert, select

from crossward.errors import Conflict, InvalidSetting, NotFound
from crossward_service.db.lifecycle import enum_column
from crossward_service.http.access import Holder, new_token

R = TypeVar("R", bound=StrEnum)

LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class HeldToken(Generic[R]):
    """Who holds a token, as what, since when (seconds since 1970)."""

    name: str
    role: R
    created: float


class Tokens(Generic[R]):
    """The tokens of one service, in a table of its own. Every method runs inside the caller's transaction."""

    def __init__(self, metadata: MetaData, roles: type[R]) -> None:
        self.roles = roles
        self.table = Table(
            "tokens",
            metadata,
            Column("hash", String(64), primary_key=True),
            enum_column("role", roles),
            Column("name", String(LONGEST_NAME), nullable=False, unique=True),
            Column("created", Float, nullable=False),
        )

    def issue(self, connection: Connection, role: str, name: str, now: float) -> str:
        """A new token; the caller shows it once."""
        if role not in set(self.roles):
            raise InvalidSetting(f"{role!r} is not a role.", f"Use {', '.join(self.roles)}.")
        if not 1 <= len(name) <= LONGEST_NAME or not name.isprintable():
            raise InvalidSetting("A token's name is 1 to 64 printable characters.", "Name who will hold it.")
        table = self.table
        if connection.execute(select(table.c.hash).where(table.c.name == name)).first():
            raise Conflict(f"{name!r} holds a token already.", "Choose another name.")
        made = new_token(role)
        row = {"hash": made.stored_hash, "role": self.roles(role), "name": name, "created": now}
        connection.execute(insert(table).values(row))
        return made.secret

    def any(self, connection: Connection) -> bool:
        """Whether anyone can use the service yet."""
        return connection.execute(select(self.table.c.hash).limit(1)).first() is not None

    def held(self, connection: Connection) -> list[HeldToken[R]]:
        """Every token, the oldest first."""
        table = self.table
        query = select(table.c.name, table.c.role, table.c.created).order_by(table.c.created, table.c.name)
        return [HeldToken(row.name, row.role, row.created) for row in connection.execute(query)]

    def revoke(self, connection: Connection, name: str) -> None:
        """Forget the token of this name: from now on it opens nothing."""
        if not connection.execute(delete(self.table).where(self.table.c.name == name)).rowcount:
            raise NotFound(f"Nobody named {name!r} holds a token here.", "The command `tokens` lists who does.")

    def holder(self, connection: Connection, stored_hash: str) -> Holder | None:
        """Who holds the token of this hash."""
        row = connection.execute(select(self.table).where(self.table.c.hash == stored_hash)).one_or_none()
        return None if row is None else Holder(row.name, row.role, row.hash)
