"""From a service, running or not, to a backup; and from a backup into a data directory that has no service yet.

A backup is taken at one moment (SQLite's own backup, which waits for nobody), verified as a whole before it gets its
name, and verified again before a restored file gets its place. Restoring brings the copy to the newest migration.

The file is a gzipped tar that begins with `manifest.json` and holds the files it lists, flat and whole. The checksums
find damage, not malice: who can write a backup can write what the service will believe once it is restored. Keep
backups as you keep the key that is in them.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import sqlite3
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from sqlalchemy import Engine

from crossward.errors import (
    Conflict,
    InvalidData,
    InvalidInput,
    InvalidSetting,
    NotReady,
    StorageFailed,
    UnknownVersion,
)
from crossward.version import __version__
from crossward_service.db.engine import connect, read
from crossward_service.db.migrations import Migrations, current_migration
from crossward_service.http.settings import ServiceSettings

FORMAT = 1
MANIFEST = "manifest.json"
DATABASE = "database.sqlite3"
LARGEST_MANIFEST = 1 << 20
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
CHUNK = 1 << 20
ATTEMPTS = 3
"""How often a backup is begun of a service that removes files meanwhile."""

PIPE = Path("-")
"""Standard output or input, for a container without a place to put a file."""

ON_POSTGRESQL = (
    "Use pg_dump --format=custom and pg_restore, and keep the files of the data directory with the dump: "
    "docs/operations.md has the commands."
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup is of. `files` has the SHA-256 of each; `summary` is for people."""

    role: str
    version: str
    migration: str
    created: str
    summary: str
    files: dict[str, str]
    format: int = FORMAT


@dataclass(frozen=True, slots=True)
class Kind:
    """What a kind of service keeps beside its database.

    `files` says which files belong to a database, by the name each has in a backup. `check` looks at a copy, database
    and files in one folder, refuses one that no service could go on from, and says in a line what it is. `alone` keeps
    others from serving the data directory while it is restored, or refuses where one does.
    """

    role: str
    migrations: Migrations
    files: Callable[[Engine], Mapping[str, Path]]
    check: Callable[[Engine, Path], str]
    alone: Callable[[], AbstractContextManager[None]] = nullcontext


def backup(kind: Kind, settings: ServiceSettings, file: Path) -> Manifest:
    """Write a backup of a service to a new file, or to standard output."""
    database = _database(settings)
    if not database.is_file():
        raise NotReady(f"The database {database} is not there.", "Is this the right data directory?")
    if file != PIPE and file.exists():
        raise Conflict(f"{file} is there already.", "Choose another name; a backup is never overwritten.")
    with _disk("written"), _folder(settings.data_dir if file == PIPE else file.absolute().parent) as folder:
        for _ in range(ATTEMPTS):
            files, missing = _copy(kind, database, folder)
            if not missing:
                break
        with _opened(folder / DATABASE) as engine:
            with read(engine) as connection:
                migration = current_migration(connection)
            summary = kind.check(engine, folder)
        if missing:
            raise InvalidData(f"{missing[0]} is not there: the backup would not be whole.", "Run crossward doctor.")
        digests = {name: _digest_of(folder / name) for name in (*files, DATABASE)}
        now = datetime.now(UTC).isoformat(timespec="seconds")
        manifest = Manifest(kind.role, __version__, str(migration), now, summary, digests)
        if file == PIPE:
            _pack(manifest, folder, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        else:
            _write(manifest, folder, file)
    return manifest


def restore(kind: Kind, settings: ServiceSettings, file: Path) -> Manifest:
    """Make a service of a backup, in a data directory that holds none. What is there is never overwritten."""
    database = _database(settings)
    with _disk("restored"):
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        with kind.alone(), _source(file) as source, _folder(settings.data_dir) as folder:
            _check_free(settings.data_dir, database)
            with _unpack(source) as (manifest, members):
                if manifest.role != kind.role:
                    raise InvalidInput(
                        f"This is a backup of a {manifest.role}.", f"Run crossward {manifest.role} restore."
                    )
                kind.migrations.check_known(manifest.migration)
                for name, member in members:
                    _save(member, folder / name, manifest.files[name])
            _check_whole(folder / DATABASE)
            with _opened(folder / DATABASE) as engine:
                kind.migrations.upgrade(engine)
                kind.check(engine, folder)
                places = {name: path for name, path in kind.files(engine).items() if name in manifest.files}
            places[DATABASE] = database  # last: without it there is no service yet
            for name, path in places.items():
                # A key that is mounted from elsewhere may be there already, if it is the one.
                if not (path.exists() and _digest_of(path) == manifest.files[name]):
                    _check_absent(path)
                    shutil.move(folder / name, path)
    return manifest


def _copy(kind: Kind, database: Path, folder: Path) -> tuple[Mapping[str, Path], list[Path]]:
    """Database and files as they are now; gives the files, and those that are missing.

    A service that works on may have removed one that no longer counts: then its database of a moment later says so.
    """
    _snapshot(database, folder / DATABASE)
    with _opened(folder / DATABASE) as engine:
        with read(engine) as connection:
            kind.migrations.check_newest(connection)
        files = kind.files(engine)
    missing = []
    for name, path in files.items():
        (folder / name).unlink(missing_ok=True)
        try:
            source = path.open("rb")
        except FileNotFoundError:
            missing.append(path)
            continue
        with source:
            _save(source, folder / name)
    return files, missing


def _database(settings: ServiceSettings) -> Path:
    file = settings.sqlite_file
    if file is None:
        raise InvalidSetting("The database is PostgreSQL, which has its own way of being backed up.", ON_POSTGRESQL)
    return file


def _snapshot(database: Path, copy: Path) -> None:
    """SQLite's online backup in one step: one moment, while others read and write."""
    try:
        with closing(sqlite3.connect(database, timeout=30)) as one, closing(sqlite3.connect(copy)) as other:
            one.backup(other)
    except sqlite3.Error as error:
        raise StorageFailed(f"The database cannot be copied: {error}.", "Run crossward doctor.") from None
    copy.chmod(0o600)


def _check_whole(copy: Path) -> None:
    try:
        with closing(sqlite3.connect(copy)) as connection:
            [said] = connection.execute("PRAGMA integrity_check(1)").fetchone()
    except sqlite3.Error as error:
        said = str(error)
    if said != "ok":
        raise InvalidInput("The database in the backup is damaged.", "Use another backup.")


def _check_free(home: Path, database: Path) -> None:
    """Refuse a folder in which a service lives, or has left something of itself."""
    left = [database.with_name(database.name + end) for end in ("", "-wal", "-shm", "-journal")]
    for path in (*left, *home.glob("*.key"), *home.glob("*.secret")):
        _check_absent(path)


def _check_absent(path: Path) -> None:
    if path.exists():
        raise Conflict(
            f"{path} is there already.",
            "Restore into an empty data directory; move the old one away, and keep it until all is well.",
        )


@contextmanager
def _opened(copy: Path) -> Iterator[Engine]:
    engine = connect(f"sqlite:///{copy}")
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def _folder(inside: Path) -> Iterator[Path]:
    """A folder that only this user can open, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix=".crossward-", dir=inside) as folder:
        yield Path(folder)


def _write(manifest: Manifest, folder: Path, file: Path) -> None:
    """The file appears whole or not at all."""
    part = folder / "backup.part"
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        _pack(manifest, folder, out)
        out.flush()
        os.fsync(out.fileno())
    part.rename(file)


@contextmanager
def _source(file: Path) -> Iterator[IO[bytes]]:
    if file == PIPE:
        yield sys.stdin.buffer
        return
    with file.open("rb") as opened:
        yield opened


@contextmanager
def _disk(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageFailed(
            f"The backup cannot be {what}: {error.filename or ''} {error.strerror}.", "Check path, space and rights."
        ) from None


# -- the file ------------------------------------------------------------------------------------------------------
def _pack(manifest: Manifest, folder: Path, out: IO[bytes]) -> None:
    """Write the manifest and its files, taken from a folder."""
    with tarfile.open(fileobj=out, mode="w|gz") as tar:
        content = json.dumps(asdict(manifest), indent=1).encode()
        _add(tar, MANIFEST, io.BytesIO(content), len(content))
        for name in manifest.files:
            with (folder / name).open("rb") as file:
                _add(tar, name, file, os.fstat(file.fileno()).st_size)


def _add(tar: tarfile.TarFile, name: str, file: IO[bytes], size: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o600
    tar.addfile(entry, file)


@contextmanager
def _unpack(source: IO[bytes]) -> Iterator[tuple[Manifest, Iterator[tuple[str, IO[bytes]]]]]:
    """The manifest of a backup, then its files one after the other. A pipe will do: nothing is read twice."""
    try:
        with tarfile.open(fileobj=source, mode="r|gz") as tar:
            manifest = _manifest(tar)
            yield manifest, _members(tar, manifest)
    except (tarfile.TarError, EOFError, OSError) as error:
        if isinstance(error, OSError) and error.errno:
            raise StorageFailed(f"The backup cannot be unpacked: {error.strerror}.", "Check disk and rights.") from None
        raise _damaged("it is cut short or no backup") from None


def _manifest(tar: tarfile.TarFile) -> Manifest:
    first = tar.next()
    file = tar.extractfile(first) if first is not None and first.name == MANIFEST and first.isreg() else None
    if file is None or first is None or first.size > LARGEST_MANIFEST:
        raise _damaged("it does not begin with a manifest")
    try:
        content: Any = json.loads(file.read())
        if content["format"] != FORMAT:
            raise UnknownVersion(
                f"The backup is of format {content['format']} and this version reads {FORMAT}.",
                f"Restore it with the version that made it ({str(content.get('version'))[:40]}) or a later one.",
            )
        manifest = Manifest(**content)
        names = dict(manifest.files)
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, UnknownVersion):
            raise
        raise _damaged("its manifest cannot be read") from None
    if DATABASE not in names or not all(FILE_NAME.fullmatch(name) for name in names):
        raise _damaged("its manifest lists no database, or names that are none")
    return manifest


def _members(tar: tarfile.TarFile, manifest: Manifest) -> Iterator[tuple[str, IO[bytes]]]:
    left = dict(manifest.files)
    while (entry := tar.next()) is not None:
        file = tar.extractfile(entry) if entry.isreg() else None
        if file is None or entry.name not in left:
            raise _damaged("it holds what its manifest does not list")
        del left[entry.name]
        yield entry.name, file
    if left:
        raise _damaged(f"{sorted(left)[0]} is missing")


def _save(source: IO[bytes], path: Path, expected: str | None = None) -> str:
    """Write a new file of mode 0600 durably; gives its SHA-256, which must be the `expected` one."""
    digest = hashlib.sha256()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        while chunk := source.read(CHUNK):
            digest.update(chunk)
            file.write(chunk)
        file.flush()
        os.fsync(file.fileno())
    if expected is not None and digest.hexdigest() != expected:
        raise _damaged(f"{path.name} is not what was backed up")
    return digest.hexdigest()


def _digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _damaged(what: str) -> InvalidInput:
    return InvalidInput(f"The backup is damaged: {what}.", "Use another copy, or another backup.")
