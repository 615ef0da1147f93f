"""One person, one budget, by the truth: whose records every release was really made from.

Each record carries the number of its person in the last digits of a value (`records.py`). What a learner or a paid AUC
is given is looked at as it is given, after all that the site has done to find it: no seat, tag, copy or spend of the
site is asked. When a release leaves, each person in it has lost what it was charged at, for every row there:

    all that a person lost is within the budget, for life, under whatever dataset, version, role or seat
    nobody has more rows in a release than were charged for
    since the seats were last lost, all releases that a person was in were charged to one cell, at least, in common

The last is what a seat is for: without it nothing keeps the sum within the budget but luck.
"""

from __future__ import annotations

import json
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from crossward.learning.encoding import Number
from crossward.learning.stored import StoredRows
from crossward.privacy.auc import private_auc
from crossward.privacy.budget import Budget, nano_epsilon
from crossward.privacy.noise import Randomness
from crossward.protocol.constants import PAID_AUC
from crossward_lab.disasters.federation import BUDGET, SCHEMA
from crossward_lab.disasters.host import Noise
from crossward_lab.disasters.records import MARK, person_of
from crossward_lab.disasters.verdict import Overdrawn
from crossward_site.models import paid_auc
from crossward_site.models.evaluation import holdout
from crossward_site.tasks import steps
from crossward_site.tasks.training import train

NANO_BUDGET = Budget.of(BUDGET).nano_epsilon
ROWS = 1
"""Rows of a person that a charge is for: no dataset of a history has more records of one."""

CHARGE = "SELECT sequence, body FROM ledger_lines WHERE owner = 'self' AND kind = 'reserve' AND subject = ?"
LOSSES = "SELECT count(*) FROM ledger_lines WHERE owner = 'self' AND kind = 'recover' AND sequence < ?"


class Accounts:
    """What each person of each hospital has lost."""

    def __init__(self) -> None:
        self.lost: dict[str, Counter[str]] = defaultdict(Counter)
        """Of each party and person, in nano-epsilon."""
        self._made: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self._cells: dict[tuple[str, int, str], frozenset[int]] = {}

    def made(self, party: str, task: str, X: StoredRows) -> None:
        """Something is made from these rows, for a task of a party. Made again, it is of all who were in either."""
        self._made[party, task] |= Counter(persons_in(X))

    def left(self, party: str, task: str, connection: sqlite3.Connection) -> None:
        """A release leaves its site for the first time; what it was charged at is in the site's ledger."""
        row = connection.execute(CHARGE, (task,)).fetchone()
        if row is None:
            raise Overdrawn(f"{party}: {task} leaves, and nothing was charged for it")
        sequence, charge = row[0], json.loads(row[1])
        [losses] = connection.execute(LOSSES, (sequence,)).fetchone()
        for person, rows in sorted(self._made[party, task].items()):
            self._lose(party, person, task, rows, int(charge["nano_epsilon"]))
            where, cells = (party, losses, person), frozenset(charge["cells"])
            self._cells[where] = common = self._cells.get(where, cells) & cells
            if not common:
                raise Overdrawn(f"{party}: {task} read {person}, and no cell has paid for all that did")

    def _lose(self, party: str, person: str, task: str, rows: int, nano: int) -> None:
        if rows > ROWS:
            raise Overdrawn(f"{party}: {task} read {rows} rows of {person}, and was charged for {ROWS}")
        lost = self.lost[party]
        lost[person] += rows * nano
        if lost[person] > NANO_BUDGET:
            raise Overdrawn(f"{party}: {person} has lost {lost[person]} of {NANO_BUDGET} nano-epsilon")


def persons_in(X: StoredRows) -> list[str]:
    """Whose rows these are, once for each; rows that nobody fills are nobody's."""
    if not len(X):
        return []
    [column] = [one for one in SCHEMA.features if isinstance(one, Number) and one.name == MARK]
    place = SCHEMA.columns.index(MARK)
    encoded = np.concatenate([np.asarray(block)[:, place] for block in X.blocks()])
    values = column.low + (column.high - column.low) * (encoded + 1) / 2
    return [person for value in values.tolist() if (person := person_of(value)) is not None]


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Something of a module, or of a class, is something else meanwhile."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def watching(accounts: Accounts) -> Iterator[None]:
    """Look at all that releases are made from."""
    scored: dict[str, Any] = {}

    def training(announcement: Any, rows: Any, noise: Randomness) -> Any:
        if rows is not None and announcement.release is not None:
            accounts.made(_party(noise), announcement.task.id, rows.X)
        return train(announcement, rows, noise)

    def held_out(site: Any, served: Any, *others: Any) -> Any:
        rows = holdout(site, served, *others)
        scored[_party(site.machine.noise)] = served.task.id, rows.X  # nobody else has a turn before it is drawn
        return rows

    def drawing(scores: Any, labels: Any, epsilon: float, *, randomness: Randomness) -> Any:
        task, X = scored.pop(_party(randomness))
        accounts.made(_party(randomness), auc_task(task, epsilon), X)
        return private_auc(scores, labels, epsilon, randomness=randomness)

    with (
        replaced(steps, "train", training),
        replaced(paid_auc, "holdout", held_out),
        replaced(paid_auc, "private_auc", drawing),
    ):
        yield


def auc_task(task: str, epsilon: float) -> str:
    """By this the ledger knows a paid AUC of what a task has trained."""
    return f"{PAID_AUC}{nano_epsilon(epsilon)}:{task}"


def _party(noise: Randomness) -> str:
    assert isinstance(noise, Noise)
    return noise.party
