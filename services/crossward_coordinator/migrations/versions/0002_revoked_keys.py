"""Since when a key is revoked: what was accepted before still counts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the time; of keys revoked before, it is when their party was, if the party did not come back since."""
    op.add_column("keys", sa.Column("revoked", sa.Float(), nullable=True))
    op.execute(
        "UPDATE keys SET revoked = (SELECT since FROM parties WHERE parties.id = keys.party"
        " AND parties.state = 'revoked') WHERE state = 'revoked'"
    )
