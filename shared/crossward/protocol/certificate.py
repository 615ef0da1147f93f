"""The privacy certificate of a study: what it says, how it reads, and how anyone verifies it offline.

A message that the coordinator signs when a study ends. It repeats nothing on trust: each release is named by its
digest and by the key that signed it, each ledger by its head, so that a reader who has those can check every line.
"""

from __future__ import annotations

import textwrap
from typing import Annotated, ClassVar, TypeVar

from pydantic import AfterValidator, Field, StringConstraints

from crossward.privacy.budget import number_text
from crossward.protocol import keys
from crossward.protocol.constants import COORDINATOR, TaskKind
from crossward.protocol.envelopes import Signed
from crossward.protocol.messages import (
    CodeVersion,
    Content,
    Digest,
    Digests,
    KeyId,
    MirrorHead,
    Paid,
    PublicKey,
    TaskId,
)
from crossward.protocol.states import StudyState, TaskState
from crossward.protocol.times import Time
from crossward.values import MOST_PARTIES, AtLeastOne, Count, Section, Slug, refusal

E = TypeVar("E", StudyState, TaskState)

NEIGHBOURS = {
    "replace-one-record": "Two datasets are neighbours if one record of one is replaced by another in the other;"
    " their sizes are public. A site that admits several records of a person charges for all of them."
}


_OPEN = {StudyState.DRAFT, StudyState.SOURCES, StudyState.TARGETS, TaskState.READY, TaskState.LEASED}


def _ended(state: E) -> E:
    if state in _OPEN:
        raise refusal(f"What is {state} has not ended.", "A certificate is of what has ended.")
    return state


class CertifiedRelease(Paid):
    """One release: what it is, what it costs a record, who signed it. No key where the coordinator itself did."""

    digest: Digest
    signed_by: KeyId
    public_key: PublicKey | None
    mechanism: str
    neighbours: Annotated[str, StringConstraints(pattern="^replace-one-record$")]
    code_version: CodeVersion
    records: Count
    learned_from: Digests


class CertifiedCharge(Paid):
    """What a task was charged, released or not: the line of the party's ledger, and what it takes from each person."""

    line: AtLeastOne


class CertifiedParty(Section):
    """One party's task: how it ended, what it was charged and released, and where its ledger stood in the mirror."""

    party: Slug
    task: TaskId
    kind: TaskKind
    outcome: Annotated[TaskState, AfterValidator(_ended)]
    cause: str
    head: MirrorHead
    release: CertifiedRelease | None
    charged: CertifiedCharge | None


class Certificate(Content):
    """What a study led to."""

    id: str
    study: Slug
    study_hash: Digest
    title: str
    purpose: str
    method: Slug
    proofs: tuple[str, ...]
    outcome: Annotated[StudyState, AfterValidator(_ended)]
    cause: str
    started: Time
    ended: Time
    code_version: CodeVersion
    public_set: Digest | None
    parties: Annotated[tuple[CertifiedParty, ...], Field(max_length=2 * MOST_PARTIES + 1)]

    def text(self) -> str:
        """The certificate for people. It follows from the signed form alone."""
        return "\n".join([*_head(self), *(line for party in self.parties for line in _party(party)), *_foot(self)])


class SignedCertificate(Signed[Certificate]):
    """A certificate, signed by the coordinator."""

    content_type: ClassVar[type[Content]] = Certificate
    payload_type: ClassVar[str] = "application/vnd.crossward.certificate+json"


def verify_certificate(data: bytes | str, public_key: str) -> Certificate:
    """The certificate, if the coordinator with this public key (43 base64url characters) signed these bytes."""
    line_break = "\n" if isinstance(data, str) else b"\n"
    return SignedCertificate.from_json(data.removesuffix(line_break)).verify(keys.public_key(public_key))  # type: ignore[arg-type]


def _head(certificate: Certificate) -> list[str]:
    cause = [f"  cause      {certificate.cause}"] if certificate.cause else []
    public = [f"  public set {certificate.public_set}"] if certificate.public_set else []
    return [
        f"Privacy certificate {certificate.id}",
        "",
        f"  study      {certificate.study}: {certificate.title}",
        f"  hash       {certificate.study_hash}",
        *textwrap.wrap(certificate.purpose, 100, initial_indent="  purpose    ", subsequent_indent=" " * 13),
        f"  method     {certificate.method}",
        f"  proofs     {', '.join(certificate.proofs)} (in docs/proofs)",
        f"  outcome    {certificate.outcome}",
        *cause,
        f"  time       {certificate.started:%Y-%m-%d %H:%M:%S} to {certificate.ended:%Y-%m-%d %H:%M:%S} UTC",
        f"  code       crossward {certificate.code_version}",
        *public,
        "",
    ]


def _party(party: CertifiedParty) -> list[str]:
    lines = [f"{party.party} ({party.kind}): {party.outcome}{': ' if party.cause else ''}{party.cause}"]
    if party.release is not None:
        release = party.release
        cost = _cost(release)
        if party.party == COORDINATOR:
            cost = f"nothing: computed from releases of {cost} each"
        lines += [
            f"  released   {release.digest}",
            f"  cost       {cost}, to each record it was trained on ({release.records})",
            f"  mechanism  {release.mechanism}, crossward {release.code_version}",
            f"  neighbours {release.neighbours}",
            f"  signed by  {release.signed_by} {release.public_key or '(the coordinator)'}",
        ]
    if party.charged is not None:
        what = "all records of one together" if party.release is not None else "nothing released"
        lines.append(f"  charged    {_cost(party.charged)} to each person, {what} (line {party.charged.line})")
    if party.party != COORDINATOR:
        lines.append(f"  ledger     line {party.head.sequence}, {party.head.hash}")
    return [*lines, ""]


def _cost(paid: Paid) -> str:
    return f"epsilon {number_text(paid.nano_epsilon)}" + (f", delta {paid.cost.delta:.3g}" if paid.atto_delta else "")


def _foot(certificate: Certificate) -> list[str]:
    relations = {party.release.neighbours for party in certificate.parties if party.release is not None}
    meaning = [f"{name}: {NEIGHBOURS.get(name, 'see the code of the release.')}" for name in sorted(relations)]
    steps = [
        f"Get the bundle of this study: crossward study bundle {certificate.study} FOLDER. It holds this certificate, "
        "what each site released, the receipts, the ledgers up to now, and verify.py: one file that imports nothing of "
        "Crossward (the coordinator has it at /v1/verifier too).",
        "Run python verify.py bundle FOLDER --key KEY. KEY is the coordinator's public key, learned from a person and "
        "not from these files. It says every check it makes.",
        "Or check by hand, or with a program of your own: docs/protocol.md says how, byte by byte. Each release above "
        "is named by the SHA-256 of its payload; each ledger has the line and the hash named here, and holds the "
        "charge of the task (reserve) and the digest of its release. A charge that the coordinator had not heard of "
        "when the study ended comes after that line.",
    ]
    numbered = [f"{number}. {step}" for number, step in enumerate(steps, 1)]
    wrapped = [line for part in (*meaning, "", "How to verify, offline:", *numbered) for line in _wrapped(part)]
    return [*wrapped, ""]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 110, subsequent_indent="   ") or [""]
