"""What a site stores, beside what each feature's `tables.py` adds. Times are seconds since 1970 in UTC.

There is no record here and nothing computed from records but a target's own boosted model, which is sealed.
"""

from __future__ import annotations

from sqlalchemy import Column, MetaData, String, Table, Text

from crossward_service.db.probe import probe_table

metadata = MetaData()
"""All tables of a site."""

facts = Table(
    "facts",
    metadata,
    Column("name", String(64), primary_key=True),
    Column("value", Text, nullable=False),
)
"""Single values, as canonical JSON: see `crossward_site.facts`."""

probe = probe_table(metadata)
