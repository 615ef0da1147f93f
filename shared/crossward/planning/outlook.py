"""What a lead is told: the forecasts, what `auto` would freeze, and the smallest epsilon that is enough."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from crossward.errors import InvalidSetting
from crossward.planning.assumptions import Assumptions
from crossward.planning.methods import METHODS, TRANSFER
from crossward.planning.power import AS_WRITTEN, Forecast, Progress, forecast
from crossward.planning.setting import Setting
from crossward.planning.written import can_forecast
from crossward.study import Study
from crossward.study.auto import AUTO

EPSILONS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0)
NAMES = {"direct": "Direct", "sourced": "SourceD", "simcomb": "SimComb", "pst-f": "PST-F (W)", "pst-h": "PST-H (W)"}
"""How a study names the methods that are forecast, and how tables do."""

NOTABLE = 0.005
"""A difference in AUC that a lead should hear of."""


@dataclass(frozen=True, slots=True)
class Enough:
    """The smallest epsilon at which the recommended method is expected to reach an AUC; None: no epsilon tried is."""

    auc: float
    expected: float | None
    sure: float | None
    """Where the lower end of the band reaches it as well: nineteen outcomes of twenty."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """A plan. `frozen` is the study with what `auto` chooses, ready to be approved.

    A method has no forecast at an epsilon that was `tried` where a party has too few records for it.
    """

    study: Study
    setting: Setting
    epsilon: float
    tried: tuple[float, ...]
    forecasts: tuple[Forecast, ...]
    frozen: Study
    enough: Enough | None = None

    @property
    def methods(self) -> tuple[str, ...]:
        """What was tried, as tables name it: transfer where there are sources, and what the lead has written."""
        by_rules = [method for method in METHODS if self.setting.sources or method not in TRANSFER]
        return (*by_rules, AS_WRITTEN) if _is_forecast(self.study) else tuple(by_rules)

    @property
    def recommended(self) -> str:
        """The method that `auto` chooses, as tables name it."""
        return NAMES[self.frozen.method.name]

    def curve(self, method: str) -> list[Forecast]:
        """A method's forecasts by rising epsilon."""
        return [row for row in self.forecasts if row.method == method]

    @property
    def better(self) -> Forecast | None:
        """A method that the simulation puts notably above the recommended one at the study's epsilon."""
        here = {row.method: row for row in self.forecasts if row.epsilon == self.epsilon and row.method != AS_WRITTEN}
        own = here.get(self.recommended)
        best = max(here.values(), key=lambda row: row.auc_mean, default=None)
        return best if own and best and best.auc_mean > own.auc_mean + NOTABLE else None


def plan(
    study: Study,
    *,
    records: Mapping[str, int] | None = None,
    assumed: Assumptions | None = None,
    epsilons: Sequence[float] = EPSILONS,
    wanted: float | None = None,
    repeats: int = 16,
    seed: int = 0,
    workers: int = 1,
    progress: Progress = lambda done, total: None,
) -> Outlook:
    """Forecast every method at every epsilon and at the study's own. Touches no record and needs no service."""
    assumed = assumed or Assumptions(**_rate(study))
    if wanted is not None:
        _check_wanted(wanted, assumed.nonprivate_auc)
    setting = Setting.of(study, records or {}, assumed)
    frozen = study if study.chosen else as_auto(study, records or {})
    own = study.epsilon.target or study.epsilon.source or 1.0
    tried = sorted({*epsilons, own})
    found = tuple(
        forecast(
            setting,
            tried,
            written=[_at(study, e, own) for e in tried] if _is_forecast(study) else [],
            repeats=repeats,
            seed=seed,
            workers=workers,
            progress=progress,
        )
    )
    outlook = Outlook(study, setting, own, tuple(tried), found, frozen)
    return outlook if wanted is None else _with_enough(outlook, wanted)


def as_auto(study: Study, records: Mapping[str, int]) -> Study:
    """The study with method, encoding and groups left to `auto`."""
    data: dict[str, Any] = study.model_dump(mode="json", exclude={"method", "encoding", "groups", "chosen"})
    return Study.from_data(data | {"method": AUTO, "records": {**(study.records or {}), **records}})


def smallest_epsilon(points: Sequence[tuple[float, float]], wanted: float) -> float | None:
    """Where a curve of (epsilon, AUC) first reaches `wanted`, between two points by interpolation in log(epsilon).

    A curve never falls with epsilon but by the chance of a simulation, so falls are bridged. The smallest epsilon tried
    is given as it is: below it nothing is known.
    """
    before: tuple[float, float] | None = None
    for epsilon, auc in points:
        if auc >= wanted:
            if before is None:
                return epsilon
            share = (wanted - before[1]) / (auc - before[1])
            return float(math.exp((1 - share) * math.log(before[0]) + share * math.log(epsilon)))
        before = (epsilon, max(auc, before[1]) if before else auc)
    return None


def _with_enough(outlook: Outlook, wanted: float) -> Outlook:
    curve = outlook.curve(outlook.recommended)
    mean = smallest_epsilon([(row.epsilon, row.auc_mean) for row in curve], wanted)
    low = smallest_epsilon([(row.epsilon, row.auc_low) for row in curve], wanted)
    return replace(outlook, enough=Enough(wanted, mean, low))


def _check_wanted(auc: float, assumed: float) -> None:
    """Refuse an AUC that every model has, or that none can have."""
    if not auc > 0.5:
        raise InvalidSetting(
            f"An AUC of {auc:g} is no better than guessing.",
            f"Want one between 0.5 and {assumed:g}, which is assumed without any noise.",
        )
    if not auc < assumed:
        raise InvalidSetting(
            f"An AUC of {auc:g} cannot be reached: without any noise {assumed:g} is assumed.",
            f"Want one between 0.5 and {assumed:g}, or assume more with --nonprivate-auc.",
        )


def _is_forecast(study: Study) -> bool:
    """Whether the study names a method of its own that can be forecast."""
    return not study.chosen and can_forecast(study.method)


def _at(study: Study, epsilon: float, own: float) -> Study:
    """The study as it is written, with its epsilons in the same ratio."""
    paid = {side: value * epsilon / own for side, value in study.epsilon.model_dump(exclude_none=True).items()}
    return study.model_copy(update={"epsilon": type(study.epsilon)(**paid)})


def _rate(study: Study) -> dict[str, float]:
    rate = study.label.positive_rate
    return {} if rate is None else {"positive_rate": rate}
