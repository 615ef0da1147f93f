"""What a site stores. Times are seconds since 1970 in UTC; documents are canonical JSON text.

There is no record here and nothing computed from records but a target's own boosted model, which is sealed: `slots`
holds persons as keyed hashes only.
"""

from __future__ import annotations

from sqlalchemy import Column, Float, ForeignKey, Integer, LargeBinary, MetaData, String, Table, Text

from crossward_service.db.ledger_tables import tables as ledger_tables

metadata = MetaData()

facts = Table(
    "facts",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)
"""Single values: the identity, the policy, the mirror's last confirmed head, why the site stopped."""

tokens = Table(
    "tokens",
    metadata,
    Column("hash", String(64), primary_key=True),
    Column("role", String(16), nullable=False),
    Column("name", String(64), nullable=False),
    Column("created", Float, nullable=False),
)
"""Tokens of the site's own API. role: `steward`, or `clinic` for an application that asks for predictions."""

pins = Table(
    "pins",
    metadata,
    Column("party", String(64), primary_key=True),
    Column("key_id", String(64), primary_key=True),
    Column("public_key", String(64), nullable=False),
    Column("origin", String(16), nullable=False),
    Column("since", Float, nullable=False),
)
"""Other parties' public keys. origin: `steward` (checked by a person) or `coordinator` (believed at first use)."""

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

slots = Table(
    "slots",
    metadata,
    Column("dataset", String(64), ForeignKey("datasets.name"), primary_key=True),
    Column("person", String(64), primary_key=True),
    Column("human", String(64), nullable=False),
    Column("slot", Integer, nullable=False),
    Column("cell", Integer, nullable=False),
    Column("places", Integer, nullable=False),
)
"""Who sits where, for good. `person` is a keyed hash, another in each dataset; `human` is one that is the same in all,
so that nobody gets a second budget under another dataset's name. `places` is how many records the slot holds."""

tasks = Table(
    "tasks",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("study", String(64), nullable=False, index=True),
    Column("study_hash", String(64), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("message", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("lease_seconds", Float, nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("dataset", String(64)),
    Column("reason", String(16)),
    Column("cause", Text, nullable=False),
    Column("trouble", Text, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("progress", Float, nullable=False),
    Column("worker", String(64)),
    Column("busy_until", Float),
    Column("taken", Float, nullable=False),
    Column("updated", Float, nullable=False),
)
"""state: see `crossward_site.tasks`. `worker` and `busy_until` keep two workers off one task. `cause` may be sent when
the task is declined; `trouble`, why a step last failed here, stays here. `failures` counts those of the state."""

outbox = Table(
    "outbox",
    metadata,
    Column("task", String(128), ForeignKey("tasks.id"), primary_key=True),
    Column("release", Text),
    Column("digest", String(64)),
    Column("receipt", Text),
    Column("stored", Float, nullable=False),
    Column("settled", Float),
)
"""A finished task: the signed release (none where nothing leaves the site), and the receipt it got."""

models = Table(
    "models",
    metadata,
    Column("study", String(64), primary_key=True),
    Column("task", String(128), ForeignKey("tasks.id"), nullable=False),
    Column("sealed", LargeBinary),
    Column("stored", Float, nullable=False),
)
"""The model a target uses for a study. `sealed` holds one that cannot be rebuilt from releases."""

aucs = Table(
    "aucs",
    metadata,
    Column("task", String(128), primary_key=True),
    Column("study", String(64), nullable=False, index=True),
    Column("epsilon", Float, nullable=False),
    Column("document", Text),
    Column("asked", Float, nullable=False),
)
"""Paid AUCs; `document` is what was released, none while only the reservation stands."""

ledger = ledger_tables(metadata)
