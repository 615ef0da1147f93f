"""Tasks and what a site answers: a result, a heartbeat, or a refusal with a reason."""

from __future__ import annotations

from typing import Annotated

from pydantic import FailFast, Field

from crossward.protocol.constants import LINE_BYTES, MOST_LINES, MOST_STUDY_BYTES, DeclineReason, TaskKind
from crossward.protocol.envelopes import SignedRelease
from crossward.protocol.messages import Digest, Message, TaskId
from crossward.values import MOST_PARTIES, AtLeastOne, Positive, Unit, Words

LineText = Annotated[str, Field(max_length=LINE_BYTES)]
"""A line of a ledger in its canonical form: the bytes that are hashed."""


class TaskMessage(Message):
    """Work for a party. `study` is the canonical form; `inputs` are the releases the task learns from.

    `lead` is the name of the token that the study was made with, as the coordinator has it; "" where it says none.
    """

    id: TaskId
    kind: TaskKind
    study: Annotated[str, Field(max_length=MOST_STUDY_BYTES)]
    study_hash: Digest
    inputs: Annotated[tuple[SignedRelease, ...], FailFast(), Field(max_length=MOST_PARTIES)] = ()
    attempt: AtLeastOne = 1
    lease_seconds: Positive
    lead: Annotated[str, Field(max_length=64)] = ""


class ResultMessage(Message):
    """A task is done: what leaves the site (None: nothing does), and the ledger lines not yet confirmed, in order."""

    task: TaskId
    release: SignedRelease | None
    lines: Annotated[tuple[LineText, ...], FailFast(), Field(max_length=MOST_LINES)] = ()


class HeartbeatMessage(Message):
    """A site is at work on its lease. `note` is public: it says nothing about records."""

    task: TaskId
    attempt: AtLeastOne = 1
    progress: Unit
    note: Words = ""


class DeclineMessage(Message):
    """A site will not do a task. `text` is public: it says nothing about records."""

    task: TaskId
    reason: DeclineReason
    text: Words = ""
