"""What an adversarial review found in the vault, the claims and the talk with the coordinator."""

from __future__ import annotations

import contextlib
import json
from itertools import pairwise
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet
import pytest
from sqlalchemy import func, select

from crossward.client.http import Answer
from crossward.errors import CrosswardError, InvalidData, InvalidSetting, NotReady, RemoteProblem
from crossward.privacy.budget import Budget
from crossward.protocol.ledger.lines import Line, OpenBody
from crossward.protocol.messages import Receipt, TaskMessage
from crossward.protocol.messages.receipt import Head as ReceiptHead
from crossward_service.db.engine import read, write
from crossward_site import runner as running
from crossward_site import sync, tasks
from crossward_site.coordinator import Coordinator
from crossward_site.runner import Pace, Runner
from crossward_site.status import status
from crossward_site.tables import datasets, versions
from crossward_site.vault import CsvPlace, DataMap, ParquetPlace, SqlPlace, Vault

BUDGET, MAP = Budget.of(3), DataMap(person="pid")


def table(folder, first: int, last: int, name: str = "table.csv", spelled: str = "{:03}") -> CsvPlace:
    rows = (f"{spelled.format(k)},q{k},{k % 2}\n" for k in range(first, last))
    (folder / name).write_text("pid,other,ill\n" + "".join(rows))
    return CsvPlace(path=str(folder / name))


# -- the vault ------------------------------------------------------------------------------------------------------
def test_a_version_keeps_the_column_that_names_persons(site, tmp_path) -> None:
    vault, where = Vault(site), table(tmp_path, 0, 40)
    vault.connect("a", where, MAP, BUDGET)
    with pytest.raises(InvalidSetting, match=r"'pid'.*'other'.*fresh budget"):
        vault.add_version("a", mapping=DataMap(person="other"))
    assert vault.dataset("a").version == 1


def test_a_version_whose_ids_are_spelled_otherwise_is_refused(site, tmp_path) -> None:
    vault = Vault(site)
    vault.connect("a", table(tmp_path, 0, 40), MAP, BUDGET)
    path = tmp_path / "table.parquet"
    pyarrow.parquet.write_table(pa.table({"pid": list(range(40)), "ill": [k % 2 for k in range(40)]}), path)
    with pytest.raises(InvalidData, match=r"lacks 40 of the 40 persons.*Spell the ids as before"):
        vault.add_version("a", ParquetPlace(kind="parquet", path=str(path)))
    vault.add_version("a", table(tmp_path, 20, 60))  # one half has left: that happens
    with pytest.raises(InvalidData, match="lacks 40 of the 60"):
        vault.add_version("a", table(tmp_path, 40, 60))


def test_the_same_people_get_no_second_budget_under_another_name(site, tmp_path) -> None:
    vault = Vault(site)
    vault.connect("a", table(tmp_path, 0, 100), MAP, BUDGET)
    for first, last in ((0, 100), (0, 20), (0, 900), (50, 120)):
        with pytest.raises(InvalidData, match=r"in the dataset a too.*Add the data to a as a new version"):
            vault.connect("b", table(tmp_path, first, last, "b.csv"), MAP, BUDGET)
    with read(site.engine) as connection:
        assert site.ledger.head(connection).sequence == 1
        assert connection.execute(select(func.count()).select_from(datasets)).scalar_one() == 1
    vault.connect("b", table(tmp_path, 95, 195, "b.csv"), MAP, BUDGET)  # a few in both
    with pytest.raises(InvalidData, match="in the dataset a too"):
        vault.add_version("b", table(tmp_path, 0, 195, "b.csv"))


def add(place: CsvPlace, *people: int) -> CsvPlace:
    """The same file with these people as well."""
    with open(place.path, "a") as file:
        file.writelines(f"{k:03},q{k},{k % 2}\n" for k in people)
    return place


def test_nobody_gets_a_third_budget_however_many_datasets_there_are(site, tmp_path) -> None:
    vault, third = (
        Vault(site),
        r"in 2 other datasets already: {}\. Here they would get a third budget.*as a new version",
    )
    a, b = table(tmp_path, 0, 100), table(tmp_path, 95, 195, "b.csv")  # 95 to 99 are in both
    vault.connect("a", a, MAP, BUDGET)
    vault.connect("b", b, MAP, BUDGET)
    with pytest.raises(InvalidData, match=third.format(1)) as refusal:
        vault.connect("c", add(table(tmp_path, 300, 400, "c.csv"), 99), MAP, BUDGET)
    assert "99" not in str(refusal.value)  # who it is, it does not say
    c = table(tmp_path, 300, 400, "c.csv")
    vault.connect("c", c, MAP, BUDGET)
    add(c, 97, 98)
    with pytest.raises(InvalidData, match=third.format(2)):
        vault.add_version("c")
    add(b, 300)
    vault.add_version("b")  # in c, and now here: a second
    vault.add_version("a")  # 95 to 99 have this budget already
    add(a, 300)
    with pytest.raises(InvalidData, match=third.format(1)):
        vault.add_version("a")
    assert vault.in_several() == {2: 6}


def test_who_has_left_the_data_still_has_the_budget(site, tmp_path) -> None:
    vault = Vault(site)
    vault.connect("a", table(tmp_path, 0, 100), MAP, BUDGET)
    vault.connect("b", table(tmp_path, 95, 195, "b.csv"), MAP, BUDGET)
    vault.add_version("a", table(tmp_path, 0, 95))
    vault.add_version("b", table(tmp_path, 100, 195, "b.csv"))
    with pytest.raises(InvalidData, match="already: 1"):
        vault.connect("c", add(table(tmp_path, 300, 400, "c.csv"), 99), MAP, BUDGET)


def test_versions_that_change_their_people_bring_no_more_than_a_few_a_second_budget(site, tmp_path) -> None:
    vault = Vault(site)
    vault.connect("a", table(tmp_path, 0, 100), MAP, BUDGET)
    vault.connect("b", add(table(tmp_path, 300, 400, "b.csv"), *range(8)), MAP, BUDGET)
    with pytest.raises(InvalidData, match="16 of the 116 persons are in the dataset a too"):
        vault.add_version("b", add(table(tmp_path, 300, 400, "b.csv"), *range(8, 16)))  # eight others, in their stead


def test_the_steward_alone_hears_how_many_have_two_budgets(site, tmp_path, caplog) -> None:
    caplog.set_level("DEBUG")
    vault, words = Vault(site), "persons_in_two_datasets"
    assert vault.connect("a", table(tmp_path, 0, 100), MAP, BUDGET).report[words] == 0
    b = table(tmp_path, 97, 197, "b.csv")
    assert vault.connect("b", b, MAP, BUDGET).report[words] == 3
    assert vault.report("a")[words] == vault.report("b")[words] == 3  # of the first too, which came before
    add(b, 0)
    made = vault.add_version("b")
    assert made.report[words] == vault.report("a")[words] == 4
    # What others may see, or be sent, has it nowhere; and nothing of it is logged.
    assert words not in json.dumps(status(site))
    with read(site.engine) as connection:
        assert words not in json.dumps([line.to_dict() for line in site.ledger.lines(connection)])
        assert not any(words in row.report for row in connection.execute(select(versions)))
    assert not [record for record in caplog.records if record.name.startswith("crossward")]


@pytest.mark.parametrize(
    "url", ["sqlite:////tmp/\0.db", "postgresql://host:port/db", "sqlite:///x.db?timeout=soon", "://", "\0"]
)
def test_a_sql_address_that_makes_no_sense_is_a_named_error(url) -> None:
    with pytest.raises(InvalidData, match="Check URL"):
        SqlPlace(kind="sql", url=url, query="SELECT 1").names()


# -- tasks ----------------------------------------------------------------------------------------------------------
PACE = Pace(poll=0.0, tick=0.01, claim=1.0, retry=10.0)


@pytest.fixture
def worker(site, study, monkeypatch):
    """A runner with a clock of its own, two tasks, and steps that a test decides."""
    now = SimpleNamespace(time=1000.0, steps=[], step={})
    object.__setattr__(site, "clock", lambda: now.time)
    with write(site.engine) as connection:
        for id in ("old", "young"):
            now.time += 1
            tasks.take(site, connection, TaskMessage.of(study, id=id, kind="train-target", lease_seconds=60))

    def step(site, coordinator, task):
        now.steps.append((task.id, now.time))
        now.step.get(task.id, lambda: None)()
        with write(site.engine) as connection:
            tasks.move(connection, task, "settled", now.time)
            return tasks.find(connection, task.id)

    monkeypatch.setattr(running, "advance", step)
    monkeypatch.setattr(
        Runner, "coordinator", lambda self: SimpleNamespace(heartbeat=lambda beat: not beats.append(beat))
    )
    beats: list = []
    now.beats, now.runner = beats, Runner(site, pace=PACE)
    return now


def found(site, id: str) -> tasks.Task:
    with read(site.engine) as connection:
        return tasks.find(connection, id)


def failing(error: Exception):
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize("error", [ZeroDivisionError("a secret"), CrosswardError("Bad.", "Mend.")])
def test_a_poison_task_keeps_no_other_back_and_is_held_in_the_end(site, worker, error) -> None:
    worker.step["old"] = failing(error)
    assert worker.runner.work()
    assert worker.runner.work()
    assert [id for id, _ in worker.steps] == ["old", "young"]
    assert found(site, "young").state == "settled"
    assert not worker.runner.work()  # it is put off
    while found(site, "old").state == "taken":
        worker.time += 1
        worker.runner.work()
    tries = [time for id, time in worker.steps if id == "old"]
    assert len(tries) == running.PATIENCE
    pauses = [after - before for before, after in pairwise(tries)]
    assert pauses == sorted(set(pauses))  # longer each time
    held = found(site, "old")
    assert held.state == "held"
    assert "failed 5 times" in held.cause
    assert "a secret" not in held.cause


def test_claims_rotate_however_often_one_fails(site, worker) -> None:
    """Both are due again at once: the one that failed does not come first for ever."""
    worker.step["old"] = worker.step["young"] = failing(RemoteProblem("Down."))
    for _ in range(6):
        with pytest.raises(RemoteProblem):
            worker.runner.work()
        worker.time += 11
    assert [id for id, _ in worker.steps] == ["old", "young"] * 3
    assert found(site, "old").state == "taken"  # no task is to blame, none is held


def test_local_trouble_never_becomes_the_public_cause(site, worker) -> None:
    with write(site.engine) as connection:
        tasks.decline(connection, tasks.find(connection, "old"), "policy", "Public words.", 1.0)
    worker.step["old"] = failing(InvalidData("/data/patients.csv, line 7: no number."))
    for _ in range(2 * running.PATIENCE):
        worker.runner.work()
        worker.time += 2000
    task = found(site, "old")
    assert (task.state, task.cause) == ("declining", "Public words.")
    assert "line 7" in task.trouble


def test_a_step_forward_forgets_the_trouble(site, worker) -> None:
    worker.step["old"] = failing(ValueError("x"))
    worker.runner.work()
    task = found(site, "old")
    assert (task.failures, task.trouble) == (1, "An unexpected ValueError; the log has it.")
    with write(site.engine) as connection:
        tasks.move(connection, task, "approved", 1.0)
        after = tasks.find(connection, "old")
    assert (after.failures, after.trouble) == (0, "")


def test_every_heartbeat_says_the_same(site, worker) -> None:
    for state in tasks.OPEN:
        with write(site.engine) as connection:
            tasks.move(connection, tasks.find(connection, "old"), state, 1.0)
        worker.runner.beat(found(site, "old"))
    assert len(worker.beats) == len(tasks.OPEN)
    assert len({beat.note for beat in worker.beats}) == 1


# -- the coordinator's answers --------------------------------------------------------------------------------------
class Scripted(Coordinator):
    """A coordinator that answers what a test says."""

    def __init__(self, answer) -> None:
        self.identity = SimpleNamespace(party="here")
        self.calls: list = []

        def request(method, path, **more):
            self.calls.append((path, more))
            return Answer(200, {}, json.dumps(answer(path, more)).encode())

        def get(path, *, params=None):
            return request("GET", path, params=params)

        self._http = SimpleNamespace(request=request, get=get)


@pytest.mark.parametrize("answer", [None, 7, "x", [], {}, {"items": 3}, {"items": [{}]}, {"items": [], "next": ""}])
def test_a_malformed_answer_is_a_named_error(answer) -> None:
    scripted = Scripted(lambda path, more: answer)
    for call in (lambda: scripted.mirror(0), lambda: scripted.next_task(0.0), lambda: scripted.keys_of("other")):
        with contextlib.suppress(CrosswardError):
            assert call() == []
    assert len(scripted.calls) == 3


def chain(site, count: int) -> list[Line]:
    with write(site.engine) as connection:
        for k in range(count):
            site.append(connection, OpenBody(f"d{k}", 20, "basic", 10**9))
        return list(site.ledger.lines(connection))


def test_the_mirror_is_read_no_further_than_its_head(site) -> None:
    lines = [line.to_dict() for line in chain(site, 5)]

    def endless(path, more):
        after = more["params"]["after"]
        return {"lines": lines[after : after + 2] or lines[:2], "head": {"sequence": 5 + after, "hash": "0" * 64}}

    scripted = Scripted(endless)
    assert [line.to_dict() for line in scripted.mirror(0)] == lines
    assert len(scripted.calls) == 3
    stuck = Scripted(lambda path, more: {"lines": lines[:2], "head": {"sequence": 5, "hash": "0" * 64}})
    with pytest.raises(RemoteProblem, match="not those that follow"):
        stuck.mirror(0)
    assert len(stuck.calls) == 2


class Receipts:
    """A mirror that takes lines, and signs what a test wants it to."""

    def __init__(self, **wrong) -> None:
        self.lines: list[Line] = []
        self.batches: list[int] = []
        self.wrong = wrong

    def send_lines(self, lines):
        self.batches.append(len(lines))
        self.lines += [line for line in lines if line.sequence > len(self.lines)]
        at = self.lines[self.wrong.get("at", len(self.lines)) - 1]
        head = ReceiptHead(sequence=at.sequence, hash=at.hash)
        task = self.wrong.get("task", "ledger")
        return Receipt(task=task, release=None, head=head, time="2026-01-01T00:00:00Z")

    def mirror(self, after: int):
        return []


@pytest.mark.parametrize("wrong", [{"at": 2}, {"task": "some-task"}])
def test_a_receipt_that_is_not_for_the_lines_sent_stops_the_site(site, wrong) -> None:
    chain(site, 3)
    with pytest.raises(NotReady, match="has stopped"):
        sync.sync(site, Receipts(**wrong))
    assert "signed" in site.stopped
    with read(site.engine) as connection:
        assert sync.confirmed(connection).sequence == 0
        with pytest.raises(NotReady):
            site.check_running(connection)


def test_reconcile_sends_lines_in_batches(site, monkeypatch) -> None:
    assert sync.BATCH <= 1000
    monkeypatch.setattr(sync, "BATCH", 4)
    lines, mirror = chain(site, 10), Receipts()
    assert sync.reconcile(site, mirror).sequence == 10
    assert mirror.batches == [4, 4, 2]
    assert mirror.lines == lines
