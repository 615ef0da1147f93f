"""PST-H = PPTL-FS: stacking with hypothesis transfer (000 Alg. 4, 002 Alg. 4). (U)/(R) and (W) as in PST-F.

    source    PLR-FS at eps_src on its records; the K weights are released
    target    PST-F at eps_tgt, level-0 model k pulled towards the source's w_k:
              g_k(w) = eta/2 |w|^2 + (1 - eta)/2 |w - w_src,k|^2

Source and target hold different people: each pays its own epsilon, once. With several sources w_src is their public
mixture, or (`mix="scores"`) each source's scores become meta-features of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

from crossward.errors import InvalidSetting, WrongShape
from crossward.learning.model import SplitModel
from crossward.learning.plr_fs import PLRFS
from crossward.learning.regulariser import Pull
from crossward.learning.stacking.combiners import LevelOne, MajorityVote, WeightedVote
from crossward.learning.stacking.pst_f import PSTF
from crossward.learning.stacking.split import LEVEL1_SHARE
from crossward.learning.transfer.sources import check_private, mixture

Mix = Literal["records", "uniform", "scores"]


def check_mix(mix: Mix) -> None:
    """Refuse a way to mix several sources that there is not."""
    if mix not in get_args(Mix):
        raise InvalidSetting(
            f"Sources mix by 'records', 'uniform' or 'scores', not {mix!r}.", "'records' weighs them by their size."
        )


def PSTH(
    level0: PLRFS,
    combiner: LevelOne | MajorityVote | WeightedVote,
    sources: SplitModel | Sequence[SplitModel],
    *,
    eta: float = 0.0,
    mix: Mix = "records",
    level1_share: float = LEVEL1_SHARE,
) -> PSTF:
    """PST-F on the target with each group pulled towards the sources' weights."""
    check_mix(mix)
    released = (sources,) if isinstance(sources, SplitModel) else tuple(sources)
    if not released:
        raise InvalidSetting("PST-H transfers from at least one source.", "Use PST-F where there is none.")
    for source in released:
        if [model.ball for model in source.groups] != [group.ball for group in level0.groups]:
            raise WrongShape(
                "A source's feature groups are not the target's.",
                "Use the same columns, q, radius, scale and intercept on both sides.",
            )
    check_private([source.release for source in released], level0.epsilon)
    extra = tuple(model for source in released for model in source.groups) if mix == "scores" else ()
    how: Literal["records", "uniform"] = "uniform" if mix == "uniform" else "records"
    groups = tuple(
        replace(group, pull=Pull(mixture([(s.groups[k].weights, s.release) for s in released], how), eta))
        for k, group in enumerate(level0.groups)
    )
    return PSTF(replace(level0, groups=groups), combiner, level1_share, extra, "PST-H")
