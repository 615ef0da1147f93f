"""A whole study in one process: really trained, charged, signed, certified, and laid out as a bundle.

The coordinator and the parties are a few lines each; what they sign is made by the product's own code.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crossward.privacy.noise import SYSTEM
from crossward.protocol import keys
from crossward.protocol.canonical import sha256
from crossward.protocol.certificate import (
    Certificate,
    CertifiedCharge,
    CertifiedParty,
    CertifiedRelease,
    SignedCertificate,
)
from crossward.protocol.constants import COORDINATOR, Role, TaskKind, certificate_id, task_id
from crossward.protocol.descriptions import description_digest, read_release
from crossward.protocol.envelopes import SignedReceipt, SignedRelease
from crossward.protocol.ledger.export import export_file
from crossward.protocol.ledger.lines import START, Body, Head, Line, OpenBody, ReleaseBody, ReserveBody, SeatsBody
from crossward.protocol.messages import ModelMessage, Receipt
from crossward.protocol.states import StudyState, TaskState
from crossward.study import Study
from crossward.study.wire import to_message, to_model
from crossward.study.work import aggregate, charged_cells, levels, train
from crossward_lab.simulate.hospitals import Federation, Hospital

STARTED = datetime(2026, 1, 31, 12, tzinfo=UTC)
ENDED = datetime(2026, 1, 31, 12, 30, 15, 250_000, tzinfo=UTC)


def key_of(party: str) -> Ed25519PrivateKey:
    """A party's key, the same each time: the SHA-256 of its name is the private half."""
    return Ed25519PrivateKey.from_private_bytes(bytes.fromhex(sha256(f"crossward test key: {party}".encode())))


@dataclass
class Bundled:
    """What a study left behind."""

    study: Study
    certificate: SignedCertificate
    releases: list[SignedRelease]
    receipts: list[SignedReceipt]
    ledgers: dict[str, list[Line]]

    @property
    def key(self) -> str:
        """The coordinator's public key."""
        return keys.public_text(key_of(COORDINATOR))

    def write(self, folder: Path) -> Path:
        """The files of the bundle, without those that a coordinator adds for people."""
        for name in ("releases", "receipts", "ledgers"):
            (folder / name).mkdir(parents=True)
        (folder / "certificate.json").write_bytes(self.certificate.canonical())
        (folder / "certificate.txt").write_text(self.certificate.content().text())
        (folder / "study.json").write_bytes(self.study.canonical())
        for release in self.releases:
            (folder / "releases" / f"{release.digest}.json").write_bytes(release.canonical())
        for receipt in self.receipts:
            (folder / "receipts" / f"{receipt.content().release}.json").write_bytes(receipt.canonical())
        for party, lines in self.ledgers.items():
            export_file(lines, folder / "ledgers" / f"{party}.txt")
        return folder


class _Run:
    def __init__(self, study: Study, federation: Federation) -> None:
        self.study, self.federation = study, federation
        self.hospitals = {"main": federation.main}
        self.hospitals |= {f"branch-{k}": branch for k, branch in enumerate(federation.branches, 1)}
        self.ledgers: dict[str, list[Line]] = {}
        self.entries: list[CertifiedParty] = []
        self.releases: list[SignedRelease] = []
        self.receipts: list[SignedReceipt] = []

    def append(self, party: str, body: Body) -> Line:
        lines = self.ledgers.setdefault(party, [])
        if not lines:
            lines.append(Line.after(START, OpenBody(1, 20, "basic", 5 * 10**9, 10**15), 1_769_860_800_000))
            self.append(party, SeatsBody(1, "5" * 64))
        lines.append(Line.after(lines[-1].head, body, lines[-1].time + 1000))
        return lines[-1]

    def work(self, party: str, role: Role, inputs: list[ModelMessage]) -> ModelMessage | None:
        study, models = self.study, [to_model(self.study, message) for message in inputs]
        trained = train(study, role, *_rows(study, role, self.hospitals[party]), models, SYSTEM)
        kind = TaskKind.of(role)
        if trained.release is None:
            self.enter(party, kind, None, START, None)
            return None
        message = to_message(study, trained, party, inputs)
        task, cost = task_id(study.digest, kind, party), trained.release.cost
        described = description_digest(trained.release)
        cells = charged_cells(study, role)
        reserve = ReserveBody(task, study.id, study.digest, cells, cost.nano_epsilon, cost.atto_delta, described)
        line = self.append(party, reserve)
        charged = CertifiedCharge(line=line.sequence, nano_epsilon=cost.nano_epsilon, atto_delta=cost.atto_delta)
        head = self.append(party, ReleaseBody(task, message.digest)).head
        self.enter(party, kind, message, head, charged)
        return message

    def enter(
        self, party: str, kind: TaskKind, message: ModelMessage | None, head: Head, charged: CertifiedCharge | None
    ) -> None:
        task = task_id(self.study.digest, kind, party)
        release = None
        if message is not None:
            signed = SignedRelease.sign(message, key_of(party))
            self.releases.append(signed)
            receipt = Receipt(party=party, task=task, release=signed.digest, head=head, time=ENDED)
            self.receipts.append(SignedReceipt.sign(receipt, key_of(COORDINATOR)))
            described = read_release(message.release)
            release = CertifiedRelease(
                digest=signed.digest,
                signed_by=signed.key_id,
                public_key=None if party == COORDINATOR else keys.public_text(key_of(party)),
                mechanism=described.mechanism,
                nano_epsilon=described.cost.nano_epsilon,
                atto_delta=described.cost.atto_delta,
                neighbours=described.neighbours,
                code_version=message.code_version,
                records=message.n,
                learned_from=message.inputs,
            )
        self.entries.append(
            CertifiedParty(
                party=party,
                task=task,
                kind=kind,
                outcome=TaskState.DONE,
                cause="",
                head=head,
                release=release,
                charged=charged,
            )
        )

    def certify(self) -> Bundled:
        study = self.study
        certificate = Certificate(
            id=certificate_id(study.digest),
            study=study.id,
            study_hash=study.digest,
            title=study.title,
            purpose=study.purpose,
            method=study.method.name,
            proofs=study.method.proofs,
            outcome=StudyState.COMPLETE,
            cause="",
            started=STARTED,
            ended=ENDED,
            code_version="0.1.0",
            public_set=None,
            parties=tuple(self.entries),
        )
        signed = SignedCertificate.sign(certificate, key_of(COORDINATOR))
        return Bundled(study, signed, self.releases, self.receipts, self.ledgers)


def _rows(study: Study, role: Role, hospital: Hospital) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    X, y = hospital.encode(study.schema)
    home = {cell: level for level, cells in levels(study, role).items() for cell in cells}
    level = np.array([home.get(row % 20, "unused") for row in range(len(y))])
    used = (level != "holdout") & (level != "unused")
    return X[used], y[used], level[used]


def run(study: Study, federation: Federation) -> Bundled:
    """Sources, an aggregate where the method makes one, targets, certificate."""
    this = _Run(study, federation)
    inputs = [message for party in study.sources if (message := this.work(party, Role.SOURCE, [])) is not None]
    inputs.sort(key=lambda message: message.party)
    if study.method.aggregates:
        public = federation.branches[-1].encode(study.schema)
        combined = aggregate(study, [to_model(study, message) for message in inputs], *public)
        message = to_message(study, combined, COORDINATOR, inputs)
        this.enter(COORDINATOR, TaskKind.AGGREGATE, message, START, None)
        inputs = [message]
    for party in study.targets:
        this.work(party, Role.TARGET, inputs)
    return this.certify()
