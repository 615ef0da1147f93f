"""The coordinator's database: one set of tables, to which each feature adds its own, and the migrations that make them.

Times are seconds since 1970 in UTC, for people; durations are measured by an age (`crossward_coordinator.times`).
Documents are canonical JSON text. A database has the form that `migrations/` gives it; a test compares that form with
the tables that the features define.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import MetaData

from crossward_service.db.migrations import Migrations
from crossward_service.db.probe import probe_table

metadata = MetaData()
"""All tables of the coordinator, once all features are imported (`crossward_coordinator.app` imports them all)."""

probe = probe_table(metadata)

MIGRATIONS = Migrations(Path(__file__).parent / "migrations", lock=0x63726F7373, fix="Run crossward coordinator init.")
