"""Other parties' keys, and the tokens of people and applications."""

from __future__ import annotations

from enum import StrEnum

from sqlalchemy import Column, Float, String, Table

from crossward_service.db.lifecycle import enum_column
from crossward_service.db.tokens import Tokens
from crossward_site.tables import metadata


class PersonRole(StrEnum):
    """Who may use the site's own interface."""

    STEWARD = "steward"
    """Decides, and sees everything."""
    CLINIC = "clinic"
    """Asks for predictions: a person or an application."""


class PinOrigin(StrEnum):
    """Why a site trusts another party's key."""

    STEWARD = "steward"
    """A person has checked it with the party."""
    COORDINATOR = "coordinator"
    """Believed from the coordinator, the first time it was needed."""


TOKENS = Tokens(metadata, PersonRole)

pins = Table(
    "pins",
    metadata,
    Column("party", String(64), primary_key=True),
    Column("key_id", String(16), primary_key=True),
    Column("public_key", String(64), nullable=False),
    enum_column("origin", PinOrigin),
    Column("since", Float, nullable=False),
)
"""Other parties' public keys."""
