"""What a study stands for: the cells and learners of each role, what they release, and their training.

cells.py     which of a dataset's 20 cells a role trains on
plan.py      the learner of each role, and what it will release
training.py  encoded rows in, a trained model out
"""

from crossward.study.learners.cells import Role, cells_for, charged_cells, trains
from crossward.study.learners.plan import TargetPlan, Use, balls_for, cost, source_learner, target_learner
from crossward.study.learners.training import TrainedModel, aggregate, train_source, train_target

__all__ = [
    "Role",
    "TargetPlan",
    "TrainedModel",
    "Use",
    "aggregate",
    "balls_for",
    "cells_for",
    "charged_cells",
    "cost",
    "source_learner",
    "target_learner",
    "train_source",
    "train_target",
    "trains",
]
