"""Hypothesis transfer with one model, and the baselines it is measured against.

simcomb.py      SimComb = PPHTL: a private model pulled towards the source's     (002 Alg. 2)
baselines.py    Direct: the target alone. SourceD: the source's model as it is
sources.py      several sources: a public mixture of their weights
"""

from crossward.learning.transfer.baselines import Direct, source_directly
from crossward.learning.transfer.simcomb import SimComb
from crossward.learning.transfer.sources import mixture

__all__ = ["Direct", "SimComb", "mixture", "source_directly"]
