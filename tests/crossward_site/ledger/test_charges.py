"""What each study took is looked up, not read from the whole ledger; and it is what the lines say."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from sqlalchemy import event, update

from crossward.errors import ChainBroken
from crossward.privacy.budget import Budget, Cost
from crossward.protocol.constants import Role, TaskKind
from crossward.protocol.ledger.lines import ReserveBody
from crossward.study.wire import task_message
from crossward_service.db import ledger_tables
from crossward_service.db.engine import read, write
from crossward_site.data.mapping import DataMap
from crossward_site.data.places import FilePlace
from crossward_site.data.service import Vault
from crossward_site.ledger.service import verify
from crossward_site.ledger.tables import ledger
from crossward_site.policy.service import Policy
from crossward_site.site import Site
from crossward_site.tasks import service as tasks
from crossward_site.tasks.steps import advance


def reserve(task: str, study: str = "s", nano: int = 1, study_hash: str = "a" * 64) -> ReserveBody:
    return ReserveBody(task, study, study_hash, (0, 1), nano, 0, "b" * 64)


@pytest.fixture
def spent(site, tmp_path):
    """A dataset, and charges of two studies."""
    (tmp_path / "files" / "table.csv").write_text("pid,ill\n" + "".join(f"p{k},{k % 2}\n" for k in range(40)))
    Vault(site).open("d", FilePlace(kind="csv", path="table.csv"), DataMap(person="pid"), Budget.of(100))
    with write(site.engine) as connection:
        for k, body in enumerate((reserve("1", nano=5), reserve("2", nano=7), reserve("3", "t"))):
            assert site.append(connection, body).sequence == 3 + k
        site.append(connection, reserve("2", nano=7))  # the same again is charged once
    return site


def test_what_a_study_took(spent) -> None:
    with read(spent.engine) as connection:
        assert spent.ledger.taken_by(connection, "s") == Cost(12)
        assert spent.ledger.taken_by(connection, "s", but="2") == Cost(5)
        assert spent.ledger.taken_by(connection, "t") == Cost(1)
        assert spent.ledger.taken_by(connection, "nobody") == Cost(0)
        assert spent.ledger.hashes_of(connection, "t") == {"a" * 64}
        assert spent.ledger.hashes_of(connection, "nobody") == frozenset()
    assert verify(spent).sound


def test_lines_taken_over_bring_their_charges(spent, tmp_path) -> None:
    with read(spent.engine) as connection:
        lines = list(spent.ledger.lines(connection))
    other = Site.open(f"sqlite:///{tmp_path}/other.sqlite3", tmp_path / "other")
    with write(other.engine) as connection:
        other.ledger.extend(connection, lines[:3])
        other.ledger.extend(connection, lines)  # those that are there already too
        assert other.ledger.taken_by(connection, "s") == Cost(12)
        other.ledger.verify(connection)
    other.close()


def test_a_charge_moved_to_another_study_is_noticed(spent) -> None:
    lines = ledger.lines
    with write(spent.engine) as connection:
        connection.execute(update(lines).where(lines.c.kind == "reserve", lines.c.subject == "2").values(study="t"))
    with read(spent.engine) as connection, pytest.raises(ChainBroken, match="contradict one another") as broken:
        spent.ledger.verify(connection)
    assert broken.value.line == 4
    seen = verify(spent)
    assert (seen.sound, seen.line) == (False, 4)


def test_the_table_of_seats_is_verified_with_the_ledger(spent) -> None:
    assert verify(spent).sound
    [file] = spent.home.glob("vault-*.seats")
    whole = file.read_bytes()
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    for damage in (lambda: None, file.unlink):
        damage()
        seen = verify(spent)
        assert (seen.sound, seen.line) == (False, 2)
        assert "table of seats is lost" in seen.cause
        assert "crossward site recover" in seen.fix
        assert seen.head is not None


class Effort:
    """Statements that a database was asked, and ledger lines that were read."""

    def __init__(self, site, monkeypatch) -> None:
        self.statements, self.lines = 0, 0
        event.listen(site.engine, "before_cursor_execute", self._asked)
        stored_line = ledger_tables.stored_line

        def counted(row, number):
            self.lines += 1
            return stored_line(row, number)

        monkeypatch.setattr(ledger_tables, "stored_line", counted)

    def _asked(self, *_: object) -> None:
        self.statements += 1


def test_the_effort_of_an_approval_does_not_grow_with_the_ledger(site, study, tmp_path, monkeypatch) -> None:
    rows = "".join(f"p{k},{4 + k % 7},{k % 2},no,{int(k % 5 == 0)}\n" for k in range(200))
    (tmp_path / "files" / "table.csv").write_text("pid,glucose,family,smoker,ill\n" + rows)
    Vault(site).open("a", FilePlace(kind="csv", path="table.csv"), DataMap(person="pid"), Budget.of(100))
    coordinator = SimpleNamespace(identity=SimpleNamespace(role=Role.TARGET, party="here"))
    with write(site.engine) as connection:
        Policy(decide="approve", epsilon_per_study=50.0, epsilon_lifetime=50.0).save(connection)
    efforts, lines = [], 0
    for length in (10, 1_000):
        with write(site.engine) as connection:
            for k in range(lines, length):
                site.append(connection, reserve(f"t{k}", f"s{k % 7}"))
            lines = length
            message = task_message(study, id=f"task{length}", kind=TaskKind.TRAIN_TARGET, lease_seconds=60)
            task = tasks.take(site, connection, message)
        effort = Effort(site, monkeypatch)
        assert advance(site, coordinator, task).state == "approved"
        efforts.append((effort.statements, effort.lines))
        event.remove(site.engine, "before_cursor_execute", effort._asked)
    assert efforts[0] == efforts[1]
    assert efforts[0][0] > 0
