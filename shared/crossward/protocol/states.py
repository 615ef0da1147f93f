"""How far parties, keys, studies and tasks are, as the coordinator tells everyone."""

from __future__ import annotations

from enum import StrEnum


class PartyState(StrEnum):
    """Whether a party takes part."""

    ACTIVE = "active"
    STOPPED = "stopped"
    """Its ledger and the mirror disagree: it gets no work until an operator reconciles it."""
    REVOKED = "revoked"
    """None of its keys counts. Invited again, it goes on with its old ledger."""


class KeyState(StrEnum):
    """What a party's key may sign."""

    ACTIVE = "active"
    """Requests and releases."""
    ROTATED = "rotated"
    """Nothing new; what it released before still counts."""
    REVOKED = "revoked"
    """Nothing; what was accepted before still counts."""


class StudyState(StrEnum):
    """How far a study is: the phase it is in, or how it ended."""

    DRAFT = "draft"
    """Checked and stored; nobody was asked for anything."""
    SOURCES = "sources"
    """The sources train; under a method that aggregates, the coordinator then does."""
    TARGETS = "targets"
    """The targets train."""
    COMPLETE = "complete"
    """At least one target is done."""
    FAILED = "failed"
    """It ended without what it was for; its cause says why."""
    CANCELLED = "cancelled"
    """Its lead ended it."""


class TaskState(StrEnum):
    """How far a task is."""

    READY = "ready"
    """Waits for its party, or for its turn after a pause."""
    LEASED = "leased"
    """Its party is at work."""
    DONE = "done"
    LATE = "late"
    """Released after the quorum: nobody learns from it."""
    DECLINED = "declined"
    FAILED = "failed"
    CANCELLED = "cancelled"
    """Nobody waits for it any more; its cause says why."""
