"""Freezes what this version leaves behind, so that the next one can be held to it: python tests/upgrade/freeze.py

A real coordinator, source and target run studies on two invented hospitals. Their backups, the records, and what was
true of them go to a folder named by the version. Keys and tokens in there were made for this and open nothing else.
Run it once for a version, before it is tagged; then leave the folder alone.
"""

from __future__ import annotations

import gzip
import json
import runpy
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import small
from sqlalchemy import MetaData, insert, select

from crossward.version import __version__
from crossward_lab.demo.federation import LocalFederation
from crossward_lab.demo.records import FILE, first_record
from crossward_service.db.engine import connect, read, write

HERE = Path(__file__).parent
SERVICES = {"coordinator": "coordinator", "main": "source", "branch-1": "target"}
DONE = {"grouped": "pst-h", "boosted": "boosted"}
WAITING = "waiting"


def freeze(folder: Path) -> None:
    """Run the studies, leave one waiting for its steward, and keep everything."""
    folder.mkdir()
    with tempfile.TemporaryDirectory() as scratch:
        home = Path(scratch)
        with LocalFederation(home, small.hospitals(), print) as running:
            facts = _studies(running)
            for name, role in SERVICES.items():
                command = [sys.executable, "-m", "crossward_cli", role, "backup", folder / f"{role}.tar.gz"]
                subprocess.run([*command, "--data-dir", home / name], check=True)
        for name in ("main", "branch-1"):
            shutil.copy(home / "records" / name / FILE, folder / f"{name}.csv")
        _dump(home / "coordinator" / "coordinator.sqlite3", folder / "coordinator.sql.gz")
    (folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def _studies(running: LocalFederation) -> dict[str, object]:
    lead, auditor = running.client("lead"), running.client("auditor")
    [target] = running.targets
    for id, method in DONE.items():
        small.begin(lead, small.study(id, method))
        assert small.ended(lead, id) == "complete"
    target.client.release_auc("grouped", 0.5)
    running.source.client.set_policy({"decide": "ask"})
    small.begin(lead, small.study(WAITING, "simcomb"))
    small.wait_for(running.source.client.approvals)
    record = first_record(target.hospital)
    return {
        "note": "Made by tests/upgrade/freeze.py from invented records; the tokens are for tests and open nothing.",
        "tokens": running.tokens | {site.name: site.token for site in running.sites},
        "heads": {site.name: site.client.status()["ledger"]["head"] for site in running.sites},
        "spent": {site.name: site.client.budget()["epsilon_spent"] for site in running.sites},
        "record": record,
        "predictions": {id: target.client.predict(id, [record])["predictions"][0]["probability"] for id in DONE},
        "certificate": auditor.certificate("grouped"),
    }


def _dump(database: Path, file: Path) -> None:
    """The coordinator's rows in PostgreSQL, in tables that its migrations made there, as SQL."""
    from crossward_coordinator.database import MIGRATIONS  # noqa: PLC0415 - what is shared knows no service

    postgres = runpy.run_path(str(HERE.parent / "postgres.py"))
    programs = postgres["programs"]()
    with postgres["cluster"](programs) as url:
        one, other = connect(f"sqlite:///{database}"), connect(url)
        MIGRATIONS.upgrade(other)
        tables = MetaData()
        tables.reflect(other)
        with read(one) as source, write(other) as copy:
            for table in tables.sorted_tables:
                rows = [dict(row) for row in source.execute(select(table)).mappings()]
                if rows and table.name != "alembic_version":
                    copy.execute(insert(table), rows)
        one.dispose()
        other.dispose()
        command = [programs / "pg_dump", "--inserts", "--no-owner", "--no-privileges", url]
        dumped = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    # Commands of psql, which is not what will read it.
    kept = "".join(line for line in dumped.splitlines(keepends=True) if not line.startswith("\\"))
    file.write_bytes(gzip.compress(kept.encode(), mtime=0))


if __name__ == "__main__":
    freeze(HERE / __version__)
