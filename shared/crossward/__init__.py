"""Crossward: hospitals learn from one another under differential privacy.

>>> from crossward import PrivateLogisticRegression
>>> model = PrivateLogisticRegression(epsilon=1.0, radius=2.0).fit(X, y)  # doctest: +SKIP
>>> model.predict_proba(X_new), model.privacy_spent_  # doctest: +SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING

from crossward.version import __version__

if TYPE_CHECKING:
    from crossward.client import Client, SiteClient
    from crossward.learning.estimators import PrivateLogisticRegression, PrivateStackingClassifier
    from crossward.privacy import NON_PRIVATE, Accountant, Release, calibrate

_HOMES = {
    "Client": "crossward.client",
    "SiteClient": "crossward.client",
    "PrivateLogisticRegression": "crossward.learning.estimators",
    "PrivateStackingClassifier": "crossward.learning.estimators",
    "NON_PRIVATE": "crossward.privacy",
    "Accountant": "crossward.privacy",
    "Release": "crossward.privacy",
    "calibrate": "crossward.privacy",
}

__all__ = [
    "NON_PRIVATE",
    "Accountant",
    "Client",
    "PrivateLogisticRegression",
    "PrivateStackingClassifier",
    "Release",
    "SiteClient",
    "__version__",
    "calibrate",
]


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: the command line starts without loading scikit-learn."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'crossward' has no attribute {name!r}")
