"""Which addresses may be spoken to, or listened on, without TLS: this machine's own."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from crossward.errors import InsecureAddress, InvalidSetting


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this machine itself; a name other than localhost never is."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_url(url: str, *, insecure: bool = False) -> str:
    """The base URL without its last slash, if it is https, or http to this machine, or `insecure` was asked for."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port, parts = "", None, urlsplit("")
    if parts.scheme not in {"http", "https"} or not host or port == 0:
        raise InvalidSetting(
            f"{_shown(url)!r} is not an http(s) address.", "Write it as https://host or https://host:port."
        )
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InvalidSetting(
            f"The address of {host} holds a user, password, query or fragment.",
            "Give host, port and path only; tokens have their own setting.",
        )
    if parts.scheme == "http" and not is_loopback(host) and not insecure:
        raise InsecureAddress(
            f"{url} is plain HTTP to another machine: anyone on the way can read tokens and results.",
            "Use https://, with your own CA if need be; in a closed test network allow it explicitly (insecure).",
        )
    return url.rstrip("/")


def _shown(url: str) -> str:
    """An address as an error may quote it: nothing before an @, where passwords stand."""
    return url.rsplit("@", 1)[-1][:200]
