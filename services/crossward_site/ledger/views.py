"""What a site answers about its ledger."""

from __future__ import annotations

from crossward_service.http.views import HeadView, View


class LedgerView(View):
    """Lines of the site's ledger, and its head."""

    lines: list[str]
    head: HeadView


class SoundnessView(View):
    """Whether the ledger holds and is the one that was confirmed; if not, the first line at fault, why, and what to do.

    The head is None where the chain is broken before it.
    """

    sound: bool
    line: int | None = None
    cause: str = ""
    fix: str = ""
    head: HeadView | None = None


class AgreedView(View):
    """Where both ledgers end."""

    head: HeadView
