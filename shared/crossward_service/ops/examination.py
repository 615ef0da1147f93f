"""An examination of a service that changes nothing: the machine it stands on, its certificates, its database.

What a site or a coordinator has beyond that lies with it, and another service as seen from here in `peer`.
"""

from __future__ import annotations

import os
import shutil
import ssl
import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from cryptography import x509
from sqlalchemy import Connection, Engine, text

from crossward.client.addresses import is_loopback
from crossward.errors import NotReady, StorageBusy
from crossward_service.db.engine import connect, read, write
from crossward_service.db.migrations import Migrations, current_migration
from crossward_service.http.settings import ServiceSettings
from crossward_service.ops.findings import Findings, Notes
from crossward_service.ops.peer import ANSWER_SECONDS, causes, note_end

LITTLE, TOO_LITTLE = 1 << 30, 64 << 20
"""Bytes free below which to worry, and below which the next commit may fail."""

LOCK_SECONDS = 3.0
"""How long an examination waits for a lock: it must not hold up the work."""

OWN_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
"""Where to ask a service that listens everywhere."""

NOT_WRITABLE = "Check the rights of its file and folder, or of the database's role, and that neither is read-only."


def examine_surroundings(findings: Findings, settings: ServiceSettings, role: str) -> None:
    """What every service stands on: its folder, its disk, its certificates, the address it listens on."""
    _examine_folder(findings, settings)
    _examine_disk(findings, settings.data_dir)
    _examine_certificates(findings, settings)
    _examine_address(findings, settings, role)


# -- the machine ---------------------------------------------------------------------------------------------------
def _examine_folder(findings: Findings, settings: ServiceSettings) -> None:
    """Whether the data directory is there, this user's own, and writable."""
    with findings.looking_at("data directory") as note:
        home, fix = settings.data_dir, "Set CROSSWARD_DATA_DIR, then run init; in a container mount a volume there."
        if not home.is_dir():
            note.fault(f"{home} is not there.", fix)
        elif not os.access(home, os.R_OK | os.W_OK | os.X_OK):
            note.fault(
                f"{home} cannot be written by user {os.getuid()}.", "Give it to that user, and mount it read-write."
            )
        elif stat.S_IMODE(home.stat().st_mode) & 0o007:
            note.warning(f"{home} is open to every user of this machine.", f"Run chmod 700 {home}.")
        else:
            note.ok(f"{home} is there and writable.")


def _examine_disk(findings: Findings, place: Path) -> None:
    """Whether there is room for what comes next."""
    with findings.looking_at("disk") as note:
        if not place.exists():
            note.unknown(f"{place} is not there")
            return
        free = shutil.disk_usage(place).free
        text = f"{free / (1 << 30):.1f} GiB free at {place}."
        fix = "Free space, or move the data directory to a larger volume. A full disk stops all releases."
        if free < TOO_LITTLE:
            note.fault(text, fix)
        elif free < LITTLE:
            note.warning(text, fix)
        else:
            note.ok(text)


def _examine_address(findings: Findings, settings: ServiceSettings, role: str) -> None:
    """Whether the service answers where it should, another program does, or nobody."""
    with findings.looking_at("service") as note:
        if not (settings.serves_tls or settings.insecure or is_loopback(settings.host)):
            note.fault(
                f"{settings.host} can be reached from other machines and no TLS certificate is set: serve will refuse.",
                "Set CROSSWARD_TLS_CERT and CROSSWARD_TLS_KEY, or listen on loopback.",
            )
        elif settings.port == 0:
            note.unknown("port 0 is any free port, which is known only to who started the service", "Set a port.")
        else:
            _ask(note, settings, role)


def _ask(note: Notes, settings: ServiceSettings, role: str) -> None:
    host, port = OWN_ADDRESS.get(settings.host, settings.host), settings.port
    scheme = "https" if settings.serves_tls else "http"
    url = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
    try:
        with httpx.Client(verify=_own_certificate(settings), trust_env=False, timeout=ANSWER_SECONDS) as http:
            alive, ready = http.get(f"{url}/healthz"), http.get(f"{url}/readyz")
    except httpx.ConnectError as error:
        root = causes(error)[-1]
        if isinstance(root, ConnectionRefusedError):
            note.warning(f"Nothing answers on {url}: the service is not running.", f"Run crossward {role} serve.")
        elif isinstance(root, ssl.SSLError):
            note.fault(
                f"What answers on {url} does not show the certificate of tls_cert.",
                "Restart the service if the certificate was renewed; else another program has the port.",
            )
        else:
            note.fault(f"{url} cannot be reached: {type(root).__name__}.", "Check CROSSWARD_HOST.")
        return
    except httpx.TransportError as error:
        note.fault(f"{url} gives no HTTP answer ({type(error).__name__}).", "Another program may have the port.")
        return
    if _status(alive) != "alive":
        note.fault(f"Another program answers on {url}.", "Choose another CROSSWARD_PORT, or stop that program.")
    elif _status(ready) != "ready":
        note.fault(f"The service on {url} lives and is not ready.", "Read its log; the other findings may say why.")
    else:
        note.ok(f"The service answers on {url} and is ready.")


def _status(response: httpx.Response) -> object:
    try:
        content = response.json()
    except ValueError:
        return None
    return content.get("status") if isinstance(content, dict) else None


def _own_certificate(settings: ServiceSettings) -> ssl.SSLContext | bool:
    """Trust in one certificate alone: the one the service should show. Its name is that of the world outside."""
    if settings.tls_cert is None:
        return True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(settings.tls_cert)
    return context


# -- certificates --------------------------------------------------------------------------------------------------
def _examine_certificates(findings: Findings, settings: ServiceSettings) -> None:
    """Look at the TLS files that the settings name."""
    if settings.tls_cert is not None and settings.tls_key is not None:
        with findings.looking_at("own certificate") as note:
            _examine_own_certificate(note, settings.tls_cert, settings.tls_key, settings.public_url)
    if settings.tls_ca is not None:
        with findings.looking_at("CA bundle") as note:
            if (bundle := _read_certificates(note, settings.tls_ca, "CROSSWARD_TLS_CA")) is not None:
                note_end(note, min(cert.not_valid_after_utc for cert in bundle), f"{settings.tls_ca}", "CA bundle")


def _examine_own_certificate(note: Notes, cert: Path, key: Path, public_url: str) -> None:
    chain = _read_certificates(note, cert, "CROSSWARD_TLS_CERT")
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
    if host and not _is_for(chain[0], host):
        note.fault(f"{cert} is not for {host}, the name in public_url.", "Get a certificate that names it.")
        return
    note_end(note, chain[0].not_valid_after_utc, f"{cert} fits its key and", "certificate, then restart the service")


def _is_for(cert: x509.Certificate, host: str) -> bool:
    try:
        names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    if host in {str(address) for address in names.get_values_for_type(x509.IPAddress)}:
        return True
    known = {name.lower() for name in names.get_values_for_type(x509.DNSName)}
    return host.lower() in known or f"*.{host.lower().partition('.')[2]}" in known


def _read_certificates(note: Notes, path: Path, setting: str) -> Sequence[x509.Certificate] | None:
    try:
        return x509.load_pem_x509_certificates(path.read_bytes())
    except OSError as error:
        note.fault(f"{path} cannot be read: {error.strerror}.", f"Correct {setting} or the file's owner.")
    except ValueError:
        note.fault(f"{path} holds no certificate in PEM form.", f"Correct {setting}.")
    return None


# -- the database --------------------------------------------------------------------------------------------------
@contextmanager
def _open(settings: ServiceSettings) -> Iterator[Engine]:
    """The service's database. An SQLite file that is not there is not made."""
    file = settings.sqlite_file
    if file is not None and not file.is_file():
        raise NotReady(f"The database {file} is not there.", "Run init, or correct the data directory.")
    engine = connect(settings.database_url, LOCK_SECONDS)
    try:
        yield engine
    finally:
        engine.dispose()


def examine_database(
    findings: Findings, settings: ServiceSettings, migrations: Migrations, stack: ExitStack
) -> Engine | None:
    """Whether it can be reached, is of the form this code needs, and may be written; None if looking on is no use.

    It stays open until the stack is closed.
    """
    engine = None
    with findings.looking_at("database") as note:
        opened = stack.enter_context(_open(settings))
        with read(opened) as connection:
            connection.execute(text("SELECT 1"))
        note.ok(f"{settings.describe()['database_url']} answers.")
        engine = opened
    if engine is None:
        return None
    usable = False
    with findings.looking_at("migrations") as note, read(engine) as connection:
        migrations.check_newest(connection)
        note.ok(f"At migration {current_migration(connection)}, as this version needs.")
        usable = True
    if not usable:
        return None
    _examine_writing(findings, engine)
    return engine


class _GiveUp(Exception):
    """Ends a transaction that has shown what it can."""


def _examine_writing(findings: Findings, engine: Engine) -> None:
    with findings.looking_at("writing") as note:
        try:
            with suppress(_GiveUp), write(engine) as connection:
                if engine.dialect.name == "postgresql" and not _may_write(connection):
                    note.fault("The database takes no writes from this role.", NOT_WRITABLE)
                else:  # on a read-only file SQLite begins the transaction all the same; it refuses this, of no row
                    connection.execute(text("UPDATE ledger_heads SET sequence = sequence WHERE 1 = 0"))
                raise _GiveUp
        except StorageBusy:
            note.warning("Another transaction held the write lock all the time.", "Ask again when there is less work.")
        if note.empty:
            note.ok("A write transaction was begun and given up.")


def _may_write(connection: Connection) -> bool:
    query = (
        "SELECT current_setting('transaction_read_only') = 'off' "
        "AND has_table_privilege('ledger_lines', 'INSERT') AND has_table_privilege('ledger_heads', 'UPDATE')"
    )
    return bool(connection.execute(text(query)).scalar())
