"""Run by Alembic: inside the transaction that `migrate` has begun."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
