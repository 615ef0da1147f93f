"""What a site stores of its datasets. Persons are keyed hashes; there is nothing of what their records say."""

from __future__ import annotations

from sqlalchemy import Column, Float, ForeignKey, Index, Integer, String, Table, Text

from crossward_site.tables import metadata

datasets = Table(
    "datasets",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("records_per_person", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("opened", Float, nullable=False),
)

versions = Table(
    "versions",
    metadata,
    Column("dataset", String(64), ForeignKey("datasets.name"), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("place", Text, nullable=False),
    Column("mapping", Text, nullable=False),
    Column("report", Text, nullable=False),
    Column("registered", Float, nullable=False),
)
"""Where a version of the data lies and how it reads. The report stays here."""

seats = Table(
    "seats",
    metadata,
    Column("dataset", String(64), ForeignKey("datasets.name"), primary_key=True),
    Column("person", String(64), primary_key=True),
    Column("human", String(64), nullable=False),
    Column("seat", Integer, nullable=False),
    Column("cell", Integer, nullable=False),
    Column("rows", Integer, nullable=False),
    Index("seats_of_human", "human"),
)
"""Who sits where, for good. `person` is a keyed hash, another in each dataset; `human` is one that is the same in all,
so that nobody gets a second budget under another dataset's name. `rows` is how many rows the seat holds."""
