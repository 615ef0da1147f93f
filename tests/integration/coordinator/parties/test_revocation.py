"""A revoked party is gone; what it released before the quorum goes with it, what was accepted later stays."""

from datetime import datetime

import pytest
from sqlalchemy import select

from crossward.errors import (
    KeyRevoked,
)
from crossward.protocol import keys
from crossward.protocol.envelopes import SignedReceipt
from crossward_coordinator.ledger import service as ledger
from crossward_coordinator.parties import service as parties
from crossward_coordinator.parties.tables import keys as keys_table
from crossward_coordinator.releases.tables import results
from crossward_service.db.engine import connect, write


def test_a_revoked_party_is_gone_and_its_study_goes_on(world):
    study = world.begin(sources=["main", "west"], quorum={"sources": 1})
    shown = world.ask("operator", "DELETE", "/parties/west").json()
    assert shown["state"] == "revoked"
    with pytest.raises(KeyRevoked):
        world.sites["west"].next()
    world.sites["main"].work()
    world.ask("operator", "DELETE", "/parties/branch-1")
    shown = world.show(study)
    assert shown["state"] == "failed"
    assert "branch-1 (cancelled: The party was revoked.)" in shown["cause"]


@pytest.mark.parametrize("needed", [2, 3])
def test_until_the_quorum_a_revoked_party_takes_its_release_with_it(world, needed):
    study = world.begin(sources=["main", "north", "west"], quorum={"sources": needed})
    site = world.sites["west"]
    result = site.result(site.next())
    site.publish(result)
    world.ask("operator", "DELETE", "/parties/west")
    shown = world.show(study)
    west = next(task for task in shown["tasks"] if task["party"] == "west")
    assert (west["state"], west["release"]) == ("cancelled", result.release.digest)
    assert "What it had released is not used." in west["cause"]
    if needed == 3:
        assert shown["state"] == "failed"
        assert f"west (cancelled: {west['cause']})" in shown["cause"]
        return
    world.sites["main"].work()
    assert world.show(study)["state"] == "sources"
    world.sites["north"].work()
    target = world.sites["branch-1"].next()
    assert [release.party for release in target.inputs] == ["main", "north"]
    site.key = keys.generate()  # it comes back, and asks what became of its result
    site.join(world.invite("west")["code"])
    assert site.publish(result).content().release == result.release.digest


def test_from_the_quorum_on_what_was_accepted_stays(world):
    study = world.begin(sources=["main", "west"])
    for name in study.sources:
        world.sites[name].work()
    world.ask("operator", "DELETE", "/parties/west")
    [key] = world.party("west")["keys"]
    target = world.sites["branch-1"].next()
    assert [release.party for release in target.inputs] == ["main", "west"]
    path = f"/releases/{target.inputs[1].digest}/receipt"
    receipt = SignedReceipt.from_json(world.ask("auditor", "GET", path).body).verify(
        world.sites["main"].coordinator_key
    )
    assert receipt.release == target.inputs[1].digest
    assert receipt.time <= datetime.fromisoformat(key["revoked"])
    world.sites["branch-1"].publish(world.sites["branch-1"].result(target))
    assert world.show(study)["state"] == "complete"


def test_a_revocation_is_not_older_than_what_was_accepted_before_it(small):
    """Two machines' clocks may differ; the order of transactions does not."""
    small.begin()
    small.sites["main"].work()
    engine = connect(small.settings["database_url"])
    with write(engine) as connection:
        assert parties.revoke(connection, "main", now=1.0)
        together = select(results.c.stored, keys_table.c.revoked).join(
            keys_table, keys_table.c.party == results.c.party
        )
        stored, revoked = connection.execute(together).one()
    engine.dispose()
    assert stored == revoked


def test_a_revoked_party_comes_back_with_its_old_ledger(small):
    site = small.site("main", "source")
    site.send_lines()
    small.ask("operator", "DELETE", "/parties/main")
    site.key = keys.generate()
    site.join(small.invite()["code"])
    assert small.ask("operator", "GET", "/ledger/main").json()["head"]["sequence"] == 2


def test_a_request_carried_out_after_the_party_was_revoked(small):
    """Verified a moment before: the transaction looks again."""
    small.site("main", "source")
    small.ask("operator", "DELETE", "/parties/main")
    engine = connect(small.settings["database_url"])
    with write(engine) as connection:
        with pytest.raises(KeyRevoked):
            parties.rotate(connection, "main", keys.public_text(keys.generate()), now=0.0)
        with pytest.raises(KeyRevoked):
            ledger.take_lines(connection, None, "main", [], now=0.0)
    engine.dispose()
