"""What the command line calls: init once, then serve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Engine

from crossward.errors import NotReady, StorageFailed
from crossward_coordinator import identity, worker
from crossward_coordinator.app import check_database, create_app
from crossward_coordinator.database import MIGRATIONS
from crossward_coordinator.people.service import issue_first
from crossward_coordinator.people.tables import TOKENS, PersonRole
from crossward_coordinator.settings import CoordinatorSettings
from crossward_service.db.engine import connect, read, write
from crossward_service.db.tokens import HeldToken
from crossward_service.http.serve import run, run_workers
from crossward_service.ops.machine import HERE, Machine


@dataclass(frozen=True, slots=True)
class Initialised:
    """A coordinator that can serve. `tokens` are the first of each role, shown now and never again."""

    public_key: str
    tokens: Mapping[PersonRole, str]


def init(settings: CoordinatorSettings, machine: Machine = HERE) -> Initialised:
    """Make or migrate the database, the key and the first tokens; run again, it makes what is missing."""
    try:
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise StorageFailed(
            f"The data directory {settings.data_dir} cannot be made: {error.strerror}.", "Set data_dir."
        ) from None
    with _engine(settings) as engine:
        MIGRATIONS.upgrade(engine)
        own = identity.load_or_make(settings.key_path, machine)
        now = machine.now()
        with write(engine) as connection:
            identity.register(connection, own, now)
            first = issue_first(connection, now)
    return Initialised(own.public_key, first)


def public_key(settings: CoordinatorSettings) -> str:
    """The key that verifies what this coordinator signs."""
    with _made_before(settings) as engine, read(engine) as connection:
        own = identity.load(settings.key_path)
        identity.check(connection, own)
        return own.public_key


def issue_token(settings: CoordinatorSettings, role: str, name: str) -> str:
    """A further token for a person, by whoever may run commands on the coordinator's machine."""
    with _made_before(settings) as engine, write(engine) as connection:
        return TOKENS.issue(connection, role, name, HERE.now())


def held_tokens(settings: CoordinatorSettings) -> list[HeldToken[PersonRole]]:
    """Who holds a token, as what, since when."""
    with _made_before(settings) as engine, read(engine) as connection:
        return TOKENS.held(connection)


def revoke_token(settings: CoordinatorSettings, name: str) -> None:
    """Make a token worthless; a running coordinator looks at every request's token anew."""
    with _made_before(settings) as engine, write(engine) as connection:
        TOKENS.revoke(connection, name)


def serve(settings: CoordinatorSettings) -> None:
    """Serve until SIGINT or SIGTERM, from as many processes as the settings say."""
    with _engine(settings) as engine:
        check_database(engine, identity.load(settings.key_path))  # said here, where a person reads it
    if settings.workers == 1:
        run(create_app(settings), settings)
    else:
        run_workers(worker, settings, settings.workers)


@contextmanager
def _engine(settings: CoordinatorSettings) -> Iterator[Engine]:
    engine = connect(settings.database_url)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def _made_before(settings: CoordinatorSettings) -> Iterator[Engine]:
    """The database of a coordinator that is there already: with a mistaken data directory none is made."""
    database = settings.sqlite_file
    if database is not None and not database.is_file():
        raise NotReady(f"The database {database} is not there.", "Is this the right data directory?")
    with _engine(settings) as engine:
        yield engine
