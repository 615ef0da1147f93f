"""A coordinator on PostgreSQL: examined like any other, backed up by the database's own programs as documented."""

from __future__ import annotations

import runpy
import shutil
import socket
import subprocess
from pathlib import Path

import psycopg
import pytest

from crossward_coordinator import doctor
from crossward_coordinator.main import init
from crossward_coordinator.settings import CoordinatorSettings

POSTGRES = runpy.run_path(str(Path(__file__).parents[2] / "postgres.py"))
PROGRAMS = POSTGRES["programs"]()

pytestmark = pytest.mark.skipif(PROGRAMS is None, reason=POSTGRES["NOT_FOUND"])


def verdicts(settings):
    return {item.check: item.verdict for item in doctor.examine(settings).items}


def test_examined_dumped_and_restored(tmp_path):
    with POSTGRES["cluster"](PROGRAMS) as server, socket.socket() as quiet:
        quiet.bind(("127.0.0.1", 0))
        port = quiet.getsockname()[1]
        one, other = (server.replace("/postgres?", f"/{name}?") for name in ("one", "other"))
        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute("CREATE DATABASE one")
            admin.execute("CREATE DATABASE other")
        lost = CoordinatorSettings(data_dir=tmp_path / "lost", database_url=one, port=port)
        assert verdicts(lost)["migrations"] == "fault"
        tokens = init(lost).tokens
        well = verdicts(lost)
        assert "fault" not in well.values()
        assert [well[check] for check in ("database", "migrations", "writing", "key", "ledgers", "clock")] == ["ok"] * 6

        dump = tmp_path / "coordinator.dump"
        subprocess.run([PROGRAMS / "pg_dump", "--format=custom", "--file", dump, one], check=True)
        subprocess.run([PROGRAMS / "pg_restore", "--exit-on-error", "--no-owner", "--dbname", other, dump], check=True)
        found = CoordinatorSettings(data_dir=tmp_path / "found", database_url=other, port=port)
        found.data_dir.mkdir(mode=0o700)
        assert verdicts(found)["key"] == "fault"
        shutil.copy(lost.key_path, found.key_path)
        assert "fault" not in verdicts(found).values()
        assert tokens
        assert init(found).tokens == {}

        with psycopg.connect(server, autocommit=True) as admin:
            admin.execute("CREATE ROLE reader LOGIN")
        reader = one.replace("tester@", "reader@")
        with psycopg.connect(one, autocommit=True) as database:
            database.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
        reading = CoordinatorSettings(data_dir=lost.data_dir, database_url=reader, port=port)
        assert verdicts(reading)["writing"] == "fault"
    assert verdicts(lost)["database"] == "fault"
