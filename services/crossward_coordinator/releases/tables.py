"""What came of a task: a signed release, or word that nothing leaves the site, and the receipt for it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Column, Float, ForeignKey, String, Table, Text

from crossward_coordinator.database import metadata

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


@dataclass(frozen=True, slots=True)
class StoredResult:
    """The release of a task, as its party signed it, and the coordinator's receipt; both in canonical form."""

    task: str
    study: str
    party: str
    digest: str | None
    document: str | None
    receipt: str
    stored: float
