"""Models of N partners become one.

average.py           the mean of their weights                                        (004 "average")
feature_method.py    their scores on a public set weigh them                          (004 Alg. 1)
boosted_ensemble.py  gradient boosting over their scores, at a target, never released (003)
"""

from crossward.learning.aggregation.average import average
from crossward.learning.aggregation.boosted_ensemble import BoostedEnsemble, BoostedModel
from crossward.learning.aggregation.feature_method import FeatureMethod

__all__ = ["BoostedEnsemble", "BoostedModel", "FeatureMethod", "average"]
