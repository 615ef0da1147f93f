"""Privacy parameters as users write them, and as integers that add up without rounding.

Epsilon is counted in nano-epsilon (10^-9) and delta in atto-delta (10^-18). A charge is rounded up, a limit down.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, InvalidOperation, localcontext
from fractions import Fraction

from crossward.errors import InvalidEpsilon

NANO = 9
ATTO = 18


class NonPrivate:
    """Asks for a method's non-private twin: the same model without noise. No filter ever admits its release."""

    _only: NonPrivate | None = None

    def __new__(cls) -> NonPrivate:
        """There is only one."""
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "NON_PRIVATE"

    def __reduce__(self) -> tuple[type[NonPrivate], tuple[()]]:
        return NonPrivate, ()


NON_PRIVATE = NonPrivate()

Epsilon = float | NonPrivate


def is_number(value: object) -> bool:
    """A finite int or float: not a bool, and not an int too large to be a float."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def check_epsilon(epsilon: float, name: str = "epsilon") -> float:
    """A usable epsilon: a finite number above zero."""
    if not is_number(epsilon):
        raise InvalidEpsilon(f"{name} must be a finite number, not {epsilon!r}.", "Common choices are 0.1 to 10.")
    if epsilon <= 0:
        raise InvalidEpsilon(f"{name} must be above 0, not {epsilon!r}.", "Common choices are 0.1 to 10.")
    return float(epsilon)


def check_delta(delta: float, name: str = "delta") -> float:
    """A usable delta of an approximate guarantee: strictly between 0 and 1."""
    if isinstance(delta, bool) or not isinstance(delta, int | float) or not 0 < delta < 1:
        raise InvalidEpsilon(f"{name} must lie between 0 and 1, not {delta!r}.", "Take it well below 1/n.")
    return float(delta)


def _scaled(value: float | str | Decimal, power: int, rounding: Callable[[Fraction], int], name: str) -> int:
    """A float means the shortest decimal that names it; everything else is exact."""
    try:
        number = Decimal(repr(float(value))) if isinstance(value, float) else Decimal(value)
    except (TypeError, ValueError, InvalidOperation):
        number = Decimal("NaN")
    if isinstance(value, bool) or not number.is_finite() or number < 0:
        raise InvalidEpsilon(f"{name} must be a finite number of at least 0, not {value!r}.", "Write it as in 0.5.")
    return rounding(Fraction(number) * 10**power)


def nano_epsilon(epsilon: float | str | Decimal) -> int:
    """Epsilon as a charge in nano-epsilon, rounded up."""
    return _scaled(epsilon, NANO, math.ceil, "epsilon")


def atto_delta(delta: float | str | Decimal) -> int:
    """Delta as a charge in atto-delta, rounded up."""
    return _scaled(delta, ATTO, math.ceil, "delta")


def number_text(nano: int) -> str:
    """Nano-epsilon as people write epsilon, exactly."""
    whole, part = divmod(nano, 10**NANO)
    return f"{whole}.{part:0{NANO}d}".rstrip("0").rstrip(".")


def _check_whole(*amounts: int) -> None:
    if not all(type(amount) is int and amount >= 0 for amount in amounts):
        raise InvalidEpsilon(f"Costs and budgets are whole numbers of at least 0, not {amounts}.", "Round them first.")


@dataclass(frozen=True, slots=True, order=True)
class Cost:
    """What a release costs a record, in integers."""

    nano_epsilon: int
    atto_delta: int = 0

    def __post_init__(self) -> None:
        _check_whole(self.nano_epsilon, self.atto_delta)

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.nano_epsilon + other.nano_epsilon, self.atto_delta + other.atto_delta)

    @property
    def epsilon(self) -> float:
        """Epsilon as a number, for people."""
        return float(self.nano_epsilon / 10**NANO)

    @property
    def delta(self) -> float:
        """Delta as a number, for people."""
        return float(self.atto_delta / 10**ATTO)

    def for_person(self, records: int) -> Cost:
        """The cost to a person who may have `records` records in the data (group privacy).

        m records: epsilon m eps, delta m exp((m - 1) eps) delta, rounded up and at most 1.
        """
        if type(records) is not int or records < 1:
            raise InvalidEpsilon(f"A person has a whole number of records, not {records!r}.", "Give 1 or more.")
        if records == 1 or not self.atto_delta:
            return Cost(records * self.nano_epsilon, self.atto_delta)
        with localcontext(Context(prec=60)):
            exponent = Decimal((records - 1) * self.nano_epsilon).scaleb(-NANO)
            growth = min(exponent, Decimal(50)).exp()  # exp(50) atto-delta is more than 1
            if exponent:
                growth = growth.next_plus()
            delta = math.ceil(records * self.atto_delta * growth)
        return Cost(records * self.nano_epsilon, min(delta, 10**ATTO))


@dataclass(frozen=True, slots=True)
class Budget:
    """A lifetime limit on what releases may cost a record."""

    nano_epsilon: int
    atto_delta: int = 0

    def __post_init__(self) -> None:
        _check_whole(self.nano_epsilon, self.atto_delta)

    @classmethod
    def of(cls, epsilon: float | str | Decimal, delta: float | str | Decimal = 0) -> Budget:
        """A budget from numbers, rounded down."""
        return cls(
            _scaled(epsilon, NANO, math.floor, "The budget's epsilon"),
            _scaled(delta, ATTO, math.floor, "The budget's delta"),
        )
