"""PST-S: stacking over sets of records (000 Alg. 2), at the target alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import ClassVar, Literal

from crossward.learning.plr import PLR
from crossward.learning.stacking import PSTS
from crossward.methods.base import LEVEL0, CellCounts, Levels, Sources, StudyFinding, Terms, WireForm
from crossward.methods.settings import LAMBDA_ALONE, Lambda, lambda_at
from crossward.methods.stacked import Stacked
from crossward.methods.works import FitParts
from crossward.protocol.constants import Role
from crossward.values import AtLeastOne


class PstS(Stacked):
    """`parts` level-0 models on disjoint sets of cells, `level0/1`, `level0/2`, ..., and what combines them."""

    title: ClassVar[str] = "PST-S"
    explanation: ClassVar[str] = (
        "Each target cuts its records into parts, trains a private model on each and one that combines them, and "
        "releases all of their weights. A record is in one part, so it pays once."
    )
    proofs: ClassVar[tuple[str, ...]] = ("stacking.md", "objective-perturbation.md", "release-step.md")

    name: Literal["pst-s"] = "pst-s"
    lam_target: Lambda = LAMBDA_ALONE
    parts: AtLeastOne = 3

    def cut_level0(self, role: Role, cells: tuple[int, ...]) -> Levels:
        """Consecutive parts whose sizes differ by at most one, the larger first."""
        size, larger = divmod(len(cells), self.parts)
        starts = [k * size + min(k, larger) for k in range(self.parts + 1)]
        return {f"{LEVEL0}/{k}": cells[start:stop] for k, (start, stop) in enumerate(pairwise(starts), 1)}

    def check_cells(self, cells: CellCounts) -> Iterator[StudyFinding]:
        """Every part has at least one cell."""
        yield from super().check_cells(cells)
        room = cells.level0 + (0 if self.has_level_one(Role.TARGET) else cells.level1)
        if self.parts > room:
            cause = f"{room} cells cannot be cut into {self.parts} parts."
            yield StudyFinding(("method", "parts"), cause, f"Use at most {room}.")

    def target_work(self, terms: Terms, n: int, sources: Sources) -> FitParts:
        """A PLR on each part, and the combiner."""
        epsilon = terms.epsilon_target
        if epsilon is None:
            self.no_charge()
        level0 = PLR(terms.ball, lambda_at(self.lam_target, n), epsilon, **self.perturbation())
        return FitParts(PSTS(level0, self.parts, self.combiner_at(epsilon)))

    def form(self, role: Role) -> WireForm:
        """A stack of models over all columns."""
        return self.stack_form(lambda terms: (terms.ball,) * self.parts)
