"""Reading named columns from whatever holds a hospital's table.

A table is a mapping name -> sequence, a sequence of records (mappings), a structured array, or anything else that
answers `table[name]` with a column, such as a data frame. Values are left as they come: a joint type for a whole
column would let one record change how another is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from crossward.errors import EmptyData, InvalidData, WrongShape

Column: TypeAlias = "NDArray[Any] | list[Any]"
"""Numbers and booleans as an array, anything else as a list of the values themselves."""


def read_columns(table: Any, names: Sequence[str]) -> dict[str, Column]:
    """The named columns of the table, all of one length of at least 1; other columns are ignored."""
    if isinstance(table, list | tuple):
        columns = _from_records(table, names)
    else:
        columns = {name: as_column(raw, name) for name, raw in _from_names(table, names).items()}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise WrongShape(f"The columns have different lengths: {listed}.", "Give one value per record in each.")
    if not all(lengths.values()):
        raise EmptyData("The table has no records.", "Give at least one.")
    return columns


def as_column(raw: Any, name: str) -> Column:
    """One column as an array of numbers or a list of values; never a scalar, a text, a set or a matrix."""
    if isinstance(raw, str | bytes | Mapping | Set) or not (hasattr(raw, "__array__") or isinstance(raw, Iterable)):
        raise WrongShape(
            f"The column {name!r} is a single {type(raw).__name__}, not a sequence of values.",
            "Give one value per record; for a single record, give a list that holds it.",
        )
    if not hasattr(raw, "__array__"):
        return list(raw)
    column = np.asarray(raw)
    if column.ndim != 1:
        raise WrongShape(f"The column {name!r} has {column.ndim} dimensions.", "Give one value per record.")
    if column.dtype.kind in "mMcV":
        raise InvalidData(f"The column {name!r} holds {column.dtype}, which is no kind of feature.", "Convert it.")
    if isinstance(raw, np.ma.MaskedArray):
        return list(raw.tolist())  # None where masked: a plain array would show what lies under the mask
    return column if column.dtype.kind in "biuf" else list(column.tolist())


def _from_records(records: Sequence[Any], names: Sequence[str]) -> dict[str, Column]:
    for row, record in enumerate(records):
        if not isinstance(record, Mapping):
            raise WrongShape(f"Row {row} is a {type(record).__name__}, not a record.", "Give mappings name -> value.")
        # Absent is an error even where a default is declared: a misspelt name must not pass for a missing value.
        if missing := [name for name in names if name not in record]:
            raise _columns_missing(missing, f"Row {row}")
    if not records:
        raise EmptyData("The table has no records.", "Give at least one.")
    return {name: [record[name] for record in records] for name in names}


def _from_names(table: Any, names: Sequence[str]) -> dict[str, Any]:
    if isinstance(table, str | bytes) or not hasattr(table, "__getitem__"):
        raise WrongShape(f"A {type(table).__name__} is not a table.", "Give columns by name, or a list of records.")
    if isinstance(table, np.ndarray) and table.dtype.names is None:
        raise WrongShape("An array without column names is not a table.", "Give a mapping name -> column.")
    found, missing = {}, []
    for name in names:
        try:
            if isinstance(table, Mapping) and name not in table:
                raise KeyError(name)
            found[name] = table[name]
        except (KeyError, ValueError, IndexError):
            missing.append(name)
    if missing:
        raise _columns_missing(missing, "The table")
    return found


def _columns_missing(names: Sequence[str], where: str) -> InvalidData:
    listed = ", ".join(repr(name) for name in names)
    return InvalidData(f"{where} has no column {listed}.", "Map the local columns to the names of the schema.")
