"""The certificate a service shows, the key to it, and the CA bundle it trusts."""

from __future__ import annotations

import os
import ssl
import stat
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from cryptography import x509

from crossward_service.http.settings import ServiceSettings
from crossward_service.ops.findings import Findings, Notes

SOON = 30
"""Days before its end at which a certificate should be renewed."""


def examine(findings: Findings, settings: ServiceSettings) -> None:
    """Look at the TLS files that the settings name."""
    if settings.tls_cert is not None and settings.tls_key is not None:
        with findings.looking_at("own certificate") as note:
            _own(note, settings.tls_cert, settings.tls_key, settings.public_url)
    if settings.tls_ca is not None:
        with findings.looking_at("CA bundle") as note:
            if (bundle := _read(note, settings.tls_ca, "CROSSWARD_TLS_CA")) is not None:
                lasting(note, min(cert.not_valid_after_utc for cert in bundle), f"{settings.tls_ca}", "CA bundle")


def lasting(note: Notes, end: datetime, found: str, what: str) -> None:
    """Say how long a certificate lasts."""
    days = (end - datetime.now(UTC)).days
    if days < 0:
        note.fault(f"{found} ended on {end:%Y-%m-%d}.", f"Renew the {what}.")
    elif days < SOON:
        note.warning(f"{found} ends on {end:%Y-%m-%d}, in {days} days.", f"Renew the {what}.")
    else:
        note.ok(f"{found} is good until {end:%Y-%m-%d}.")


def _own(note: Notes, cert: Path, key: Path, public_url: str) -> None:
    chain = _read(note, cert, "CROSSWARD_TLS_CERT")
    if chain is None:
        return
    if not os.access(key, os.R_OK):
        note.fault(f"{key} cannot be read by user {os.getuid()}.", "Correct CROSSWARD_TLS_KEY or the file's owner.")
        return
    try:
        # Without a password at hand OpenSSL would ask for one at the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(cert, key, password="")
    except (ssl.SSLError, OSError):
        note.fault(f"{key} is not the key of {cert}, or is encrypted.", "Give the plain key of this certificate.")
        return
    if stat.S_IMODE(key.stat().st_mode) & 0o007:
        note.warning(f"Every user of this machine can read {key}.", f"Run chmod 600 {key}.")
    host = urlsplit(public_url).hostname
    if host and not _names(chain[0], host):
        note.fault(f"{cert} is not for {host}, the name in public_url.", "Get a certificate that names it.")
        return
    lasting(note, chain[0].not_valid_after_utc, f"{cert} fits its key and", "certificate, then restart the service")


def _names(cert: x509.Certificate, host: str) -> bool:
    try:
        names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    if host in {str(address) for address in names.get_values_for_type(x509.IPAddress)}:
        return True
    known = {name.lower() for name in names.get_values_for_type(x509.DNSName)}
    return host.lower() in known or f"*.{host.lower().partition('.')[2]}" in known


def _read(note: Notes, path: Path, setting: str) -> Sequence[x509.Certificate] | None:
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        note.fault(f"{path} cannot be read: {error.strerror}.", f"Correct {setting} or the file's owner.")
    except ValueError:
        note.fault(f"{path} holds no certificate in PEM form.", f"Correct {setting}.")
    return None
