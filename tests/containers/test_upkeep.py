"""Lost with all it had, and made anew from a backup that was taken while it ran (docs/operations.md)."""

from __future__ import annotations

import engine
from federation import PYTHON

_EMPTY = """
import pathlib, shutil
for path in pathlib.Path("/data").iterdir():
    shutil.rmtree(path) if path.is_dir() else path.unlink()
"""


def test_a_hospital_comes_back_from_its_backup(federation):
    site, container = federation.sites["branch-1"], federation.container("branch-1")
    image, lines = engine.inspect(container)["Image"], site.ledger()
    backup = engine.run("exec", container, "crossward", "target", "backup", "-", binary=True).stdout
    federation.kill("branch-1")
    beside = ("run", "--rm", "--interactive", f"--volumes-from={container}", "--network=none")
    engine.run(*beside, f"--entrypoint={PYTHON}", image, "-c", _EMPTY)
    engine.run(*beside, image, "target", "restore", "-", input=backup, binary=True)
    federation.start("branch-1")
    assert site.ledger() == lines
    federation.ended(federation.begin(targets=("branch-1",)))


def test_the_coordinator_comes_back_from_postgresqls_backup(federation):
    place = engine.copied(federation.container("database"), "/secrets/database-password", federation.faults / "word")
    environment = f"--env=PGPASSWORD={place.read_text().strip()}"
    before = federation.lead.studies()

    def postgresql(program, *words, input=None):
        there = ("exec", "--interactive", environment, federation.container("database"))
        who = ("--host=127.0.0.1", "--username=crossward")
        return engine.run(*there, program, *who, *words, input=input, binary=True).stdout

    dump = postgresql("pg_dump", "--format=custom", "crossward")
    federation.kill("coordinator")
    postgresql("dropdb", "--maintenance-db=template1", "--force", "crossward")
    postgresql("createdb", "--maintenance-db=template1", "crossward")
    postgresql("pg_restore", "--exit-on-error", "--no-owner", "--dbname=crossward", input=dump)
    federation.start("coordinator")
    assert federation.lead.studies() == before
    federation.ended(federation.begin(targets=("branch-1",)))
