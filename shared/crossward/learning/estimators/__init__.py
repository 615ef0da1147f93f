"""scikit-learn's face of the learners.

base.py        what both share: public bounds, classes, the account, what was spent
logistic.py    PrivateLogisticRegression: objective perturbation, DPPSGD or AMP, with an optional prior (HTL)
stacking.py    PrivateStackingClassifier: PST-S, PST-F, and PST-H when given a source
"""

from crossward.learning.estimators.logistic import PrivateLogisticRegression
from crossward.learning.estimators.stacking import PrivateStackingClassifier

__all__ = ["PrivateLogisticRegression", "PrivateStackingClassifier"]
