"""What a site's operator can do at its own machine: make it, join, make tokens, serve. The command line calls these.

The role, or both, come with the settings. All but `serve` may run beside a site that serves.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from crossward.errors import CrosswardError, NotReady
from crossward.protocol.constants import Role
from crossward_service.db.engine import connect, read
from crossward_service.db.tokens import HeldToken
from crossward_service.http import serve as server
from crossward_service.http.settings import SETTINGS, settings_file
from crossward_service.ops.files import write_file
from crossward_site import facts
from crossward_site.app import create_app
from crossward_site.identity import tokens
from crossward_site.identity.service import Identity, join
from crossward_site.identity.tables import PersonRole
from crossward_site.migrations import MIGRATIONS
from crossward_site.settings import SiteSettings
from crossward_site.site import Site

EXAMPLE = """\
# The settings of this Crossward site. What is commented out is an example, or what counts without it.
# Only this file says which folders and databases a steward may name; none of it can come over HTTP or from a variable.

# Folders of tables (CSV, Parquet). `crossward site data open patients exports/patients.csv` then reads
# /srv/exports/patients.csv. The site's user must be able to read them; it never writes there.
# [data_roots]
# exports = "/srv/exports"

# Databases, read-only: `--connection clinic --query "SELECT ..."`. Make a user for it that can read and nothing more.
# [data_connections.clinic]
# url = "postgresql://reader@db.hospital.example/clinic"
# password_file = "/etc/crossward/clinic-password"
# seconds = 3600

# What reading one table may take: seconds in all and without an answer, rows, columns, bytes of memory and of a cell.
# [data_limits]
# seconds = {limits.seconds:.0f}
# silence = {limits.silence:.0f}
# rows = {limits.rows}
# columns = {limits.columns}
# memory = {limits.memory}
# cell = {limits.cell}
"""


def init(settings: SiteSettings) -> str | None:
    """Make the site's folder, database, secret, settings file and first token; gives the token, once.

    A settings file that is there, or that CROSSWARD_CONFIG names, stays the one.
    """
    site = settings.open_site()
    try:
        if settings_file(site.home) is None:
            write_file(site.home / SETTINGS, EXAMPLE.format(limits=settings.data_limits).encode())
        return tokens.issue_first(site)
    finally:
        site.close()


def new_token(settings: SiteSettings, role: str, name: str) -> str:
    """One more token."""
    with _made_before(settings) as site:
        return tokens.issue(site, role, name)


def held_tokens(settings: SiteSettings) -> list[HeldToken[PersonRole]]:
    """Who holds a token, as what, since when."""
    with _made_before(settings) as site:
        return tokens.held(site)


def revoke_token(settings: SiteSettings, name: str) -> None:
    """Forget a token."""
    with _made_before(settings) as site:
        tokens.revoke(site, name)


def join_coordinator(settings: SiteSettings, coordinator: str, code: str) -> Identity:
    """Enrol this site, in a role that its settings enable."""
    site = settings.open_site()
    try:
        return join(site, coordinator, code, settings.roles, settings.link)
    finally:
        site.close()


SWITCH_SECONDS = 0.001
"""Threads take turns this often, in place of 0.005: whoever asks while a job works on data is answered soon."""


def serve(settings: SiteSettings) -> None:
    """Serve until stopped; refused if another process serves this data directory."""
    sys.setswitchinterval(SWITCH_SECONDS)
    server.run(create_app(settings), settings)


def enrolled_role(settings: SiteSettings) -> Role | None:
    """The role that the site joined in, by its database; None where there is none, or none that can be read."""
    database = settings.sqlite_file
    if database is not None and not database.is_file():
        return None
    engine = connect(settings.database_url)
    try:
        with read(engine) as connection:
            MIGRATIONS.check_newest(connection)
            identity = facts.IDENTITY.get(connection)
    except (CrosswardError, SQLAlchemyError, ValueError):  # what is wrong with it, the doctor says
        return None
    finally:
        engine.dispose()
    return None if identity is None else identity.role


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
