"""What a site's backup holds: its database (ledger, outbox, pins, policy), its secret, its key, its table of seats and
its sealed copies. Who has all of it can read records: keep it as you keep those."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import Engine

from crossward.errors import InvalidData, NotReady
from crossward_service.db.engine import read
from crossward_service.ops.backup import Kind
from crossward_site import facts
from crossward_site.data import seating
from crossward_site.data.service import kept_files
from crossward_site.identity import secret
from crossward_site.identity.service import Identity
from crossward_site.lock import held
from crossward_site.migrations import MIGRATIONS
from crossward_site.settings import SiteSettings
from crossward_site.site import Site


def kind(settings: SiteSettings) -> Kind:
    """A site's backup."""

    def files(engine: Engine) -> Mapping[str, Path]:
        return {name: settings.data_dir / name for name in _names(engine)}

    return Kind(settings.service, MIGRATIONS, files, check, alone=lambda: held(settings))


def _names(engine: Engine) -> list[str]:
    """The secret, the key, the key that a rotation under way has prepared, and the files of the vault."""
    with read(engine) as connection:
        identity, next_key = facts.IDENTITY.get(connection), facts.NEXT_KEY.get(connection)
        files = sorted(kept_files(connection))
    keys = [*([identity.key_file] if identity else []), *([next_key] if next_key else [])]
    return [secret.FILE, *keys, *files]


def check(engine: Engine, folder: Path) -> str:
    """Refuse a copy whose secret or key is not its own, or whose ledger does not hold."""
    site = Site.look(engine, folder)
    with read(engine) as connection:
        head = site.ledger.verify(connection).head
    if (problem := seating.problem(site)) is not None:
        raise InvalidData(problem.cause, "Restore another backup, or recover the site before it is backed up.")
    try:
        who = Identity.load(site).party
    except NotReady:
        who = "a site that has not joined"
    return f"{who}, ledger at line {head.sequence}"
