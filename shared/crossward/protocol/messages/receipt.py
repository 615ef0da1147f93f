"""The coordinator's receipt: what it has stored, and where that party's mirrored ledger stands."""

from __future__ import annotations

from crossward.protocol.messages.base import Content, Digest, Part, TaskId, Time
from crossward.values import Count


class Head(Part):
    """The last line of a ledger: how many lines it has, and the hash of the last (64 zeros for none)."""

    sequence: Count
    hash: Digest


class Receipt(Content):
    """The task is done. `release` is the digest of what was stored for it, None where nothing leaves the site."""

    task: TaskId
    release: Digest | None
    head: Head
    time: Time
