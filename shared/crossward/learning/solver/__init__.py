"""The one solver: see `minimise`."""

from crossward.learning.solver.solve import Solution, minimise

__all__ = ["Solution", "minimise"]
