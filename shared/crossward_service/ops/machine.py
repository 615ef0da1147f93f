"""The machine a service stands on: its folder, its disk, the address it listens on."""

from __future__ import annotations

import os
import shutil
import ssl
import stat
from pathlib import Path

import httpx

from crossward.client.addresses import is_loopback
from crossward_service.http.settings import ServiceSettings
from crossward_service.ops.findings import Findings, Notes
from crossward_service.ops.peer import causes

LITTLE, TOO_LITTLE = 1 << 30, 64 << 20
"""Bytes free below which to worry, and below which the next commit may fail."""

EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
PATIENCE = 10.0


def folder(findings: Findings, settings: ServiceSettings) -> None:
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


def disk(findings: Findings, place: Path) -> None:
    """Whether there is room for what comes next."""
    with findings.looking_at("disk") as note:
        if not place.exists():
            note.unknown(f"{place} is not there")
            return
        free = shutil.disk_usage(place).free
        said = f"{free / (1 << 30):.1f} GiB free at {place}."
        fix = "Free space, or move the data directory to a larger volume. A full disk stops all releases."
        if free < TOO_LITTLE:
            note.fault(said, fix)
        elif free < LITTLE:
            note.warning(said, fix)
        else:
            note.ok(said)


def listening(findings: Findings, settings: ServiceSettings, role: str) -> None:
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
            _knock(note, settings, role)


def _knock(note: Notes, settings: ServiceSettings, role: str) -> None:
    host, port = EVERYWHERE.get(settings.host, settings.host), settings.port
    scheme = "https" if settings.serves_tls else "http"
    url = f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
    try:
        with httpx.Client(verify=_own_certificate(settings), trust_env=False, timeout=PATIENCE) as http:
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
        said = response.json()
    except ValueError:
        return None
    return said.get("status") if isinstance(said, dict) else None


def _own_certificate(settings: ServiceSettings) -> ssl.SSLContext | bool:
    """Trust in one certificate alone: the one the service should show. Its name is that of the world outside."""
    if settings.tls_cert is None:
        return True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(settings.tls_cert)
    return context
