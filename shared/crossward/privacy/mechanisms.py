"""What each mechanism says of its releases: one class each, the public numbers that fix it, and its proof."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

from crossward.errors import InvalidSetting
from crossward.privacy.calibration import Jacobian
from crossward.privacy.release import Release


@dataclass(frozen=True, slots=True, kw_only=True)
class _OfRecords(Release):
    """A release that says how many records it was made from."""

    n: int

    def __post_init__(self) -> None:
        Release.__post_init__(self)
        if self.n < 1:
            raise InvalidSetting(f"A release is made from at least one record, not {self.n}.")

    @property
    def records(self) -> int | None:
        """How many records it was made from."""
        return self.n


@dataclass(frozen=True, slots=True, kw_only=True)
class BallDescription:
    """How records enter the ball of a model: which columns (None: all), their scale, radius, q, intercept, offset."""

    q: float
    radius: float
    columns: tuple[int, ...] | None
    scale: tuple[float, ...] | None
    intercept: float
    offset: float


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDescription:
    """One of K models of objective perturbation. `pull` names what its weights are held to, None for zero.

    `extra` is Delta_k and `grid` what its weights are multiples of; None for the non-private twin.
    """

    ball: BallDescription
    dimension: int
    lam: float
    pull: str | None
    extra: float | None = None
    grid: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectivePerturbation(_OfRecords):
    """PLR and PLR-FS: K models at one epsilon. The parts of epsilon are None for the non-private twin."""

    name: ClassVar[str] = "objective-perturbation"
    proof: ClassVar[str] = "objective-perturbation.md"

    loss: str
    tolerance: float
    jacobian: Jacobian
    groups: tuple[GroupDescription, ...]
    epsilon_objective: float | None = None
    epsilon_output: float | None = None
    epsilon_prime: float | None = None

    @property
    def grids(self) -> tuple[float, ...]:
        """The grid of each group's weights."""
        return tuple(group.grid for group in self.groups if group.grid is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _OneBall(_OfRecords):
    """A mechanism of one model. `grid` is None for the non-private twin."""

    ball: BallDescription
    dimension: int
    loss: str
    lam: float
    grid: float | None = None

    @property
    def grids(self) -> tuple[float, ...]:
        """The grid of the weights."""
        return () if self.grid is None else (self.grid,)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproximateMinima(_OneBall):
    """AMP: Gaussian noise in the objective and on the output; `ridge` is Lambda."""

    name: ClassVar[str] = "amp"
    proof: ClassVar[str] = "amp.md"

    tolerance: float
    ridge: float | None = None
    sigma_objective: float | None = None
    sigma_output: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyDescent(_OneBall):
    """DPPSGD: noise on the output of permuted gradient descent, for a distance of at most `sensitivity`."""

    name: ClassVar[str] = "dppsgd"
    proof: ClassVar[str] = "dppsgd.md"

    weight: float
    passes: int
    batch: int
    batches: int
    projection: float
    sensitivity: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyAuc(_OfRecords):
    """A paid AUC: noise on the count of ordered pairs, with this share of epsilon, and on that of positives."""

    name: ClassVar[str] = "private-auc"
    proof: ClassVar[str] = "auc.md"

    pairs_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ExponentialChoice(_OfRecords):
    """The exponential mechanism's choice among candidates, by their mistakes on n records."""

    name: ClassVar[str] = "exponential-mechanism"
    proof: ClassVar[str] = "selection.md"

    candidates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomStopping(_OfRecords):
    """The best of a random number of tries, each at `base_epsilon`."""

    name: ClassVar[str] = "choice-by-random-stopping"
    proof: ClassVar[str] = "selection.md"

    base_epsilon: float
    eta: float
    gamma: float
    candidates: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingPrivate(Release):
    """Gradient boosting on a target's own records: no guarantee at all, so it never leaves."""

    name: ClassVar[str] = "boosted-ensemble"

    epsilon: float = field(default=math.inf, init=False)


MECHANISMS: dict[str, type[Release]] = {
    mechanism.name: mechanism
    for mechanism in (
        ObjectivePerturbation,
        ApproximateMinima,
        NoisyDescent,
        NoisyAuc,
        ExponentialChoice,
        RandomStopping,
    )
}
"""Every mechanism whose releases a reader may meet."""
