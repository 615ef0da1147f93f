"""Meta-features: what the level-1 model sees of K level-0 models.

- `sigmoid` (000 step 14): sigma(w_k.x), in (0, 1). With rare positives these crowd together far from 1/2 and level-1
  noise can flip their weights; they need an intercept.
- `margin`: gain * w_k.x / (||w_k|| q_k), clipped to [-1, 1], w_k without its intercept: the cosine between record and
  weights, stretched. It fills its range, so the level-1 noise is small beside it. (With the intercept, rare positives
  would push every record to -1; level-1 has an intercept of its own.)
- `shared`: the same, but all divided by the longest of the ||w_k|| q_k. A group that learned little has short weights
  and says little: the plain sum of these scores is the sum of the models' log odds, where a sum of `margin` scores
  would give a group of pure noise as much to say as any other.

Each is post-processing of released weights, so it costs nothing, and each lies in [-1, 1], so K of them have norm at
most sqrt(K) and fit the level-1 ball without ever being cut.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from crossward.errors import InvalidSetting
from crossward.learning.model import LinearModel
from crossward.privacy.noise import Array


@dataclass(frozen=True, slots=True)
class Scores:
    """How level-0 models turn into meta-features. `gain` stretches margin scores; it is a public constant."""

    kind: Literal["sigmoid", "margin", "shared"] = "margin"
    gain: float = 2.0

    def __post_init__(self) -> None:
        if self.kind not in ("sigmoid", "margin", "shared"):
            raise InvalidSetting(f"Scores are 'sigmoid', 'margin' or 'shared', not {self.kind!r}.")
        if not (math.isfinite(self.gain) and self.gain > 0):
            raise InvalidSetting(f"gain must be a finite number above 0, not {self.gain!r}.")

    def of(self, models: Sequence[LinearModel], X: NDArray[np.floating]) -> Array:
        """The meta-features of each record: (n, K)."""
        if self.kind == "sigmoid":
            return np.column_stack([expit(model.margins(X)) for model in models])
        sloped = [model.without_intercept() for model in models]
        lengths = [float(np.linalg.norm(model.weights)) * model.ball.q for model in sloped]
        if self.kind == "shared":
            lengths = [max(lengths)] * len(models)
        return np.column_stack([self._margin(*pair, X) for pair in zip(sloped, lengths, strict=True)])

    def vote(self, q: Array) -> Array:
        """How much each score says where nothing has been learned about them: shares that sum to 1."""
        return np.full(len(q), 1 / len(q)) if self.kind == "shared" else q / q.sum()

    def _margin(self, model: LinearModel, length: float, X: NDArray[np.floating]) -> Array:
        margins = model.margins(X)
        return np.clip(self.gain / length * margins, -1.0, 1.0) if length > 0 else margins

    @property
    def middle(self) -> float:
        """The score of a model that cannot tell the classes apart."""
        return 0.5 if self.kind == "sigmoid" else 0.0


SIGMOID = Scores("sigmoid")
MARGIN = Scores("margin")
SHARED = Scores("shared", gain=1.0)
"""Without stretching nothing is cut. A level-1 that starts from the sum has no need to see scores fill their range."""
