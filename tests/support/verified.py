"""Everything that a coordinator accepted and signed, put before the verifier that imports nothing of ours."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, select

from crossward import verify
from crossward.protocol.certificate import SignedCertificate
from crossward.protocol.constants import COORDINATOR
from crossward.protocol.envelopes import SignedReceipt, SignedRelease
from crossward.protocol.ledger.export import export_file
from crossward_coordinator.certificates.tables import certificates
from crossward_coordinator.ledger.service import mirror
from crossward_coordinator.parties import service as parties
from crossward_coordinator.releases.tables import results
from crossward_coordinator.studies.tables import find_study


def verify_all(connection: Connection, key: str, folder: Path) -> int:
    """Verify what is stored, part by part and each certificate with its whole bundle; gives the number of checks."""
    reports = [_release(connection, key, row.document) for row in connection.execute(select(results)) if row.document]
    reports += [verify.verify_receipt(row.receipt.encode(), key) for row in connection.execute(select(results))]
    for party in parties.names(connection):
        file = folder / f"{party}.txt"
        folder.mkdir(exist_ok=True)
        export_file(mirror(party).lines(connection), file)
        reports.append(verify.verify_ledger(file.read_bytes()))
    for row in connection.execute(select(certificates)).all():
        reports.append(verify.verify_certificate(row.document.encode(), key))
        reports.append(verify.verify_bundle(_bundle(connection, row, folder / row.study), key))
    for report in reports:
        assert report.verified, report.failure
    return sum(len(report.checks) for report in reports)


def _release(connection: Connection, key: str, document: str) -> verify.Report:
    signed = SignedRelease.from_json(document)
    if signed.party != COORDINATOR:
        found = parties.find_key(connection, signed.party, signed.key_id)
        assert found is not None
        key = found.public_key
    return verify.verify_release(document.encode(), key, signed.digest)


def _bundle(connection: Connection, row: object, folder: Path) -> Path:
    document = row.document  # type: ignore[attr-defined]
    for name in ("releases", "receipts", "ledgers"):
        (folder / name).mkdir(parents=True)
    (folder / "certificate.json").write_text(document)
    (folder / "study.json").write_bytes(find_study(connection, row.study).study.canonical())  # type: ignore[attr-defined]
    certificate = SignedCertificate.from_json(document).content()
    certified = {party.release.digest for party in certificate.parties if party.release is not None}
    for result in connection.execute(select(results).where(results.c.digest.in_(certified))):
        assert SignedReceipt.from_json(result.receipt).content().release == result.digest
        (folder / "releases" / f"{result.digest}.json").write_text(result.document)
        (folder / "receipts" / f"{result.digest}.json").write_text(result.receipt)
    for party in {party.party for party in certificate.parties} - {COORDINATOR}:
        export_file(mirror(party).lines(connection), folder / "ledgers" / f"{party}.txt")
    return folder
