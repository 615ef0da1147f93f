"""Real processes on one budget: they race, and they are killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Engine

from crossward.errors import StorageBusy
from crossward.protocol.ledger.lines import OpenBody, SeatsBody
from crossward_service.db.engine import connect, read, write
from crossward_service.db.ledger import SqlLedger
from forked import Forked

RIVAL = Path(__file__).with_name("rival.py")


def start(url: str, names: list[str], budget: int, cost: int) -> list[subprocess.Popen[str]]:
    """Processes that stand ready, and then begin together."""
    processes = [
        Forked(
            [sys.executable, str(RIVAL), url, name, str(budget), str(cost)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    assert [process.stdout.readline() for process in processes] == ["ready\n"] * len(names)
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    return processes


def open_budget(engine: Engine, ledger: SqlLedger, nano: int) -> None:
    with write(engine) as connection:
        ledger.append(connection, OpenBody(1, 2, "basic", nano), 0)


def test_processes_that_race_for_one_budget_never_overspend_it(url, engine, ledger):
    """They meet on a ledger without a head to lock: one of them opens the budget, and all spend it."""
    rivals = start(url, ["red", "blue"], budget=100 * 7 + 6, cost=7)  # room for 100 and not one more
    answers = [rival.communicate(timeout=500)[0].split() for rival in rivals]
    assert [rival.returncode for rival in rivals] == [0, 0]
    with read(engine) as connection:
        verified = ledger.verify(connection)
        lines = [line.hash for line in ledger.lines(connection, after=2)]
    assert sum(map(len, answers)) == len(lines) == 100
    assert sorted(hash for answer in answers for hash in answer) == sorted(lines)
    assert verified.state.balance.spend.nano_epsilon == 700


def test_processes_killed_while_they_append_leave_a_ledger_that_holds(url, engine, ledger):
    victims = start(url, ["first", "second", "third"], budget=10**9, cost=1)
    confirmed: list[str] = []
    for number, victim in enumerate(victims):
        confirmed += [victim.stdout.readline().strip() for _ in range(5 + 3 * number)]
        victim.kill()
        confirmed += victim.stdout.read().split("\n")[:-1]  # what follows the last line break was cut
        victim.communicate(timeout=120)
    with write(engine) as connection:  # whatever a victim held is free again
        lines = [line.hash for line in ledger.lines(connection, after=2)]
    with read(engine) as connection:
        verified = ledger.verify(connection)
    assert set(confirmed) <= set(lines)
    assert len(lines) <= len(confirmed) + len(victims)  # each killed at most once between commit and answer
    assert verified.state.balance.spend.nano_epsilon == len(lines)


def test_who_waits_too_long_for_the_lock_is_told_so(url, engine, ledger):
    open_budget(engine, ledger, 10)
    impatient = connect(url, patience=0.2)
    try:
        with write(engine) as connection:
            ledger.append(connection, SeatsBody(1, "0" * 64), 0)
            with pytest.raises(StorageBusy), write(impatient) as other:
                ledger.append(other, SeatsBody(2, "0" * 64), 0)
        with read(impatient) as connection:
            assert ledger.verify(connection).head.sequence == 2
    finally:
        impatient.dispose()


def test_a_read_sees_one_moment(url, engine, ledger):
    open_budget(engine, ledger, 10)
    with read(engine) as connection:
        before = ledger.head(connection)
        with write(engine) as other:
            ledger.append(other, SeatsBody(1, "0" * 64), 0)
        assert ledger.verify(connection).head == before
    with read(engine) as connection:
        assert ledger.head(connection).sequence == before.sequence + 1


def test_a_commit_waits_for_the_disk_even_where_the_server_would_not(url):
    lazy = connect(url + "&options=-csynchronous_commit%3Doff" if url.startswith("postgresql") else url)
    question = {"postgresql": "SHOW synchronous_commit", "sqlite": "PRAGMA synchronous"}[lazy.dialect.name]
    try:
        with write(lazy) as connection:
            assert connection.exec_driver_sql(question).scalar() in ("on", 2)
    finally:
        lazy.dispose()
