"""Where records lie: what a steward may name, and what the hospital's own settings file opens to that.

A file lies under a root that the settings declare, a query goes to a connection that they declare. No address, no
variable and no scheme ever comes over HTTP. Files are opened here, beneath their root, and handed on as descriptors.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from crossward.errors import EmptyData, InvalidData, InvalidSetting, NotFound
from crossward.values import Section, Slug, refusal
from crossward_connector.requests import CSV, PARQUET, POSTGRES, SQLITE

MOST_FILES = 512
"""So many files of a Parquet folder are one table: each is held open."""

_SYSTEM = tuple(Path(path) for path in ("/proc", "/sys", "/dev", "/run/secrets"))
_REMOTE = frozenset(
    [
        "nfs",
        "nfs3",
        "nfs4",
        "cifs",
        "smb",
        "smb2",
        "smb3",
        "smbfs",
        "ncpfs",
        "9p",
        "afs",
        "ceph",
        "glusterfs",
        "lustre",
        "beegfs",
        "gfs2",
        "ocfs2",
        "gpfs",
        "orangefs",
        "pvfs2",
        "davfs",
        "coda",
    ]
)
_PARAMETERS = frozenset(
    [
        "host",
        "hostaddr",
        "port",
        "sslmode",
        "sslrootcert",
        "sslcert",
        "sslkey",
        "sslcrl",
        "ssl_min_protocol_version",
        "connect_timeout",
        "application_name",
        "options",
        "target_session_attrs",
        "channel_binding",
        "require_auth",
        "gssencmode",
        "krbsrvname",
        "keepalives",
        "keepalives_idle",
        "keepalives_interval",
        "keepalives_count",
        "tcp_user_timeout",
    ]
)
_LOCAL = frozenset(("", "localhost", "127.0.0.1", "::1"))
_READ_AT_START = "and start the site again: it reads that file when it starts"


# -- what a steward may name -------------------------------------------------------------------------------------------
def _beneath(path: str) -> str:
    parts = path.split("/")
    if path.startswith("/") or ".." in parts:
        raise refusal("The path leaves its root.", "Write it relative to the root, without `..`.")
    if "://" in path or not path.isprintable() or not [part for part in parts if part]:
        raise refusal("This is no path.", "Write it relative to the root, such as exports/table.csv.")
    return path


class FilePlace(Section):
    """A CSV with a line of column names, or Parquet: a file, or a folder of them.

    `root` may be left out where the settings declare one alone. What is not told about a CSV follows from its names.
    """

    kind: Literal["csv", "parquet"]
    root: Slug | None = None
    path: Annotated[str, Field(min_length=1, max_length=4000), AfterValidator(_beneath)]
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] | None = None
    encoding: Annotated[str, Field(min_length=1, max_length=40)] | None = None
    decimal: Literal[".", ","] | None = None

    @property
    def where(self) -> str:
        """The file, as people know it."""
        return f"{self.root}/{self.path}" if self.root else self.path

    @model_validator(mode="after")
    def _csv_alone(self) -> Self:
        told = [name for name in ("delimiter", "encoding", "decimal") if getattr(self, name) is not None]
        if told and self.kind != CSV:
            raise refusal(f"Parquet has no {told[0]}.", f"Leave out {', '.join(told)}.")
        if self.delimiter is not None and (self.delimiter in '"\r\n\0' or not self.delimiter.isascii()):
            raise refusal("This cannot separate cells.", "Give a comma, a semicolon, a tab or another plain character.")
        if self.delimiter is not None and self.delimiter == self.decimal:
            raise refusal("The same character separates cells and decimals.", "Give another for one of them.")
        return self


class QueryPlace(Section):
    """The result of a query on a connection that the settings declare."""

    kind: Literal["sql"]
    connection: Slug
    query: Annotated[str, Field(min_length=1, max_length=100_000)]

    @property
    def where(self) -> str:
        """The connection, as people know it."""
        return self.connection


AnyPlace = FilePlace | QueryPlace
"""Where records lie."""

Place = Annotated[AnyPlace, Field(discriminator="kind")]
"""A place as it is read from a document."""


# -- what the settings file declares -----------------------------------------------------------------------------------
class Connection(Section):
    """A database that queries may read. `seconds` is for a whole reading, instead of the limit that all places have.

    The password is best kept in a file of its own: it is read whenever a connection is made.
    """

    url: SecretStr
    password_file: Path | None = None
    seconds: Annotated[float, Field(gt=0, le=7 * 86400)] | None = None

    @model_validator(mode="after")
    def _known(self) -> Self:
        url = self._url()
        kind = url.get_backend_name()
        if url.drivername not in ("postgresql", "postgresql+psycopg", "sqlite"):
            raise refusal(f"The scheme {kind[:40]!r} is not read.", "Give postgresql:// or sqlite:///path.")
        if kind == SQLITE:
            if not url.database or url.database.startswith((":", "file:")) or url.query or url.host:
                raise refusal("This names no SQLite file.", "Write sqlite:////absolute/path.sqlite3 and nothing more.")
            if self.password_file:
                raise refusal("SQLite has no password.", "Leave out password_file.")
        elif strange := sorted(set(url.query) - _PARAMETERS):
            raise refusal(f"The parameter {strange[0][:40]!r} is not taken.", "Leave it out of the url.")
        elif self.password_file and url.password:
            raise refusal("There are two passwords.", "Leave the one in the url out.")
        return self

    def _url(self) -> URL:
        try:
            return make_url(self.url.get_secret_value())
        except (ArgumentError, ValueError):
            raise refusal("This is no URL.", "Write it as postgresql://user@host/database.") from None

    @property
    def kind(self) -> str:
        """postgresql or sqlite."""
        return self._url().get_backend_name()

    @property
    def file(self) -> Path | None:
        """Where an SQLite database lies; None for PostgreSQL."""
        return Path(self._url().database or "").absolute() if self.kind == SQLITE else None

    @property
    def server(self) -> tuple[str, int, str]:
        """Host, port and name of a PostgreSQL database; this machine has one name."""
        return server_of(self._url())

    def parameters(self) -> dict[str, str]:
        """What opens it, password included."""
        url = self._url()
        if (file := self.file) is not None:
            return {"path": str(file)}
        told = {key: value if isinstance(value, str) else ",".join(value) for key, value in url.query.items()}
        password = url.password
        if self.password_file:
            try:
                password = self.password_file.read_text(encoding="utf-8").strip()
            except (OSError, UnicodeDecodeError):
                cause = f"The file {self.password_file} of a connection's password cannot be read."
                raise InvalidSetting(cause, "Correct data_connections.") from None
        port = str(url.port) if url.port else None
        parts = {"host": url.host, "port": port, "user": url.username, "password": password, "dbname": url.database}
        return told | {key: value for key, value in parts.items() if value}


def server_of(url: URL) -> tuple[str, int, str]:
    """Host, port and name of a PostgreSQL database, so that two addresses of one can be told."""
    host = str(url.host or url.query.get("host", "") or "")
    port = url.port or int(str(url.query.get("port", "5432")) or 5432)
    return "" if host in _LOCAL or host.startswith(("/", "@")) else host.lower(), port, url.database or ""


@dataclass(frozen=True)
class Source:
    """An opened place, for a connector: descriptors of files, or what opens a database."""

    kind: str
    where: str
    files: tuple[int, ...] = ()
    marks: tuple[tuple[int, ...], ...] = ()
    options: dict[str, str | None] = field(default_factory=dict)
    connection: dict[str, str] = field(default_factory=dict, repr=False)
    query: str = field(default="", repr=False)
    seconds: float | None = None


@dataclass(frozen=True)
class Sources:
    """The roots and connections that the settings file declares. `closed` is what no place may reach."""

    roots: Mapping[str, Path] = field(default_factory=dict)
    connections: Mapping[str, Connection] = field(default_factory=dict)
    closed: tuple[Path, ...] = ()

    def check(self) -> None:
        """Refuse roots and connections that would open what must stay closed."""
        for name, root in self.roots.items():
            self._check_root(name, root)
        for name, connection in self.connections.items():
            if (file := connection.file) is not None and self._reaches(file):
                cause = f"The connection {name!r} is a file of the site itself."
                raise InvalidSetting(cause, "Name the hospital's database, outside the site's data directory.")

    def where(self, place: AnyPlace) -> str:
        """How people know a place."""
        if isinstance(place, FilePlace) and place.root is None and len(self.roots) == 1:
            return f"{next(iter(self.roots))}/{place.path}"
        return place.where

    @contextmanager
    def open(self, place: AnyPlace) -> Iterator[Source]:
        """Open a place for reading, or say why it cannot be."""
        if isinstance(place, QueryPlace):
            yield self._query(place)
            return
        with ExitStack() as stack:
            yield self._files(place, stack)

    def changed(self, place: AnyPlace, source: Source) -> bool:
        """Whether files are others than when they were opened, or have other bytes."""
        if not isinstance(place, FilePlace):
            return False
        try:
            if tuple(_mark(os.fstat(file)) for file in source.files) != source.marks:
                return True
            with ExitStack() as stack:
                return self._files(place, stack).marks != source.marks
        except (InvalidData, InvalidSetting, NotFound, EmptyData, OSError):
            return True

    def _query(self, place: QueryPlace) -> Source:
        if (connection := self.connections.get(place.connection)) is None:
            raise NotFound(
                f"No connection {place.connection!r} is declared.",
                f"Declare it under [data_connections] in the site's settings file{_listed(self.connections)}, "
                f"{_READ_AT_START}.",
            )
        if (file := connection.file) is not None:
            if self._reaches(file):
                raise InvalidSetting(
                    f"The connection {place.connection!r} is a file of the site itself.", "Correct it."
                )
            if not file.is_file():
                cause = f"{place.where}: the database file is not there."
                fix = f"Correct the url of [data_connections.{place.connection}]; an absolute path has four slashes"
                raise InvalidData(cause, f"{fix}: sqlite:////srv/clinic.db.")
            self._check_file(file, place.where)
        parameters = connection.parameters()
        kind = SQLITE if file is not None else POSTGRES
        return Source(kind, place.where, connection=parameters, query=place.query, seconds=connection.seconds)

    def _check_file(self, file: Path, where: str) -> None:
        """Refuse what is no regular file or the site's own; it may be another by now than when it was looked for.

        Only a handle is taken first: to open a pipe would wait for somebody who writes.
        """
        try:
            handle = os.open(file, os.O_PATH | os.O_CLOEXEC)
            try:
                opened = _reopen(handle, where)
            finally:
                os.close(handle)
        except OSError as error:
            raise InvalidData(f"{where}: the database file cannot be opened.", _reason(error)) from None
        try:
            self._check_place(opened, where)
        finally:
            os.close(opened)

    def _files(self, place: FilePlace, stack: ExitStack) -> Source:
        where = self.where(place)
        root = self._root(place)
        try:
            top = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise InvalidData(f"The root of {where} cannot be opened.", _reason(error)) from None
        stack.callback(os.close, top)
        # A link on the way may lead elsewhere by now.
        self._check_root(place.root or next(iter(self.roots)), Path(f"/proc/self/fd/{top}"))
        self._check_place(top, where)
        about = _open_beneath(top, place.path, where)
        stack.callback(os.close, about)
        if stat.S_ISDIR(os.fstat(about).st_mode):
            if place.kind != PARQUET:
                fix = f"Name a file in it; a folder of Parquet files is named with a slash: {where}/."
                raise InvalidData(f"{where} is a folder.", fix)
            paths = [f"{place.path}/{name}" for name in self._folder(about, where)]
        else:
            paths = [place.path]
        files = []
        for path in paths:
            try:
                file = _open_beneath(top, path, where)
                try:
                    files.append(_reopen(file, where))
                finally:
                    os.close(file)
            except OSError as error:
                raise InvalidData(f"{where} cannot be opened.", _reason(error)) from None
            stack.callback(os.close, files[-1])
            self._check_place(files[-1], where)
        marks = tuple(_mark(os.fstat(file)) for file in files)
        told: dict[str, str | None] = {}
        if place.kind == CSV:
            told = {"delimiter": place.delimiter, "encoding": place.encoding, "decimal": place.decimal}
        return Source(place.kind, where, tuple(files), marks, told)

    def _root(self, place: FilePlace) -> Path:
        if not self.roots:
            raise NotFound(
                "No root is declared: this site reads no files.",
                f"Declare a folder under [data_roots] in the site's settings file, {_READ_AT_START}.",
            )
        if place.root is None and len(self.roots) > 1:
            raise InvalidData("Several roots are declared.", f"Say which one{_listed(self.roots)}.")
        name = place.root or next(iter(self.roots))
        if name not in self.roots:
            fix = f"Declare it under [data_roots] in the site's settings file{_listed(self.roots)}, {_READ_AT_START}."
            raise NotFound(f"No root {name!r} is declared.", fix)
        self._check_root(name, self.roots[name])
        return self.roots[name]

    def _check_root(self, name: str, root: Path) -> None:
        real = root.resolve()
        own = f"data_roots.{name}"
        if real == Path("/") or any(_touch(real, system) for system in _SYSTEM):
            raise InvalidSetting(f"{own}: this folder is the system's.", "Name a folder that holds tables alone.")
        for path in self.closed:
            if _touch(real, path.resolve()):
                raise InvalidSetting(
                    f"{own}: the folder is, holds, or lies in what the site keeps to itself ({path}).",
                    "Name a folder apart from the site's data directory, keys and settings.",
                )
        if (kind := _mounted(real)) and _is_remote(kind):
            raise InvalidSetting(
                f"{own}: the folder is on a remote file system ({kind}).", "Copy the tables to a disk of this machine."
            )

    def _check_place(self, descriptor: int, where: str) -> None:
        """Once it is open: what it really is, however it was reached."""
        _check_mount(descriptor, where)
        try:
            real = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        except OSError:
            return
        if self._reaches(real) or self._is_own(os.fstat(descriptor)):
            raise InvalidData(f"{where} is the site's own.", "Name a table of the hospital.")

    def _reaches(self, file: Path) -> bool:
        real = file.resolve()
        return any(real == path or path in real.parents for path in (closed.resolve() for closed in self.closed))

    def _is_own(self, about: os.stat_result) -> bool:
        """Whether this is one of the site's own under a second name: by a hard link, or a folder mounted twice."""
        return (about.st_dev, about.st_ino) in {
            known for path in self.closed for file in [path, *_listing(path)] if (known := _inode(file)) is not None
        }

    def _folder(self, descriptor: int, where: str) -> list[str]:
        listing = os.open(f"/proc/self/fd/{descriptor}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            names = sorted(name for name in os.listdir(listing) if name.endswith(".parquet") and name[0] not in "._")
        finally:
            os.close(listing)
        if not names:
            raise EmptyData(f"{where} holds no file named *.parquet.", "Name a file, or a folder with such files.")
        if len(names) > MOST_FILES:
            cause = f"{where} holds {len(names):,} Parquet files; {MOST_FILES} are the limit."
            raise InvalidData(cause, "Export fewer and larger ones.")
        return names


# -- opening beneath a root --------------------------------------------------------------------------------------------
_OPENAT2 = 437
_NO_MAGIC, _BENEATH = 0x02, 0x08
_OUT = "A symbolic link leads out of the root."


def _open_beneath(top: int, path: str, where: str) -> int:
    """A handle on what lies at a path beneath a folder; it reads nothing yet, so that no device wakes up."""
    try:
        found = _openat2(top, path)
        return _walk(top, path) if found is None else found
    except OSError as error:
        if error.errno in (errno.EXDEV, errno.ELOOP):
            raise InvalidData(f"{where}: {_OUT}", "Copy the file into the root.") from None
        raise InvalidData(f"{where} cannot be opened.", _reason(error)) from None


def _openat2(top: int, path: str) -> int | None:
    """By the kernel's own rule; None where the kernel does not have it."""
    how = struct.pack("<QQQ", os.O_PATH | os.O_CLOEXEC, 0, _NO_MAGIC | _BENEATH)
    libc = ctypes.CDLL(None, use_errno=True)
    found = int(libc.syscall(_OPENAT2, top, os.fsencode(path), how, ctypes.c_size_t(len(how))))
    if found >= 0:
        return found
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EPERM):
        return None
    raise OSError(number, os.strerror(number))


def _walk(top: int, path: str) -> int:
    """Part by part, and no symbolic link at all."""
    at = os.dup(top)
    for part in (part for part in path.split("/") if part not in ("", ".")):
        try:
            following = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=at)
        finally:
            os.close(at)
        at = following
        if stat.S_ISLNK(os.fstat(at).st_mode):
            os.close(at)
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return at


def _reopen(handle: int, where: str) -> int:
    """A regular file, opened for reading."""
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "no file but a pipe, a socket or a device"
        raise InvalidData(f"{where} is {what}.", "Name a file.")
    return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)


def _listing(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _inode(file: Path) -> tuple[int, int] | None:
    """What a name stands for; None where it is gone meanwhile."""
    try:
        about = file.stat()
    except OSError:
        return None
    return about.st_dev, about.st_ino


def _mark(about: os.stat_result) -> tuple[int, ...]:
    """What a file is; the time of its last change cannot be set back, as that of its last writing can."""
    return about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns


def _reason(error: OSError) -> str:
    words = {
        errno.ENOENT: "There is no such file: check the path.",
        errno.ENOTDIR: "A part of the path is no folder: check the path.",
        errno.EACCES: "The site's user may not read it: give it the right to.",
        errno.EPERM: "The site's user may not read it: give it the right to.",
        errno.ENAMETOOLONG: "The path is too long.",
        errno.EMFILE: "The site has too many files open: raise its limit, or export fewer files.",
    }
    return words.get(error.errno or 0, f"The system says: {os.strerror(error.errno or 0)}.")


def _touch(one: Path, other: Path) -> bool:
    return one == other or one in other.parents or other in one.parents


def _listed(names: Mapping[str, object]) -> str:
    return f" (there is {', '.join(sorted(names))})" if names else ""


# -- file systems ------------------------------------------------------------------------------------------------------
def _is_remote(kind: str) -> bool:
    return kind in _REMOTE or (kind.startswith("fuse") and kind != "fuseblk")


def _check_mount(descriptor: int, where: str) -> None:
    try:
        about = Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii")
    except OSError:
        return
    number = next((line.split()[1] for line in about.splitlines() if line.startswith("mnt_id:")), "")
    kind = next((mount.kind for mount in _mounts() if mount.number == number), "")
    if _is_remote(kind):
        cause = f"{where} is on a remote file system ({kind})."
        raise InvalidData(cause, "Copy the tables to a disk of this machine.")


@dataclass(frozen=True, slots=True)
class _Mount:
    number: str
    point: Path
    kind: str


def _mounts() -> list[_Mount]:
    """What is mounted where. A point's blanks are written as \\040."""
    try:
        text = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return []
    mounts = []
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        parts = before.split()
        if len(parts) > 4 and after:
            point = parts[4].replace("\\040", " ").replace("\\011", "\t").replace("\\012", "\n").replace("\\134", "\\")
            mounts.append(_Mount(parts[0], Path(point), after.split()[0]))
    return mounts


def _mounted(path: Path) -> str:
    """The kind of file system that a path is on."""
    kind, longest = "", -1
    for mount in _mounts():
        if (mount.point == path or mount.point in path.parents) and len(mount.point.parts) >= longest:
            kind, longest = mount.kind, len(mount.point.parts)
    return kind
