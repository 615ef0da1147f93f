"""Tokens of the site's own API: shown once, stored hashed."""

from __future__ import annotations

from sqlalchemy import delete, insert, select

from crossward.errors import InvalidSetting, NotFound
from crossward_service.db.engine import read, write
from crossward_service.http.access import Holder, new_token
from crossward_site.site import Site
from crossward_site.tables import tokens

ROLES = ("steward", "clinic")


def make_token(site: Site, role: str, name: str) -> str:
    """A new token; its secret is given here and never again."""
    if role not in ROLES:
        raise InvalidSetting(f"{role!r} is not a role.", f"Use {' or '.join(ROLES)}.")
    if not 1 <= len(name) <= 64 or not name.isprintable():
        raise InvalidSetting("A token's name is 1 to 64 printable characters.", "Name who will hold it.")
    made = new_token(role)
    with write(site.engine) as connection:
        values = {"hash": made.stored_hash, "role": role, "name": name, "created": site.clock()}
        connection.execute(insert(tokens).values(values))
    return made.secret


def held_tokens(site: Site) -> list[tuple[str, str, float]]:
    """Name, role and time of making of every token, the oldest first."""
    with read(site.engine) as connection:
        query = select(tokens.c.name, tokens.c.role, tokens.c.created).order_by(tokens.c.created, tokens.c.name)
        return [(row.name, row.role, row.created) for row in connection.execute(query)]


def revoke_token(site: Site, name: str) -> None:
    """Forget the token of this name (several, where an earlier release made them): from now on it opens nothing."""
    with write(site.engine) as connection:
        if not connection.execute(delete(tokens).where(tokens.c.name == name)).rowcount:
            raise NotFound(f"Nobody named {name!r} holds a token here.", "The command `tokens` lists who does.")


def has_tokens(site: Site) -> bool:
    """Whether anyone can use the site's API yet."""
    with read(site.engine) as connection:
        return connection.execute(select(tokens.c.hash).limit(1)).first() is not None


def holder_of(site: Site, stored_hash: str) -> Holder | None:
    """Who holds the token of this hash."""
    with read(site.engine) as connection:
        row = connection.execute(select(tokens).where(tokens.c.hash == stored_hash)).one_or_none()
    return None if row is None else Holder(row.name, row.role, row.hash)
