"""Tasks and what a site answers: a result, a heartbeat, or a refusal with a reason."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from crossward.errors import InvalidMessage
from crossward.protocol.messages.base import Digest, Json, Message, TaskId
from crossward.protocol.messages.signed import SignedRelease
from crossward.study.file import Study
from crossward.values import MOST_PARTIES, AtLeastOne, Note, Positive, Unit

TaskKind = Literal["train-source", "train-target", "aggregate"]

DeclineReason = Literal[
    "policy",  # the site's policy refuses the study
    "steward",  # the steward said no
    "budget",  # a cell would pass its budget
    "no-data",  # no dataset for this study
    "unfit-data",  # the dataset does not fit the schema, or has too few records
    "unfit-inputs",  # a source's release is missing, forged, or does not fit the study
    "not-converged",  # the charge stands and nothing is released
    "stopped",  # the party is stopped until its ledger is reconciled
    "unsupported",  # a method or version this site does not run
]


class TaskMessage(Message):
    """Work for a party. `study` is the canonical form; `inputs` are the releases the task learns from.

    `lead` is the name of the token that the study was made with, as the coordinator has it; "" where it says none.
    """

    id: TaskId
    kind: TaskKind
    study: Annotated[str, Field(max_length=4_000_000)]
    study_hash: Digest
    inputs: Annotated[tuple[SignedRelease, ...], Field(max_length=MOST_PARTIES)] = ()
    attempt: AtLeastOne = 1
    lease_seconds: Positive
    lead: Annotated[str, Field(max_length=64)] = ""

    @classmethod
    def of(
        cls,
        study: Study,
        *,
        id: str,
        kind: TaskKind,
        lease_seconds: float,
        inputs: tuple[SignedRelease, ...] = (),
        attempt: int = 1,
        lead: str = "",
    ) -> TaskMessage:
        """A task of this study."""
        return cls(
            id=id,
            kind=kind,
            study=study.canonical().decode(),
            study_hash=study.digest,
            inputs=inputs,
            attempt=attempt,
            lease_seconds=lease_seconds,
            lead=lead,
        )

    def open_study(self) -> Study:
        """The study of the task, if it has the hash that the task names."""
        study = Study.from_canonical(self.study)
        if study.digest != self.study_hash:
            raise InvalidMessage("The task's study does not have the hash it names.", "Refuse the task.")
        return study


class ResultMessage(Message):
    """A task is done: what leaves the site (None: nothing does), and the ledger lines not yet confirmed, in order."""

    task: TaskId
    release: SignedRelease | None
    lines: Annotated[tuple[Json, ...], Field(max_length=10_000)] = ()


class HeartbeatMessage(Message):
    """A site is at work on its lease. `note` is public: it says nothing about records."""

    task: TaskId
    attempt: AtLeastOne = 1
    progress: Unit
    note: Note = ""


class DeclineMessage(Message):
    """A site will not do a task. `text` is public: it says nothing about records."""

    task: TaskId
    reason: DeclineReason
    text: Note = ""
