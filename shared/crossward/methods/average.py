"""The average method: the mean of the partners' weights (004 eq. 3)."""

from __future__ import annotations

from typing import ClassVar, Literal

from crossward.methods.settings import Mix
from crossward.methods.sourced import Mixed


class Average(Mixed):
    """The mean of the sources' weights."""

    title: ClassVar[str] = "average"
    explanation: ClassVar[str] = (
        "Each source trains one private model and releases its weights. Targets use their mean and release nothing."
    )
    proofs: ClassVar[tuple[str, ...]] = ("aggregation.md", "objective-perturbation.md", "release-step.md")

    name: Literal["average"] = "average"
    mix: Mix = "uniform"
