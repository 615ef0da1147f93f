"""Another service as seen from here: its address, the way to it, its certificate, its clock, its version."""

from __future__ import annotations

import socket
import ssl
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from crossward.client.addresses import check_url, is_loopback
from crossward.errors import InvalidSetting, RemoteProblem, Unreachable
from crossward.version import __version__
from crossward_service.http.signing import SKEW
from crossward_service.ops.findings import Findings, Notes

ANSWER_SECONDS = 10.0
RENEW_DAYS = 30
"""Days before its end at which a certificate should be renewed."""

DRIFT_SECONDS = SKEW / 10
"""Seconds two clocks may differ before it is worth a word; signatures fail at `SKEW`."""

# What OpenSSL calls the reasons for which it refuses a certificate.
NOT_YET, ENDED, WRONG_HOST, WRONG_ADDRESS = 9, 10, 62, 64


@dataclass(frozen=True, slots=True)
class Peer:
    """What a coordinator says of itself to anyone. `ahead`: seconds by which its clock is ahead of this one."""

    public_key: str
    version: str
    ahead: float
    certificate: dict[str, Any] | None


def examine(findings: Findings, url: str, ca: Path | None, *, insecure: bool) -> Peer | None:
    """Go all the way to a coordinator, one step after the other; None where it ends early."""
    there, peer = False, None
    with findings.looking_at("address") as note:
        check_url(url, insecure=insecure)
        there = _reach(note, url)
    with findings.looking_at("TLS") as note:
        if there:
            peer = _ask(note, url, ca)
        else:
            note.unknown("the address cannot be reached")
    with findings.looking_at("clock") as note:
        if peer is None:
            note.unknown("the coordinator gave no answer")
        else:
            _compare(note, peer.ahead)
    with findings.looking_at("versions") as note:
        if peer is None:
            note.unknown(f"the coordinator gave no answer; this is {__version__}")
        elif peer.version.split(".")[:2] != __version__.split(".")[:2]:
            note.warning(
                f"This is {__version__}, the coordinator runs {peer.version}.", "Bring the older side to the newer one."
            )
        else:
            note.ok(f"This is {__version__}, the coordinator runs {peer.version}.")
    return peer


def _reach(note: Notes, url: str) -> bool:
    host, port, via = _way(url)
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        note.fault(f"{host}{via} has no address here: {error.strerror}.", "Check the name, the DNS or the proxy.")
        return False
    try:
        socket.create_connection((host, port), timeout=ANSWER_SECONDS).close()
    except OSError as error:
        words = error.strerror or type(error).__name__
        fix = "Is it running? Let the firewall pass outgoing connections there, or set HTTPS_PROXY."
        note.fault(f"{host}:{port}{via} does not answer: {words}.", fix)
        return False
    note.ok(f"{host}:{port}{via} answers at {addresses[0][4][0]}.")
    return True


def _way(url: str) -> tuple[str, int, str]:
    """Whom to dial for a URL: its host, or the proxy that the environment names, and the words for that."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if proxy is None or is_loopback(host) or proxy_bypass(host):
        return host, port, ""
    through = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    if not through.hostname:
        raise InvalidSetting("The proxy in the environment is no address.", "Write it as http://host:port.")
    return through.hostname, through.port or 80, f" (the proxy to {host})"


def _ask(note: Notes, url: str, ca: Path | None) -> Peer | None:
    """One question that needs no key; what TLS says on the way is what is noted."""
    try:
        peer = about(url, ca)
    except Unreachable as error:
        tls = next((cause for cause in causes(error) if isinstance(cause, ssl.SSLError)), None)
        if tls is None:
            note.fault(error.cause, error.fix)
        else:
            note.fault(*_refused(tls, urlsplit(url).hostname or ""))
        return None
    if peer.certificate is not None:
        end = datetime.fromtimestamp(ssl.cert_time_to_seconds(peer.certificate["notAfter"]), UTC)
        note_end(note, end, "The coordinator's certificate is trusted, names its host and", "coordinator's certificate")
    elif is_loopback(urlsplit(url).hostname or ""):
        note.ok("None, on this machine alone.")
    else:
        note.warning("None: anyone on the way can read results.", "Use https://; this is for a closed test only.")
    return peer


def about(url: str, ca: Path | None) -> Peer:
    """Ask a coordinator who it is."""
    trust = _trust(ca)
    loopback = is_loopback(urlsplit(url).hostname or "")
    try:
        with (
            httpx.Client(verify=trust, trust_env=not loopback, timeout=ANSWER_SECONDS) as http,
            http.stream("GET", f"{url.rstrip('/')}/v1/coordinator") as response,
        ):
            received = time.time()
            tls = response.extensions["network_stream"].get_extra_info("ssl_object")
            certificate = None if tls is None else tls.getpeercert()
            body = response.read() if int(response.headers.get("content-length", 1 << 20)) < 1 << 16 else b""
            return _peer_of(response, body, received, certificate)
    except httpx.TransportError as error:
        raise Unreachable(f"{url} gave no answer ({type(error).__name__}).", "Check network and proxy.") from error


def _trust(ca: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError):
        raise InvalidSetting(f"The CA bundle {ca} cannot be read.", "Correct CROSSWARD_TLS_CA.") from None


def _peer_of(response: httpx.Response, body: bytes, received: float, certificate: dict[str, Any] | None) -> Peer:
    try:
        answer = httpx.Response(200, content=body).json()
        key, version = str(answer["public_key"]), str(answer["version"])
        if "time" in answer:
            now = datetime.fromisoformat(answer["time"]).timestamp()
        else:
            now = parsedate_to_datetime(response.headers["date"]).timestamp()
    except (ValueError, KeyError, TypeError):
        raise RemoteProblem(
            f"What answers there (status {response.status_code}) is no coordinator.", "Check address and proxy."
        ) from None
    return Peer(key, "".join(filter(str.isprintable, version))[:40], now - received, certificate)


def _compare(note: Notes, ahead: float) -> None:
    side = "behind" if ahead > 0 else "ahead of"
    text = f"This clock is {abs(ahead):.0f} s {side} the coordinator's; {SKEW} s are allowed."
    if abs(ahead) >= SKEW:
        note.fault(text, "Set the clock (NTP): the coordinator refuses what this site signs.")
    elif abs(ahead) >= DRIFT_SECONDS:
        note.warning(text, "Set the clock (NTP) before it drifts further.")
    else:
        note.ok(text)


def _refused(error: ssl.SSLError, host: str) -> tuple[str, str]:
    code = getattr(error, "verify_code", None)
    if code in (WRONG_HOST, WRONG_ADDRESS):
        return (
            f"The certificate is not for {host}.",
            "Dial the name in the certificate, or have one made for this name.",
        )
    if code == ENDED:
        return "The coordinator's certificate has ended.", "Its operator renews it; check this machine's clock too."
    if code == NOT_YET:
        return "The coordinator's certificate is not good yet.", "Check this machine's clock."
    if code is not None:
        fix = "Set CROSSWARD_TLS_CA to the CA's certificate (PEM), from its operator; never switch verification off."
        return f"The certificate is not trusted: {error.verify_message}.", fix  # type: ignore[attr-defined]
    return f"TLS fails: {error.reason or type(error).__name__}.", "Is it https there? A proxy may stand in between."


def note_end(note: Notes, end: datetime, certificate: str, what: str) -> None:
    """Say how long a certificate lasts."""
    days = (end - datetime.now(UTC)).days
    if days < 0:
        note.fault(f"{certificate} ended on {end:%Y-%m-%d}.", f"Renew the {what}.")
    elif days < RENEW_DAYS:
        note.warning(f"{certificate} ends on {end:%Y-%m-%d}, in {days} days.", f"Renew the {what}.")
    else:
        note.ok(f"{certificate} is good until {end:%Y-%m-%d}.")


def causes(error: BaseException | None) -> list[BaseException]:
    """An error and all that led to it, back to where it began."""
    chain = []
    while error is not None:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain
