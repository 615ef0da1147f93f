"""A backup is whole or refused; a restored service is never laid over another."""

from __future__ import annotations

import gzip
import io
import json
import os
import sqlite3
import tarfile
import threading
import time
from contextlib import closing

import pytest

from crossward.errors import ChainBroken, Conflict, CrosswardError, InvalidInput, InvalidSetting, NotReady
from crossward.privacy.budget import Budget
from crossward.protocol.ledger.lines import OpenBody
from crossward_coordinator.backup import kind as coordinator_kind
from crossward_coordinator.main import init
from crossward_coordinator.settings import CoordinatorSettings
from crossward_service.db.engine import read, write
from crossward_service.ops.backup import PIPE, backup, restore
from crossward_site import backup as site_backup
from crossward_site import main as commands
from crossward_site.backup import kind as site_kind
from crossward_site.data import seating
from crossward_site.data.mapping import DataMap
from crossward_site.data.places import FilePlace
from crossward_site.data.service import Vault
from crossward_site.site import Site
from crossward_source.settings import SourceSettings
from crossward_target.settings import TargetSettings


@pytest.fixture
def settings(tmp_path):
    made = SourceSettings(data_dir=tmp_path / "site")
    commands.init(made)
    return made


@pytest.fixture
def saved(settings, tmp_path):
    file = tmp_path / "backup.tar.gz"
    backup(site_kind(settings), settings, file)
    return file


def restored(tmp_path, file):
    there = SourceSettings(data_dir=tmp_path / "again")
    restore(site_kind(there), there, file)
    return there


def rewritten(file, **changes):
    """A backup with some of its members replaced, left out (None) or added."""
    with tarfile.open(file) as tar:
        members = {entry.name: tar.extractfile(entry).read() for entry in tar}
    members = {name: data for name, data in (members | changes).items() if data is not None}
    made = file.with_name("rewritten.tar.gz")
    with tarfile.open(made, "w:gz") as tar:
        for name, data in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    return made


def manifest(file, **changes):
    with tarfile.open(file) as tar:
        return json.dumps(json.load(tar.extractfile("manifest.json")) | changes).encode()


def test_a_backup_while_others_write_is_one_moment(settings, tmp_path):
    site, stop, written = Site.open(settings.database_url, settings.data_dir), threading.Event(), []

    def work():
        while not stop.is_set():
            with write(site.engine) as connection:
                site.append(connection, OpenBody(len(written) + 1, 20, "basic", 10**9))
            written.append(time.monotonic())

    worker = threading.Thread(target=work)
    worker.start()
    try:
        files = [tmp_path / f"{number}.tar.gz" for number in range(5)]
        for number, file in enumerate(files):
            while len(written) <= number and worker.is_alive():
                time.sleep(0.001)
            backup(site_kind(settings), settings, file)  # verifies the chain and what it adds up to
    finally:
        stop.set()
        worker.join()
        site.close()
    there = Site.open(restored(tmp_path, files[-1]).database_url, tmp_path / "again")
    with read(there.engine) as connection:
        assert there.ledger.verify(connection).head.sequence >= 5
    there.close()
    assert sorted(path.name for path in (tmp_path / "again").iterdir()) == ["site.secret", "site.sqlite3"]


def test_nothing_is_overwritten(settings, saved, tmp_path):
    with pytest.raises(Conflict, match="never overwritten"):
        backup(site_kind(settings), settings, saved)
    for name in ("site.sqlite3-wal", "party.key", "site.secret"):
        there = SourceSettings(data_dir=tmp_path / name)
        there.data_dir.mkdir()
        (there.data_dir / name).touch()
        with pytest.raises(Conflict, match="is there already"):
            restore(site_kind(there), there, saved)
        assert [path.name for path in there.data_dir.iterdir()] == [name]


def test_damage_is_found(saved, tmp_path):
    whole = saved.read_bytes()
    short = tmp_path / "short.tar.gz"
    short.write_bytes(whole[: len(whole) // 2])
    flipped = tmp_path / "flipped.tar.gz"
    plain = bytearray(gzip.decompress(whole))
    plain[plain.index(b"SQLite format 3") + 5000] ^= 1
    flipped.write_bytes(gzip.compress(plain))
    text = tmp_path / "text.tar.gz"
    text.write_text("no backup")
    cases = [short, flipped, text]
    for file in cases:
        with pytest.raises(InvalidInput, match="damaged"):
            restored(tmp_path, file)
    for changes in (
        {"site.secret": None},
        {"extra": b"x"},
        {"site.secret": b"0" * 64},
        {"manifest.json": manifest(saved, files={"../evil": "0" * 64, "database.sqlite3": "0" * 64})},
        {"manifest.json": b"{}"},
    ):
        with pytest.raises(InvalidInput, match="damaged"):
            restored(tmp_path, rewritten(saved, **changes))
    assert list((tmp_path / "again").iterdir()) == []


def test_of_another_role_format_or_version(saved, tmp_path):
    with pytest.raises(InvalidInput, match="format 2"):
        restored(tmp_path, rewritten(saved, **{"manifest.json": manifest(saved, format=2)}))
    with pytest.raises(NotReady, match="later"):
        restored(tmp_path, rewritten(saved, **{"manifest.json": manifest(saved, migration="later0099")}))
    there = TargetSettings(data_dir=tmp_path / "target")
    with pytest.raises(InvalidInput, match="backup of a source"):
        restore(site_kind(there), there, saved)


def test_a_service_that_could_not_go_on_is_not_backed_up(settings, tmp_path):
    site = Site.open(settings.database_url, settings.data_dir)
    with write(site.engine) as connection:
        site.append(connection, OpenBody(1, 20, "basic", 10**9))
    site.close()
    file = tmp_path / "file"
    with closing(sqlite3.connect(settings.data_dir / "site.sqlite3")) as database, database:
        database.execute("UPDATE ledger_spend SET nano_epsilon = '7'")
    with pytest.raises(ChainBroken):
        backup(site_kind(settings), settings, file)
    (settings.data_dir / "site.secret").unlink()
    with pytest.raises(CrosswardError):
        backup(site_kind(settings), settings, file)
    assert not file.exists()
    assert not list(tmp_path.glob(".crossward-*"))


def with_data(settings, tmp_path):
    """The same site, with a dataset."""
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "table.csv").write_text("pid,ill\n" + "".join(f"p{k},{k % 2}\n" for k in range(50)))
    settings = SourceSettings(data_dir=settings.data_dir, data_roots={"files": tmp_path / "files"})
    site = settings.open_site()
    Vault(site).open("a", FilePlace(kind="csv", path="table.csv"), DataMap(person="pid"), Budget.of(1))
    return settings, site


@pytest.mark.parametrize(("kind", "words"), [("seats", "table of seats is lost"), ("records", "is not there")])
def test_a_site_that_lost_a_file_of_its_vault_is_not_backed_up(settings, tmp_path, kind, words):
    settings, site = with_data(settings, tmp_path)
    site.close()
    [lost] = settings.data_dir.glob(f"vault-*.{kind}")
    lost.unlink()
    with pytest.raises(InvalidInput, match=words):
        backup(site_kind(settings), settings, tmp_path / "file")
    assert not (tmp_path / "file").exists()


def test_a_backup_while_data_are_refreshed_is_of_one_version(settings, tmp_path, monkeypatch):
    settings, site = with_data(settings, tmp_path)
    files, made = site_backup.kept_files, []

    def meanwhile(connection):
        found = files(connection)
        if len(made) < 2:  # a version comes, and the files of the one before the last go
            made.append(Vault(site).refresh("a").version)
        return found

    monkeypatch.setattr(site_backup, "kept_files", meanwhile)
    Vault(site).refresh("a")
    backup(site_kind(settings), settings, tmp_path / "file")
    site.close()
    assert made == [3, 4]
    there = restored(tmp_path, tmp_path / "file").open_site()
    assert Vault(there).dataset("a").version == 4
    assert seating.examine(there) == ""
    there.close()


def test_a_mounted_key_is_kept_if_it_is_the_one(tmp_path):
    one = CoordinatorSettings(data_dir=tmp_path / "one", key_file=tmp_path / "mounted.key")
    init(one)
    file = tmp_path / "file"
    backup(coordinator_kind(one), one, file)
    two = CoordinatorSettings(data_dir=tmp_path / "two", key_file=tmp_path / "mounted.key")
    restore(coordinator_kind(two), two, file)
    assert [path.name for path in two.data_dir.iterdir()] == ["coordinator.sqlite3"]
    (tmp_path / "mounted.key").write_text("another")
    three = CoordinatorSettings(data_dir=tmp_path / "three", key_file=tmp_path / "mounted.key")
    with pytest.raises(Conflict):
        restore(coordinator_kind(three), three, file)
    assert list(three.data_dir.iterdir()) == []


def test_postgresql_has_its_own_way(tmp_path):
    settings = CoordinatorSettings(data_dir=tmp_path, database_url="postgresql://u:hunter22@nowhere/x")
    for act in (backup, restore):
        with pytest.raises(InvalidSetting, match="pg_dump") as refused:
            act(coordinator_kind(settings), settings, tmp_path / "file")
        assert "hunter22" not in str(refused.value)


def test_through_a_pipe(settings, tmp_path, monkeypatch):
    out, back = os.pipe()
    with os.fdopen(out, "rb") as reading, os.fdopen(back, "w") as writing:
        file = tmp_path / "piped"
        reader = threading.Thread(target=lambda: file.write_bytes(reading.read()))  # a pipe holds little
        reader.start()
        monkeypatch.setattr("sys.stdout", writing)
        backup(site_kind(settings), settings, PIPE)
        monkeypatch.undo()
        writing.close()
        reader.join()
    with file.open() as piped:
        monkeypatch.setattr("sys.stdin", piped)
        restored(tmp_path, PIPE)
    assert (tmp_path / "again" / "site.sqlite3").is_file()
