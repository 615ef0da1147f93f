"""The methods as the papers print them, with only those changes that privacy needs.

As printed: K = 5 groups, half of the records for level-1, sigmoid scores without intercept or prior, no intercept in
level-0, columns unscaled, q by (6), pulls all the way to the source (000 Alg. 4: eta = 0).

Changed, because the printed form is not private: the noise and its epsilon (docs/adr/0002), which is the library's;
the norm that records are divided by, the largest in the data, is here the largest that the public knows of (a public
sample, or what the schema allows). Lambda, which the papers tune on the records, is the best of a grid in hindsight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from crossward.errors import InvalidSetting
from crossward.learning.combining import SIGMOID, LevelOne
from crossward.learning.encoding import alpha_importance, importance_groups, uniform_groups
from crossward.learning.plr import PLR, PLRFS, groups_of
from crossward.learning.records import Ball
from crossward.learning.stacking import PSTF, PSTH, PSTS
from crossward.learning.transfer import SimComb
from crossward_lab.bench.public import Public
from crossward_lab.bench.settings import Run

K, HALF = 5, 0.5

LEVEL_ONE = 0.01
"""Level-1's lambda is at most this: the few scores it sees are alike, and a larger one leaves their order to chance."""


@dataclass(frozen=True, slots=True)
class Paper:
    """The papers' settings for one run."""

    run: Run
    public: Public

    def alone(self, method: str, records: int) -> Any:
        """PLR, PST-S or PST-F."""
        if method == "Direct":
            return self._plr()
        if method == "PST-S":
            return PSTS(self._plr(), self._k, self._level_one(), HALF)
        return PSTF(self._plr_fs(method), self._level_one(), HALF)

    def source(self, method: str) -> PLR | PLRFS:
        """PLR, or PLR-FS for PST-H."""
        return self._plr_fs(method) if method.startswith("PST-H") else self._plr()

    def target(self, method: str, records: int, released: Any) -> Any:
        """SimComb or PST-H."""
        if method == "SimComb":
            return SimComb(self._plr(), released)
        return PSTH(self._plr_fs(method), self._level_one(), released, level1_share=HALF)

    @property
    def _lam(self) -> float:
        return self.run.number("lambda")

    @property
    def _k(self) -> int:
        return int(self.run.number("K", K))

    def _plr(self) -> PLR:
        return PLR(Ball(self.public.largest()), self._lam, self.run.budget)

    def _plr_fs(self, method: str) -> PLRFS:
        return PLRFS(groups_of(self._groups(method), self._lam), self.run.budget)

    def _level_one(self) -> LevelOne:
        return LevelOne(self.run.budget, min(self._lam, LEVEL_ONE), SIGMOID, prior=0.0, intercept=False)

    def _groups(self, method: str) -> Sequence[Ball]:
        columns = self.public.columns
        if method.endswith("(U)"):
            balls = uniform_groups(columns, self._k, seed=self.run.repeat, radius=1.0)
        elif method.endswith("(W)"):
            alpha = dict(self.run.options).get("alpha")
            known = self.public.importance if alpha is None else alpha_importance(columns, float(alpha))
            balls = importance_groups(known, self._k, radius=1.0)
        else:
            raise InvalidSetting(f"There is no method {method!r}.", "Ask for --help.")
        return [replace(ball, radius=self.public.largest(ball.columns)) for ball in balls]
