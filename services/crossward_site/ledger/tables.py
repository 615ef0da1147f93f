"""The ledger's tables, and what each study took by it."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, String, Table

from crossward_service.db.ledger_tables import tables as ledger_tables
from crossward_site.tables import metadata

ledger = ledger_tables(metadata)

charges = Table(
    "charges",
    metadata,
    Column("task", String(200), primary_key=True),
    Column("study", String(200), nullable=False),
    Column("study_hash", String(64), nullable=False),
    Column("dataset", String(200), nullable=False),
    Column("nano_epsilon", BigInteger, nullable=False),
    Column("atto_delta", BigInteger, nullable=False),
    Index("charges_of_study", "study", "dataset"),
)
"""What each `reserve` line says of its study, to be looked up without reading the ledger. It follows from the lines."""
