"""The client against real servers: when it asks again, what it raises, whom it refuses to speak to."""

import datetime
import socket
import ssl
import threading
import time
from contextlib import contextmanager, suppress
from ipaddress import ip_address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from fastapi import Request, Response
from fastapi.responses import StreamingResponse

from crossward import errors
from crossward.client.addresses import check_url, is_loopback
from crossward.client.http import NEVER, HttpClient, Retry, Token
from crossward.client.remote import error_of, error_of_job, remote
from crossward.protocol.problems import TABLE, UNEXPECTED, urn
from crossward_service.http import problems
from crossward_service.http.app import new_app


def patient(slept, **given):
    """Retries that note their pauses instead of sleeping; the jitter is always its largest."""
    return Retry(sleep=slept.append, uniform=lambda low, high: high, **given)


def flaky(answers):
    """A service that gives these (status, headers) in turn, then 200; `app.state.asked` counts."""
    app = new_app("Flaky", "1", local=False)
    app.state.asked = []

    @app.api_route("/v1/x", methods=["GET", "POST"])
    async def answer(request: Request) -> Response:
        app.state.asked.append(await request.body())
        status, headers = answers.pop(0) if answers else (200, {})
        return Response(b'{"ok": true}', status, headers, "application/json")

    return app


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_passing_failure_is_asked_again_with_growing_pauses(serve, status):
    app, slept = flaky([(status, {})] * 3), []
    with HttpClient(serve(app), retry=patient(slept)) as client:
        assert client.get("/v1/x").json() == {"ok": True}
    assert slept == [0.5, 1.0, 2.0]
    assert len(app.state.asked) == 4


def test_retry_after_is_a_floor_in_seconds_or_as_a_date(serve):
    at = datetime.datetime(2030, 1, 1, 0, 0, 7, tzinfo=datetime.UTC)
    dated = at.strftime("%a, %d %b %Y %H:%M:%S GMT")
    app = flaky([(503, {"Retry-After": value}) for value in ("9", dated, "soon", "100000")])
    slept, clock = [], lambda: at.timestamp() - 7
    with HttpClient(serve(app), retry=patient(slept, clock=clock)) as client:
        client.get("/v1/x")
    assert slept == [9.0, 7.0, 2.0, 120.0]


def test_giving_up_raises_what_was_said(serve):
    app, slept = flaky([(503, {})] * 9), []
    with (
        HttpClient(serve(app), retry=patient(slept, attempts=3)) as client,
        pytest.raises(errors.RemoteProblem) as said,
    ):
        client.get("/v1/x")
    assert said.value.status == 503
    assert len(app.state.asked) == 3


def test_a_post_is_repeated_only_if_that_is_harmless(serve):
    app, slept = flaky([(503, {}), (503, {})]), []
    with HttpClient(serve(app), retry=patient(slept)) as client:
        with pytest.raises(errors.RemoteProblem):
            client.post("/v1/x", {"a": 1})
        assert client.post("/v1/x", {"a": 1}, idempotent=True).json() == {"ok": True}
    assert app.state.asked == [b'{"a": 1}'] * 3
    assert len(slept) == 1


def test_other_refusals_are_not_repeated(serve):
    app, slept = flaky([(400, {}), (500, {})]), []
    with HttpClient(serve(app), retry=patient(slept)) as client:
        for _ in range(2):
            with pytest.raises(errors.RemoteProblem):
                client.get("/v1/x")
    assert slept == []


def test_nobody_there_is_unreachable_and_was_tried_often():
    slept = []
    with socket.socket() as silent:  # it holds its port and does not listen: nobody else can
        silent.bind(("127.0.0.1", 0))
        with HttpClient(f"http://127.0.0.1:{silent.getsockname()[1]}", retry=patient(slept)) as client:
            with pytest.raises(errors.Unreachable, match="can be repeated"):
                client.get("/v1/x")
            assert len(slept) == 4
            with pytest.raises(errors.Unreachable, match="look before you repeat"):
                client.post("/v1/x")
    assert len(slept) == 4


@contextmanager
def once(raw):
    """A server that reads some of one request per connection, answers with these bytes and hangs up."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer():
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection, suppress(OSError):  # a caller may have gone
                    connection.recv(65536)
                    connection.sendall(raw)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(60)


def test_an_answer_cut_short_is_asked_for_again():
    slept = []
    with (
        once(b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{") as url,
        HttpClient(url, retry=patient(slept)) as client,
        pytest.raises(errors.Unreachable),
    ):
        client.get("/v1/x")
    assert len(slept) == 4


def test_a_redirect_is_not_followed():
    raw = b"HTTP/1.1 307 T\r\nLocation: http://elsewhere.example/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    with (
        once(raw) as url,
        HttpClient(url, auth=Token("t"), retry=NEVER) as client,
        pytest.raises(errors.RemoteProblem) as said,
    ):
        client.get("/v1/x")
    assert said.value.status == 307


def test_a_long_poll_may_take_longer_than_the_timeout(serve):
    app, over = new_app("Slow", "1", local=False), threading.Event()

    @app.get("/v1/next")
    def wait() -> str:
        time.sleep(0.6)
        return "task"

    @app.get("/v1/silence")
    def silence() -> str:
        over.wait(120)  # however slow the caller is to listen
        return "late"

    with HttpClient(serve(app), timeout=0.2, retry=NEVER) as client:
        assert client.get("/v1/next", wait=120).json() == "task"
        with pytest.raises(errors.Unreachable, match="ReadTimeout"):
            client.get("/v1/silence")
        over.set()


def test_a_stream_comes_line_by_line(serve):
    app = new_app("Events", "1", local=False)

    @app.get("/v1/events")
    def events() -> StreamingResponse:
        return StreamingResponse(iter(["data: 1\n", "\n", "data: 2\n\n"]), media_type="text/event-stream")

    with HttpClient(serve(app)) as client:
        assert list(client.lines("/v1/events")) == ["data: 1", "", "data: 2", ""]
        with pytest.raises(errors.RemoteProblem, match="Not Found"):
            list(client.lines("/v1/nowhere"))


def test_an_answer_has_a_limit(serve):
    app = new_app("Large", "1", local=False)

    @app.get("/v1/large")
    def large() -> Response:
        return Response(b"x" * 20_000)

    with HttpClient(serve(app), largest=10_000) as client, pytest.raises(errors.BodyTooLarge):
        client.get("/v1/large")


def test_only_json_is_taken_and_sent_as_json(serve):
    app = new_app("Odd", "1", local=False)

    @app.get("/v1/odd")
    def odd() -> Response:
        return Response('{"x": NaN}', media_type="application/json")

    with HttpClient(serve(app)) as client:
        with pytest.raises(errors.RemoteProblem, match="not JSON"):
            client.get("/v1/odd").json()
        with pytest.raises(ValueError, match="JSON compliant"):
            client.post("/v1/odd", {"x": float("inf")})


def built(kind):
    if kind is errors.StudyInvalid:
        return kind([errors.Problem(3, "features.age", "low >= high.", "Swap them.")])
    return kind("A cause.", "A fix.")


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.__name__)
def test_every_error_survives_the_wire(kind):
    sent = problems.of_error(built(kind), "id-1", local=True)
    got = error_of(sent.status_code, sent.headers, bytes(sent.body))
    assert type(got) is kind
    assert str(got) == str(built(kind))
    came = remote(got)
    assert (came.status, came.instance) == (TABLE[kind].status, "id-1")


@pytest.mark.parametrize("kind", TABLE, ids=lambda kind: kind.__name__)
def test_what_a_job_failed_of_is_raised_as_what_it_is(kind):
    got = error_of_job(urn(kind), "A cause.", "A fix.")
    assert type(got) is (errors.RemoteProblem if kind is errors.StudyInvalid else kind)
    assert str(got) == "A cause. A fix."


@pytest.mark.parametrize("problem", [UNEXPECTED, "", "urn:other", None, ["urn"]])
def test_what_a_job_failed_of_may_be_anything(problem):
    got = error_of_job(problem, "A cause\x1b.", "")
    assert (type(got), got.cause) == (errors.RemoteProblem, "A cause .")


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{", b'{"type": 5, "detail": ["x"]}', b"[" * 100_000, b'{"type": "urn:other"}', b"\xff"]
)
def test_a_strange_problem_is_still_an_error(body):
    said = error_of(418, {"content-type": "application/problem+json"}, body)
    assert type(said) is errors.RemoteProblem
    assert said.status == 418
    assert "418" in said.cause


def test_hostile_words_are_tamed():
    body = b'{"type": "urn:x", "detail": "\\u001b[2Jgone\\u0007' + b"x" * 9000 + b'"}'
    said = error_of(400, {"content-type": "application/problem+json; charset=utf-8"}, body)
    assert "\x1b" not in said.cause
    assert "\x07" not in said.cause
    assert len(said.cause) <= 2000


def test_the_fields_of_a_misfit_request_reach_the_reader(serve):
    app = new_app("Strict", "1", local=False)

    @app.get("/v1/x")
    def read(number: int) -> int:
        return number

    with HttpClient(serve(app)) as client, pytest.raises(errors.RemoteProblem, match=r"query\.number"):
        client.get("/v1/x", params={"number": "many"})


@pytest.mark.parametrize("url", ["http://coordinator.example", "http://10.0.0.7:8000", "http://127.0.0.1.example"])
def test_plain_http_goes_no_further_than_this_machine(url):
    with pytest.raises(errors.InsecureAddress):
        HttpClient(url, auth=Token("t"))
    assert check_url(url, insecure=True) == url


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/", "http://localhost", "http://[::1]:8000", "https://x.example/cw/"]
)
def test_these_are_spoken_to(url):
    assert check_url(url) == url.rstrip("/")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://x",
        "coordinator",
        "https://",
        "https://u:hunter2@x",
        "https://x?token=hunter2",
        "https://x:y",
        "http://[",
    ],
)
def test_these_are_no_addresses(url):
    with pytest.raises(errors.InvalidSetting) as refused:
        check_url(url)
    assert "hunter2" not in str(refused.value)


def test_loopback():
    assert is_loopback("127.9.9.9")
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")
    assert not is_loopback("localhost.example")


def test_this_machine_is_never_reached_through_a_proxy(serve, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    with HttpClient(serve(flaky([])), retry=NEVER) as client:
        assert client.get("/v1/x").status == 200


def test_others_are_reached_through_the_proxy_of_the_environment(monkeypatch):
    """A proxy that only says 407: what matters is that it was asked."""
    with once(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n") as proxy:
        for name in ("NO_PROXY", "no_proxy", "http_proxy"):  # in small letters they would count first
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("HTTP_PROXY", proxy)
        with (
            HttpClient("http://coordinator.invalid", insecure=True, retry=NEVER) as client,
            pytest.raises(errors.RemoteProblem) as said,
        ):
            client.get("/v1/x")
    assert said.value.status == 407


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A self-signed certificate for 127.0.0.1, as a private CA would give one."""
    folder = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test CA")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(signed.public_bytes(Encoding.PEM))
    (folder / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return folder


def test_tls_with_a_private_ca(serve, certificate):
    url = serve(flaky([]), tls_cert=certificate / "cert.pem", tls_key=certificate / "key.pem")
    assert url.startswith("https://")
    with HttpClient(url, ca=certificate / "cert.pem") as client:
        answer = client.get("/v1/x")
        assert "strict-transport-security" in answer.headers
    slept = []
    with HttpClient(url, retry=patient(slept)) as client, pytest.raises(errors.Unreachable, match="certificate"):
        client.get("/v1/x")
    assert slept == []  # no certificate gets better by asking again
    with pytest.raises(errors.InvalidSetting, match="CA bundle"):
        HttpClient(url, ca=certificate / "nowhere.pem")


def test_the_system_certificates_are_read_once(monkeypatch):
    HttpClient("https://example.org").close()
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: pytest.fail("read again"))
    with HttpClient("https://example.org"), HttpClient("https://example.org"):
        pass
