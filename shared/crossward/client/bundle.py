"""All that is needed to verify a study offline, in one folder: docs/protocol.md, "A study's bundle"."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from crossward.client.coordinator import Client
from crossward.errors import InvalidSetting, StorageFailed
from crossward.protocol.certificate import Certificate, SignedCertificate
from crossward.protocol.constants import COORDINATOR
from crossward.protocol.ledger.export import export_file

README = """\
What the study {study} left behind.

    python verify.py bundle . --key KEY

checks all of it, offline, and says every check it makes. KEY is the public key of the coordinator: ask a person for it
who knows, not this folder (its operator has it from `crossward coordinator key`).

verify.py needs Python 3.11 and the package `cryptography` and nothing else. It was written from the page
docs/protocol.md of Crossward and imports nothing of Crossward. Whoever made this folder could have changed it: if you
do not trust them, take verify.py from elsewhere, too.

certificate.json   the signed certificate                certificate.txt   the same for people
study.json         the study, in its canonical form      releases/         what left each site, signed by it
receipts/          the coordinator's receipts            ledgers/          what each site was charged, line by line
"""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that was written."""

    folder: Path
    certificate: str
    releases: int
    ledgers: int


def verifier() -> bytes:
    """The verifier, one file that imports nothing of ours."""
    return files("crossward").joinpath("verify.py").read_bytes()


def write_bundle(client: Client, study: str, folder: Path) -> Bundle:
    """Fetch a study's certificate, releases, receipts and ledgers. The folder appears whole or not at all."""
    if folder.exists():
        raise InvalidSetting(f"{folder} exists already.", "Name a folder that does not.")
    document = client.certificate(study)
    certificate = SignedCertificate.from_json(document).content()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as made:
            whole = Path(made) / "bundle"
            whole.mkdir()
            (whole / "certificate.json").write_bytes(document.encode())
            (whole / "certificate.txt").write_bytes(client.certificate_text(study).encode())
            (whole / "study.json").write_bytes(client.document(study).encode())
            (whole / "verify.py").write_bytes(verifier())
            (whole / "README.txt").write_bytes(README.format(study=study).encode())
            releases, ledgers = _releases(client, certificate, whole), _ledgers(client, certificate, whole)
            os.rename(whole, folder)
    except OSError as error:
        raise StorageFailed(f"{folder} cannot be written: {error.strerror}.", "Choose another place.") from error
    return Bundle(folder, certificate.id, releases, ledgers)


def _releases(client: Client, certificate: Certificate, folder: Path) -> int:
    (folder / "releases").mkdir()
    (folder / "receipts").mkdir()
    digests = [party.release.digest for party in certificate.parties if party.release is not None]
    for digest in digests:
        (folder / "releases" / f"{digest}.json").write_bytes(client.release(digest).encode())
        (folder / "receipts" / f"{digest}.json").write_bytes(client.receipt(digest).encode())
    return len(digests)


def _ledgers(client: Client, certificate: Certificate, folder: Path) -> int:
    (folder / "ledgers").mkdir()
    names = sorted({party.party for party in certificate.parties} - {COORDINATOR})
    for name in names:
        export_file(client.ledger(name), folder / "ledgers" / f"{name}.txt")
    return len(names)
