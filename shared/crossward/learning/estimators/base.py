"""What the private estimators share: public bounds, the two classes, and what was spent.

Nothing here looks at the data to set a range: bounds or a radius are given, or `fit` refuses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from crossward.errors import (
    EmptyData,
    InvalidBounds,
    InvalidData,
    InvalidEpsilon,
    InvalidSetting,
    NotFinite,
    OneClass,
    WrongShape,
)
from crossward.learning.records import EXTREME
from crossward.privacy.budget import Epsilon
from crossward.privacy.noise import Array, Randomness, as_randomness
from crossward.privacy.release import Release

Bounds = tuple[ArrayLike, ArrayLike]

LARGEST_EPSILON = 1e4
"""The grid of the release step gets finer as epsilon, lambda and n grow, until floating-point numbers of a model's size
cannot carry it: with a million records and lambda = 10 from 10^5 on. That shows after the charge, so refuse before."""


class PrivacySpent(NamedTuple):
    """What a fit cost each record."""

    epsilon: float
    delta: float


def _is_real(value: object) -> bool:
    """A number, numpy's among them."""
    return isinstance(value, Real)


def check_bounds(bounds: Bounds, features: int) -> tuple[Array, Array]:
    """Public low and high for every feature, as numbers or one per feature."""
    try:
        low, high = (np.broadcast_to(np.asarray(b, dtype=np.float64), features) for b in bounds)
    except (TypeError, ValueError) as error:
        raise InvalidBounds(
            f"bounds must be (low, high), numbers or {features} of each, not {bounds!r}.",
            "For example bounds=(0, 200).",
        ) from error
    if not (np.all(np.isfinite(low)) and np.all(np.isfinite(high))):
        raise InvalidBounds("bounds must be finite.", "Give each feature a range it can really take.")
    if np.any(low >= high):
        worst = int(np.argmax(low >= high))
        raise InvalidBounds(
            f"bounds of feature {worst} have low {low[worst]:g} >= high {high[worst]:g}.", "Swap or widen them."
        )
    return low, high


def one_per_feature(values: ArrayLike, name: str, features: int) -> tuple[float, ...]:
    """A public number for every feature."""
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidSetting(f"{name} must be {features} numbers, not {values!r}.", "Give one per feature.") from error
    if numbers.shape != (features,):
        raise WrongShape(f"{name} has shape {numbers.shape} and there are {features} features.", "Give one each.")
    return tuple(numbers.tolist())


def released(estimator: Any, name: str) -> Any:
    """What a fitted estimator released. scikit-learn's clone() unfits nested estimators: then say what to pass."""
    if not hasattr(estimator, name):
        raise InvalidSetting(
            f"The {type(estimator).__name__} to transfer from is not fitted.",
            f"Fit it first, or pass its {name}, which scikit-learn's clone() keeps.",
        )
    return getattr(estimator, name)


def _named(message: str) -> InvalidData:
    """Our name for what scikit-learn refuses; its words stay, since its users know them, but no record it quotes."""
    fix = "Give X as (n, d) numbers and y as n labels."
    if "could not convert" in message:
        return InvalidData("X holds something that is not a number.", fix)
    if "feature names" not in message:
        # Arrays are quoted below the first line. Feature names are below it too, and those are public.
        message = message.partition("\n")[0].rstrip(".:") + "."
    if message.startswith("Expected"):
        fix = (
            "Reshape your data either using array.reshape(-1, 1) if it has a single feature or array.reshape(1, -1) "
            "if it contains a single record."
        )
    if "0 sample(s)" in message or "0 feature(s)" in message:
        return EmptyData(message, fix)
    if any(word in message for word in ("dim", "shape", "features", "inconsistent numbers", "1D", "2D")):
        return WrongShape(message, fix)
    return InvalidData(message, fix)


@contextmanager
def _our_names() -> Iterator[None]:
    """scikit-learn's refusals under our names. What they were is not shown: it may quote records."""
    try:
        yield
    except ValueError as error:
        raise _named(str(error)) from None


class PrivateClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The base of the private estimators: a binary classifier whose fit is a paid release."""

    epsilon: Epsilon
    radius: float | None
    bounds: Bounds | None
    eta: float
    classes: ArrayLike | None
    random_state: int | np.random.Generator | np.random.RandomState | None

    classes_: NDArray[Any]
    n_features_in_: int
    release_: Release

    _numbers: ClassVar[tuple[str, ...]] = ("eta", "intercept_share")

    def __sklearn_tags__(self) -> Any:
        """Honest tags: two classes only, and poor scores on data sets too small for privacy.

        Not tagged non-deterministic: as scikit-learn means it, a given random_state does repeat the result.
        """
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True
        return tags

    @property
    def privacy_spent_(self) -> PrivacySpent:
        """What the fit cost each record. Infinite for a non-private twin."""
        check_is_fitted(self)
        return PrivacySpent(self.release_.epsilon, self.release_.delta)

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """A refused fit leaves the estimator as it was: no labels of unpaid records, no half of a model."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def _check_fit(self, X: Any, y: Any) -> tuple[NDArray[np.floating], Array]:
        """Bounded records and labels in {-1, +1}; sets `classes_` and `n_features_in_`."""
        if self.radius is None and self.bounds is None:
            raise InvalidBounds(
                "Neither radius nor bounds is given, and guessing them from the data would leak it.",
                "Give radius=... (a public bound near the typical norm of a record) or bounds=(low, high).",
            )
        self._check_settings()
        X, y = self._validated(X, y, reset=True)
        with _our_names():
            check_classification_targets(y)
        self.classes_ = self._two_classes(y)
        labels = np.where(y == self.classes_[1], 1.0, -1.0)
        return self._within_bounds(X), labels

    def _check_settings(self) -> None:
        """What a learner would not check, or not by the name it has here."""
        if isinstance(self.epsilon, int | float) and LARGEST_EPSILON < self.epsilon < math.inf:
            raise InvalidEpsilon(
                f"epsilon must be at most {LARGEST_EPSILON:g}, not {self.epsilon!r}: numbers in a computer are too "
                "coarse for noise that small.",
                "Common choices are 0.1 to 10; crossward.NON_PRIVATE learns without noise.",
            )
        for name in self._numbers:
            if not _is_real(getattr(self, name)):
                raise InvalidSetting(f"{name} must be a number, not {getattr(self, name)!r}.")
        if not 0 <= self.eta <= 1:
            raise InvalidSetting(
                f"eta must lie between 0 and 1, not {self.eta!r}.", "0 trusts the source fully, 1 not at all."
            )

    def _check_alike(self, other: PrivateClassifier, features: int) -> None:
        """Refuse the weights of an estimator whose features, or their bounds, are not ours."""
        if other.n_features_in_ != features:
            raise WrongShape(
                f"The {type(other).__name__} to transfer from has {other.n_features_in_} features and the data "
                f"{features}.",
                "Use the same features on both sides.",
            )
        ours, theirs = (() if b is None else check_bounds(b, features) for b in (self.bounds, other.bounds))
        if not np.array_equal(ours, theirs):
            raise WrongShape(
                f"The {type(other).__name__} to transfer from has other bounds.", "Use the same bounds on both sides."
            )

    def _randomness(self) -> Randomness:
        try:
            return as_randomness(self.random_state)
        except (TypeError, ValueError) as error:
            raise InvalidSetting(
                f"random_state must be None, a whole number of at least 0 or a numpy generator, not "
                f"{self.random_state!r}.",
                "None draws from the operating system, as a real release must.",
            ) from error

    def _check_predict(self, X: Any) -> NDArray[np.floating]:
        check_is_fitted(self)
        return self._within_bounds(self._validated(X, None, reset=False)[0])

    def _validated(self, X: Any, y: Any, *, reset: bool) -> tuple[NDArray[np.floating], Any]:
        """scikit-learn's own checks of shapes and types, and ours of what is finite."""
        given = {} if y is None and not reset else {"y": y}
        with _our_names():
            checked = validate_data(
                self, X, **given, reset=reset, dtype=[np.float64, np.float32], ensure_all_finite=False
            )
        X, y = checked if given else (checked, None)
        if not np.isfinite(X.sum(dtype=np.float64)) and not np.all(np.isfinite(X)):
            raise NotFinite("X holds NaN or infinity.", "Drop such records or fill them with a public default.")
        return X, y

    def _two_classes(self, y: NDArray[Any]) -> NDArray[Any]:
        found = np.unique(y)
        if self.classes is None:
            if len(found) > 2:
                raise InvalidData(
                    f"Only binary classification is supported. The type of the target is multiclass: {len(found)} "
                    "classes were found.",
                    "Learn one class against the others.",
                )
            classes = found
        else:
            classes = np.asarray(self.classes)
            if len(np.unique(classes)) != 2:
                raise InvalidSetting(
                    f"classes must name two classes, not {classes.tolist()}.", "For example classes=[0, 1]."
                )
            if not np.all(np.isin(found, classes)):
                raise InvalidData(
                    f"y holds labels that are not among the classes {classes.tolist()}.",
                    "Name both labels in `classes`, spelled and typed as in y, or drop the other records.",
                )
        if len(found) < 2:
            raise OneClass(
                "The labels hold one class only, so there is nothing to tell apart.", "Bring records of both classes."
            )
        return classes

    def _within_bounds(self, X: NDArray[np.floating]) -> NDArray[np.floating]:
        """Clip to the public bounds and map to [-1, 1], feature by feature. Without bounds X is used as it is."""
        if self.bounds is None:
            return X
        low, high = check_bounds(self.bounds, X.shape[1])
        return np.asarray((np.clip(X, low, high) - low) * (2 / (high - low)) - 1)

    def _radius(self, features: int) -> float:
        """The public radius: given, or the largest norm that the bounds allow."""
        if self.radius is None:
            return math.sqrt(features)
        if not (_is_real(self.radius) and 1 / EXTREME <= self.radius <= EXTREME):
            raise InvalidBounds(
                f"radius must be a number above 0 and within {EXTREME:g}, not {self.radius!r}.",
                "Give a public bound near the typical norm of a record; never the largest norm in the data.",
            )
        return self.radius

    def _margins(self, X: NDArray[np.floating]) -> Array:
        raise NotImplementedError

    def decision_function(self, X: ArrayLike) -> Array:
        """The score of each record, above 0 for the second class."""
        return self._margins(self._check_predict(X))

    def predict_proba(self, X: ArrayLike) -> Array:
        """The probability of each class."""
        positive = np.asarray(expit(self.decision_function(X)))
        return np.column_stack([1 - positive, positive])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The likelier class."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(int)])
