"""A backup file: a gzipped tar that begins with `manifest.json` and holds the files it lists, flat and whole.

The checksums find damage, not malice: who can write a backup can write what the service will believe once it is
restored. Keep backups as you keep the key that is in them.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from crossward.errors import InvalidInput, StorageFailed, UnknownVersion

FORMAT = 1
MANIFEST = "manifest.json"
DATABASE = "database.sqlite3"
LARGEST_MANIFEST = 1 << 20
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
CHUNK = 1 << 20


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


def pack(manifest: Manifest, folder: Path, out: IO[bytes]) -> None:
    """Write the manifest and its files, taken from a folder."""
    with tarfile.open(fileobj=out, mode="w|gz") as tar:
        said = json.dumps(asdict(manifest), indent=1).encode()
        _add(tar, MANIFEST, io.BytesIO(said), len(said))
        for name in manifest.files:
            with (folder / name).open("rb") as file:
                _add(tar, name, file, os.fstat(file.fileno()).st_size)


def _add(tar: tarfile.TarFile, name: str, file: IO[bytes], size: int) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = size, 0o600
    tar.addfile(entry, file)


@contextmanager
def unpacking(source: IO[bytes]) -> Iterator[tuple[Manifest, Iterator[tuple[str, IO[bytes]]]]]:
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
        said: Any = json.loads(file.read())
        if said["format"] != FORMAT:
            raise UnknownVersion(
                f"The backup is of format {said['format']} and this release reads {FORMAT}.",
                f"Restore it with the release that made it ({str(said.get('version'))[:40]}) or a later one.",
            )
        manifest = Manifest(**said)
        names = dict(manifest.files)
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, UnknownVersion):
            raise
        raise _damaged("its manifest cannot be read") from None
    if DATABASE not in names or not all(NAME.fullmatch(name) for name in names):
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


def save(source: IO[bytes], path: Path, expected: str | None = None) -> str:
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


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _damaged(what: str) -> InvalidInput:
    return InvalidInput(f"The backup is damaged: {what}.", "Use another copy, or another backup.")
