"""What a site's operator can do at its own machine: make it, join, make tokens, serve."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from crossward.errors import Conflict, CrosswardError, NotReady
from crossward_service.db.engine import connect
from crossward_site import access
from crossward_site.access import has_tokens, make_token
from crossward_site.identity import Identity, join
from crossward_site.settings import SiteSettings
from crossward_site.site import Site


def init(settings: SiteSettings) -> str | None:
    """Make the site's folder, database, secret and first token; gives the token, once."""
    site = Site.open(settings.database_url, settings.data_dir)
    try:
        return None if has_tokens(site) else make_token(site, "steward", "steward")
    finally:
        site.close()


def new_token(settings: SiteSettings, role: str, name: str) -> str:
    """One more token."""
    with _made_before(settings) as site:
        if any(name == holder for holder, _, _ in access.held_tokens(site)):
            raise Conflict(f"{name!r} holds a token already.", "Choose another name.")
        return make_token(site, role, name)


def held_tokens(settings: SiteSettings) -> list[tuple[str, str, float]]:
    """Who holds a token, as what, since when."""
    with _made_before(settings) as site:
        return access.held_tokens(site)


def revoke_token(settings: SiteSettings, name: str) -> None:
    """Forget a token."""
    with _made_before(settings) as site:
        access.revoke_token(site, name)


@contextmanager
def _made_before(settings: SiteSettings) -> Iterator[Site]:
    """A site that is there already: with a mistaken data directory none is made."""
    database = settings.sqlite_file
    if database is not None and not database.is_file():
        raise NotReady(f"The database {database} is not there.", "Is this the right data directory?")
    engine = connect(settings.database_url)
    try:
        yield Site.look(engine, settings.data_dir)
    finally:
        engine.dispose()


def join_coordinator(settings: SiteSettings, role: str, coordinator: str, code: str) -> Identity:
    """Enrol this site."""
    site = Site.open(settings.database_url, settings.data_dir)
    try:
        return join(site, coordinator, code, role, settings.link)
    finally:
        site.close()


def main(load: Callable[[], SiteSettings], role: str, serve: Callable[[SiteSettings], Any]) -> int:
    """`init`, `join COORDINATOR CODE`, `token ROLE NAME`, `serve`; settings come from CROSSWARD_* and its file."""
    words = sys.argv[1:] or ["serve"]
    try:
        match words:
            case ["init"]:
                token = init(load())
                print(token or "The site is there already; make another token with: token ROLE NAME")
            case ["join", coordinator, code]:
                joined = join_coordinator(load(), role, coordinator, code)
                print(f"Joined {joined.coordinator_url} as {joined.party}.")
            case ["token", kind, name]:
                print(new_token(load(), kind, name))
            case ["serve"]:
                serve(load())
            case _:
                print(main.__doc__, file=sys.stderr)
                return 2
    except CrosswardError as error:
        print(f"{error.cause} {error.fix}", file=sys.stderr)
        return 1
    return 0
