"""What every answer and every small body has in common: its fields are known, and times are in ISO 8601, UTC."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict

from crossward.protocol.ledger.lines import Head


class View(BaseModel):
    """A part of an answer. A field that its class does not name is a mistake in the code, and is not sent."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class HeadView(View):
    """Where a ledger ends."""

    sequence: int
    hash: str

    @classmethod
    def of(cls, head: Head) -> Self:
        """A head as it is shown."""
        return cls(sequence=head.sequence, hash=head.hash)


class Form(BaseModel):
    """A small body of plain JSON that refuses what it does not know."""

    model_config = ConfigDict(extra="forbid")
