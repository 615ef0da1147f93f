"""From a hospital's table to columns in [-1, 1], by a public schema and record by record."""

from crossward.learning.encoding.features import DataReport, Schema
from crossward.learning.encoding.groups import (
    NormShare,
    alpha_importance,
    importance_groups,
    importance_scale,
    typical_radius,
    uniform_groups,
)
from crossward.learning.encoding.kinds import Category, Feature, Flag, Number

__all__ = [
    "Category",
    "DataReport",
    "Feature",
    "Flag",
    "NormShare",
    "Number",
    "Schema",
    "alpha_importance",
    "importance_groups",
    "importance_scale",
    "typical_radius",
    "uniform_groups",
]
