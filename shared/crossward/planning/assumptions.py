"""What a lead supposes about records that nobody has looked at: public numbers, none of them fitted to records."""

from __future__ import annotations

from dataclasses import dataclass

from crossward.errors import InvalidSetting
from crossward.privacy.budget import is_number


@dataclass(frozen=True, slots=True)
class Assumptions:
    """The simulated world, up to its chance.

    `positive_rate`: the share of positive labels. `nonprivate_auc`: what a model without noise, learnt from as many
    records as the largest party has, reaches at a site. `effect_shift` and `mean_shift`: how far sites lie apart,
    relative to an effect and in deviations of a feature. `misjudged`: the deviation of log(effect / declared
    importance). `wrong_direction`: how often a declared direction is wrong. `correlation`: of two features, each taken
    in its direction of risk.
    """

    positive_rate: float = 0.15
    nonprivate_auc: float = 0.80
    effect_shift: float = 0.3
    mean_shift: float = 0.2
    misjudged: float = 0.5
    wrong_direction: float = 0.1
    correlation: float = 0.18
    """Behind the answers, not of them: flags and levels show less of it. Encoded records of the BRFSS states that no
    benchmark uses correlate by .12, as a world with this number does."""

    def __post_init__(self) -> None:
        _within("positive_rate", self.positive_rate, 0.001, 0.999, "It is the share of positive labels, such as 0.15.")
        _within(
            "nonprivate_auc",
            self.nonprivate_auc,
            0.51,
            0.999,
            "Take what published models of this outcome reach, such as 0.8.",
        )
        for name in ("effect_shift", "mean_shift", "misjudged"):
            _within(name, getattr(self, name), 0.0, 3.0, "0 means none; 0.3 is a moderate difference.")
        _within("wrong_direction", self.wrong_direction, 0.0, 0.5, "0.5 means that a direction tells nothing.")
        _within("correlation", self.correlation, 0.0, 0.8, "0 means independent features.")


def _within(name: str, value: float, low: float, high: float, hint: str) -> None:
    if not (is_number(value) and low <= value <= high):
        raise InvalidSetting(f"{name} is {value!r}.", f"Give a number from {low:g} to {high:g}. {hint}")
