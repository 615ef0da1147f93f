"""SimComb = PPHTL: hypothesis transfer with one group (002 Alg. 2; Wang et al. 2018).

source   PLR at eps_src; w_src is released
target   PLR at eps_tgt with g(w) = eta/2 |w|^2 + (1 - eta)/2 |w - w_src|^2
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from crossward.errors import WrongShape
from crossward.learning.model import ReleasedModel
from crossward.learning.plr import PLR
from crossward.learning.regulariser import Pull
from crossward.learning.transfer.sources import check_private, mixture


def SimComb(
    target: PLR,
    sources: ReleasedModel | Sequence[ReleasedModel],
    *,
    eta: float = 0.0,
    mix: Literal["records", "uniform"] = "records",
) -> PLR:
    """The target's PLR, pulled towards the sources' weights."""
    released = (sources,) if isinstance(sources, ReleasedModel) else tuple(sources)
    if any(source.model.ball != target.ball for source in released):
        raise WrongShape(
            "A source's features are not the target's.", "Use the same columns, radius, scale and intercept."
        )
    check_private([source.release for source in released], target.epsilon)
    return replace(target, pull=Pull(mixture([(s.weights, s.release) for s in released], mix), eta))
