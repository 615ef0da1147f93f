"""What transfer has to beat.

- Direct: a PLR on the target's own records, no source (002: "Direct"; 000: "PLR (target)").
- SourceD: the source's released model used at the target as it is. It costs the target nothing.
"""

from __future__ import annotations

from crossward.learning.model import ReleasedModel, SplitModel
from crossward.learning.plr import PLR
from crossward.learning.stacking.combiners import StackedModel, WeightedVote

Direct = PLR


def source_directly(source: ReleasedModel | SplitModel) -> ReleasedModel | StackedModel:
    """SourceD: predict at the target with the source's model; feature groups vote by importance."""
    if isinstance(source, SplitModel):
        return StackedModel(source.groups, WeightedVote(), source.release)
    return source
