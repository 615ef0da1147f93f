"""A private PostgreSQL server for tests: its own files, its own socket, no network, gone afterwards."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOT_FOUND = "PostgreSQL not found: contract tests ran on SQLite only"


def programs() -> Path | None:
    """The folder of the server's programs: where pg_config says, or where Debian puts them."""
    places = list(Path("/usr/lib/postgresql").glob("*/bin"))
    if config := shutil.which("pg_config"):
        answer = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        places.append(Path(answer.stdout.strip()))
    found = [place for place in places if (place / "initdb").exists() and (place / "postgres").exists()]
    return max(found, default=None, key=lambda place: [int(part) for part in place.parts if part.isdigit()])


def _unprivileged() -> dict[str, str]:
    """The server refuses to run as root; then it runs as the user its package made."""
    return {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}


@contextmanager
def cluster(bindir: Path) -> Iterator[str]:
    """A running server; gives its URL."""
    home = Path(tempfile.mkdtemp(prefix="crossward-pg-"))
    who = _unprivileged()
    if who:
        shutil.chown(home, who["user"], who["group"])
    run = {"cwd": home, "stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, **who}
    try:
        initdb = [bindir / "initdb", "-D", home / "data", "-U", "tester", "-A", "trust", "-E", "UTF8", "--no-locale"]
        subprocess.run([*initdb, "--no-sync"], check=True, **run)
        with (home / "log").open("wb") as log:
            # Without flushes: a server that is killed keeps what was committed, and no test pulls the plug.
            options = ["-c", "listen_addresses=", "-c", "max_connections=100", "-c", "fsync=off", "-k", home]
            server = subprocess.Popen([bindir / "postgres", "-D", home / "data", *options], **{**run, "stdout": log})
        try:
            url = f"postgresql://tester@/postgres?host={home}"
            _wait(server, url, home / "log")
            yield url
        finally:
            server.send_signal(signal.SIGINT)  # "fast": end sessions, then stop
            server.wait(180)
    finally:
        shutil.rmtree(home)


def _wait(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    import psycopg  # noqa: PLC0415 - the library's tests run where it is not installed

    end = time.monotonic() + 180
    while True:
        try:
            psycopg.connect(url).close()
            return
        except psycopg.OperationalError:
            if server.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"PostgreSQL does not start: {log.read_text()}") from None
            time.sleep(0.05)
