"""The `default` preset: every learner with settings that follow from public facts alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from crossward.learning.amp import AMP
from crossward.learning.combining import SHARED, LevelOne, MajorityVote, WeightedVote
from crossward.learning.defaults.circumstances import Circumstances, Party
from crossward.learning.defaults.encoding import (
    LOSS,
    gaussian_noise,
    group_balls,
    noise_to_signal,
    starting_offset,
    study_reach,
    whole_ball,
)
from crossward.learning.defaults.priors import directed_weights
from crossward.learning.defaults.strength import lambda_alone, lambda_level1, lambda_pulled
from crossward.learning.dppsgd import DPPSGD
from crossward.learning.model import ReleasedModel, SplitModel
from crossward.learning.plr import PLR, PLRFS, Group
from crossward.learning.records import Ball
from crossward.learning.regulariser import Pull
from crossward.learning.stacking import PSTF, PSTH, PSTS
from crossward.learning.transfer import SimComb
from crossward.privacy.calibration import Jacobian
from crossward.privacy.noise import Array

GROUPS, PARTS = 1, 2
"""Groups of columns share one epsilon, so splitting does not lessen noise. It does keep models from seeing how columns
of different groups go together; and where noise is large, a group of nothing else spoils the sum. So one, unless
asked."""

LEVEL1_SHARE, LEVEL1_REACH = 0.05, 2.0
"""Level-1 gets a twentieth of the records, or as many as make its n eps that large: it has little to learn."""

JACOBIAN: Jacobian = "tight"

CombinerName = Literal["C-hl", "C-wmv", "C-mv"]
Grouping = Literal["importance", "uniform"]


@dataclass(frozen=True, slots=True)
class Defaults:
    """One encoding for a whole study, and each party's learner in it.

    Weights travel from sources to targets, so all share one `ball` and one set of `groups`. A target alone has its own.
    """

    facts: Circumstances
    ball: Ball
    groups: tuple[Ball, ...]
    K: int = GROUPS
    seed: int | None = None

    @classmethod
    def of(
        cls, facts: Circumstances, *, K: int | None = None, grouping: Grouping = "importance", seed: int = 0
    ) -> Defaults:
        """The rules for these facts. `K` and `grouping` override the rule's choice of groups."""
        count, drawn = GROUPS if K is None else K, seed if grouping == "uniform" else None
        reach = study_reach(facts)
        return cls(facts, whole_ball(facts, reach), group_balls(facts, reach, count, drawn), count, drawn)

    def source(self, party: Party) -> PLR:
        """What a source runs to release one model."""
        return self._alone(self.ball, party)

    def source_split(self, party: Party) -> PLRFS:
        """What a source runs to release one model per group of columns."""
        return self._split_alone(self.groups, party)

    def direct(self, party: Party) -> PLR:
        """A target alone, in an encoding of its own."""
        return self._alone(whole_ball(self.facts, party.reach), party)

    def direct_groups(self, party: Party) -> tuple[Ball, ...]:
        """The groups of a target alone."""
        return group_balls(self.facts, party.reach, self.K, self.seed)

    def simcomb(self, party: Party, released: ReleasedModel | Sequence[ReleasedModel]) -> PLR:
        """A target pulled to the sources' models."""
        return SimComb(
            PLR(self.ball, self.lambda_pulled(party), party.epsilon, None, LOSS, jacobian=JACOBIAN), released
        )

    def pst_s(self, party: Party, *, parts: int | None = None, combiner: CombinerName = "C-hl") -> PSTS:
        """Stacking over sets of records."""
        count, share = PARTS if parts is None else parts, level1_share(party)
        part = Party(max(1, round(party.records * (1 - share) / count)), party.epsilon)
        return PSTS(self.direct(part), count, self._combiner(party, combiner, count), share)

    def pst_f(self, party: Party, *, combiner: CombinerName = "C-hl") -> PSTF:
        """Stacking over groups of columns, the target alone."""
        level0 = self._split_alone(self.direct_groups(party), party)
        return PSTF(level0, self._combiner(party, combiner, len(level0.groups)), level1_share(party))

    def pst_h(
        self, party: Party, released: SplitModel | Sequence[SplitModel], *, combiner: CombinerName = "C-hl"
    ) -> PSTF:
        """Stacking over groups of columns, each pulled to the sources'."""
        groups = [Group(ball, self.lambda_pulled(party, ball)) for ball in self.groups]
        level0 = PLRFS(tuple(groups), party.epsilon, LOSS, jacobian=JACOBIAN)
        top = self._combiner(party, combiner, len(groups))
        return PSTH(level0, top, released, level1_share=level1_share(party))

    def dppsgd(self, party: Party) -> DPPSGD:
        """Private SGD, a party alone."""
        ball = whole_ball(self.facts, party.reach)
        return DPPSGD(ball, self.lambda_alone(party, ball), party.epsilon, loss=LOSS)

    def amp(self, party: Party, delta: float) -> AMP:
        """Approximate minima perturbation, a party alone."""
        noise = gaussian_noise(delta)
        ball = whole_ball(self.facts, party.reach, noise)
        x = noise_to_signal(self.facts, party, self._dimension(ball), noise)
        return AMP(ball, party.epsilon, delta, lambda_alone(x, self._telling(party)), loss=LOSS)

    def lambda_alone(self, party: Party, ball: Ball | None = None) -> float:
        """lambda of a party that is pulled to no source, in this ball (the study's, if none is given)."""
        return lambda_alone(self._x(party, self.ball if ball is None else ball), self._telling(party))

    def lambda_pulled(self, party: Party, ball: Ball | None = None) -> float:
        """lambda of a target that is pulled to its sources, in this ball (the study's, if none is given)."""
        return lambda_pulled(self._x(party, self.ball if ball is None else ball), self._telling(party))

    def prior(self, party: Party, ball: Ball | None = None) -> Array:
        """The public weights that a party's model starts from where it is pulled to no source."""
        chosen = self.ball if ball is None else ball
        return directed_weights(self.facts, chosen, self._x(party, chosen), self.lambda_alone(party, chosen))

    def describe(self, party: Party) -> dict[str, Any]:
        """The numbers behind a party's learners, for a table or a study file."""
        top = self._combiner(party, "C-hl", len(self.groups))
        assert isinstance(top, LevelOne)
        return {
            "columns": self.ball.columns,
            "scale": self.ball.scale,
            "radius": self.ball.radius,
            "offset": self.ball.offset,
            "loss": LOSS.name,
            "jacobian": JACOBIAN,
            "lambda_alone": self.lambda_alone(party),
            "lambda_pulled": self.lambda_pulled(party),
            "K": len(self.groups),
            "level1_share": level1_share(party),
            "level1_lambda": top.lam,
            "level1_prior": top.prior,
            "scores": top.scores.kind,
            "gain": top.scores.gain,
        }

    def _alone(self, ball: Ball, party: Party) -> PLR:
        lam = self.lambda_alone(party, ball)
        return PLR(ball, lam, party.epsilon, self._prior_pull(party, ball), LOSS, jacobian=JACOBIAN)

    def _split_alone(self, balls: Sequence[Ball], party: Party) -> PLRFS:
        groups = [Group(ball, self.lambda_alone(party, ball), self._prior_pull(party, ball)) for ball in balls]
        return PLRFS(tuple(groups), party.epsilon, LOSS, jacobian=JACOBIAN)

    def _prior_pull(self, party: Party, ball: Ball) -> Pull | None:
        return None if self.facts.directions is None else Pull(self.prior(party, ball))

    def _combiner(self, party: Party, name: CombinerName, scores: int) -> LevelOne | MajorityVote | WeightedVote:
        if name == "C-mv":
            return MajorityVote()
        if name == "C-wmv":
            return WeightedVote()
        high = Party(max(1, round(party.records * level1_share(party))), party.epsilon)
        return LevelOne(
            party.epsilon,
            lambda_level1(noise_to_signal(self.facts, high, scores), self._telling(high)),
            SHARED,
            intercept=False,
            loss=LOSS,
            offset=starting_offset(self.facts.prevalence),
            jacobian=JACOBIAN,
        )

    def _x(self, party: Party, ball: Ball) -> float:
        return noise_to_signal(self.facts, party, self._dimension(ball))

    def _telling(self, party: Party) -> float:
        return party.records * self.facts.contrast**2

    def _dimension(self, ball: Ball) -> int:
        return ball.dimension(len(self.facts.importance))


def level1_share(party: Party) -> float:
    """The share of a party's records that level-1 learns from."""
    return min(0.5, max(LEVEL1_SHARE, LEVEL1_REACH / party.reach))
