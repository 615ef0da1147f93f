"""Filters decide whether a release may still be made. They look only at public costs, so budgets may be chosen as
one goes: both rules here stay valid when each epsilon depends on earlier answers.

- `BasicFilter`: epsilons and deltas add up (Dwork et al. 2006; adaptive budgets: Rogers et al. 2016).
- `ZcdpFilter`: a pure eps-release is (eps^2/2)-zCDP, rhos add up and the total is held below the rho that gives the
  wanted (eps, delta) (Bun and Steinke 2016, Prop. 1.3-1.4; as a filter: Whitehouse et al. 2023). Better than
  the sum for many small releases.

A rule is a pure function from what was spent to what is spent; `Accountant` is the mutable counter around one.
Proof: docs/proofs/filters.md.
"""

from __future__ import annotations

import math
import os
import threading
from dataclasses import dataclass
from decimal import ROUND_FLOOR, Decimal, localcontext
from typing import NoReturn, Protocol

from crossward.errors import BudgetExceeded, InvalidEpsilon
from crossward.privacy.budget import ATTO, NANO, Budget, Cost, number_text
from crossward.privacy.release import Release


@dataclass(frozen=True, slots=True)
class Spend:
    """What has been spent, in integers. rho is in units of 10^-18, the square of nano-epsilon."""

    nano_epsilon: int = 0
    atto_delta: int = 0
    atto_rho: int = 0
    releases: int = 0


NOTHING = Spend()


class Filter(Protocol):
    """Says what the spend becomes when a release of this cost is made, or refuses."""

    def admit(self, spend: Spend, cost: Cost) -> Spend:
        """The spend afterwards. Raises `BudgetExceeded`, and the spend is as before."""
        ...

    def left(self, spend: Spend) -> float:
        """The largest epsilon of one pure release that would still be admitted."""
        ...


def _add(spend: Spend, cost: Cost) -> Spend:
    rho = -(-(cost.nano_epsilon**2) // 2)
    return Spend(
        spend.nano_epsilon + cost.nano_epsilon,
        spend.atto_delta + cost.atto_delta,
        spend.atto_rho + rho,
        spend.releases + 1,
    )


@dataclass(frozen=True, slots=True)
class BasicFilter:
    """Sums of epsilon and delta stay within the budget."""

    budget: Budget

    def admit(self, spend: Spend, cost: Cost) -> Spend:
        """Add the cost, or refuse it whole."""
        after = _add(spend, cost)
        if after.nano_epsilon > self.budget.nano_epsilon:
            raise BudgetExceeded(
                f"This release costs epsilon {number_text(cost.nano_epsilon)}; {number_text(spend.nano_epsilon)} of "
                f"{number_text(self.budget.nano_epsilon)} is spent.",
                f"Ask for at most epsilon {number_text(self.budget.nano_epsilon - spend.nano_epsilon)}.",
            )
        if after.atto_delta > self.budget.atto_delta:
            raise BudgetExceeded(
                f"This release costs delta {cost.delta:.3g}; {spend.atto_delta / 10**ATTO:.3g} of "
                f"{self.budget.atto_delta / 10**ATTO:.3g} is spent.",
                "Use a pure method (delta 0), or a smaller delta.",
            )
        return after

    def left(self, spend: Spend) -> float:
        """What remains of epsilon."""
        return (self.budget.nano_epsilon - spend.nano_epsilon) / 1e9


@dataclass(frozen=True, slots=True)
class ZcdpFilter:
    """The sum of eps^2/2 over pure releases stays below the rho that implies the budget's (epsilon, delta).

    rho-zCDP implies (rho + 2 sqrt(rho log(1/delta)), delta), so the limit is
    rho = (sqrt(log(1/delta) + eps) - sqrt(log(1/delta)))^2.
    """

    budget: Budget

    def __post_init__(self) -> None:
        if not 0 < self.budget.atto_delta < 10**ATTO:
            raise InvalidEpsilon(
                "A zCDP filter turns rho into (epsilon, delta) and needs a delta between 0 and 1.",
                "Give the budget a delta, well below 1/n.",
            )

    @property
    def limit(self) -> int:
        """The largest total rho, in units of 10^-18, rounded down."""
        with localcontext() as context:
            context.prec = 50
            epsilon = Decimal(self.budget.nano_epsilon).scaleb(-NANO)
            log = -(Decimal(self.budget.atto_delta).scaleb(-ATTO)).ln()
            root = (log + epsilon).sqrt() - log.sqrt()
            return int((root * root).scaleb(ATTO).to_integral_value(rounding=ROUND_FLOOR))

    def admit(self, spend: Spend, cost: Cost) -> Spend:
        """Add eps^2/2, or refuse it whole."""
        if cost.atto_delta:
            raise BudgetExceeded(
                "A zCDP filter admits pure releases only, and this one has a delta.",
                "Use a pure method (delta 0).",
            )
        after = _add(spend, cost)
        if after.atto_rho > self.limit:
            raise BudgetExceeded(
                f"This release costs epsilon {number_text(cost.nano_epsilon)} (rho {cost.epsilon**2 / 2:.4g}); rho "
                f"{spend.atto_rho / 10**ATTO:.4g} of {self.limit / 10**ATTO:.4g} is spent.",
                f"Ask for at most epsilon {number_text(self._left(spend))}.",
            )
        return after

    def left(self, spend: Spend) -> float:
        """The epsilon whose eps^2/2 is what remains of rho."""
        return self._left(spend) / 1e9

    def _left(self, spend: Spend) -> int:
        return math.isqrt(2 * max(0, self.limit - spend.atto_rho))


class Accountant:
    """Counts what is charged against a filter. A release is charged before its noise is drawn; nothing is refunded.

    The guarantee of a release is per record. Where a person may have several of them, say how many: each release is
    then charged for all of a person's records.
    """

    def __init__(self, rule: Filter, records_per_person: int = 1) -> None:
        Cost(0).for_person(records_per_person)
        self._rule = rule
        self._records = records_per_person
        self._process = os.getpid()
        self._spend = NOTHING
        self._releases: list[Release] = []
        self._lock = threading.Lock()

    @classmethod
    def with_budget(cls, epsilon: float, delta: float = 0.0, records_per_person: int = 1) -> Accountant:
        """Plain sums up to (epsilon, delta)."""
        return cls(BasicFilter(Budget.of(epsilon, delta)), records_per_person)

    def charge(self, release: Release) -> None:
        """Charge a release, or raise `BudgetExceeded` and charge nothing."""
        cost = release.cost.for_person(self._records)
        with self._lock:
            if os.getpid() != self._process:
                raise BudgetExceeded(
                    "This account belongs to another process: a forked copy would hold the same budget a second time.",
                    "Charge in the process that made the account.",
                )
            self._spend = self._rule.admit(self._spend, cost)
            self._releases.append(release)

    @property
    def rule(self) -> Filter:
        """The filter that admits or refuses."""
        return self._rule

    def __copy__(self) -> Accountant:
        """An account is never copied: clones of an estimator share it, and so share its budget."""
        return self

    def __deepcopy__(self, memo: object) -> Accountant:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("An accountant cannot be pickled: a copy would hold the same budget a second time.")

    @property
    def spent(self) -> Spend:
        """What has been charged so far."""
        return self._spend

    @property
    def left(self) -> float:
        """The largest epsilon of one pure release that would still be admitted."""
        return self._rule.left(self._spend)

    @property
    def releases(self) -> tuple[Release, ...]:
        """Every release charged, in order."""
        return tuple(self._releases)


def charge(accountant: Accountant | None, release: Release) -> None:
    """Charge before noise is drawn, where the caller keeps an account."""
    if accountant is not None:
        accountant.charge(release)


__all__ = ["NOTHING", "Accountant", "BasicFilter", "Filter", "Spend", "ZcdpFilter", "charge"]
