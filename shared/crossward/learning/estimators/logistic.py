"""PrivateLogisticRegression: one private linear model behind scikit-learn's interface."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from crossward.errors import InvalidSetting
from crossward.learning.amp import AMP
from crossward.learning.dppsgd import DPPSGD
from crossward.learning.estimators.base import Bounds, PrivateClassifier, check_bounds, one_per_feature, released
from crossward.learning.losses import Huber, Logistic
from crossward.learning.model import ReleasedModel
from crossward.learning.plr import PLR
from crossward.learning.records import Ball
from crossward.learning.regulariser import Pull
from crossward.learning.transfer import SimComb
from crossward.privacy.budget import Epsilon
from crossward.privacy.filters import Accountant
from crossward.privacy.noise import Array


class PrivateLogisticRegression(PrivateClassifier):
    """Logistic regression that is differentially private for every record of the training data.

    Parameters
    ----------
    epsilon : the privacy budget of this fit, at most 10^4, or `crossward.NON_PRIVATE` for the non-private twin.
    radius : a public bound near the typical norm of a record; longer records are shortened to it.
    bounds : public (low, high) of the features, numbers or one per feature; X is clipped and mapped to [-1, 1].
        One of `radius` and `bounds` is required; with bounds alone the radius is the largest norm they allow.
    lam : regularisation strength lambda.
    mechanism : "objective" (objective perturbation, pure epsilon), "dppsgd" (pure) or "amp" (needs `delta`).
    delta : for "amp" only.
    loss : "logistic" or "huber".
    prior : weights to pull towards (hypothesis transfer): an earlier `PrivateLogisticRegression` fitted elsewhere
        with the same features, radius, bounds, column_scale and intercept, or its `weights_`. "objective" only. An
        estimator that differs in these, or is not private, is refused. Of a bare array only the length can be
        checked: that it was released, and with the same of these, is for the caller to see to.
    eta : 0 trusts the prior fully, 1 not at all.
    column_scale : public factor per feature, such as a power of its importance.
    fit_intercept, intercept_share : a constant column inside the same ball, as a share of the radius.
    passes, batch : for "dppsgd".
    classes : the two labels, where they are public; otherwise taken from y.
    accountant : charged before any noise is drawn. Clones share it.
    random_state : None draws from the operating system. Anything else makes a *seeded* result, marked as such in
        `release_`: for tests and simulations, never for a real release.

    Attributes
    ----------
    weights_ : the released weights inside the ball, the intercept's last.
    coef_, intercept_ : the same for raw features (of records no longer than the radius).
    release_ : the immutable description of the release; `privacy_spent_` is its (epsilon, delta).

    Examples
    --------
    >>> from crossward import PrivateLogisticRegression
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3)); y = X[:, 0] > 0
    >>> model = PrivateLogisticRegression(epsilon=1.0, radius=2.0).fit(X, y)
    >>> model.privacy_spent_
    PrivacySpent(epsilon=1.0, delta=0.0)
    """

    weights_: Array
    coef_: Array
    intercept_: Array

    def __init__(
        self,
        epsilon: Epsilon = 1.0,
        *,
        radius: float | None = None,
        bounds: Bounds | None = None,
        lam: float = 0.01,
        mechanism: Literal["objective", "dppsgd", "amp"] = "objective",
        delta: float = 1e-6,
        loss: Literal["logistic", "huber"] = "logistic",
        prior: PrivateLogisticRegression | ArrayLike | None = None,
        eta: float = 0.0,
        column_scale: ArrayLike | None = None,
        fit_intercept: bool = True,
        intercept_share: float = 0.5,
        passes: int = 10,
        batch: int = 50,
        classes: ArrayLike | None = None,
        accountant: Accountant | None = None,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.radius = radius
        self.bounds = bounds
        self.lam = lam
        self.mechanism = mechanism
        self.delta = delta
        self.loss = loss
        self.prior = prior
        self.eta = eta
        self.column_scale = column_scale
        self.fit_intercept = fit_intercept
        self.intercept_share = intercept_share
        self.passes = passes
        self.batch = batch
        self.classes = classes
        self.accountant = accountant
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> PrivateLogisticRegression:
        """Check, charge, draw, solve and release."""
        with self._all_or_nothing():
            inside, labels = self._check_fit(X, y)
            learner = self.learner(inside.shape[1])
            source = self._randomness()
            fitted = learner.fit(inside, labels, randomness=source, accountant=self.accountant)
            self._model: ReleasedModel = fitted
            self.release_ = fitted.release
            self.weights_ = fitted.weights
            self.coef_, self.intercept_ = self._raw_coefficients(fitted)
        return self

    def learner(self, features: int) -> PLR | DPPSGD | AMP:
        """The settings of this estimator as a learner, for data with so many features."""
        scale = None if self.column_scale is None else one_per_feature(self.column_scale, "column_scale", features)
        intercept = self.intercept_share if self.fit_intercept else 0.0
        ball = Ball(self._radius(features), scale=scale, intercept=intercept)
        if self.loss not in ("logistic", "huber"):
            raise InvalidSetting(f"loss is 'logistic' or 'huber', not {self.loss!r}.")
        loss = Huber() if self.loss == "huber" else Logistic()
        if self.mechanism == "objective":
            return self._pulled(PLR(ball, self.lam, self.epsilon, loss=loss), features)
        if self.prior is not None:
            raise InvalidSetting(f"mechanism {self.mechanism!r} takes no prior.", "Use mechanism='objective'.")
        if self.mechanism == "dppsgd":
            return DPPSGD(ball, self.lam, self.epsilon, passes=self.passes, batch=self.batch, loss=loss)
        if self.mechanism == "amp":
            return AMP(ball, self.epsilon, self.delta, self.lam, loss=loss)
        raise InvalidSetting(f"mechanism is 'objective', 'dppsgd' or 'amp', not {self.mechanism!r}.")

    def _pulled(self, learner: PLR, features: int) -> PLR:
        if self.prior is None:
            return learner
        if isinstance(self.prior, PrivateLogisticRegression):
            released(self.prior, "weights_")
            self._check_alike(self.prior, features)
            return SimComb(learner, self.prior._model, eta=self.eta, mix="uniform")
        try:
            weights = np.asarray(self.prior, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidSetting(
                f"prior is a {type(self.prior).__name__} that holds no weights.",
                "Give a fitted PrivateLogisticRegression or its weights_.",
            ) from error
        return replace(learner, pull=Pull(weights, self.eta))

    def _margins(self, X: NDArray[np.floating]) -> Array:
        return self._model.margins(X)

    def _raw_coefficients(self, fitted: ReleasedModel) -> tuple[Array, Array]:
        """Weights for raw features. The margin is affine in x within the radius: read it off at 0 and at unit steps."""
        features = self.n_features_in_
        ball = fitted.model.ball
        reach = float(np.hypot(ball.radius, ball.intercept * ball.radius))
        slopes = fitted.weights[:features] * (1.0 if ball.scale is None else np.asarray(ball.scale)) / reach
        constant = fitted.weights[-1] * ball.intercept * ball.radius / reach if ball.intercept else 0.0
        if self.bounds is not None:
            low, high = check_bounds(self.bounds, features)
            constant -= float(slopes @ ((high + low) / (high - low)))
            slopes = slopes * 2 / (high - low)
        return slopes[None, :], np.array([constant])
