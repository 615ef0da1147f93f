"""Whether the service in this container can do its work, for HEALTHCHECK.

It asks /readyz on loopback and ends with 0 or 1. It runs every few seconds beside a service that computes, so it
loads next to nothing: of the settings it reads the four that say where the service listens.
"""

from __future__ import annotations

import http.client
import os
import ssl
import sys
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

ANSWER_SECONDS = 25.0


def check() -> str:
    """Empty if the service is ready, otherwise what is wrong."""
    settings = _settings()
    port = int(settings.get("port", 8400))
    try:
        with closing(_connect(port, settings)) as connection:
            connection.request("GET", "/readyz")
            status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"nothing answers on port {port}: {error}"
    return "" if status == http.client.OK else f"/readyz answers {status}"


def _connect(port: int, settings: dict[str, Any]) -> http.client.HTTPConnection:
    if "tls_cert" not in settings:
        return http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_SECONDS)
    # The question is whether this very service is ready, so it must show this very certificate; its names, which need
    # not include loopback, are the callers' concern.
    trust = ssl.create_default_context(cafile=settings["tls_cert"])
    trust.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    trust.check_hostname = False
    return http.client.HTTPSConnection("127.0.0.1", port, timeout=ANSWER_SECONDS, context=trust)


def _settings() -> dict[str, Any]:
    """The settings, as the service reads them: the file first, then the variables over it."""
    beside = Path(os.environ.get("CROSSWARD_DATA_DIR", "crossward-data")) / "settings.toml"
    config = os.environ.get("CROSSWARD_CONFIG") or (beside if beside.is_file() else None)
    settings = tomllib.loads(Path(config).read_text(encoding="utf-8")) if config else {}
    prefix = "CROSSWARD_"
    set_here = {name for name in os.environ if name.startswith(prefix)}
    return settings | {name.removeprefix(prefix).lower(): os.environ[name] for name in set_here}


if __name__ == "__main__":
    wrong = check()
    print(wrong or "ready")
    sys.exit(1 if wrong else 0)
