"""Stacking: several level-0 models and something that combines them.

pst_s.py        PST-S: level-0 models on disjoint sets of records             (000 Alg. 2)
pst_f.py        PST-F (U)/(W): level-0 models on groups of features           (000 Alg. 3)
pst_h.py        PST-H (U)/(W) = PPTL-FS (R)/(W): the same, pulled to a source (000 Alg. 4, 002 Alg. 4)
scores.py       what level-1 sees of a level-0 model: sigmoid or margin scores
combiners.py    C-mv, C-wmv and C-hl
"""

from crossward.learning.stacking.combiners import LevelOne, MajorityVote, StackedModel, WeightedVote
from crossward.learning.stacking.pst_f import PSTF
from crossward.learning.stacking.pst_h import PSTH
from crossward.learning.stacking.pst_s import PSTS
from crossward.learning.stacking.scores import MARGIN, SHARED, SIGMOID, Scores

__all__ = [
    "MARGIN",
    "PSTF",
    "PSTH",
    "PSTS",
    "SHARED",
    "SIGMOID",
    "LevelOne",
    "MajorityVote",
    "Scores",
    "StackedModel",
    "WeightedVote",
]
