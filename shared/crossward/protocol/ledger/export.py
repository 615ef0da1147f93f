"""A ledger as a text file for anyone to verify offline.

HASH TEXT       one line a line: the SHA-256 of the text, a blank, and the text
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from crossward.errors import Malformed, StorageFailed
from crossward.protocol.constants import LINE_BYTES
from crossward.protocol.ledger.chain import Verified, broken, verify
from crossward.protocol.ledger.lines import START, Head, Line

_LONGEST = 64 + 1 + LINE_BYTES + 1  # a file without line breaks must not fill the memory


def export_file(lines: Iterable[Line], path: Path) -> Head:
    """Write a chain. The file appears whole or not at all."""
    head, part = START, path.with_name(path.name + ".part")
    try:
        with part.open("wb") as file:
            for line in lines:
                file.write(f"{line.hash} {line.text}\n".encode())
                head = line.head
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        raise StorageFailed(f"The export cannot be written: {error.strerror}.", "Choose another place.") from error
    return head


def read_file(path: Path) -> Iterator[Line]:
    """The lines of an export. Each must hash to what it says; raises `ChainBroken` at the first that does not."""
    try:
        with path.open("rb") as file:
            for number, text in enumerate(iter(lambda: file.readline(_LONGEST), b""), 1):
                if not text.endswith(b"\n"):
                    raise broken(number, "the line is cut short or too long.")
                try:
                    line = Line.from_text(text[65:-1])
                except Malformed as error:
                    raise broken(number, error.cause) from None
                if text[:65] != f"{line.hash} ".encode():
                    raise broken(number, f"it hashes to {line.hash}, not to what it begins with.")
                yield line
    except OSError as error:
        raise StorageFailed(f"The export cannot be read: {error.strerror}.", "Is the path right?") from error


def verify_file(path: Path, head: Head | None = None) -> Verified:
    """Verify an export, and that it ends at `head` where one is known. Names the first line that is wrong."""
    return verify(read_file(path), head)
