"""Several sources: the weights a target is pulled towards are a public convex combination of theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from crossward.errors import InvalidEpsilon, InvalidSetting, WrongShape
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
    n = release.settings.get("n")
    if not isinstance(n, int):
        raise InvalidSetting("A source's release does not say how many records it used.", "Mix 'uniform' instead.")
    return float(n)
