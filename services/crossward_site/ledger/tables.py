"""The ledger's tables in a site's database."""

from __future__ import annotations

from crossward_service.db.ledger_tables import tables as ledger_tables
from crossward_site.tables import metadata

ledger = ledger_tables(metadata)
