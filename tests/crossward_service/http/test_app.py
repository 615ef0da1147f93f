"""What holds for every request of every service, seen from outside."""

import asyncio
import json
import logging
import threading

import pytest
from fastapi import APIRouter, Request
from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from crossward_service.http.app import new_app
from crossward_service.http.edge import Edge, Limits
from crossward_service.http.readiness import FRESH_SECONDS, Check
from crossward_service.http.telemetry import JsonLines, RequestMetrics


class Score(BaseModel):
    value: float


def sample(**given):
    app = new_app("Sample", "1", local=False, **given)
    router = APIRouter(prefix="/v1")

    @router.post("/echo/{name}")
    async def echo(name: str, request: Request) -> dict[str, int]:
        return {"bytes": len(await request.body())}

    @router.post("/model")
    def model(body: Score) -> Score:
        return body

    @router.get("/model/{value}")
    def model_of(value: float) -> Score:
        return Score(value=value)

    @router.get("/plain/{value}")
    def plain_of(value: float):
        return {"values": [value]}

    @router.get("/half")
    def half():
        def parts():
            yield b"one"
            raise RuntimeError("two")

        return StreamingResponse(parts())

    app.include_router(router, prefix="/api")
    return app


@pytest.fixture(scope="module")
def url(serve_all):
    return serve_all(sample(limits=Limits(body=1000, paths={"/api/*/large": 5000, "/api/*": 1000})))


@pytest.mark.parametrize("given", ["abc-1.2_X", "a" * 64])
def test_a_valid_request_id_is_kept(url, http, given):
    assert http.get(url + "/healthz", headers={"X-Request-ID": given}).headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, 'a"\\', "a;b"])
def test_any_other_is_replaced(url, http, given):
    made = http.get(url + "/healthz", headers={"X-Request-ID": given}).headers["x-request-id"]
    assert len(made) == 32
    assert made != http.get(url + "/healthz").headers["x-request-id"]


def pieces(size):
    for _ in range(size // 100):
        yield b"x" * 100


@pytest.mark.parametrize("streamed", [False, True])
def test_bodies_have_a_limit_announced_or_not(url, http, streamed):
    def post(path, size):
        return http.post(url + path, content=pieces(size) if streamed else b"x" * size)

    assert post("/api/v1/echo/a", 1000).json() == {"bytes": 1000}
    assert post("/api/v1/echo/large", 5000).json() == {"bytes": 5000}
    for path, size in (("/api/v1/echo/a", 1100), ("/api/v1/echo/large", 5100), ("/api/v1/echo/a", 2_000_000)):
        answer = post(path, size)
        assert answer.status_code == 413
        assert answer.json()["type"] == "urn:crossward:problem:body-too-large"
        assert answer.json()["instance"] == answer.headers["x-request-id"]


@pytest.mark.parametrize("streamed", [False, True])
def test_the_limit_holds_where_fastapi_reads_the_body_itself(url, http, streamed):
    content = pieces(2000) if streamed else b"x" * 2000
    answer = http.post(url + "/api/v1/model", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413
    assert answer.json()["type"] == "urn:crossward:problem:body-too-large"


@pytest.mark.parametrize("value", ["nan", "inf", "-inf"])
@pytest.mark.parametrize("kind", ["model", "plain"])
def test_no_answer_holds_what_json_cannot(url, http, kind, value):
    assert http.get(f"{url}/api/v1/{kind}/1.5").status_code == 200
    answer = http.get(f"{url}/api/v1/{kind}/{value}")
    assert answer.status_code == 500
    assert answer.json()["type"].endswith("unexpected")


def test_half_an_answer_does_not_look_whole(url, http):
    with pytest.raises(Exception, match=r"incomplete|disconnected|closed"):
        http.get(url + "/api/v1/half")


def test_security_headers(url, http):
    headers = http.get(url + "/healthz").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "server" not in headers
    assert http.get(url + "/docs").status_code == 404  # it would load scripts from elsewhere


def test_alive_and_ready_are_two_questions(serve, http):
    up = threading.Event()

    def database():
        if not up.is_set():
            raise RuntimeError("postgresql://user:hunter2@db refused")

    checks, now = [Check("disk", lambda: None), Check("database", database)], [0.0]
    url = serve(sample(readiness=checks, monotonic=lambda: now[0]))
    assert http.get(url + "/healthz").status_code == 200
    answer = http.get(url + "/readyz")
    assert answer.status_code == 503
    assert answer.json()["detail"] == "Not ready: database."
    assert "hunter2" not in answer.text
    up.set()
    now[0] += FRESH_SECONDS
    assert http.get(url + "/readyz").json() == {"status": "ready"}


def test_metrics_count_by_template_never_by_path(serve, http):
    url, other = serve(sample()), serve(sample())
    for name in ("patient-4411", "patient-4412"):
        http.post(f"{url}/api/v1/echo/{name}", content=b"x")
    http.get(url + "/patient-4413")
    http.request("BREW", url + "/healthz")
    text = http.get(url + "/metrics").text
    assert 'crossward_requests_total{method="POST",route="/api/v1/echo/{name}",status="200"} 2.0' in text
    assert 'crossward_requests_total{method="GET",route="unmatched",status="404"} 1.0' in text
    assert 'method="other"' in text
    assert "patient" not in text  # a word, not digits: a duration in seconds may hold any digits
    assert "echo" not in http.get(other + "/metrics").text  # each app counts for itself


@pytest.mark.parametrize(
    ("method", "status", "length"), [("POST", 204, None), ("HEAD", 200, b"7"), ("GET", 200, b"0"), ("GET", 200, b"7")]
)
def test_an_answer_is_counted_before_its_last_byte_leaves(method, status, length):
    """One without a body is whole when its head has come: it is counted before that, and any other after it."""
    metrics, counted = RequestMetrics(), []

    async def answer(scope, receive, send):
        headers = [(b"content-length", length)] if length else []
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if method != "GET" or length == b"0" else b"seven b"})

    async def leave(message):
        counted.append(b"crossward_requests_total{" in metrics.exposition())

    scope = {"type": "http", "method": method, "path": "/", "scheme": "http", "headers": []}
    asyncio.run(Edge(answer, limits=Limits(), metrics=metrics)(scope, None, leave))
    assert counted == [length != b"7" or method == "HEAD", True]
    assert f'status="{status}"}} 1.0'.encode() in metrics.exposition()


def test_the_access_log_is_one_json_line_without_secrets(serve, http, caplog):
    url = serve(sample())
    with caplog.at_level(logging.INFO, "crossward.access"):
        http.post(
            f"{url}/api/v1/echo/patient-44114411441?token=hunter2",
            content=b"hunter3",
            headers={"Authorization": "Bearer hunter4", "X-Request-ID": "id-1"},
        )
        http.get(url + "/nowhere")
    lines = [json.loads(JsonLines().format(r)) for r in caplog.records if r.name == "crossward.access"]
    assert {k: lines[0][k] for k in ("request_id", "method", "route", "status", "bytes_in")} == {
        "request_id": "id-1",
        "method": "POST",
        "route": "/api/v1/echo/{name}",
        "status": 200,
        "bytes_in": 7,
    }
    assert lines[1]["problem"] == "http-404"
    assert "44114411441" not in str(lines)
    assert "hunter" not in str(lines)
