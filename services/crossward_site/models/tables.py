"""What a target stores of its models."""

from __future__ import annotations

from sqlalchemy import Column, Float, ForeignKey, Integer, LargeBinary, String, Table, Text

from crossward_site.tables import metadata

models = Table(
    "models",
    metadata,
    Column("study", String(64), primary_key=True),
    Column("task", String(128), ForeignKey("tasks.id"), nullable=False),
    Column("sealed", LargeBinary),
    Column("mapping", Text),
    Column("stored", Float, nullable=False),
)
"""The model a target uses for a study. `sealed` holds one that cannot be rebuilt from releases, `mapping` how
the records read that it was trained on: those of a prediction read the same way."""

aucs = Table(
    "aucs",
    metadata,
    Column("task", String(200), primary_key=True),
    Column("study", String(64), nullable=False, index=True),
    Column("epsilon", Float, nullable=False),
    Column("dataset", String(64), nullable=False),
    Column("version", Integer, nullable=False),
    Column("document", Text),
    Column("asked", Float, nullable=False),
)
"""Paid AUCs; `document` is what was released, none while only the reservation stands; it is made
from the version that was charged."""
