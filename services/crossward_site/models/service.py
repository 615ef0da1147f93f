"""The models that a target uses, each rebuilt from what was released, or opened from this site's own seal."""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select

from crossward.errors import Conflict, Forged, NotFound
from crossward.learning.model import Model
from crossward.protocol.canonical import canonical
from crossward.protocol.constants import certificate_id
from crossward.protocol.envelopes import SignedRelease
from crossward.protocol.messages import ModelMessage
from crossward.protocol.times import moment, moment_or_none
from crossward.study import Study
from crossward.study.wire import to_model
from crossward.study.work import TrainedModel, usable
from crossward_service.db.engine import read
from crossward_site.data.mapping import DataMap
from crossward_site.data.service import load_version
from crossward_site.models.tables import models
from crossward_site.models.views import ModelView, TargetStudiesView, TargetStudyView
from crossward_site.site import Site
from crossward_site.tasks import service as tasks
from crossward_site.tasks.service import Task
from crossward_site.tasks.tables import outbox


@dataclass(frozen=True, slots=True)
class Served:
    """A study's model as the target uses it. `release` is the digest of what was published, None where nothing was.

    `mapping` is how the records read that it was trained on, and how those of a prediction read. It is None where
    nothing was trained here.
    """

    study: Study
    task: Task
    model: Model
    release: str | None
    inputs: tuple[str, ...]
    mapping: DataMap | None = None

    @property
    def certificate(self) -> str:
        """The id of the study's privacy certificate, which the coordinator issues when the study ends."""
        return certificate_id(self.study.digest)


class Models:
    """The models of a target, each loaded once."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._loaded: dict[str, Served] = {}

    def studies(self) -> TargetStudiesView:
        """The studies this site has a model for, or works on."""
        with read(self._site.engine) as connection:
            ready = set(connection.execute(select(models.c.study)).scalars())
            known = tasks.listed(connection)
        return TargetStudiesView(studies=[_study_view(task, task.study_id in ready) for task in known])

    def of(self, study: str) -> Served:
        """The model of a study."""
        with read(self._site.engine) as connection:
            row = connection.execute(select(models).where(models.c.study == study)).one_or_none()
            if row is None:
                raise NotFound(f"There is no model of a study {study!r} here.", "GET /v1/studies lists them.")
            known = self._loaded.get(study)
            if known is not None and known.task.id == row.task:
                return known
            task = tasks.find(connection, row.task)
            mapping = None if row.mapping is None else DataMap.from_data(json.loads(row.mapping))
            query = select(outbox.c.release, outbox.c.digest).where(outbox.c.task == row.task)
            release, digest = connection.execute(query).one()
        # They were verified, and checked against the study, before the task was charged.
        inputs = sorted((signed.content() for signed in task.message.inputs), key=lambda message: message.party)
        model = _rebuilt(self._site, task, release, row.sealed, inputs)
        served = Served(task.study, task, model, digest, tuple(message.digest for message in inputs), mapping)
        self._loaded[study] = served
        return served


def _study_view(task: Task, ready: bool) -> TargetStudyView:
    return TargetStudyView(
        study=task.study_id,
        hash=task.message.study_hash,
        task=task.id,
        state=task.state,
        method=task.study.method.name,
        model=ready,
        updated=moment(task.updated),
    )


def _rebuilt(site: Site, task: Task, release: str | None, sealed: bytes | None, inputs: list[ModelMessage]) -> Model:
    if release is not None:
        return usable(to_model(task.study, SignedRelease.from_json(release).content(), inputs))
    sources = [to_model(task.study, message) for message in inputs]
    kept = None if sealed is None else unseal(site.secret, sealed)
    return task.study.method.restore(task.study.terms, sources, kept)


def describe(site: Site, served: Served) -> ModelView:
    """A model for those who want to know what they use; with its signed release, where it was published."""
    with read(site.engine) as connection:
        query = select(outbox.c.release, outbox.c.settled).where(outbox.c.task == served.task.id)
        release, settled = connection.execute(query).one()
    return ModelView(
        study=served.study.id,
        hash=served.study.digest,
        method=served.study.method.name,
        certificate=served.certificate,
        release=served.release,
        published=moment_or_none(settled),
        learned_from=list(served.inputs),
        signed_release=None if release is None else json.loads(release),
        features=[feature.model_dump(mode="json") for feature in served.study.features],
    )


# -- keeping a model ------------------------------------------------------------------------------------------------
def keep(site: Site, connection: Connection, task: Task, trained: TrainedModel, signed: SignedRelease | None) -> None:
    """Remember which model the target uses. One trained here without a release cannot be rebuilt: it is sealed."""
    kept = None if signed is not None else task.study.method.keep(trained.model)
    sealed = None if kept is None else seal(site.secret, kept)
    before = connection.execute(select(models.c.task).where(models.c.study == task.study_id)).scalar_one_or_none()
    if before is not None and tasks.find(connection, before).message.study_hash != task.message.study_hash:
        raise Conflict(f"{task.study_id} is the id of another study's model.", "Refuse the task.")
    connection.execute(delete(models).where(models.c.study == task.study_id))
    values = {"study": task.study_id, "task": task.id, "sealed": sealed, "stored": site.clock()}
    if task.dataset is not None:
        mapping = load_version(connection, task.dataset, task.version).mapping
        values["mapping"] = canonical(mapping.model_dump(mode="json")).decode()
    connection.execute(insert(models).values(values))


def seal(secret: bytes, data: bytes) -> bytes:
    """Bytes that only this site's secret opens again: a model from elsewhere could be anything."""
    return hmac.digest(secret, b"sealed model" + data, "sha256") + data


def unseal(secret: bytes, sealed: bytes) -> bytes:
    """The bytes in a seal that this site made."""
    tag, data = sealed[:32], sealed[32:]
    if not hmac.compare_digest(tag, hmac.digest(secret, b"sealed model" + data, "sha256")):
        raise Forged("The stored model was not sealed by this site.", "Train it again.")
    return data
