"""What is answered about the mirrors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

from crossward.errors import ChainBroken
from crossward.protocol.ledger.lines import Head, Line
from crossward_service.http.views import HeadView, View


class LinesView(View):
    """Lines of a mirrored ledger, each the text that is hashed; `next` is the `after` of the next page."""

    party: str
    head: HeadView
    lines: list[str]
    next: int | None

    @classmethod
    def of(cls, party: str, head: Head, lines: Sequence[Line], limit: int) -> Self:
        """A page of at most `limit` lines."""
        return cls(
            party=party,
            head=HeadView.of(head),
            lines=[line.text for line in lines],
            next=lines[-1].sequence if len(lines) == limit else None,
        )


class VerifiedView(View):
    """Whether a mirror holds; if not, its first line that is wrong, and why."""

    party: str
    holds: bool
    head: HeadView | None
    line: int | None
    cause: str

    @classmethod
    def of(cls, party: str, outcome: Head | ChainBroken) -> Self:
        """A mirror that was judged."""
        if isinstance(outcome, ChainBroken):
            return cls(party=party, holds=False, head=None, line=outcome.line, cause=outcome.cause)
        return cls(party=party, holds=True, head=HeadView.of(outcome), line=None, cause="")
