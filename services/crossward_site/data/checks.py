"""What is refused as data are connected: budgets that cannot be, labels of one value, a second budget for anyone."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import Connection, select

from crossward.errors import InvalidData, InvalidEpsilon, NotReady, OneClass
from crossward.learning.encoding.values import is_missing
from crossward.privacy.budget import NANO, Budget
from crossward.protocol.constants import MOST_ATTO_DELTA, MOST_NANO_EPSILON, FilterKind
from crossward_site import facts
from crossward_site.data.mapping import DataMap
from crossward_site.data.persons import Persons
from crossward_site.data.places import Raw
from crossward_site.data.report import recoded
from crossward_site.data.seats import Seats
from crossward_site.data.tables import seats

MOST_SHARED = 0.1
"""The share of a dataset's persons that may be in other datasets too."""

MOST_BUDGETS = 2
"""How many datasets a person may be in: each has a budget of its own."""


def check_budget(budget: Budget, rule: FilterKind) -> None:
    """Refuse what the ledger would, in the steward's words: it speaks of lines."""
    if budget.nano_epsilon > MOST_NANO_EPSILON:
        raise InvalidEpsilon(
            "The budget's epsilon is too large.",
            f"The largest is {MOST_NANO_EPSILON // 10**NANO}; common choices are 0.1 to 10.",
        )
    if budget.atto_delta > MOST_ATTO_DELTA:
        raise InvalidEpsilon("The budget's delta is too large.", "The largest is 1. Take it well below 1/n.")
    if rule is FilterKind.ZCDP and not 0 < budget.atto_delta < MOST_ATTO_DELTA:
        raise InvalidEpsilon("A zCDP budget needs a delta between 0 and 1.", "Take it well below 1/n, such as 1e-6.")


def check_labels(raw: Raw, mapping: DataMap) -> None:
    """A label that has the same value everywhere cannot be learned, whatever the study."""
    for name, mapped in mapping.labels.items():
        values = recoded(raw.columns[mapped.column], mapping, mapped)
        if len({str(value) for value in values if not is_missing(value)}) < 2:
            raise OneClass(
                f"{raw.where}: the label {name!r} (column {mapped.column!r}) has one value only.",
                "Bring records of both classes, or correct the label's recoding.",
            )


def check_not_closed(connection: Connection, name: str) -> None:
    """See `crossward_site.ledger.service.reconcile`: a restored database does not know who came later."""
    if name in (facts.CLOSED_DATASETS.get(connection) or ()):
        raise NotReady(
            f"{name} is closed to new versions: the database was restored from an old backup.",
            "Restore a later backup. Until then the dataset works on with the persons it knows.",
        )


def check_known(before: Seats, persons: Persons, name: str, where: str) -> None:
    """Persons whose ids are spelled otherwise would all look new."""
    known = before.seat_of
    gone = sum(1 for person in known if person not in persons.records_of)
    if gone * 2 > len(known):
        raise InvalidData(
            f"{where} lacks {gone} of the {len(known)} persons that {name} knows: they would look new and get a fresh "
            "budget.",
            "Spell the ids as before (007 as a text is not the number 7), or point the dataset at the right data.",
        )


def check_others(connection: Connection, name: str, persons: Persons) -> None:
    """Nobody gets a second budget under another name, but for a few; and nobody at all gets a third."""
    rows = connection.execute(select(seats.c.dataset, seats.c.human)).all()
    here = {row.human for row in rows if row.dataset == name}
    humans = here.union(persons.humans.values())  # who has left the data has the budget still
    rows = [row for row in rows if row.dataset != name]
    sizes = Counter(row.dataset for row in rows)
    shared = Counter(row.dataset for row in rows if row.human in humans)
    budgets = Counter(row.human for row in rows if row.human in humans)
    twice = [other for other, count in shared.most_common() if count > MOST_SHARED * sizes[other]]
    if twice or len(budgets) > MOST_SHARED * len(humans):
        other = twice[0] if twice else shared.most_common(1)[0][0]
        raise InvalidData(
            f"{shared[other]} of the {len(humans)} persons are in the dataset {other} too: under another name they "
            "would get a second budget.",
            f"Add the data to {other} as a new version; all data about the same people belong into one dataset.",
        )
    # Who has a seat here has this budget already, and brings no further one.
    if third := sum(1 for human, count in budgets.items() if count >= MOST_BUDGETS and human not in here):
        raise InvalidData(
            f"Persons who are in {MOST_BUDGETS} other datasets already: {third}. Here they would get a third budget.",
            "Leave them out here, and bring their records as a new version of the dataset they belong to.",
        )
