"""Noise, calibration, releases, budgets and filters: everything that makes an answer private, and nothing that learns.

noise, exact        where randomness comes from; continuous and exact integer laws
calibration         how much noise objective perturbation needs, for one model or K groups
output              the release step: output noise and grid
release             immutable descriptions of what was released; mechanisms: one class for each
budget, filters     integer costs, and the rules that admit or refuse them
selection           private choice of hyper-parameters
auc                 the area under the ROC curve, paid for
"""

from crossward.privacy.auc import PrivateAUC, private_auc
from crossward.privacy.budget import NON_PRIVATE, Budget, Cost, Epsilon, NonPrivate
from crossward.privacy.calibration import Calibration, calibrate
from crossward.privacy.filters import Accountant, BasicFilter, Filter, Spend, ZcdpFilter
from crossward.privacy.noise import SYSTEM, Randomness, SeededRandomness, SystemRandomness
from crossward.privacy.release import Release, parallel, sequential
from crossward.privacy.selection import choose_by_chunks, choose_by_random_stopping

__all__ = [
    "NON_PRIVATE",
    "SYSTEM",
    "Accountant",
    "BasicFilter",
    "Budget",
    "Calibration",
    "Cost",
    "Epsilon",
    "Filter",
    "NonPrivate",
    "PrivateAUC",
    "Randomness",
    "Release",
    "SeededRandomness",
    "Spend",
    "SystemRandomness",
    "ZcdpFilter",
    "calibrate",
    "choose_by_chunks",
    "choose_by_random_stopping",
    "parallel",
    "private_auc",
    "sequential",
]
