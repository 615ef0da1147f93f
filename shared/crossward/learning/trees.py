"""Boosted trees as plain numbers: what gradient boosting found, without what found it.

    margin(x) = base + sum over trees of the value of the leaf that x comes to

At an inner node x goes left if x[feature] <= threshold, or, where x[feature] is no number, if `missing_left`. The nodes
of all trees lie one after the other in the same arrays; a leaf is its own left and right child. scikit-learn is needed
to fit trees and not to use them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from crossward.errors import InvalidSetting, WrongShape
from crossward.learning.checks import LARGEST
from crossward.learning.workers import BLOCK_BYTES
from crossward.privacy.noise import Array

Indices = NDArray[np.intp]


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """T trees of N nodes together, over records of so many columns; `first` (T,) are the roots, all else is (N,).

    Every node but the roots is the child of one node before it, of its own tree, so that each way down ends. What a
    node does not use is zero: feature, threshold and `missing_left` of a leaf, the value of any other.
    """

    columns: int
    base: float
    first: Indices
    feature: Indices
    threshold: Array
    missing_left: NDArray[np.bool_]
    left: Indices
    right: Indices
    value: Array
    depth: int = field(init=False)
    """How many nodes lie between a root and the deepest leaf, the root among them."""

    def __post_init__(self) -> None:
        for name in ("first", "feature", "threshold", "missing_left", "left", "right", "value"):
            array = np.array(getattr(self, name))
            array.setflags(write=False)  # a copy that nobody changes
            object.__setattr__(self, name, array)
        for cause in self._faults():
            raise InvalidSetting(f"These are no trees: {cause}.", "Train them again.")
        object.__setattr__(self, "depth", self._depth())

    @classmethod
    def of(cls, boosting: Any) -> Self:
        """The trees of a fitted `HistGradientBoostingClassifier` of two classes and no categories.

        Its leaves hold the learning rate already.
        """
        nodes = [predictor.nodes for [predictor] in boosting._predictors]
        sizes = np.array([len(each) for each in nodes])
        first = np.cumsum(sizes) - sizes
        node, shift = np.concatenate(nodes), np.repeat(first, sizes)
        leaf = node["is_leaf"].astype(bool)
        own = np.arange(len(node))
        return cls(
            columns=boosting.n_features_in_,
            base=float(boosting._baseline_prediction.item()),
            first=first,
            feature=np.where(leaf, 0, node["feature_idx"]),
            threshold=np.where(leaf, 0.0, node["num_threshold"]),
            missing_left=~leaf & node["missing_go_to_left"].astype(bool),
            left=np.where(leaf, own, shift + node["left"]),
            right=np.where(leaf, own, shift + node["right"]),
            value=np.where(leaf, node["value"], 0.0),
        )

    def margins(self, X: NDArray[np.floating]) -> Array:
        """The log-odds of records (n, columns)."""
        rows: Array = np.ascontiguousarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.columns:
            raise WrongShape(f"The trees are of {self.columns} columns, the records of shape {rows.shape}.")
        margins = np.empty(len(rows))
        few = max(1, BLOCK_BYTES // (8 * len(self.first)))  # what is computed of a block stays in cache
        for start in range(0, len(rows), few):
            margins[start : start + few] = self._leaves(rows[start : start + few]).sum(axis=1)
        return margins + self.base

    @property
    def sizes(self) -> Indices:
        """The number of nodes of each tree."""
        return np.diff(self.first, append=len(self.feature))

    def _leaves(self, X: Array) -> Array:
        """The value that each tree has for each record, (n, T): all go down together, and who is at a leaf stays."""
        row = np.arange(len(X))[:, None] * self.columns
        node = np.tile(self.first, (len(X), 1))
        for _ in range(self.depth):
            x = X.ravel()[row + self.feature[node]]
            left = (x <= self.threshold[node]) | (np.isnan(x) & self.missing_left[node])
            node = np.where(left, self.left[node], self.right[node])
        return self.value[node]

    # -- what makes them trees --------------------------------------------------------------------------------------
    def _faults(self) -> Iterator[str]:
        """What is wrong; each may count on all before it."""
        arrays = (self.feature, self.threshold, self.missing_left, self.left, self.right, self.value)
        count = len(self.feature) if self.feature.ndim == 1 else 0
        if count == 0 or any(array.shape != (count,) for array in arrays):
            yield "its lists of nodes are empty or of different lengths"
        if self.first.ndim != 1 or not len(self.first) or np.any((self.first < 0) | (self.first >= count)):
            yield "one of them has no root"
        if self.first[0] != 0 or np.any(self.sizes <= 0):
            yield "they do not begin one after the other"
        if not all(np.all(np.abs(numbers) <= LARGEST) for numbers in (self.base, self.threshold, self.value)):
            yield f"a number is not finite, or beyond {LARGEST:g}"
        if np.any((self.feature < 0) | (self.feature >= self.columns)):
            yield "a node asks for a column that is not there"
        own = np.arange(count)
        leaf = (self.left == own) & (self.right == own)
        end = np.repeat(self.first + self.sizes, self.sizes)
        for child in (self.left, self.right):
            if np.any(~leaf & ((child <= own) | (child >= end))):
                yield "a child does not come after its parent, in the same tree"
        parents = np.bincount(np.concatenate([self.left[~leaf], self.right[~leaf]]), minlength=count)
        expected = np.ones(count, dtype=np.intp)
        expected[self.first] = 0
        if not np.array_equal(parents, expected):
            yield "a node has no parent, or several"
        unused = np.where(leaf, (self.feature != 0) | (self.threshold != 0) | self.missing_left, self.value != 0)
        if np.any(unused):
            yield "a node holds what it does not use"

    def _depth(self) -> int:
        depth, level = 0, self.first
        while len(level := level[self.left[level] != level]):
            depth, level = depth + 1, np.concatenate([self.left[level], self.right[level]])
        return depth
