"""A ledger that does not extend its mirror stops its party, until an operator has seen that both agree again."""

import pytest

from crossward.errors import Conflict, NotNext, PartyStopped
from crossward.protocol.ledger.lines import Line, OpenBody, SeatsBody
from crossward.protocol.ledger.rules import Replay
from crossward_coordinator.ledger.tables import ledger
from crossward_service.db.engine import connect, write


def rewritten(site):
    """The party's ledger with another first line: a rewritten past, or another database."""
    site.replay, site.lines, site.confirmed = Replay(), [], 0
    site.append(OpenBody(1, 20, "basic", 10**11))
    site.append(SeatsBody(1, "6" * 64))
    return site


def test_a_rewritten_ledger_stops_its_party(world):
    study = world.begin(sources=["main", "west"], quorum={"sources": 1})
    site = world.sites["main"]
    site.send_lines()
    honest = list(site.lines), site.replay
    task = site.next()
    with pytest.raises(NotNext, match="Line 1 differs"):
        rewritten(site).publish(site.result(task))
    shown = world.party("main")  # the stop was committed although the request was refused
    assert shown["state"] == "stopped"
    assert shown["cause"] == "Line 1 differs from the line 1 here."
    assert world.ask("auditor", "GET", "/ledger/main/verify").json()["head"]["sequence"] == 2
    late = next(late for late in world.show(study)["waiting_for"] if late["party"] == "main")
    assert (late["state"], late["party_state"]) == ("ready", "stopped")  # its lease has ended
    for refused in (site.next, lambda: site.heartbeat(task)):
        with pytest.raises(PartyStopped, match="Line 1 differs"):
            refused()
    with pytest.raises(Conflict, match="has not shown"):
        world.ask("operator", "POST", "/parties/main/reconcile")
    world.sites["west"].work()
    world.sites["branch-1"].work()
    assert world.show(study)["state"] == "complete"
    # The site repairs its ledger, shows it, and an operator lets it go on.
    site.lines, site.replay = honest
    site.confirmed = 0
    site.send_lines()
    assert world.party("main")["state"] == "stopped"
    assert world.ask("operator", "POST", "/parties/main/reconcile").json()["state"] == "active"
    assert site.next() is None


def test_a_stale_backup_stops_its_party(world):
    """Restored from before its last charge, a site would spend the same budget again."""
    world.begin(id="first")
    site = world.sites["main"]
    backup = list(site.lines)
    site.work()
    spent = list(site.lines)
    world.begin(id="second")
    task = site.next()
    site.lines, site.replay, site.confirmed = list(backup), Replay(), len(backup)
    for line in backup:
        site.replay.take(line)
    with pytest.raises(NotNext, match="Line 3 differs"):
        site.publish(site.result(task))
    assert world.party("main")["state"] == "stopped"
    # It takes over what the mirror has, and goes on from there.
    answer = site.call("GET", "/v1/ledger/main").json()
    site.lines, site.replay = [Line.from_text(line) for line in answer["lines"]], Replay()
    assert site.lines == spent
    for line in site.lines:
        site.replay.take(line)
    site.send_lines(site.lines[-1:])
    world.ask("operator", "POST", "/parties/main/reconcile")
    site.results.clear()
    site.confirmed = len(site.lines)
    site.publish(site.result(site.next(wait=120)))
    assert world.ask("auditor", "GET", "/ledger/main/verify").json()["head"]["sequence"] == 6


def test_lines_from_nowhere_stop_the_party(small):
    site = small.site("main", "source")
    site.append(OpenBody(2, 20, "basic", 10**9))
    with pytest.raises(NotNext):
        site.send_lines(site.lines[2:])
    assert small.party("main")["state"] == "stopped"
    with pytest.raises(Conflict, match="has not shown"):
        small.ask("operator", "POST", "/parties/main/reconcile")


def test_a_charge_above_the_budget_stops_the_party(small):
    """The site's own rule would have refused it; a site that wrote it anyway is not believed."""
    small.site("main", "source", budget=1.0)
    small.begin()
    site = small.sites["main"]
    task = site.next()
    release, description = site.train(task)
    line = type(site)(small.url, "main", site.hospital)
    line.charge(task, description)
    site.lines.append(Line.after(site.replay.head, line.lines[-1].body, 0))
    with pytest.raises(Exception, match="Cell 0: "):
        site.send_lines()
    assert small.party("main")["state"] == "stopped"
    assert release is not None


def test_a_damaged_mirror_is_named_and_stops_the_party(world):
    world.tampered = True
    world.begin()
    site = world.sites["main"]
    site.send_lines()
    engine = connect(world.settings["database_url"])
    with write(engine) as connection:
        changed = ledger.lines.update().where(ledger.lines.c.owner == "main").values(time=7)
        connection.execute(changed)
    engine.dispose()
    shown = world.ask("auditor", "GET", "/ledger/main/verify").json()
    assert (shown["holds"], shown["line"]) == (False, 1)
    task = site.next()
    result = site.result(task)
    whole = result.model_copy(update={"lines": tuple(line.text for line in site.lines)})
    with pytest.raises(Exception, match="Line 1"):
        site.publish(whole)
    assert world.party("main")["state"] == "stopped"
