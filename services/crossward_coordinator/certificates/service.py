"""A certificate is issued when a study ends: what was released, by whom, at what cost, and how to check it."""

from __future__ import annotations

from sqlalchemy import Connection, insert, select

from crossward.errors import Conflict
from crossward.protocol.certificate import (
    Certificate,
    CertifiedCharge,
    CertifiedParty,
    CertifiedRelease,
    SignedCertificate,
)
from crossward.protocol.constants import certificate_id
from crossward.protocol.descriptions import read_release
from crossward.protocol.envelopes import SignedReceipt, SignedRelease
from crossward.protocol.ledger.lines import Head, ReserveBody
from crossward.protocol.times import moment
from crossward.version import __version__
from crossward_coordinator.certificates.tables import certificates
from crossward_coordinator.identity import Identity
from crossward_coordinator.ledger.service import charge, mirror
from crossward_coordinator.parties import service as parties
from crossward_coordinator.releases import service as releases
from crossward_coordinator.studies import public_sets
from crossward_coordinator.studies.tables import StoredStudy, find_study
from crossward_coordinator.tasks.tables import StoredTask, tasks_of


def issue(connection: Connection, own: Identity, stored: StoredStudy, now: float) -> None:
    """Sign what a study led to. The caller has just ended it."""
    if stored.started is None:
        return  # cancelled as a draft: nobody was asked for anything
    study = stored.study
    certificate = Certificate(
        version=parties.common_version(connection, (*study.sources, *study.targets)),
        id=certificate_id(stored.digest),
        study=stored.id,
        study_hash=stored.digest,
        title=study.title,
        purpose=study.purpose,
        method=study.method.name,
        proofs=study.method.proofs,
        outcome=stored.state,
        cause=stored.cause,
        started=moment(stored.started),
        ended=moment(now),
        code_version=__version__,
        public_set=public_sets.digest(connection, stored.id),
        parties=tuple(_party(connection, stored, task) for task in tasks_of(connection, stored.id)),
    )
    signed = SignedCertificate.sign(certificate, own.key)
    connection.execute(insert(certificates).values(study=stored.id, document=signed.canonical().decode()))


def find(connection: Connection, study: str) -> SignedCertificate:
    """The certificate of a study that has ended."""
    stored = find_study(connection, study)
    query = select(certificates.c.document).where(certificates.c.study == study)
    document = connection.execute(query).scalar_one_or_none()
    if document is None:
        raise Conflict(f"The study is {stored.state}.", "Its certificate is issued when a started study ends.")
    return SignedCertificate.from_json(document)


def _party(connection: Connection, stored: StoredStudy, task: StoredTask) -> CertifiedParty:
    result = releases.find(connection, task.id)
    if result is None:
        at = mirror(task.party).head(connection)
    else:
        at = SignedReceipt.from_json(result.receipt).content().head
    return CertifiedParty(
        party=task.party,
        task=task.id,
        kind=task.kind,
        outcome=task.state,
        cause=task.cause,
        head=at,
        release=None if result is None or result.document is None else _release(connection, result.document),
        charged=_charged(connection, stored, task, at),
    )


def _charged(connection: Connection, stored: StoredStudy, task: StoredTask, at: Head) -> CertifiedCharge | None:
    """The task's charge by the mirror up to this head, if it is for this study.

    It stands however the task ended, and counts all records of a person.
    """
    line = charge(connection, task)
    if line is None or not isinstance(line.body, ReserveBody) or line.sequence > at.sequence:
        return None
    if (line.body.study, line.body.study_hash) != (stored.id, stored.digest):
        return None
    cost = line.body.cost
    return CertifiedCharge(line=line.sequence, nano_epsilon=cost.nano_epsilon, atto_delta=cost.atto_delta)


def _release(connection: Connection, document: str) -> CertifiedRelease:
    signed = SignedRelease.from_json(document)
    model = signed.content()
    release = read_release(model.release)
    key = parties.find_key(connection, signed.party, signed.key_id)
    return CertifiedRelease(
        digest=signed.digest,
        signed_by=signed.key_id,
        public_key=None if key is None else key.public_key,
        mechanism=release.mechanism,
        nano_epsilon=release.cost.nano_epsilon,
        atto_delta=release.cost.atto_delta,
        neighbours=release.neighbours,
        code_version=model.code_version,
        records=model.n,
        learned_from=model.inputs,
    )
