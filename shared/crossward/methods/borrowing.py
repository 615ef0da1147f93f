"""What methods share whose target releases nothing: it uses, or builds on, what the sources released."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, SerializeAsAny

from crossward.methods.amp import AmpLearner
from crossward.methods.base import Method, Terms, WireForm
from crossward.methods.direct import PlrLearner
from crossward.methods.dppsgd import DppsgdLearner
from crossward.methods.forms import SINGLE
from crossward.methods.one_model import SourceLearner
from crossward.methods.works import FitAll
from crossward.protocol.constants import Role
from crossward.values import by_name

LEARNERS: dict[str, type[SourceLearner]] = {"plr": PlrLearner, "dppsgd": DppsgdLearner, "amp": AmpLearner}
"""What a source can train."""


def read_learner(value: Any) -> SourceLearner:
    """A source's learner from what a study says: its name, or a mapping of its name and settings."""
    return by_name(value, LEARNERS)


class Borrowing(Method):
    """Each source releases one model, made by `learner`."""

    has_sources: ClassVar[bool] = True
    target_pays: ClassVar[bool] = False

    learner: Annotated[SerializeAsAny[SourceLearner], BeforeValidator(read_learner)] = PlrLearner()

    def source_work(self, terms: Terms, n: int) -> FitAll:
        """One model, by the learner that the study names."""
        if terms.epsilon_source is None:
            return super().source_work(terms, n)  # type: ignore[return-value]  # it refuses
        return self.learner.work(terms, terms.epsilon_source, n)

    def form(self, role: Role) -> WireForm:
        """One linear model."""
        return SINGLE

    @property
    def takes_start(self) -> bool:
        """Whether the sources' models can start from given weights."""
        return self.learner.can_start
