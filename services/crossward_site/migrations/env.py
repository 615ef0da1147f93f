"""Run by Alembic: inside the transaction that `migrate` has begun."""

from __future__ import annotations

from alembic import context

from crossward_site.tables import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
context.run_migrations()
