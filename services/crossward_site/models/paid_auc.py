"""A paid AUC: charged to the holdout cells first, then noised, then kept. The same request again is the same answer.

reserve   within the policy; durable, and known to the mirror, before a record is read
release   the digest of the document, in one transaction with it
tell      once the mirror has the line that names it: of two copies of this site that drew noise for one charge, the
          mirror takes the line of one, and what the other drew is told to nobody

Only of a model that was released, or is made of others' releases. A boosted model was trained on records that nobody
paid for: its AUC, however noised on the holdout, would tell about those.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
from sqlalchemy import Connection, insert, select, update

from crossward.errors import BudgetExceeded, InvalidSetting
from crossward.methods.base import HOLDOUT
from crossward.privacy.auc import auc_release, private_auc
from crossward.privacy.budget import check_epsilon, nano_epsilon
from crossward.privacy.release import Release
from crossward.protocol.canonical import canonical, sha256
from crossward.protocol.constants import PAID_AUC, Role
from crossward.protocol.descriptions import description_digest, written
from crossward.protocol.ledger.lines import LineKind, ReleaseBody, ReserveBody
from crossward.study import work
from crossward_service.db.engine import read, write
from crossward_site.coordinator import Coordinator
from crossward_site.data.intake import Progress, unheard
from crossward_site.data.service import load_balance, load_counts
from crossward_site.ledger.service import confirmed, sync
from crossward_site.models.evaluation import dataset_of, holdout
from crossward_site.models.service import Served
from crossward_site.models.tables import aucs
from crossward_site.models.views import PaidAuc
from crossward_site.policy.service import Decision, Verdict, charge, judge_charge
from crossward_site.site import Site


def paid_auc(
    site: Site, coordinator: Coordinator, served: Served, epsilon: float, progress: Progress = unheard
) -> PaidAuc:
    """The AUC on the holdout, released at this epsilon. Asked again it costs nothing: the answer is the first one."""
    epsilon, task = _named(served, epsilon)
    if (known := _known(site, task)) is None:
        known = _draw(site, coordinator, served, task, epsilon, progress)
    if not _is_mirrored(site, task):
        sync(site, coordinator)
    return known


def _draw(
    site: Site, coordinator: Coordinator, served: Served, task: str, epsilon: float, progress: Progress
) -> PaidAuc:
    """Charge, read, and fix what will be told."""
    dataset = _dataset(site, served, task)
    sync(site, coordinator)
    release, version = _reserve(site, served, dataset, task, epsilon)
    sync(site, coordinator)
    rows = holdout(site, served, version, dataset, progress)
    paid = private_auc(rows.scores, rows.y.astype(np.float64), epsilon, randomness=site.machine.noise)
    if paid.release != release:
        raise InvalidSetting("The release is not the one that was charged.", "Do not publish it.")
    document = PaidAuc(
        study=served.study.id,
        model=served.release,
        auc=paid.auc,
        deviation=paid.deviation,
        release=written(paid.release),
    )
    return _store(site, task, document)


def check_price(site: Site, served: Served, epsilon: float) -> str:
    """Refuse what would be refused, before anybody is asked and anything charged; gives the dataset that is read."""
    epsilon, task = _named(served, epsilon)
    dataset = _dataset(site, served, task)
    with read(site.engine) as connection:
        if site.ledger.find(connection, LineKind.RESERVE, task) is not None:
            return dataset
        priced = _priced(connection, served, dataset, task, epsilon)
        _check(judge_charge(site, connection, served.study, served.task.message.lead, priced.body, None))
        load_balance(site, connection).charge(priced.body.cells, priced.body.cost)
    return dataset


def _named(served: Served, epsilon: float) -> tuple[float, str]:
    """The epsilon, and what the ledger calls an AUC at this price: of a model whose AUC may be told."""
    epsilon = check_epsilon(epsilon)
    _check_paid_for(served)
    return epsilon, f"{PAID_AUC}{nano_epsilon(epsilon)}:{served.task.id}"


def _check_paid_for(served: Served) -> None:
    if served.release is None and served.study.method.trains(Role.TARGET):
        raise InvalidSetting(
            "The model was trained here and never released: its AUC would tell about records that nobody paid for.",
            "Look at the evaluation, which stays here; or use a method whose model is released.",
        )


def _dataset(site: Site, served: Served, task: str) -> str:
    """The dataset that was charged before; else the model's."""
    with read(site.engine) as connection:
        charged = connection.execute(select(aucs.c.dataset).where(aucs.c.task == task)).scalar_one_or_none()
    return dataset_of(site, served) if charged is None else charged


def _is_mirrored(site: Site, task: str) -> bool:
    """Whether the mirror has the line that names what is told."""
    with read(site.engine) as connection:
        line = site.ledger.find(connection, LineKind.RELEASE, task)
        return line is not None and line.sequence <= confirmed(connection).sequence


@dataclass(frozen=True, slots=True)
class _Priced:
    """What is released, from which version, and the line that charges for it; `known`: it was asked for before."""

    release: Release
    version: int
    body: ReserveBody
    known: bool


def _priced(connection: Connection, served: Served, dataset: str, task: str, epsilon: float) -> _Priced:
    """By the public numbers of the current version, or of the one that was charged before."""
    study = served.study
    asked = connection.execute(select(aucs.c.version).where(aucs.c.task == task)).scalar_one_or_none()
    public = load_counts(connection, study, Role.TARGET, dataset, asked)
    release = auc_release(public.counts[HOLDOUT], epsilon)
    cost = release.cost.for_person(public.records_per_person)
    body = ReserveBody(
        task=task,
        study=study.id,
        study_hash=study.digest,
        cells=work.levels(study, Role.TARGET)[HOLDOUT],
        nano_epsilon=cost.nano_epsilon,
        atto_delta=cost.atto_delta,
        release=description_digest(release),
    )
    return _Priced(release, public.version, body, known=asked is not None)


def _reserve(site: Site, served: Served, dataset: str, task: str, epsilon: float) -> tuple[Release, int]:
    """Charge for the holdout of the current version, or of the one that was charged before; gives what is released."""
    study = served.study
    with write(site.engine) as connection:
        site.ledger.extend(connection, ())  # takes the ledger's lock: no version comes or goes before the charge
        priced = _priced(connection, served, dataset, task, epsilon)
        lead = served.task.message.lead
        _check(charge(site, connection, study, lead, priced.body, None))  # `minimum_rows` is about models
        if not priced.known:
            row = {"task": task, "study": study.id, "epsilon": epsilon, "asked": site.clock()}
            connection.execute(insert(aucs).values(dataset=dataset, version=priced.version, **row))
    return priced.release, priced.version


def _check(verdict: Verdict) -> None:
    if verdict.decision is Decision.REFUSE:
        raise BudgetExceeded(verdict.words, "Ask at a smaller epsilon, or change the policy.")


def _store(site: Site, task: str, document: PaidAuc) -> PaidAuc:
    """Fix what is told, unless another call was first: then its answer is this one's too."""
    text = canonical(document.model_dump(mode="json")).decode()
    with write(site.engine) as connection:
        first: str | None = connection.execute(select(aucs.c.document).where(aucs.c.task == task)).scalar_one()
        if first is not None:
            return _read(first)
        site.append(connection, ReleaseBody(task, sha256(text.encode())))
        connection.execute(update(aucs).where(aucs.c.task == task).values(document=text))
    return _read(text)


def _known(site: Site, task: str) -> PaidAuc | None:
    with read(site.engine) as connection:
        text = connection.execute(select(aucs.c.document).where(aucs.c.task == task)).scalar_one_or_none()
    return None if text is None else _read(text)


def _read(text: str) -> PaidAuc:
    return PaidAuc.model_validate(json.loads(text))


def released(site: Site, study: str) -> list[PaidAuc]:
    """The AUCs a study's target has paid for, and may tell."""
    with read(site.engine) as connection:
        query = select(aucs.c.task, aucs.c.document).where(aucs.c.study == study, aucs.c.document.is_not(None))
        drawn = connection.execute(query.order_by(aucs.c.asked)).all()
    return [_read(row.document) for row in drawn if _is_mirrored(site, row.task)]
