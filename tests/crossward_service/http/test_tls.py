"""A private CA: its certificates are accepted by a strict client, for their names only, and renewed in time."""

import socket
import ssl
import stat
import threading
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from crossward.errors import InvalidSetting, StorageFailed
from crossward_service.http import tls as certificates
from crossward_service.http.tls import Authority

NAMES = ("coordinator", "localhost", "127.0.0.1")


@pytest.fixture
def authority(tmp_path):
    return Authority.open(tmp_path / "ca")


def greet(folder, name, ca):
    """A handshake with a service that shows the folder's certificate, by a client that trusts `ca` and calls `name`."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    client = ssl.create_default_context(cafile=ca)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    ours, theirs = socket.socketpair()

    def answer():
        try:
            server.wrap_socket(theirs, server_side=True).close()
        except (OSError, ssl.SSLError):
            theirs.close()

    thread = threading.Thread(target=answer)
    thread.start()
    try:
        client.wrap_socket(ours, server_hostname=name).close()
    finally:
        ours.close()
        thread.join()


@pytest.mark.parametrize("name", NAMES)
def test_a_strict_client_accepts_it_by_each_of_its_names(authority, tmp_path, name):
    assert authority.serve(tmp_path / "tls", NAMES)
    greet(tmp_path / "tls", name, tmp_path / "tls" / "ca.pem")


def test_not_by_another_name_nor_under_another_authority(authority, tmp_path):
    authority.serve(tmp_path / "tls", NAMES)
    with pytest.raises(ssl.SSLCertVerificationError):
        greet(tmp_path / "tls", "main", tmp_path / "tls" / "ca.pem")
    Authority.open(tmp_path / "other").publish(tmp_path / "other")
    with pytest.raises(ssl.SSLCertVerificationError):
        greet(tmp_path / "tls", "coordinator", tmp_path / "other" / "ca.pem")


def test_keys_are_for_their_owner_alone_and_the_authoritys_goes_nowhere(authority, tmp_path):
    authority.serve(tmp_path / "tls", NAMES)
    for key in (tmp_path / "ca" / "ca.key", tmp_path / "tls" / "key.pem"):
        assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert {path.name for path in (tmp_path / "tls").iterdir()} == {"cert.pem", "key.pem", "ca.pem"}


def test_asked_again_it_keeps_what_is_good(tmp_path):
    assert Authority.open(tmp_path / "ca").serve(tmp_path / "tls", NAMES)
    before = (tmp_path / "tls" / "cert.pem").read_bytes()
    assert not Authority.open(tmp_path / "ca").serve(tmp_path / "tls", NAMES)
    assert (tmp_path / "tls" / "cert.pem").read_bytes() == before


def test_a_new_name_another_authority_or_a_near_end_makes_it_anew(authority, tmp_path, monkeypatch):
    authority.serve(tmp_path / "tls", NAMES)
    assert authority.serve(tmp_path / "tls", (*NAMES, "study.example.org"))
    assert Authority.open(tmp_path / "other").serve(tmp_path / "tls", NAMES)
    monkeypatch.setattr(certificates, "SERVICE_DAYS", certificates.RENEW_DAYS - 1)
    assert authority.serve(tmp_path / "tls", NAMES)
    monkeypatch.undo()
    assert authority.serve(tmp_path / "tls", NAMES)
    made = x509.load_pem_x509_certificate((tmp_path / "tls" / "cert.pem").read_bytes())
    assert made.not_valid_after_utc > datetime.now(UTC) + timedelta(days=certificates.RENEW_DAYS)


def test_a_name_that_is_none_and_a_folder_that_cannot_be_written_are_named(authority, tmp_path):
    with pytest.raises(InvalidSetting, match="münchen"):
        authority.serve(tmp_path / "tls", ["münchen"])
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageFailed, match="file"):
        authority.serve(tmp_path / "file", NAMES)
