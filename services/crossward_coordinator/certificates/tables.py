"""Certificates, signed, in their canonical form."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, String, Table, Text

from crossward_coordinator.database import metadata

certificates = Table(
    "certificates",
    metadata,
    Column("study", String(64), ForeignKey("studies.id"), primary_key=True),
    Column("document", Text, nullable=False),
)
