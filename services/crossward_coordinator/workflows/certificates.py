"""A certificate is issued when a study ends: what was released, by whom, at what cost, and how to check it."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Row, insert, select

from crossward.errors import Conflict
from crossward.protocol import messages
from crossward.protocol.certificate import (
    Certificate,
    CertifiedCharge,
    CertifiedParty,
    CertifiedRelease,
    SignedCertificate,
)
from crossward.protocol.constants import certificate_id
from crossward.protocol.ledger.lines import ReserveBody
from crossward.protocol.messages import SignedReceipt, SignedRelease
from crossward.protocol.messages.descriptions import read_release
from crossward.study import Study
from crossward.version import __version__
from crossward_coordinator.identity import NAME, Identity
from crossward_coordinator.tables import certificates, public_sets, results
from crossward_coordinator.workflows import mirror, parties
from crossward_coordinator.workflows.rows import moment, read_study, study_row, tasks_of


def issue(connection: Connection, own: Identity, study_id: str, now: float) -> None:
    """Sign what a study led to. The caller has just ended it."""
    row = study_row(connection, study_id)
    if row.started is None:
        return  # cancelled as a draft: nobody was asked for anything
    study = read_study(row.document)
    certificate = Certificate(
        id=certificate_id(study.digest),
        study=study.id,
        study_hash=study.digest,
        title=study.title,
        purpose=study.purpose,
        method=study.method.name,
        outcome=row.state,
        cause=row.cause,
        started=moment(row.started),
        ended=moment(now),
        code_version=__version__,
        public_set=_public_set(connection, study_id),
        parties=tuple(_party(connection, study, task) for task in tasks_of(connection, study_id)),
    )
    signed = SignedCertificate.sign(certificate, own.key, party=NAME, key_id=own.key_id)
    connection.execute(insert(certificates).values(study=study_id, document=signed.canonical().decode()))


def find(connection: Connection, study_id: str) -> SignedCertificate:
    """The certificate of a study that has ended."""
    row = study_row(connection, study_id)
    query = select(certificates.c.document).where(certificates.c.study == study_id)
    document = connection.execute(query).scalar_one_or_none()
    if document is None:
        raise Conflict(f"The study is {row.state}.", "Its certificate is issued when a started study ends.")
    return SignedCertificate.from_json(document)


def _party(connection: Connection, study: Study, task: Row[Any]) -> CertifiedParty:
    kept = connection.execute(select(results).where(results.c.task == task.id)).one_or_none()
    head = mirror.of(task.party).head(connection)
    at = messages.Head(sequence=head.sequence, hash=head.hash)
    if kept is not None:
        at = SignedReceipt.from_json(kept.receipt).content().head
    return CertifiedParty(
        party=task.party,
        task=task.id,
        kind=task.kind,
        outcome=task.state,
        cause=task.cause,
        head=at,
        release=None if kept is None or kept.document is None else _release(connection, kept.document),
        charged=_charged(connection, study, task),
    )


def _charged(connection: Connection, study: Study, task: Row[Any]) -> CertifiedCharge | None:
    """The task's charge by the mirror. It stands however the task ended, and counts all records of a person."""
    line = mirror.of(task.party).find(connection, "reserve", task.id)
    if line is None or not isinstance(line.body, ReserveBody) or line.body.study_hash != study.digest:
        return None
    body = line.body
    return CertifiedCharge(line=line.sequence, epsilon=body.nano_epsilon / 1e9, delta=body.atto_delta / 1e18)


def _release(connection: Connection, document: str) -> CertifiedRelease:
    signed = SignedRelease.from_json(document)
    model = signed.content()
    release = read_release(model.release)
    key = parties.key_named(connection, signed.party, signed.key_id)
    return CertifiedRelease(
        digest=signed.digest,
        signed_by=signed.key_id,
        public_key=None if key is None else key.public_key,
        mechanism=release.mechanism,
        epsilon=release.epsilon,
        delta=release.delta,
        neighbours=release.neighbours,
        code_version=release.version,
        records=model.n,
        learned_from=model.inputs,
    )


def _public_set(connection: Connection, study_id: str) -> str | None:
    query = select(public_sets.c.digest).where(public_sets.c.study == study_id)
    return connection.execute(query).scalar_one_or_none()
