"""Records inside a ball, without a second copy of the data.

A learner never sees x itself but z = y * q * [s * x, c] / max(r, ||[s * x, c]||): the record's columns scaled by a
public s, an intercept c, all brought inside the ball of radius q by a public radius r, and signed by its label. That
is a row scale times the matrix the caller already has, so only the row scale is stored. It is found when a row is
first used, and so is in cache: norms cost no pass of their own. Of rows on disk (`stored`) not even that is kept: it is
found anew with each block, for one number per record may be more than there is memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from crossward.errors import InvalidBounds, InvalidImportance, InvalidSetting, NotFinite, WrongShape
from crossward.learning.stored import LONGEST_BLOCK, SHORTEST_BLOCK, Index, Rows, StoredRows, runs
from crossward.learning.workers import ALONE, BLOCK_BYTES, Workers, is_threaded, workers
from crossward.privacy.mechanisms import BallDescription
from crossward.privacy.noise import Array

_Floats = TypeVar("_Floats", Array, NDArray[np.float32])

Labels: TypeAlias = NDArray[np.floating] | NDArray[np.int8]
"""-1 or +1 for each record: a byte each is enough for very many."""

WHOLE_ROWS = 1 << 17
"""Up to so many rows that BLAS can use as they are, in no more memory than a shared cache, are one block."""

EXTREME = 1e50
"""Radii and column scales lie between 1/EXTREME and EXTREME: beyond, squares underflow and a norm reads as zero."""


FARTHEST_OFFSET = 50.0
"""Log odds beyond this are certainty."""


def _inside(dimension: int) -> float:
    """Norms are computed in floating point; this much shrinking keeps the exact norm at most q all the same."""
    return 1.0 - 1e-12 - dimension * 2.0**-51


@dataclass(frozen=True, slots=True)
class Ball:
    """How a record is brought inside the ball of radius q. Every field is public.

    `columns`: which columns of X belong to the ball, all by default. `scale`: a factor per column, such as a power of
    its importance. `radius`: the norm (after scaling) up to which a record is kept as it is. `intercept`: the constant
    column, as a share of the radius; 0 for none. `offset`: a fixed number beside the ball, the margin of a record about
    which the weights say nothing. Such as the declared log odds: it is not learned, so it takes no noise and no room.
    """

    radius: float
    q: float = 1.0
    columns: tuple[int, ...] | None = None
    scale: tuple[float, ...] | None = None
    intercept: float = 0.0
    offset: float = 0.0

    def __post_init__(self) -> None:
        for name in ("columns", "scale"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(getattr(self, name)))
        if not 1 / EXTREME <= self.radius <= EXTREME:
            raise InvalidBounds(
                f"A radius must be a number above 0 and within {EXTREME:g}, not {self.radius!r}.",
                "Give a public bound near the typical norm of a record; never the largest norm in the data.",
            )
        if not 0 < self.q <= 1:
            raise InvalidImportance(f"A ball has a radius q above 0 and at most 1, not {self.q!r}.")
        if not (self.intercept == 0 or 1 / EXTREME <= self.intercept <= EXTREME):
            raise InvalidSetting(
                f"The intercept column must be 0 (none) or a number within {EXTREME:g}, not {self.intercept!r}."
            )
        if not abs(self.offset) <= FARTHEST_OFFSET:
            raise InvalidSetting(
                f"The offset must be a number within {FARTHEST_OFFSET:g}, not {self.offset!r}.",
                "Log odds of the declared prevalence: -2 for 12 %.",
            )
        if self.scale is not None and not all(s == 0 or 1 / EXTREME <= s <= EXTREME for s in self.scale):
            raise InvalidSetting(f"Column scales must be 0 or numbers within {EXTREME:g}.", "Divide by the largest.")
        if self.columns is not None and len(set(self.columns)) != len(self.columns):
            raise WrongShape("A ball names a column twice.", "Name each column once.")

    def dimension(self, features: int) -> int:
        """The number of weights of a model in this ball, for data with `features` columns; refuses data that differ."""
        if self.columns is not None and not (self.columns and 0 <= min(self.columns) <= max(self.columns) < features):
            raise WrongShape(f"The ball names columns {self.columns} and the data has {features}.")
        width = features if self.columns is None else len(self.columns)
        if self.scale is not None and len(self.scale) != width:
            raise WrongShape(f"The ball scales {len(self.scale)} columns and has {width}.", "One scale per column.")
        return width + (self.intercept > 0)

    def describe(self) -> BallDescription:
        """The ball as a release names it."""
        return BallDescription(
            q=self.q,
            radius=self.radius,
            columns=self.columns,
            scale=self.scale,
            intercept=self.intercept,
            offset=self.offset,
        )

    def columns_of(self, X: Rows) -> tuple[Rows, NDArray[np.intp] | None]:
        """X and which of its columns to take; where they stand side by side in memory, a view of them and None."""
        if self.columns is None:
            return X, None
        if isinstance(X, StoredRows):
            return X, np.array(self.columns, dtype=np.intp)
        first, last = self.columns[0], self.columns[-1]
        if self.columns == tuple(range(first, last + 1)):
            return X[:, first : last + 1], None
        return X, np.array(self.columns, dtype=np.intp)

    def place(self, X: Rows) -> Array:
        """The records of X inside the ball, as a new array: (n, dimension)."""
        return Records.inside(self, X).dense()


class Records:
    """n signed records z_i inside a ball, kept as the caller's matrix (or stored rows) and one row scale.

    z_i = row_scale_i * [column_scale * x_i, constant] with x_i the chosen `columns` of row i, and ||z_i|| <= reach.
    The margin of a record is z_i.w + sign_i offset, its sign being its label's.
    """

    __slots__ = (
        "_columns",
        "_copies",
        "_labels",
        "_matrix",
        "_radius",
        "_runs",
        "_scales",
        "block_rows",
        "column_scale",
        "constant",
        "n",
        "offset",
        "reach",
        "width",
    )

    def __init__(
        self,
        matrix: Rows,
        labels: Labels | None = None,
        *,
        columns: NDArray[np.intp] | None = None,
        column_scale: Array | None = None,
        constant: float = 0.0,
        radius: float | None = None,
        reach: float = 1.0,
        offset: float = 0.0,
    ):
        """Without a `radius`, records that are inside the ball of radius `reach` already and stay as they are."""
        self._matrix, self._columns, self._labels, self._radius = matrix, columns, labels, radius
        self._runs = None if columns is None else runs(columns)
        self._copies = columns is not None or isinstance(matrix, StoredRows) or not _is_blas_ready(matrix)
        self.column_scale = column_scale
        self.constant = constant
        self.reach = reach
        self.offset = offset
        self.n = int(matrix.shape[0])
        self.width = int(matrix.shape[1]) if columns is None else len(columns)
        if isinstance(matrix, StoredRows):
            self.block_rows = matrix.block_rows
            self._scales: list[Array | None] | None = None  # found anew each time
            return
        room = BLOCK_BYTES // 16 if self._copies else BLOCK_BYTES  # each thread may hold a few copies
        self.block_rows = max(SHORTEST_BLOCK, min(LONGEST_BLOCK, room // (8 * max(1, self.width))))
        if not self._copies and self.n <= WHOLE_ROWS and not is_threaded(self.size):
            self.block_rows = max(SHORTEST_BLOCK, self.n)
        self._scales = [None] * self.block_count  # None where nobody has asked yet

    @classmethod
    def inside(cls, ball: Ball, X: Rows, y: Labels | None = None) -> Records:
        """The records of X inside `ball`, signed by the labels y in {-1, +1} (unsigned without)."""
        ball.dimension(X.shape[1])  # refuses columns and scales that X does not have
        matrix, columns = ball.columns_of(X)
        constant = ball.intercept * ball.radius
        return cls(
            matrix,
            y,
            columns=columns,
            column_scale=None if ball.scale is None else np.asarray(ball.scale, dtype=np.float64),
            constant=constant,
            radius=math.hypot(ball.radius, constant),
            reach=ball.q,
            offset=ball.offset,
        )

    @classmethod
    def of(cls, Z: Array) -> Records:
        """Signed records as they are."""
        return cls(Z, reach=math.sqrt(float(np.vecdot(Z, Z).max(initial=0.0))))

    @property
    def dimension(self) -> int:
        """The number of weights of a model of these records."""
        return self.width + (self.constant > 0)

    @property
    def size(self) -> int:
        """The bytes of the records, were they float64."""
        return 8 * self.n * self.width

    @property
    def block_count(self) -> int:
        """How many blocks there are."""
        if isinstance(self._matrix, StoredRows):
            return self._matrix.block_count
        return -(-self.n // self.block_rows)

    def span(self, index: int) -> slice:
        """The records of a block."""
        if isinstance(self._matrix, StoredRows):
            return self._matrix.span(index)
        return slice(index * self.block_rows, (index + 1) * self.block_rows)

    def block(self, index: int) -> tuple[Array, Array]:
        """The rows x_i and the row scales of a block: views where BLAS can use them as they are, else a copy."""
        rows = self._rows(index)
        if self._scales is None:
            return rows, self._scale(rows, self.span(index))
        scale = self._scales[index]
        if scale is None:
            scale = self._scales[index] = self._scale(rows, self.span(index))
        return rows, scale

    def some(self, rows: Index) -> Records:
        """Only these records; a slice of them is not copied."""
        return Records(
            self._matrix[rows],
            None if self._labels is None else self._labels[rows],
            columns=self._columns,
            column_scale=self.column_scale,
            constant=self.constant,
            radius=self._radius,
            reach=self.reach,
            offset=self.offset,
        )

    def direction(self, w: Array) -> tuple[Array, float]:
        """(u, shift) with z_i . w = row_scale_i (x_i . u + shift)."""
        shift = self.constant * float(w[-1]) if self.constant > 0 else 0.0
        u = w[: self.width]
        return (u if self.column_scale is None else u * self.column_scale), shift

    def margins(self, w: Array, crew: Workers | None = None, *, alone: bool = False) -> Array:
        """z_i . w for every record, without the offset; by `crew`, if one is at work already.

        `alone`: the same to the last bit as if the record were the only one, if rows lie side by side in memory. BLAS
        is faster, and adds a row's numbers in another order when it has other rows to work on.
        """
        u, shift = self.direction(w)
        margins = np.empty(self.n)

        def fill(index: int) -> None:
            X, scale = self.block(index)
            products = np.einsum("ij,j->i", X, u) if alone else X @ u
            margins[self.span(index)] = (products + shift) * scale

        if crew is None:
            self._visit(fill)
        else:
            crew.run(fill, self.block_count)
        return margins

    def rows(self, index: NDArray[np.intp] | range) -> Array:
        """The z_i of these records, as an array (len(index), dimension); neighbours as a range, which copies no x_i."""
        return self.some(_indexing(index)).dense()

    def dense(self) -> Array:
        """All z_i as an array (n, dimension)."""
        return self._into(np.empty((self.n, self.dimension)), ALONE)

    def single(self, crew: Workers, stride: int = 1) -> NDArray[np.float32]:
        """Every stride-th z_i, in single precision. Of rows on disk all blocks are read, one at a time."""
        Z = np.empty((-(-self.n // stride), self.dimension), np.float32)
        if self._scales is not None:
            return self.some(slice(None, None, stride))._into(Z, crew)

        def fill(index: int) -> None:
            span = self.span(index)
            first = -span.start % stride
            X, some = self._rows(index)[first::stride], slice(span.start + first, span.stop, stride)
            start = some.start // stride
            self._put(X, self._scale(X, some), Z[start : start + len(X)])

        crew.run(fill, self.block_count)
        return Z

    def offsets(self, some: Index | range = slice(None)) -> Array | float:
        """sign_i offset for these records, or one number for all."""
        if self._labels is None or not self.offset:
            return self.offset
        return np.multiply(self._labels[_indexing(some)], self.offset, dtype=np.float64)

    def _into(self, Z: _Floats, crew: Workers) -> _Floats:
        def fill(index: int) -> None:
            self._put(*self.block(index), Z[self.span(index)])

        crew.run(fill, self.block_count)
        return Z

    def _put(self, X: Array, scale: Array, Z: NDArray[np.floating]) -> None:
        """The z_i of these rows into Z."""
        if self.column_scale is not None:
            X = X * self.column_scale
        np.multiply(X, scale[:, None], out=Z[:, : self.width], casting="same_kind")
        if self.constant > 0:
            Z[:, -1] = self.constant * scale

    def _rows(self, index: int) -> Array:
        """The x_i of a block."""
        if isinstance(self._matrix, StoredRows):
            return self._matrix.block(index, self._runs)
        rows = self._matrix[self.span(index)]
        if self._copies:
            if self._columns is not None:
                rows = rows.take(self._columns, axis=1)
            rows = np.ascontiguousarray(rows, dtype=np.float64)
        return rows  # type: ignore[return-value]

    def _scale(self, X: Array, rows: slice) -> Array:
        """row_scale_i = y_i q / max(radius, ||[s * x_i, c]||)."""
        if self._radius is None:
            scale = np.ones(len(X))
        else:
            scale = _norms(X if self.column_scale is None else X * self.column_scale, self.constant)
            np.maximum(scale, self._radius, out=scale)
            np.divide(self.reach * _inside(self.dimension), scale, out=scale)
        if self._labels is not None:
            scale *= self._labels[rows]
        return scale

    def _visit(self, work: Callable[[int], object]) -> None:
        if self.block_count <= 1:
            ALONE.run(work, self.block_count)
        else:
            with workers(self.size) as crew:
                crew.run(work, self.block_count)


def _indexing(rows: Index | range) -> Index:
    return slice(rows.start, rows.stop, rows.step) if isinstance(rows, range) else rows


def _is_blas_ready(matrix: NDArray[np.floating]) -> bool:
    """Whether BLAS takes a block of rows as it is: float64, with rows or columns side by side in memory."""
    itemsize = matrix.itemsize
    return matrix.dtype == np.float64 and itemsize in matrix.strides and min(matrix.strides) > 0


def _norms(X: Array, constant: float) -> Array:
    """||[x_i, constant]||, with a second look at rows whose squares overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        norm: Array = np.einsum("ij,ij->i", X, X)  # vecdot takes thrice as long on short rows
        norm += constant**2
        np.sqrt(norm, out=norm)
    if not math.isfinite(norm.sum()):
        wild = ~np.isfinite(norm)
        if not np.all(np.isfinite(X[wild])):
            raise NotFinite("The data holds NaN or infinity.", "Drop such records or give their features a default.")
        peak = np.abs(X[wild]).max(axis=1)
        norm[wild] = peak * np.linalg.norm(X[wild] / peak[:, None], axis=1)
    return norm
