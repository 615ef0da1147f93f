"""From a task to a model: what it will release and cost, the charge, the training.

The announcement rests on public numbers alone. The charge is durable before noise is drawn, and randomness is the
machine's own: no setting seeds it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from sqlalchemy import Connection

from crossward.errors import InvalidData
from crossward.methods.base import HOLDOUT, SourceModel
from crossward.privacy.budget import Cost
from crossward.privacy.noise import Randomness
from crossward.privacy.release import Release
from crossward.protocol.constants import Role
from crossward.protocol.descriptions import description_digest
from crossward.protocol.ledger.lines import ReserveBody
from crossward.protocol.messages import ModelMessage
from crossward.study import work
from crossward.study.wire import KeyOf, open_inputs, to_message, to_model
from crossward.study.work import TrainedModel
from crossward_site.data.service import Rows, Vault, load_counts
from crossward_site.site import Site
from crossward_site.tasks.service import Task


@dataclass(frozen=True, slots=True)
class PublicNumbers:
    """What is public of the version of a dataset that a task would read: its rows at each level, and how many a person
    may have."""

    dataset: str
    version: int
    counts: Mapping[str, int]
    records_per_person: int

    @classmethod
    def load(cls, connection: Connection, task: Task, dataset: str) -> PublicNumbers:
        """The numbers of the version that the task was charged for, or of the current one, without what is held out."""
        version = task.version if dataset == task.dataset else None
        public = load_counts(connection, task.study, task.role, dataset, version)
        counts = {level: count for level, count in public.counts.items() if level != HOLDOUT}
        return cls(dataset, public.version, counts, public.records_per_person)


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a task will release from a dataset, and what each of the cells will pay; None where nothing leaves."""

    task: Task
    numbers: PublicNumbers | None
    release: Release | None
    cost: Cost
    inputs: tuple[ModelMessage, ...]

    @property
    def dataset(self) -> str | None:
        """The dataset that is asked, if one is."""
        return None if self.numbers is None else self.numbers.dataset

    @property
    def rows(self) -> int:
        """The rows that the release rests on."""
        return 0 if self.numbers is None else sum(self.numbers.counts.values())

    @property
    def rows_or_none(self) -> int | None:
        """The rows that the release rests on, where a dataset is asked at all."""
        return None if self.dataset is None else self.rows

    @property
    def body(self) -> ReserveBody | None:
        """The charge as a line of the ledger; it stays the same when the code's version changes."""
        if self.release is None or self.dataset is None:
            return None
        study = self.task.study
        return ReserveBody(
            task=self.task.id,
            study=study.id,
            study_hash=study.digest,
            cells=cells_charged(self.task),
            nano_epsilon=self.cost.nano_epsilon,
            atto_delta=self.cost.atto_delta,
            release=description_digest(self.release),
        )


def needs_data(task: Task) -> bool:
    """Whether the task reads records at all."""
    return task.study.method.trains(task.role)


def cells_charged(task: Task) -> tuple[int, ...]:
    """The cells that pay for the task's release; none where nothing is released."""
    return work.charged_cells(task.study, task.role)


def epsilon_asked(task: Task) -> float:
    """The epsilon that the study asks of a record, before it is known how many records a person has."""
    asked = task.study.epsilon.source if task.role is Role.SOURCE else task.study.epsilon.target
    return asked or 0.0


def read_inputs(task: Task, key_of: KeyOf) -> tuple[ModelMessage, ...]:
    """The releases that a target learns from, each verified here with its source's own key."""
    if task.role is Role.SOURCE:
        return ()
    return open_inputs(task.study, task.message.inputs, key_of)


def announce(task: Task, numbers: PublicNumbers | None, inputs: tuple[ModelMessage, ...]) -> Announcement:
    """Work out, before a record is read, what the task will release and what it costs a person."""
    if numbers is None:
        return Announcement(task, None, None, Cost(0), inputs)
    announced = Announcement(task, numbers, None, Cost(0), inputs)
    models = source_models(announced) if task.role is Role.TARGET else None
    release = work.announce(task.study, task.role, numbers.counts, models)
    price = Cost(0) if release is None else release.cost.for_person(numbers.records_per_person)
    return replace(announced, release=release, cost=price)


def rows_for(site: Site, task: Task, numbers: PublicNumbers) -> Rows:
    """The task's own rows, never the holdout, from the version that was charged; refused if they hold one class."""
    levels = work.trained_levels(task.study, task.role)
    rows = Vault(site).rows(task.study, task.role, numbers.dataset, levels, numbers.version)
    if len(np.unique(rows.y[rows.present])) < 2:
        raise InvalidData("The cells that this study trains on hold one class only.", "Bring more records.")
    return rows


def train(announcement: Announcement, rows: Rows | None, noise: Randomness) -> TrainedModel:
    """Train under the reservation, and make sure that what came out is what was announced and charged."""
    task, sources = announcement.task, source_models(announcement)
    if rows is None:
        empty = np.empty((0, len(task.study.schema.columns)))
        trained = work.train(task.study, task.role, empty, np.empty(0), {}, sources, noise)
    else:
        trained = work.train(task.study, task.role, rows.X, rows.y, rows.spans, sources, noise)
        rows.X.close()
    if trained.release != announcement.release:
        raise InvalidData("The release is not the one that was announced and charged.", "Do not publish it.")
    return trained


def source_models(announcement: Announcement) -> list[SourceModel]:
    """What the sources released, as the library's models."""
    return [to_model(announcement.task.study, message) for message in announcement.inputs]


def to_send(announcement: Announcement, trained: TrainedModel, party: str) -> ModelMessage | None:
    """What of a trained model leaves the site; None where nothing does."""
    if announcement.release is None:
        return None
    version = announcement.task.message.version
    return to_message(announcement.task.study, trained, party, announcement.inputs, version=version)
