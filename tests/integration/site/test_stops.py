"""A stop at the coordinator, and how both sides come to agree again."""

from __future__ import annotations

import pytest
from sqlalchemy import delete, update

from crossward.errors import NotReady
from crossward.protocol.ledger.lines import OpenBody
from crossward_coordinator.parties.tables import parties
from crossward_service.db.engine import connect, write
from crossward_site.desk import service as desk
from crossward_site.ledger import service as ledger
from crossward_site.ledger import tables


@pytest.fixture
def operator(federation):
    """The coordinator's database, as a fault or an operator's hand changes it."""
    engine = connect(f"sqlite:///{federation.folder}/coordinator/coordinator.sqlite3")

    def change(**values) -> None:
        with write(engine) as connection:
            connection.execute(update(parties).values(**values))

    yield change
    engine.dispose()


@pytest.mark.parametrize("state", ["before", "stored"])
def test_a_stop_at_the_coordinator_is_reported_and_asked_about_again(federation, operator, state, alone) -> None:
    main = federation.hospital("main", "target")
    runner = main.new_runner()
    runner.work()
    federation.start(alone())
    if state == "stored":
        main.drive_until("stored")
    operator(state="stopped", cause="for a test", agreed=1.0)
    for call in (runner.take, runner.work) if state == "stored" else (runner.take,):
        with pytest.raises(NotReady, match="for a test"):
            call()
    assert desk.status(main.site).stopped == ""
    federation.call("operator", "POST", "/v1/parties/main/reconcile")
    main.settle()
    assert federation.study("sugar")["tasks"][0]["state"] == "done"


@pytest.mark.parametrize("steward_first", [True, False])
def test_each_reconciles_once_in_any_order(federation, operator, steward_first: bool, alone) -> None:
    main = federation.hospital("main", "target")
    runner = main.new_runner()
    runner.work()
    federation.start(alone())
    main.site.stop("the ledgers differ, for a test.")
    operator(state="stopped", cause="for a test", agreed=None if steward_first else 1.0)
    if steward_first:
        ledger.reconcile(main.site, runner.coordinator())
        with pytest.raises(NotReady):
            runner.take()  # the operator has not yet: no new stop here
    federation.call("operator", "POST", "/v1/parties/main/reconcile")
    if not steward_first:
        with pytest.raises(NotReady):
            runner.take()
        ledger.reconcile(main.site, runner.coordinator())
    main.settle()
    assert federation.study("sugar")["tasks"][0]["state"] == "done"


def test_a_last_line_that_is_gone_stops_the_site_though_both_heads_agree(federation) -> None:
    main = federation.hospital("main", "target")
    line = main.new_runner().coordinator()
    with write(main.site.engine) as connection:
        main.site.append(connection, OpenBody(2, 20, "basic", 10**9))
    ledger.sync(main.site, line)
    assert ledger.sync(main.site, line).sequence == 3
    with write(main.site.engine) as connection:
        connection.execute(delete(tables.ledger.lines).where(tables.ledger.lines.c.sequence == 3))
    with pytest.raises(NotReady, match="line 3 of this ledger is not the line 3"):
        ledger.sync(main.site, line)
    assert "line 3" in desk.status(main.site).stopped
