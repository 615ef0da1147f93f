"""One person, one budget: what the judge keeps of persons, their seats, the copies they are in, and jobs.

It reads the vault's files and tables itself, by the ids that the hospital's tables use: whatever a dataset is called,
whichever version or role, and after a lost disk as before, a person is a person.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from crossward_lab.disasters.accounts import Accounts
from crossward_lab.disasters.verdict import Violation, must

if TYPE_CHECKING:
    from crossward_lab.disasters.history import World

TABLE = "SELECT version, file, commitment FROM seat_tables ORDER BY version DESC LIMIT 1"
VERSIONS = "SELECT dataset, version, sealed FROM versions"
JOBS = "SELECT number, kind, state, request FROM jobs"
BOUND = "SELECT id, dataset, version FROM tasks WHERE version IS NOT NULL"
ACTIVE = ("waiting", "running")
DROPPED = 255
"""The cell of a row that is not kept."""
WORKS_ONCE = ("open", "refresh", "undo", "recover")

Seats = dict[int, int]
"""The cell of each person, by their tags."""
Rows = tuple[tuple[int, int], ...]
"""Of each row of a sealed copy: whose it is, and in which cell."""
Change = tuple[str, str, Any]
"""A line that came: its kind, its subject, what it says."""


@dataclass
class _Folder:
    """What the judge has seen in one folder of a site."""

    secret: bytes
    table: tuple[int, str, str] | None = None
    seats: Seats = field(default_factory=dict)
    named: dict[int, str] = field(default_factory=dict)  # the commitments of the ledger since the last recovery
    known: bool = False  # whether this folder has been looked at before
    matched: bool = True  # whether the last table here is the last that the ledger names
    versions: dict[tuple[str, int], str | None] = field(default_factory=dict)
    copies: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    bound: dict[str, tuple[str, int]] = field(default_factory=dict)  # the version that each task was charged for
    jobs: dict[int, tuple[str, str, str]] = field(default_factory=dict)
    done: Counter[int] = field(default_factory=Counter)  # how often each job did what it does
    erased: set[int] = field(default_factory=set)


class Persons:
    """Watches over the persons of all hospitals."""

    def __init__(self, world: World, accounts: Accounts) -> None:
        self._world, self._accounts = world, accounts
        self._folders: dict[Path, _Folder] = {}
        self._rows: dict[str, Rows] = {}  # of each sealed copy, by its name
        self._left: dict[str, set[str]] = defaultdict(set)  # of each party, the tasks whose releases have left it

    # -- after every commit of a site ---------------------------------------------------------------------------------
    def look(self, path: Path, connection: sqlite3.Connection, lines: list[Change], spent: dict[int, Any]) -> None:
        """A site has committed; these lines are new in its ledger, and its cells have spent this."""
        folder = self._folders.get(path)
        if folder is None:
            secret = path.parent / "site.secret"
            if not secret.exists():
                return  # it is being made
            folder = self._folders[path] = _Folder(bytes.fromhex(secret.read_text()))
        whose, before = path.parent.name, folder.versions
        recovered = any(kind == "recover" for kind, _, _ in lines)
        if recovered:
            folder.seats, folder.named, folder.matched = {}, {}, True
            folder.bound.clear()
            folder.copies.clear()
        table = connection.execute(TABLE).fetchone()
        self._look_at_lines(folder, path, connection, lines, table, whose)
        moved = table != folder.table
        if moved:
            self._look_at_table(folder, path, table, whose)
        folder.matched = not folder.named or (
            table is not None and folder.named[max(folder.named)] == table[2] and max(folder.named) == table[0]
        )
        self._look_at_versions(folder, path, connection, recovered, whose)
        self._look_at_jobs(folder, path, connection, before, recovered)
        if lines or moved:
            self._look_at_losses(folder, path, spent, lines, connection)
        folder.known = True

    def _look_at_lines(
        self, folder: _Folder, path: Path, connection: sqlite3.Connection, lines: list[Change], table: Any, whose: str
    ) -> None:
        for kind, subject, body in lines:
            if kind == "recover":
                folder.named.clear()
            elif kind == "seats":
                own = folder.known and table is not None and table[:1] + table[2:] == (int(subject), body["commitment"])
                must(not own or folder.matched, f"{whose}: somebody is seated by a table that is not the ledger's last")
                folder.named[int(subject)] = body["commitment"]
            elif kind == "reserve" and folder.known:
                row = connection.execute(f"{BOUND} AND id = ?", (subject,)).fetchone()
                if row is not None:  # else the mirror told it
                    folder.bound[subject] = row[1], row[2]
                    sound = table is not None and folder.named.get(table[0]) == table[2]
                    sound = sound and _digest(_seats_file(path, table[1])) == table[2]
                    must(sound, f"{whose}: {subject} is charged by a table of seats that is lost")
        if not folder.known:
            folder.bound = {task: (dataset, version) for task, dataset, version in connection.execute(BOUND)}

    def _look_at_table(self, folder: _Folder, path: Path, table: Any, whose: str) -> None:
        """Another table of seats: who had a seat has it still."""
        before, folder.table = folder.seats, table
        if table is None:
            return
        file = _seats_file(path, table[1])
        if _digest(file) != table[2]:
            must(not folder.known, f"{whose}: the table of seats is not the one that was written down")
            folder.seats = {}
            return  # it is lost: it may be as it likes, so long as nobody is seated or charged by it
        tags, cells = _read_seats(file)
        must(len(set(tags)) == len(tags), f"{whose}: somebody has two seats")
        folder.seats = dict(zip(tags, cells, strict=True))
        for tag, cell in before.items():
            if (now := folder.seats.get(tag)) != cell:
                raise Violation(f"{whose}: {self._name(folder, path, tag)} sat in cell {cell}, and now in {now}")

    def _look_at_versions(
        self, folder: _Folder, path: Path, connection: sqlite3.Connection, recovered: bool, whose: str
    ) -> None:
        """New copies have everybody where they sit, and nobody who was erased; what is undone was never charged."""
        now = {(dataset, version): sealed for dataset, version, sealed in connection.execute(VERSIONS)}
        if now == folder.versions:
            return
        before, folder.versions = folder.versions, now
        for version in () if recovered else before.keys() - now.keys():
            charged = [task for task, bound in folder.bound.items() if bound == version]
            must(not charged, f"{whose}: version {version} was undone, and {charged} charged for it")
            folder.copies.pop(version, None)
        for version, sealed in now.items():
            if sealed is None or before.get(version) == sealed:
                continue
            folder.copies[version].add(sealed)
            for tag, cell in self._rows_of(folder, path, sealed) if folder.seats else ():
                if cell not in (DROPPED, seat := folder.seats.get(tag)):
                    name = self._name(folder, path, tag)
                    raise Violation(f"{whose}: {name} lies in cell {cell} of version {version}, and sits in {seat}")
            self._check_erased(folder, path, sealed, whose)

    def _check_erased(self, folder: _Folder, path: Path, sealed: str, whose: str) -> None:
        there = folder.erased and folder.erased & {tag for tag, _ in self._rows_of(folder, path, sealed)}
        if there:
            names = sorted(self._name(folder, path, tag) for tag in there)
            raise Violation(f"{whose}: {', '.join(names)} were erased, and are in a sealed copy")

    def _look_at_jobs(
        self, folder: _Folder, path: Path, connection: sqlite3.Connection, before: Any, recovered: bool
    ) -> None:
        """A job has one end, does what it does once, and once persons are erased they are in no copy."""
        whose = path.parent.name
        jobs = {number: (kind, state, request) for number, kind, state, request in connection.execute(JOBS)}
        was, folder.jobs = folder.jobs, jobs
        if folder.known and (recovered or before.keys() != folder.versions.keys()):
            for number, (kind, state, _) in was.items():
                if state == "running" and kind in WORKS_ONCE:
                    folder.done[number] += 1
                    must(folder.done[number] < 2, f"{whose}: job {number} ({kind}) did its work twice")
        if jobs == was:
            return
        for number, (kind, state, _) in jobs.items():
            earlier = was.get(number)
            if earlier is None or earlier[1] == state:
                continue
            must(earlier[1] in ACTIVE, f"{whose}: job {number} ({kind}) was {earlier[1]} and is {state}")
            if kind == "erase" and state == "done":
                asked = json.loads(earlier[2])["persons"]
                folder.erased |= {tag_of(folder.secret, person) for person in asked}
                for sealed in filter(None, folder.versions.values()):
                    self._check_erased(folder, path, sealed, whose)

    def _look_at_losses(
        self,
        folder: _Folder,
        path: Path,
        spent: dict[int, Any],
        lines: list[Change],
        connection: sqlite3.Connection,
    ) -> None:
        """A release is of the version that was charged; nobody has lost more than the cell has spent where they sit."""
        party = self._party(path)
        for kind, subject, body in lines:
            if kind == "release" and folder.known:
                self._look_at_release(folder, path, subject, body["digest"], connection)
        lost_by = self._accounts.lost[party]
        if not lost_by or not folder.seats or not folder.matched:
            return
        released = connection.execute("SELECT subject FROM ledger_lines WHERE kind = 'release'").fetchall()
        if not self._left[party] <= {row[0] for row in released}:
            return  # an old copy, which has not compared its ledger with the mirror yet
        for person, lost in lost_by.items():
            cell = folder.seats.get(tag_of(folder.secret, person))
            if cell is not None:
                must(
                    lost <= spent[cell][0],
                    f"{path.parent.name}: {person} has lost {lost} nano-epsilon, and sits in cell {cell}, "
                    f"which has spent {spent[cell][0]}",
                )

    def _look_at_release(
        self, folder: _Folder, path: Path, task: str, digest: str, connection: sqlite3.Connection
    ) -> None:
        whose = path.parent.name
        if connection.execute("SELECT 1 FROM outbox WHERE digest = ?", (digest,)).fetchone() is None:
            return  # the mirror told it
        bound = folder.bound.get(task)
        dataset, version = connection.execute("SELECT dataset, version FROM tasks WHERE id=?", (task,)).fetchone()
        must(
            bound in (None, (dataset, version)),  # none where an old copy found the charge in the mirror, and went on
            f"{whose}: {task} was charged for version {bound}, and released from {dataset, version}",
        )
        copies = folder.copies[dataset, version]
        must(bool(copies), f"{whose}: {task} was released from a version of which there is no copy")

    # -- on the wire --------------------------------------------------------------------------------------------------
    def left(self, party: str, task: str) -> None:
        """A release has left its site."""
        self._left[party].add(task)

    def forget(self, path: Path) -> None:
        """A folder was replaced by another."""
        self._folders.pop(path, None)

    # -- looking ------------------------------------------------------------------------------------------------------
    def _party(self, path: Path) -> str:
        return path.parent.name.partition("'")[0]

    def _name(self, folder: _Folder, path: Path, tag: int) -> str:
        known = self._world.tables[self._party(path)].persons
        return next((name for name in known if tag_of(folder.secret, name) == tag), f"somebody ({tag:016x})")

    def _rows_of(self, folder: _Folder, path: Path, sealed: str) -> Rows:
        if sealed not in self._rows:
            records, cells = (path.parent / f"vault-{sealed}.{kind}" for kind in ("records", "cells"))
            self._rows[sealed] = _read_copy(records, cells, folder.secret)
        return self._rows[sealed]


# -- files ------------------------------------------------------------------------------------------------------------
def _seats_file(path: Path, name: str) -> Path:
    return path.parent / f"vault-{name}.seats"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def _read_seats(path: Path) -> tuple[list[int], list[int]]:
    """The tags and cells of a table of seats."""
    data = path.read_bytes()
    start = data.index(b"\n") + 1 + 32
    length = int.from_bytes(data[start : start + 4], "big")
    count, at = json.loads(data[start + 4 : start + 4 + length])["seats"], start + 4 + length
    tags = np.frombuffer(data, "<u8", count, at).tolist()
    return tags, np.frombuffer(data, np.uint8, count, at + 8 * count).tolist()


def _read_copy(records: Path, cells: Path, secret: bytes) -> Rows:
    tags = [tag for frame in _frames(records, secret) for tag in pa.ipc.open_stream(frame).read_all()[0].to_pylist()]
    return tuple(zip(tags, b"".join(_frames(cells, secret)), strict=True))


def _frames(path: Path, secret: bytes) -> list[bytes]:
    cipher = AESGCM(hmac.digest(secret, b"crossward sealed copy: " + path.name.encode(), "sha256"))
    data = path.read_bytes()
    frames: list[bytes] = []
    at = data.index(b"\n") + 1
    while at < len(data):
        length = int.from_bytes(data[at : at + 8], "big")
        sealed, at = data[at + 8 : at + 8 + length], at + 8 + length
        frames.append(cipher.decrypt(len(frames).to_bytes(12, "big"), sealed, b"frame" if at < len(data) else b"end"))
    return frames[:-1]


@lru_cache(maxsize=20_000)
def tag_of(secret: bytes, person: str) -> int:
    """The tag of a person: a CBC-MAC by AES of the length of the id and of the id."""
    key = hmac.digest(secret, b"crossward tags: person", "sha256")
    text = person.encode()
    padded = len(text).to_bytes(8, "little") + bytes(8) + text + bytes(-len(text) % 16)
    cipher = Cipher(algorithms.AES(key), modes.CBC(bytes(16))).encryptor()
    return int.from_bytes((cipher.update(padded) + cipher.finalize())[-16:-8], "little")
