"""Tokens of people, hashed; and the roles that a token can have."""

from __future__ import annotations

from enum import StrEnum

from crossward_coordinator.database import metadata
from crossward_service.db.tokens import Tokens


class PersonRole(StrEnum):
    """What a person may do here."""

    OPERATOR = "operator"
    """Invite, revoke and reconcile parties."""
    LEAD = "lead"
    """Create, start and cancel studies."""
    AUDITOR = "auditor"
    """Read everything public."""


TOKENS = Tokens(metadata, PersonRole)
