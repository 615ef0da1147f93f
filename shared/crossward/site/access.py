"""Tokens of the site's own API: shown once, stored hashed."""

from __future__ import annotations

from typing import Literal

from sqlalchemy import insert, select

from crossward.ledger import read, write
from crossward.site.site import Site
from crossward.site.tables import tokens
from crossward.web.tokens import Holder, new_token

SiteRole = Literal["steward", "clinic"]


def make_token(site: Site, role: SiteRole, name: str) -> str:
    """A new token; its secret is given here and never again."""
    made = new_token(role)
    with write(site.engine) as connection:
        values = {"hash": made.stored_hash, "role": role, "name": name, "created": site.clock()}
        connection.execute(insert(tokens).values(values))
    return made.secret


def has_tokens(site: Site) -> bool:
    """Whether anyone can use the site's API yet."""
    with read(site.engine) as connection:
        return connection.execute(select(tokens.c.hash).limit(1)).first() is not None


def holder_of(site: Site, stored_hash: str) -> Holder | None:
    """Who holds the token of this hash."""
    with read(site.engine) as connection:
        row = connection.execute(select(tokens).where(tokens.c.hash == stored_hash)).one_or_none()
    return None if row is None else Holder(row.name, row.role, row.hash)
