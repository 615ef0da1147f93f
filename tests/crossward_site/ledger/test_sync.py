"""The mirror must agree, by receipts that are for the lines sent."""

from __future__ import annotations

import pytest

from crossward.errors import NotReady
from crossward.protocol.ledger.lines import Head as ReceiptHead
from crossward.protocol.ledger.lines import Line, OpenBody
from crossward.protocol.messages import Receipt
from crossward_service.db.engine import read, write
from crossward_site import facts
from crossward_site.ledger import service as ledger


def chain(site, count: int) -> list[Line]:
    with write(site.engine) as connection:
        for k in range(count):
            site.append(connection, OpenBody(k + 1, 20, "basic", 10**9))
        return list(site.ledger.lines(connection))


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
        return Receipt(party="main", task=task, release=None, head=head, time="2026-01-01T00:00:00.000000Z")

    def mirror(self, after: int):
        return []


@pytest.mark.parametrize("wrong", [{"at": 2}, {"task": "some-task"}])
def test_a_receipt_that_is_not_for_the_lines_sent_stops_the_site(site, wrong) -> None:
    chain(site, 3)
    with pytest.raises(NotReady, match="has stopped"):
        ledger.sync(site, Receipts(**wrong))
    with read(site.engine) as connection:
        assert "signed" in facts.STOPPED.get(connection)
        assert ledger.confirmed(connection).sequence == 0
        with pytest.raises(NotReady):
            site.check_running(connection)


def test_reconcile_sends_lines_in_batches(site, monkeypatch) -> None:
    assert ledger.LINES_PER_MESSAGE <= 1000
    monkeypatch.setattr(ledger, "LINES_PER_MESSAGE", 4)
    lines, mirror = chain(site, 10), Receipts()
    assert ledger.reconcile(site, mirror).sequence == 10
    assert mirror.batches == [4, 4, 2]
    assert mirror.lines == lines
