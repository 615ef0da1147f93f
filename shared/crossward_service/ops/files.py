"""Files that hold secrets: written whole or not at all, and read by name where a secret must not be typed."""

from __future__ import annotations

import os
from pathlib import Path

from crossward.errors import InvalidSetting, StorageFailed


def write_file(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Write a file, never for a moment with more rights than `mode`."""
    fresh = path.with_name(f".{path.name}.new")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh.unlink(missing_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            os.fchmod(file.fileno(), mode)  # whatever the umask
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        raise StorageFailed(f"{path} cannot be written: {error.strerror}.", "Give a folder of your own.") from None


def secret_of(given: str) -> str:
    """A secret as a person gave it: itself, or @FILE that holds it."""
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise InvalidSetting(f"The file {given[1:]} cannot be read.", "After @ comes a file that holds it.") from None
