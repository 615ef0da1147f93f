"""A target's models: what it uses, and what each says about a record."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import select

from crossward.errors import InvalidSetting, NotFound
from crossward.learning.aggregation.boosted_ensemble import BoostedModel, Partner
from crossward.learning.model import LinearModel, ReleasedModel
from crossward.learning.records import Records
from crossward.learning.stacking import StackedModel
from crossward.learning.stacking.combiners import LevelOneModel, WeightedVote
from crossward.privacy.noise import Array
from crossward.protocol.messages import ModelMessage, SignedRelease
from crossward.study import Study
from crossward.study.learners import Use, target_learner
from crossward.study.learners.plan import SourceModel
from crossward_service.db.engine import read
from crossward_site import tasks
from crossward_site.outbox import unseal
from crossward_site.site import Site
from crossward_site.tables import models, outbox
from crossward_site.tasks import Task

UsedModel = Any
"""Anything with `margins` and `scores` of encoded records."""


@dataclass(frozen=True, slots=True)
class Served:
    """A study's model as the target uses it. `release` is the digest of what was published, None where nothing was."""

    study: Study
    task: Task
    model: UsedModel
    release: str | None
    inputs: tuple[str, ...]

    @property
    def certificate(self) -> str:
        """The id of the study's privacy certificate, which the coordinator issues when the study ends."""
        return f"cert-{self.study.digest[:24]}"


class Models:
    """The models of a target, each loaded once."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._loaded: dict[str, Served] = {}

    def studies(self) -> list[dict[str, Any]]:
        """The studies this site has a model for, or works on."""
        with read(self._site.engine) as connection:
            ready = set(connection.execute(select(models.c.study)).scalars())
            return [
                {"study": task.study_id, "hash": task.message.study_hash, "task": task.id, "state": task.state}
                | {"method": task.study.method.name, "model": task.study_id in ready, "updated": task.updated}
                for task in tasks.listed(connection)
            ]

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
            sent = connection.execute(select(outbox).where(outbox.c.task == row.task)).one()
        served = _served(self._site, task, sent, row.sealed)
        self._loaded[study] = served
        return served


def _served(site: Site, task: Task, sent: Any, sealed: bytes | None) -> Served:
    # They were verified, and checked against the study, before the task was charged.
    messages = sorted((signed.content() for signed in task.message.inputs), key=lambda message: message.party)
    digests = tuple(message.digest for message in messages)
    return Served(task.study, task, _rebuilt(site, task, sent, sealed, messages), sent.digest, digests)


def _rebuilt(site: Site, task: Task, sent: Any, sealed: bytes | None, messages: list[ModelMessage]) -> UsedModel:
    if sent.release is not None:
        return SignedRelease.from_json(sent.release).content().to_model(task.study, messages)
    models = [message.to_model(task.study) for message in messages]
    if sealed is not None:
        # Only the ensemble is taken from the seal: what a partner's model looks like inside changes with the code.
        partners = tuple(model for model in models if isinstance(model, Partner))
        return BoostedModel(partners, unseal(site.secret, sealed).ensemble)
    plan = target_learner(task.study, [model for model in models if isinstance(model, SourceModel)], records=0)
    if not isinstance(plan, Use):
        raise InvalidSetting(f"The model of {task.study_id} was never stored.", "Train it again.")
    return plan.model


def describe(site: Site, served: Served) -> dict[str, Any]:
    """A model for those who want to know what they use; with its signed release, where it was published."""
    with read(site.engine) as connection:
        query = select(outbox.c.release, outbox.c.settled).where(outbox.c.task == served.task.id)
        release, settled = connection.execute(query).one()
    return {
        "study": served.study.id,
        "hash": served.study.digest,
        "method": served.study.method.name,
        "certificate": served.certificate,
        "release": served.release,
        "published": settled,
        "learned_from": list(served.inputs),
        "signed_release": None if release is None else json.loads(release),
        "features": [feature.model_dump(mode="json") for feature in served.study.features],
    }


# -- predictions ----------------------------------------------------------------------------------------------------
def predict(served: Served, records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Probability, class and what each group added, for raw values in the study's units."""
    X = served.study.schema.encode(records)
    margins, names, parts = served.model.margins(X), *contributions(served, X)
    chances = np.asarray(served.model.scores(X))
    return [
        {
            "probability": float(chance),
            "class": bool(margin > 0),
            "contributions": [{**name, "contribution": float(part)} for name, part in zip(names, row, strict=True)],
        }
        for chance, margin, row in zip(chances, margins, parts, strict=True)
    ]


def contributions(served: Served, X: Array) -> tuple[list[dict[str, Any]], Array]:
    """What adds up to the margin: by group where groups are combined, by feature where there is one linear model.

    A vote's parts add up to the vote; a boosted ensemble has no parts.
    """
    model, schema = served.model, served.study.schema
    if isinstance(model, StackedModel):
        names = [_group(served.study, k, part) for k, part in enumerate(model.level0)]
        return _stacked(names, model, X)
    if isinstance(model, ReleasedModel):
        linear = model.model
        Z = Records.inside(linear.ball, X).dense() * linear.weights
        ball, owners = linear.ball, schema.column_features
        columns = owners if ball.columns is None else tuple(owners[column] for column in ball.columns)
        features = list(dict.fromkeys(columns))
        by = [Z[:, [k for k, name in enumerate(columns) if name == feature]].sum(axis=1) for feature in features]
        named: list[dict[str, Any]] = [{"group": feature, "features": [feature]} for feature in features]
        if ball.intercept > 0 or ball.offset != 0:
            named.append({"group": "intercept", "features": []})
            by.append(Z[:, len(columns) :].sum(axis=1) + ball.offset)
        return named, np.column_stack(by)
    return [], np.empty((len(X), 0))


def _group(study: Study, k: int, model: LinearModel) -> dict[str, Any]:
    owners = study.schema.column_features
    columns = range(len(owners)) if model.ball.columns is None else model.ball.columns
    return {"group": f"group {k + 1}", "features": list(dict.fromkeys(owners[column] for column in columns))}


def _stacked(names: list[dict[str, Any]], model: StackedModel, X: Array) -> tuple[list[dict[str, Any]], Array]:
    top = model.combiner
    if isinstance(top, LevelOneModel):
        Z = Records.inside(top.model.ball, top.scores.of(model.level0, X)).dense() * top.model.weights
        return (names if Z.shape[1] == len(names) else [*names, {"group": "intercept", "features": []}]), Z
    votes = np.column_stack([np.sign(part.margins(X)) for part in model.level0])
    weights = np.array([part.ball.q if isinstance(top, WeightedVote) else 1.0 for part in model.level0])
    return names, votes * weights / weights.sum()
