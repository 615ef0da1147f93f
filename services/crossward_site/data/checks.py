"""What is refused as data are opened: budgets that cannot be, and more records of a person than is sensible."""

from __future__ import annotations

from crossward.errors import InvalidEpsilon, InvalidSetting
from crossward.privacy.budget import NANO, Budget
from crossward.protocol.constants import MOST_BUDGET_ATTO_DELTA, MOST_BUDGET_NANO_EPSILON, FilterKind

MOST_RECORDS = 100


def check_records_per_person(count: int) -> None:
    """A person's charge is that of a record times this: beyond some, nothing is left to learn."""
    if not 1 <= count <= MOST_RECORDS:
        raise InvalidSetting(f"{count} records per person are not possible.", f"Keep 1 to {MOST_RECORDS}.")


def check_budget(budget: Budget, rule: FilterKind) -> None:
    """Refuse what the ledger would, in the steward's words: it speaks of lines."""
    if budget.nano_epsilon > MOST_BUDGET_NANO_EPSILON:
        raise InvalidEpsilon(
            "The budget's epsilon is too large to promise anything.",
            f"The largest is {MOST_BUDGET_NANO_EPSILON // 10**NANO}; common choices are 0.1 to 10.",
        )
    if budget.atto_delta > MOST_BUDGET_ATTO_DELTA:
        raise InvalidEpsilon(
            "The budget's delta is too large to promise anything.", "The largest is 0.001. Take it well below 1/n."
        )
    if rule is FilterKind.ZCDP and not budget.atto_delta:
        raise InvalidEpsilon("A zCDP budget needs a delta above 0.", "Take it well below 1/n, such as 1e-6.")
