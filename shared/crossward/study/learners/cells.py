"""Which of a dataset's 20 cells a role trains on: public, and fixed by the study alone.

Cells are numbered 0 to 19. level-0 takes the first block, level-1 the next, the holdout the last:

    0 ............ level0 ............ | .... level1 .... | ... holdout ... 19

Level-1 cells that no level-1 model needs train level-0 as well: at a source, under a vote, and for methods of one
model. PST-S cuts its level-0 cells into consecutive parts, `level0/1`, `level0/2`, ... A target that trains nothing
uses no cells. The holdout is the same for every role and method, so that results compare, and trains nothing.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from crossward.study.file import Study
from crossward.study.methods import PstS
from crossward.study.sections import CELLS

Role = Literal["source", "target"]

LEVEL0, LEVEL1, HOLDOUT = "level0", "level1", "holdout"


def part_name(index: int) -> str:
    """The level of PST-S's part, counted from 0."""
    return f"{LEVEL0}/{index + 1}"


def has_level_one(study: Study, role: Role) -> bool:
    """Whether a level-1 model is trained, on cells of its own."""
    return role == "target" and getattr(study.method, "combiner", None) == "C-hl"


def trains(study: Study, role: Role) -> bool:
    """Whether the role trains on its records at all (a boosted target does, though nothing leaves it)."""
    if role == "source":
        return study.method.has_sources
    return study.method.target_pays or study.method.name == "boosted"


def cells_for(study: Study, role: Role) -> dict[str, tuple[int, ...]]:
    """The cells of each level. The levels are disjoint; all but the holdout are charged for what is released."""
    cut, end = study.cells.level0, CELLS - study.cells.holdout
    holdout = tuple(range(end, CELLS))
    if not trains(study, role):
        return {LEVEL0: (), HOLDOUT: holdout}
    if not has_level_one(study, role):
        cut = end
    low, high = tuple(range(cut)), tuple(range(cut, end))
    levels = {LEVEL0: low}
    if isinstance(study.method, PstS) and role == "target":
        levels = {part_name(k): part for k, part in enumerate(_parts(low, study.method.parts))}
    return levels | ({LEVEL1: high} if has_level_one(study, role) else {}) | {HOLDOUT: holdout}


def charged_cells(study: Study, role: Role) -> tuple[int, ...]:
    """The cells whose budget a release of this role is charged to; none where nothing is released."""
    if role == "target" and not study.method.target_pays:
        return ()
    return tuple(sorted(cell for level, cells in cells_for(study, role).items() if level != HOLDOUT for cell in cells))


def _parts(cells: tuple[int, ...], count: int) -> list[tuple[int, ...]]:
    """Consecutive parts whose sizes differ by at most one, the larger first."""
    size, larger = divmod(len(cells), count)
    starts = [k * size + min(k, larger) for k in range(count + 1)]
    return [cells[start:stop] for start, stop in pairwise(starts)]
