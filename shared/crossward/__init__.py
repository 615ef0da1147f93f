"""Crossward: hospitals learn from one another under differential privacy.

>>> from crossward import PrivateLogisticRegression
>>> model = PrivateLogisticRegression(epsilon=1.0, radius=2.0).fit(X, y)  # doctest: +SKIP
>>> model.predict_proba(X_new), model.privacy_spent_  # doctest: +SKIP
"""

from crossward.version import __version__

TYPE_CHECKING = False  # type checkers take it for True by its name; importing it from typing would double the time
if TYPE_CHECKING:
    from crossward import client as client
    from crossward import errors as errors
    from crossward import learning as learning
    from crossward import methods as methods
    from crossward import planning as planning
    from crossward import privacy as privacy
    from crossward import protocol as protocol
    from crossward import study as study
    from crossward import values as values
    from crossward import verify as verify
    from crossward.client import Client, SiteClient
    from crossward.learning.estimators import PrivateLogisticRegression, PrivateStackingClassifier
    from crossward.privacy import NON_PRIVATE, Accountant, Release, calibrate

_MODULES = (
    "client",
    "errors",
    "learning",
    "methods",
    "planning",
    "privacy",
    "protocol",
    "study",
    "values",
    "verify",
    "version",
)

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

if not TYPE_CHECKING:  # a type checker reads the imports above, and so notices a name that is not there

    def __getattr__(name: str) -> object:
        """Import a public name or module when it is first used: who needs one of them loads no other."""
        # ruff: noqa: PLC0415
        if name in ("Client", "SiteClient"):
            from crossward import client as home
        elif name in ("PrivateLogisticRegression", "PrivateStackingClassifier"):
            from crossward.learning import estimators as home
        elif name in __all__:
            from crossward import privacy as home
        elif name in _MODULES:
            from importlib import import_module

            return import_module(f"crossward.{name}")
        else:
            raise AttributeError(f"module 'crossward' has no attribute {name!r}")
        globals()[name] = value = getattr(home, name)
        return value


def __dir__() -> list[str]:
    """The public names, loaded or not, for tab completion."""
    return sorted({*__all__, *_MODULES, *(name for name in globals() if name.startswith("__"))})
