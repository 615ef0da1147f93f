"""Tokens of the site's own interface: shown once, stored hashed."""

from __future__ import annotations

from crossward_service.db.engine import read, write
from crossward_service.db.tokens import HeldToken
from crossward_service.http.access import Holder
from crossward_site.identity.tables import TOKENS, PersonRole
from crossward_site.site import Site


def issue_first(site: Site) -> str | None:
    """The first steward's token; None if anyone can use the site already."""
    with write(site.engine) as connection:
        if TOKENS.any(connection):
            return None
        return TOKENS.issue(connection, PersonRole.STEWARD, "steward", site.clock())


def issue(site: Site, role: str, name: str) -> str:
    """A new token; its secret is given here and never again."""
    with write(site.engine) as connection:
        return TOKENS.issue(connection, role, name, site.clock())


def held(site: Site) -> list[HeldToken[PersonRole]]:
    """Every token, the oldest first."""
    with read(site.engine) as connection:
        return TOKENS.held(connection)


def revoke(site: Site, name: str) -> None:
    """Forget the token of this name: from now on it opens nothing."""
    with write(site.engine) as connection:
        TOKENS.revoke(connection, name)


def holder(site: Site, stored_hash: str) -> Holder | None:
    """Who holds the token of this hash."""
    with read(site.engine) as connection:
        return TOKENS.holder(connection, stored_hash)
