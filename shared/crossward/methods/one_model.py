"""One model over all columns: what a target that learns alone trains, and what a source lends to others.

`OneModel` is a learner's settings. A method of a target alone adds `lam_target`; a source's learner, which methods that
borrow name under `learner`, adds `lam`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from crossward.learning.records import Ball
from crossward.learning.regulariser import Pull
from crossward.methods.base import Method, Sources, Terms, WireForm
from crossward.methods.forms import SINGLE
from crossward.methods.settings import Lambda, LossSettings, lambda_at
from crossward.methods.works import FitAll, Learner
from crossward.protocol.constants import Role


class OneModel(LossSettings):
    """The settings of a learner of one model."""

    can_start: ClassVar[bool] = False
    """Whether it can start from given weights."""

    @abstractmethod
    def learner_in(self, ball: Ball, lam: float, epsilon: float, start: Pull | None) -> Learner:
        """The library's learner in this ball."""


class Alone(Method, OneModel):
    """A target that learns from its own records only."""

    lam_target: Lambda

    def target_work(self, terms: Terms, n: int, sources: Sources) -> FitAll:
        """One model, from all rows but the holdout."""
        if terms.epsilon_target is None:
            self.no_charge()
        lam = lambda_at(self.lam_target, n)
        return FitAll(self.learner_in(terms.ball, lam, terms.epsilon_target, terms.start))

    def form(self, role: Role) -> WireForm:
        """One linear model."""
        return SINGLE

    @property
    def takes_start(self) -> bool:
        """Whether its model can start from given weights."""
        return self.can_start


class SourceLearner(OneModel):
    """What a source trains for a method that borrows."""

    name: str
    lam: Lambda

    def work(self, terms: Terms, epsilon: float, n: int) -> FitAll:
        """One model, from all rows but the holdout."""
        return FitAll(self.learner_in(terms.ball, lambda_at(self.lam, n), epsilon, terms.start))
