"""`crossward site join` right after `serve`: it waits for the tokens file and the service, and says so."""

import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
import typer.testing

from crossward.errors import InvalidSetting, NotReady
from crossward_site.approvals.service import waiting
from crossward_cli.main import commands


class Site(BaseHTTPRequestHandler):
    """Answers as a site does, and notes who joined."""

    def do_GET(self):
        self._answer(b"{}")

    def do_POST(self):
        self.server.joined.append((self.path, self.headers["Authorization"]))
        self.rfile.read(int(self.headers["Content-Length"]))
        self._answer(b'{"coordinator": "http://127.0.0.1:1", "party": "main", "role": "source", "key_id": "k1"}')

    def log_message(self, *_):
        pass

    def _answer(self, body):
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def join(port, token):
    arguments = ["site", "join", "http://127.0.0.1:1", "code", "--site", f"http://127.0.0.1:{port}"]
    return typer.testing.CliRunner().invoke(commands, arguments, env={"CROSSWARD_SITE_TOKEN": token})


@pytest.fixture
def port():
    """One where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def test_it_waits_for_the_tokens_file_and_the_service(tmp_path, port, monkeypatch):
    monkeypatch.setattr(waiting, "PAUSE", 0.05)
    joined, made = [], []

    def start():
        time.sleep(0.3)
        (tmp_path / "steward").write_text("cw_steward_x\n")
        time.sleep(0.5)
        made.append(HTTPServer(("127.0.0.1", port), Site))
        made[0].joined = joined
        made[0].serve_forever(0.05)

    starting = threading.Thread(target=start)
    starting.start()
    done = join(port, f"@{tmp_path / 'steward'}")
    made[0].shutdown()
    starting.join()
    made[0].server_close()
    assert done.exit_code == 0, done.output
    assert joined == [("/v1/join", "Bearer cw_steward_x")]
    assert "steward is not there yet. Waiting for it, up to 60 s." in done.stderr
    assert f"http://127.0.0.1:{port} did not answer" in done.stderr
    assert done.stderr.count("Waiting") == 2
    assert done.stdout.startswith("Joined http://127.0.0.1:1 as main")


def test_in_the_end_it_says_what_is_missing(tmp_path, port, monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE", 0.2)
    monkeypatch.setattr(waiting, "PAUSE", 0.05)
    no_file, no_service = join(port, f"@{tmp_path / 'steward'}"), join(port, "cw_steward_x")
    assert isinstance(no_file.exception, NotReady)
    assert "steward is not there" in no_file.exception.cause
    assert isinstance(no_service.exception, NotReady)
    assert "did not answer" in no_service.exception.cause
    assert "--site" in no_service.exception.fix


def test_no_other_command_waits(tmp_path):
    environment = {"CROSSWARD_SITE_TOKEN": f"@{tmp_path / 'steward'}"}
    done = typer.testing.CliRunner().invoke(commands, ["site", "status"], env=environment)
    assert isinstance(done.exception, InvalidSetting)
    assert "steward cannot be read" in done.exception.cause
    assert "Waiting" not in done.output
