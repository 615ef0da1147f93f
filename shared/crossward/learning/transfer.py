"""Hypothesis transfer with one model.

SimComb = PPHTL (002 Alg. 2; Wang et al. 2018):

    source   PLR at eps_src; w_src is released
    target   PLR at eps_tgt with g(w) = eta/2 |w|^2 + (1 - eta)/2 |w - w_src|^2

Of several sources, w_src is a public convex combination of theirs. What transfer has to beat: Direct, a `PLR` on the
target's own records; and SourceD, the source's model as it is, which costs the target nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from crossward.errors import InvalidEpsilon, InvalidSetting, WrongShape
from crossward.learning.model import ReleasedModel
from crossward.learning.plr import PLR
from crossward.learning.regulariser import Pull
from crossward.privacy.budget import Epsilon, NonPrivate
from crossward.privacy.noise import Array
from crossward.privacy.release import Release


def check_private(releases: Sequence[Release], epsilon: Epsilon) -> None:
    """Refuse to build something private on what is not: a strong pull would release it as if it were paid for."""
    if not isinstance(epsilon, NonPrivate) and not all(release.private for release in releases):
        raise InvalidEpsilon(
            "A private model cannot be built on a non-private one: it would give that one away.",
            "Transfer from what was released with a finite epsilon.",
        )


def mixture(sources: Sequence[tuple[Array, Release]], mix: Literal["records", "uniform"] = "records") -> Array:
    """sum_s a_s w_s with a_s by public record count, or all equal. Post-processing: it costs nothing."""
    if not sources:
        raise InvalidSetting("There is no source to transfer from.", "Give at least one released model.")
    weights = [w for w, _ in sources]
    if len({w.shape for w in weights}) != 1:
        raise WrongShape("The sources' models have different shapes.", "Train them on the same features and groups.")
    if mix == "uniform":
        shares = np.ones(len(sources))
    elif mix == "records":
        shares = np.array([_records(release) for _, release in sources])
    else:
        raise InvalidSetting(f"Sources mix by 'records' or 'uniform', not {mix!r}.")
    return np.asarray(shares @ np.stack(weights) / shares.sum())


def _records(release: Release) -> float:
    if release.records is None:
        raise InvalidSetting("A source's release does not say how many records it used.", "Mix 'uniform' instead.")
    return float(release.records)


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
