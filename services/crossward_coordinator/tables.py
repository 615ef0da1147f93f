"""What the coordinator stores. Times are seconds since 1970 in UTC; documents are canonical JSON text."""

from __future__ import annotations

from sqlalchemy import Column, Float, ForeignKey, Index, Integer, MetaData, String, Table, Text

from crossward_service.db.ledger_tables import tables as ledger_tables

metadata = MetaData()

identity = Table(
    "identity",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("public_key", String(64), nullable=False),
    Column("created", Float, nullable=False),
)
"""Which key signs for this database, one row. The private key is a file: a copy of the database signs nothing."""

tokens = Table(
    "tokens",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("name", String(64), nullable=False, unique=True),
    Column("created", Float, nullable=False),
)

invites = Table(
    "invites",
    metadata,
    Column("code_hash", String(64), primary_key=True),
    Column("party", String(64), nullable=False, index=True),
    Column("role", String(16), nullable=False),
    Column("expires", Float, nullable=False),
    Column("used_by", String(64)),
)
"""`used_by`: the public key that enrolled with the code."""

parties = Table(
    "parties",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("cause", Text, nullable=False),
    Column("since", Float, nullable=False),
    Column("seen", Float),
    Column("agreed", Float),
)
"""state: active, stopped (ledgers disagree) or revoked. `seen`: the last signed request. `agreed`: when a stopped
party last showed a ledger that extends the mirror."""

keys = Table(
    "keys",
    metadata,
    Column("key_id", String(16), primary_key=True),
    Column("party", String(64), ForeignKey("parties.id"), nullable=False, index=True),
    Column("public_key", String(64), nullable=False),
    Column("state", String(16), nullable=False),
    Column("created", Float, nullable=False),
    Column("revoked", Float),
)
"""state: active (signs requests), rotated (its releases count, its requests do not) or revoked. `revoked`: since when;
a release that was accepted before still counts."""

nonces = Table(
    "nonces",
    metadata,
    Column("party", String(64), primary_key=True),
    Column("nonce", String(64), primary_key=True),
    Column("expires", Float, nullable=False, index=True),
)

studies = Table(
    "studies",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("document", Text, nullable=False),
    Column("lead", String(64), nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("cause", Text, nullable=False),
    Column("created", Float, nullable=False),
    Column("started", Float),
    Column("deadline", Float),
    Column("ended", Float),
    Column("events", Integer, nullable=False),
)
"""state: draft, sources (training), targets (training), then complete, failed or cancelled. `events`: how many."""

public_sets = Table(
    "public_sets",
    metadata,
    Column("study", String(64), ForeignKey("studies.id"), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("records", Integer, nullable=False),
    Column("document", Text, nullable=False),
)

tasks = Table(
    "tasks",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("study", String(64), ForeignKey("studies.id"), nullable=False, index=True),
    Column("party", String(64), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("cause", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("available", Float, nullable=False),
    Column("lease_until", Float),
    Column("progress", Float, nullable=False),
    Column("note", Text, nullable=False),
    Column("updated", Float, nullable=False),
    Index("tasks_waiting", "party", "state", "available"),
    Index("tasks_leased", "state", "lease_until"),
)
"""state: ready, leased, done, late (released after the quorum, nobody learns from it), declined, failed or cancelled.
The party of `aggregate` is the coordinator."""

results = Table(
    "results",
    metadata,
    Column("task", String(128), ForeignKey("tasks.id"), primary_key=True),
    Column("study", String(64), ForeignKey("studies.id"), nullable=False, index=True),
    Column("party", String(64), nullable=False),
    Column("digest", String(64), unique=True),
    Column("document", Text),
    Column("receipt", Text, nullable=False),
    Column("stored", Float, nullable=False),
)
"""A signed release (none where nothing leaves a site) and its receipt: the same bytes again get the same receipt."""

events = Table(
    "events",
    metadata,
    Column("study", String(64), ForeignKey("studies.id"), primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("time", Float, nullable=False),
    Column("kind", String(32), nullable=False),
    Column("party", String(64), nullable=False),
    Column("text", Text, nullable=False),
)
"""What a lead watches, counted from 1 within a study in the order of commits."""

certificates = Table(
    "certificates",
    metadata,
    Column("study", String(64), ForeignKey("studies.id"), primary_key=True),
    Column("document", Text, nullable=False),
)

ledger = ledger_tables(metadata)
