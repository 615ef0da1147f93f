"""The mirrors' tables: one chain per party, in the form that every ledger has."""

from __future__ import annotations

from crossward_coordinator.database import metadata
from crossward_service.db.ledger_tables import tables

ledger = tables(metadata)
