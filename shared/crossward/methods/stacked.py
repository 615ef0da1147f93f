"""What the stacking methods share: level-0 models at the target, and a combiner that may be a level-1 model."""

from __future__ import annotations

from collections.abc import Iterator

from crossward.methods.base import CellCounts, Method, StudyFinding
from crossward.methods.forms import Balls, StackForm
from crossward.methods.settings import Combined
from crossward.protocol.constants import Role


class Stacked(Method, Combined):
    """Level-0 models and what combines them."""

    def has_level_one(self, role: Role) -> bool:
        """Under C-hl a target trains level-1 on cells of its own."""
        return role is Role.TARGET and self.combiner == "C-hl"

    def check_cells(self, cells: CellCounts) -> Iterator[StudyFinding]:
        """A level-1 model needs cells of its own."""
        if self.combiner == "C-hl" and cells.level1 == 0:
            yield StudyFinding(
                ("cells", "level1"), "C-hl trains a level-1 model and has no cells.", "Use 4, or the combiner C-wmv."
            )

    def stack_form(self, balls: Balls, *, scores_sources: bool = False) -> StackForm:
        """A stack of models in these balls."""
        return StackForm(balls, self.combiner_at(1.0), scores_sources)  # its form is the same at every epsilon
