"""The ledger's tables, for a service to include in its own metadata and migrations."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import BigInteger, Column, ForeignKeyConstraint, MetaData, String, Table, Text, UniqueConstraint


@dataclass(frozen=True, slots=True)
class LedgerTables:
    """Lines are the ledger; heads and spend follow from them and are kept so that a line need not read all others."""

    lines: Table
    heads: Table
    spend: Table


def tables(metadata: MetaData) -> LedgerTables:
    """Define the tables. One database may hold the chains of many owners: a site's own, or the mirror of each party."""
    heads = Table(
        "ledger_heads",
        metadata,
        Column("owner", String(200), primary_key=True),
        Column("sequence", BigInteger, nullable=False),
        Column("hash", String(64), nullable=False),
    )
    lines = Table(
        "ledger_lines",
        metadata,
        Column("owner", String(200), primary_key=True),
        Column("sequence", BigInteger, primary_key=True, autoincrement=False),
        Column("previous", String(64), nullable=False),
        Column("kind", String(16), nullable=False),
        Column("subject", String(200), nullable=False),  # the dataset of an open, the task of a reserve or release
        Column("time", BigInteger, nullable=False),
        Column("body", Text, nullable=False),
        Column("hash", String(64), nullable=False),
        ForeignKeyConstraint(["owner"], ["ledger_heads.owner"], name="ledger_lines_owner"),
        UniqueConstraint("owner", "kind", "subject", name="ledger_lines_once"),
    )
    spend = Table(
        "ledger_spend",
        metadata,
        Column("owner", String(200), primary_key=True),
        Column("dataset", String(200), primary_key=True),
        Column("cell", BigInteger, primary_key=True, autoincrement=False),
        # Decimal digits: an epsilon of 5 is 1.25e19 atto-rho, which no integer column of either database holds.
        Column("nano_epsilon", String(80), nullable=False),
        Column("atto_delta", String(80), nullable=False),
        Column("atto_rho", String(80), nullable=False),
        Column("releases", BigInteger, nullable=False),
        ForeignKeyConstraint(["owner"], ["ledger_heads.owner"], name="ledger_spend_owner"),
    )
    return LedgerTables(lines, heads, spend)
