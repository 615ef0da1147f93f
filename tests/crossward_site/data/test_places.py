"""Where records may lie: under declared roots and on declared connections, and nowhere else."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

import pytest
from pydantic import SecretStr, TypeAdapter, ValidationError

from crossward.errors import CrosswardError, EmptyData, InvalidData, InvalidSetting, NotFound
from crossward_site.data import places
from crossward_site.data.places import Connection, FilePlace, Place, QueryPlace, Sources

SECRET = "hunter2 is the key"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A root with tables, beside the site's own folder."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "secret").write_text(SECRET)
    (tmp_path / "exports" / "deep").mkdir(parents=True)
    (tmp_path / "exports" / "deep" / "table.csv").write_bytes(b"pid,a\n1,2\n")
    return tmp_path


@pytest.fixture
def sources(home: Path) -> Sources:
    return Sources({"exports": home / "exports"}, {}, (home / "site",))


def csv(path: str, **more) -> FilePlace:
    return FilePlace(kind="csv", path=path, **more)


def content(sources: Sources, place) -> bytes:
    with sources.open(place) as source:
        return b"".join(os.pread(file, 1000, 0) for file in source.files)


def test_a_file_beneath_its_root_is_opened(sources) -> None:
    assert content(sources, csv("deep/table.csv")) == b"pid,a\n1,2\n"
    assert content(sources, csv("deep/table.csv", root="exports")) == b"pid,a\n1,2\n"
    assert sources.where(csv("deep/table.csv")) == "exports/deep/table.csv"


# -- what a steward may not even write ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "place",
    [
        {"kind": "csv", "path": "/etc/passwd"},
        {"kind": "csv", "path": "../site/secret"},
        {"kind": "csv", "path": "deep/../../site/secret"},
        {"kind": "csv", "path": ""},
        {"kind": "csv", "path": "/"},
        {"kind": "csv", "path": "a\0b"},
        {"kind": "csv", "path": "a\nb"},
        {"kind": "csv", "path": "http://host/table.csv"},
        {"kind": "csv", "path": "s3://bucket/table.csv"},
        {"kind": "csv", "path": "a", "root": "../x"},
        {"kind": "csv", "path": "a", "root": "/etc"},
        {"kind": "csv", "path": "a", "delimiter": '"'},
        {"kind": "csv", "path": "a", "delimiter": ",", "decimal": ","},
        {"kind": "csv", "path": "a", "url": "sqlite://"},
        {"kind": "parquet", "path": "a", "delimiter": ","},
        {"kind": "pickle", "path": "a"},
        {"kind": "sql", "url": "sqlite:////etc/x", "query": "SELECT 1"},
        {"kind": "sql", "connection": "sqlite:////etc/x", "query": "SELECT 1"},
        {"kind": "sql", "connection": "${HOME}", "query": "SELECT 1"},
        {"kind": "sql", "connection": "clinic", "query": ""},
        {"path": "a"},
    ],
)
def test_no_address_scheme_or_way_out_is_taken(place) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Place).validate_python(place)


def test_a_variable_is_a_name_like_any_other(sources, monkeypatch) -> None:
    monkeypatch.setenv("SECRET_PATH", "../site/secret")
    for path in ("${SECRET_PATH}", "$SECRET_PATH", "~", "~root"):
        with pytest.raises(InvalidData, match="no such file"):
            content(sources, csv(path))


# -- what lies beneath a root and leads out ----------------------------------------------------------------------------
def hostile(home: Path, kind: str) -> str:
    root = home / "exports"
    match kind:
        case "link to a file":
            (root / "x.csv").symlink_to(home / "site" / "secret")
        case "relative link":
            (root / "x.csv").symlink_to("../site/secret")
        case "link to a folder":
            (root / "out").symlink_to(home / "site")
            return "out/secret"
        case "link to the root's parent":
            (root / "out").symlink_to("..")
            return "out/site/secret"
        case "link through /proc":
            (root / "x.csv").symlink_to("/proc/self/environ")
        case "link to itself":
            (root / "x.csv").symlink_to("x.csv")
        case "pipe":
            os.mkfifo(root / "x.csv")
        case "socket":
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(str(root / "x.csv"))
        case "folder":
            (root / "x.csv").mkdir()
    return "x.csv"


KINDS = ["link to a file", "relative link", "link to a folder", "link to the root's parent", "link through /proc"]
KINDS += ["link to itself", "pipe", "socket", "folder"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("kernel", ["with openat2", "without"])
def test_what_leads_out_or_is_no_file_is_refused(home, sources, kind, kernel, monkeypatch) -> None:
    if kernel == "without":
        monkeypatch.setattr(places, "_openat2", lambda top, path: None)
    path = hostile(home, kind)
    with pytest.raises(InvalidData) as refusal:
        content(sources, csv(path))
    assert SECRET not in str(refusal.value)
    assert ("link leads out" in str(refusal.value)) == ("link" in kind)


def test_a_device_is_refused(home) -> None:
    if os.geteuid():
        pytest.skip("only root makes devices")
    os.mknod(home / "exports" / "x.csv", 0o600 | 0o020000, os.makedev(1, 5))
    with pytest.raises(InvalidData, match="a device"):
        content(Sources({"exports": home / "exports"}), csv("x.csv"))


@pytest.mark.parametrize("own", ["site.secret", "site.sqlite3"])
def test_a_second_name_of_the_sites_own_file_is_refused(home, sources, own: str) -> None:
    (home / "site" / own).write_bytes(b"id\n1\n")
    os.link(home / "site" / own, home / "exports" / "hard.csv")
    with pytest.raises(InvalidData, match="the site's own"), sources.open(csv("hard.csv")):
        pass
    lite = Connection(url=SecretStr(f"sqlite:///{home}/exports/hard.csv"))
    asked = QueryPlace(kind="sql", connection="lite", query="SELECT 1")
    closed = Sources(sources.roots, {"lite": lite}, sources.closed)
    with pytest.raises(InvalidData, match="the site's own"), closed.open(asked):
        pass


def test_a_file_with_two_names_of_the_hospitals_is_opened(home, sources) -> None:
    (home / "exports" / "one.csv").write_bytes(b"id\n1\n")
    os.link(home / "exports" / "one.csv", home / "exports" / "two.csv")
    assert content(sources, csv("two.csv")) == b"id\n1\n"


def test_a_link_that_stays_inside_is_followed(home, sources) -> None:
    (home / "exports" / "latest.csv").symlink_to("deep/table.csv")
    assert content(sources, csv("latest.csv")) == b"pid,a\n1,2\n"


def test_what_is_not_there_is_named(sources) -> None:
    with pytest.raises(InvalidData, match="no such file"):
        content(sources, csv("nowhere.csv"))
    with pytest.raises(InvalidData, match="no folder"):
        content(sources, csv("deep/table.csv/x"))
    with pytest.raises(InvalidData, match=r"deep is a folder.*with a slash: exports/deep/"):
        content(sources, csv("deep", root="exports"))
    with pytest.raises(NotFound, match=r"No root 'other' is declared.*there is exports.*start the site again"):
        content(sources, csv("a.csv", root="other"))
    with pytest.raises(NotFound, match="No root is declared"):
        content(Sources(), csv("a.csv"))
    with pytest.raises(NotFound, match=r"No connection 'clinic' is declared.*start the site again"):
        content(sources, QueryPlace(kind="sql", connection="clinic", query="SELECT 1"))
    with pytest.raises(InvalidData, match=r"Several roots.*exports, other"):
        content(Sources({"exports": Path("/a"), "other": Path("/b")}), csv("a.csv"))
    with pytest.raises(InvalidData, match=r"root of lost/a.csv cannot be opened"):
        content(Sources({"lost": Path("/nowhere/at/all")}), csv("a.csv"))


def test_a_folder_of_parquet_files_is_opened_in_order(home, sources) -> None:
    folder = home / "exports" / "parts"
    folder.mkdir()
    for name in ("b.parquet", "a.parquet", ".hidden.parquet", "_SUCCESS", "note.txt"):
        (folder / name).write_text(name)
    place = FilePlace(kind="parquet", path="parts")
    assert content(sources, place) == b"a.parquetb.parquet"
    (folder / "c.parquet").symlink_to(home / "site" / "secret")
    with pytest.raises(InvalidData, match="link leads out"):
        content(sources, place)
    (folder / "c.parquet").unlink()
    (folder / "c.parquet").mkdir()
    with pytest.raises(InvalidData, match="is a folder"):
        content(sources, place)
    with pytest.raises(EmptyData, match="no file named"):
        content(sources, FilePlace(kind="parquet", path="deep"))


def test_a_change_is_seen(home, sources) -> None:
    place, path = csv("deep/table.csv"), home / "exports" / "deep" / "table.csv"
    with sources.open(place) as source:
        assert not sources.changed(place, source)
        with path.open("ab") as file:
            file.write(b"3,4\n")
        assert sources.changed(place, source)
    with sources.open(place) as source:
        new = path.with_name("new")
        new.write_bytes(path.read_bytes())
        new.rename(path)
        assert sources.changed(place, source)
    with sources.open(place) as source:
        path.unlink()
        assert sources.changed(place, source)


def test_descriptors_are_closed(sources) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in ("deep/table.csv", "nowhere", "deep"):
        with suppress(CrosswardError):
            content(sources, csv(path))
    assert len(os.listdir("/proc/self/fd")) == before


# -- what the settings may declare -------------------------------------------------------------------------------------
@pytest.mark.parametrize("root", ["/", "/proc", "/proc/self", "/sys", "/dev", "/dev/shm/x", "/run", "/run/secrets"])
def test_a_root_of_the_system_is_refused(root) -> None:
    with pytest.raises(InvalidSetting, match=r"data_roots.x: this folder is the system's"):
        Sources({"x": Path(root)}).check()


@pytest.mark.parametrize("root", ["site", "site/inside", ".", "link", "exports/../site"])
def test_a_root_that_reaches_the_sites_own_folder_is_refused(home, root) -> None:
    (home / "link").symlink_to(home / "site")
    closed = Sources({"x": home / root}, {}, (home / "site",))
    with pytest.raises(InvalidSetting, match="keeps to itself"):
        closed.check()
    with pytest.raises(InvalidSetting, match="keeps to itself"):
        content(closed, csv("secret"))


def test_a_root_that_becomes_a_link_later_is_refused(home, sources) -> None:
    sources.check()
    (home / "exports").rename(home / "elsewhere")
    (home / "exports").symlink_to(home / "site")
    with pytest.raises(InvalidSetting, match="keeps to itself"):
        content(sources, csv("secret"))


@pytest.mark.parametrize("there", ["/", "site"])
def test_a_root_that_becomes_a_link_between_check_and_opening_is_refused(home, sources, monkeypatch, there) -> None:
    checked = Sources._root

    def exchange(self: Sources, place: FilePlace) -> Path:
        path = checked(self, place)
        (home / "exports").rename(home / "elsewhere")
        (home / "exports").symlink_to(home / there)
        return path

    monkeypatch.setattr(Sources, "_root", exchange)
    with pytest.raises(InvalidSetting, match=r"keeps to itself|is the system's"):
        content(sources, csv("etc/passwd" if there == "/" else "secret"))


def test_what_is_the_sites_own_is_known_by_more_than_its_name(home, sources) -> None:
    """A folder that is mounted twice has two paths, and no file in it has two links."""
    assert sources._is_own((home / "site" / "secret").stat())
    assert sources._is_own((home / "site").stat())
    assert not sources._is_own((home / "exports" / "deep" / "table.csv").stat())


def test_a_file_that_was_written_over_and_has_its_old_time_is_another(home, sources) -> None:
    file, place = home / "exports" / "deep" / "table.csv", csv("deep/table.csv")
    before = file.stat()
    with sources.open(place) as source:
        assert not sources.changed(place, source)
        while file.stat().st_ctime_ns == before.st_ctime_ns:  # the clock of a file system may be coarse
            file.write_bytes(b"pid,a\n3,4\n")
            os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert sources.changed(place, source)


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "smb3", "fuse.sshfs", "fuse.s3fs", "9p", "ceph"])
def test_a_remote_file_system_is_refused_at_start_and_when_it_is_opened(home, sources, kind, monkeypatch) -> None:
    about = os.open(home / "exports" / "deep", os.O_RDONLY)
    number = Path(f"/proc/self/fdinfo/{about}").read_text().split("mnt_id:")[1].split()[0]
    os.close(about)
    mounts = [places._Mount(number, home / "exports", kind)]
    monkeypatch.setattr(places, "_mounts", lambda: mounts)
    with pytest.raises(InvalidSetting, match=f"remote file system .{kind}"):
        sources.check()
    mounts[0] = places._Mount(number, home / "exports" / "deep", kind)  # mounted below the root
    sources.check()
    with pytest.raises(InvalidData, match=f"remote file system .{kind}"):
        content(sources, csv("deep/table.csv"))


def test_mounts_are_read_as_the_kernel_writes_them() -> None:
    assert any(mount.point == Path("/") for mount in places._mounts())
    assert places._mounted(Path("/proc/self")) == "proc"


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("mysql://host/db", "'mysql' is not read"),
        ("postgresql+psycopg2://host/db", "is not read"),
        ("sqlite+pysqlcipher:///x", "is not read"),
        ("oracle://hunter2@host", "is not read"),
        ("banana", "no URL"),
        ("postgresql://host:port/db", "no URL"),
        ("sqlite://", "no SQLite file"),
        ("sqlite:///:memory:", "no SQLite file"),
        ("sqlite:///file:x?mode=rw", "no SQLite file"),
        ("sqlite:////x.db?mode=rwc", "no SQLite file"),
        ("postgresql://host/db?passfile=/etc/passwd", "'passfile' is not taken"),
        ("postgresql://host/db?service=hunter", "'service' is not taken"),
        ("postgresql://host/db?password=hunter2", "'password' is not taken"),
    ],
)
def test_connections_of_another_kind_are_refused(url, words) -> None:
    with pytest.raises(ValidationError, match=words) as refusal:
        Connection(url=SecretStr(url))
    assert "hunter2" not in str(refusal.value)


def test_a_connection_is_opened_with_what_was_declared(tmp_path) -> None:
    (tmp_path / "password").write_text("hunter2\n")
    connection = Connection(
        url=SecretStr("postgresql://reader@db:5433/clinic?sslmode=require"), password_file=tmp_path / "password"
    )
    assert connection.parameters() == {
        "host": "db", "port": "5433", "user": "reader", "password": "hunter2", "dbname": "clinic", "sslmode": "require"
    }  # fmt: skip
    assert "hunter2" not in repr(connection) + str(connection.model_dump())
    (tmp_path / "password").unlink()
    with pytest.raises(InvalidSetting, match="cannot be read"):
        connection.parameters()
    short = Connection(url=SecretStr("postgresql://reader:change@db/clinic"))  # their password is theirs to choose
    assert short.parameters()["password"] == "change"


def test_an_sqlite_file_of_the_sites_own_is_refused(home) -> None:
    (home / "out").symlink_to(home / "site")
    query = QueryPlace(kind="sql", connection="own", query="SELECT 1")
    for path in ("site/site.sqlite3", "out/site.sqlite3"):
        own = Sources({}, {"own": Connection(url=SecretStr(f"sqlite:///{home}/{path}"))}, (home / "site",))
        with pytest.raises(InvalidSetting, match="file of the site itself"):
            own.check()
        with pytest.raises(InvalidSetting, match="file of the site itself"):
            content(own, query)


def test_an_sqlite_file_that_is_not_there_is_not_made(home) -> None:
    lost = Sources({}, {"clinic": Connection(url=SecretStr(f"sqlite:///{home}/clinik.db"))}, (home / "site",))
    lost.check()
    with pytest.raises(InvalidData, match=r"not there.*four slashes"):
        content(lost, QueryPlace(kind="sql", connection="clinic", query="SELECT 1"))
    assert not (home / "clinik.db").exists()


def test_an_sqlite_file_that_becomes_a_pipe_or_goes_keeps_nobody_waiting(home, monkeypatch) -> None:
    clinic = Connection(url=SecretStr(f"sqlite:///{home}/clinic.db"))
    sources = Sources({}, {"clinic": clinic}, (home / "site",))
    query = QueryPlace(kind="sql", connection="clinic", query="SELECT 1")
    monkeypatch.setattr(Path, "is_file", lambda _self: True)  # as it was a moment before
    with pytest.raises(InvalidData, match="no such file"):
        content(sources, query)
    os.mkfifo(home / "clinic.db")
    # One who writes is there, so that a program that opens pipes goes on, and fails here.
    writer = os.open(home / "clinic.db", os.O_RDWR | os.O_NONBLOCK)
    try:
        with pytest.raises(InvalidData, match="no file but a pipe"):
            content(sources, query)
    finally:
        os.close(writer)
