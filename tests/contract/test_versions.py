"""A version is charged or undone, never both: on both databases, whoever comes first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from crossward.errors import Conflict
from crossward.privacy.budget import Budget
from crossward.protocol.constants import TaskKind
from crossward.protocol.ledger.lines import ReserveBody
from crossward_service.db.engine import connect, read, write
from crossward_site.data import seating
from crossward_site.data.connector import InProcess
from crossward_site.data.mapping import DataMap
from crossward_site.data.places import FilePlace, Sources
from crossward_site.data.service import Vault, load_dataset
from crossward_site.site import Site
from crossward_site.tasks.tables import TaskState, tasks


@pytest.fixture
def site(url: str, tmp_path: Path) -> Iterator[Site]:
    if url.startswith("postgresql"):
        engine = connect(url)
        with write(engine) as connection:
            connection.execute(text("DROP SCHEMA public CASCADE"))
            connection.execute(text("CREATE SCHEMA public"))
        engine.dispose()
    else:
        url = f"sqlite:///{tmp_path}/site.db"
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "table.csv").write_text("pid,x\n" + "".join(f"p{k},{k}\n" for k in range(50)))
    site = Site.open(url, tmp_path / "home", connectors=InProcess(Sources({"files": tmp_path / "files"})))
    yield site
    site.close()


def charge(site: Site, version: int) -> None:
    """As a task does: under the ledger's lock, only for the version of this moment."""
    words = {"study": "s", "study_hash": "0" * 64, "message": "{}", "cause": "", "trouble": "", "dataset": "a"}
    zero = dict.fromkeys(("attempt", "failures", "begun", "taken", "updated", "lease_seconds", "progress", "number"), 0)
    states = {"state": TaskState.RESERVED, "kind": TaskKind.TRAIN_TARGET}
    with write(site.engine) as connection:
        site.ledger.extend(connection, ())
        if load_dataset(connection, "a").version != version:
            raise Conflict("It has another version by now.", "")
        site.append(connection, ReserveBody("t1", "s", "0" * 64, (0,), 1000, 0, "1" * 64))
        connection.execute(tasks.insert().values(id="t1", version=version, **words, **zero, **states))


def test_a_charge_between_the_look_and_the_undoing_finds_the_version_gone(site, monkeypatch) -> None:
    vault, put = Vault(site), seating.put
    vault.open("a", FilePlace(kind="csv", path="table.csv"), DataMap(person="pid"), Budget.of(1))
    vault.refresh("a")
    looked, charged, refused = threading.Event(), threading.Event(), []

    def late(*arguments, **more) -> int:
        looked.set()
        charged.wait(1)
        return put(*arguments, **more)

    def rival() -> None:
        looked.wait(300)
        try:
            charge(site, 2)
        except Conflict as error:
            refused.append(error)
        charged.set()

    monkeypatch.setattr(seating, "put", late)
    thread = threading.Thread(target=rival)
    thread.start()
    vault.undo("a")
    thread.join()
    with read(site.engine) as connection:
        assert load_dataset(connection, "a").version == 1
        assert site.ledger.balance(connection).spend.releases == 0
    assert len(refused) == 1
