"""The check of a container: ready, not ready, nobody there; over HTTP and over TLS, told as the service is told."""

import itertools
import logging
import subprocess
import sys
import threading
import time

import pytest

from crossward_service.http import healthcheck
from crossward_service.http.app import new_app
from crossward_service.http.readiness import Check
from crossward_service.http.tls import Authority


@pytest.fixture(autouse=True)
def _plain(monkeypatch):
    for name in ("CROSSWARD_CONFIG", "CROSSWARD_TLS_CERT", "CROSSWARD_PORT"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def told(monkeypatch):
    def tell(url, **variables):
        monkeypatch.setenv("CROSSWARD_PORT", url.rpartition(":")[2])
        for name, value in variables.items():
            monkeypatch.setenv(f"CROSSWARD_{name}", str(value))

    return tell


def app(broken=None):
    def look():
        if broken is not None and broken.is_set():
            raise RuntimeError("gone")

    seconds = itertools.count(step=2)  # no answer counts for so long
    return new_app(
        "Test", "1", local=False, readiness=[Check("the database", look)], monotonic=lambda: float(next(seconds))
    )


def test_it_follows_the_service(serve, told):
    broken = threading.Event()
    told(serve(app(broken)))
    assert healthcheck.check() == ""
    broken.set()
    assert "503" in healthcheck.check()


def test_over_tls_it_wants_the_services_own_certificate(serve, told, tmp_path):
    authority = Authority.open(tmp_path / "ca")
    for name in ("own", "other"):
        authority.serve(tmp_path / name, ["coordinator"])
    url = serve(app(), tls_cert=tmp_path / "own" / "cert.pem", tls_key=tmp_path / "own" / "key.pem")
    told(url, TLS_CERT=tmp_path / "own" / "cert.pem")
    assert healthcheck.check() == ""
    told(url, TLS_CERT=tmp_path / "other" / "cert.pem")
    assert "nothing answers" in healthcheck.check()


def test_settings_come_from_the_file_too(serve, monkeypatch, tmp_path):
    port = serve(app()).rpartition(":")[2]
    (tmp_path / "settings.toml").write_text(f"port = {port}\n")
    monkeypatch.setenv("CROSSWARD_DATA_DIR", str(tmp_path))
    assert healthcheck.check() == ""
    monkeypatch.setenv("CROSSWARD_DATA_DIR", str(tmp_path / "elsewhere"))
    monkeypatch.setenv("CROSSWARD_CONFIG", str(tmp_path / "settings.toml"))
    assert healthcheck.check() == ""


def test_nobody_there(told):
    told("http://127.0.0.1:1")
    assert "nothing answers on port 1" in healthcheck.check()


def test_checks_that_are_well_fill_no_log(serve, told, caplog):
    broken, end = threading.Event(), time.monotonic() + 120
    with caplog.at_level(logging.INFO, logger="crossward.access"):
        told(serve(app(broken)))
        assert healthcheck.check() == ""
        broken.set()
        assert healthcheck.check() != ""
        while not (said := statuses(caplog)) and time.monotonic() < end:
            time.sleep(0.02)  # it is written before the last byte leaves, and the check reads only the first ones
    assert said == [503]


def statuses(caplog):
    return [record.status for record in caplog.records if record.name == "crossward.access"]


def test_it_loads_next_to_nothing():
    """It runs every few seconds beside a service that computes."""
    program = "import sys, crossward_service.http.healthcheck; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert "crossward_service.http.healthcheck" in loaded
    assert not {"fastapi", "pydantic", "sqlalchemy", "httpx", "numpy", "cryptography", "crossward"} & set(loaded)
