"""What a steward types: `site join` right after `serve`, data, rules and requests; mistakes are said in a line."""

import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest
import typer.testing

from crossward.client import SiteClient
from crossward.errors import InvalidEpsilon, InvalidSetting, NotReady
from crossward_cli import connections
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
    """While it waits, the site comes up: first its token, then its service."""
    servers, joined = [], []

    def write_token():
        (tmp_path / "steward").write_text("cw_steward_x\n")

    def start_service():
        servers.append(HTTPServer(("127.0.0.1", port), Site))
        servers[0].joined = joined
        serving.start()

    serving = threading.Thread(target=lambda: servers[0].serve_forever(0.05))
    steps = iter((write_token, start_service))
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: next(steps)())
    monkeypatch.setattr(connections, "time", clock)
    done = join(port, f"@{tmp_path / 'steward'}")
    for server in servers:
        server.shutdown()
        serving.join()
        server.server_close()
    assert done.exit_code == 0, done.output
    assert joined == [("/v1/join", "Bearer cw_steward_x")]
    assert "steward is not there yet. Waiting for it, up to 60 s." in done.stderr
    assert f"http://127.0.0.1:{port} did not answer" in done.stderr
    assert done.stderr.count("Waiting") == 2
    assert done.stdout.startswith("Joined http://127.0.0.1:1 as main")


def test_in_the_end_it_says_what_is_missing(tmp_path, port, monkeypatch):
    monkeypatch.setattr(connections, "LONGEST_WAIT", 0.2)
    monkeypatch.setattr(connections, "PAUSE", 0.05)
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


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        (("--epsilon", "nan"), InvalidEpsilon, "finite"),
        (("--epsilon", "inf"), InvalidEpsilon, "finite"),
        (("--epsilon", "0"), InvalidEpsilon, "above 0"),
        (("--epsilon", "1", "--delta", "nan"), InvalidEpsilon, "between 0 and 1"),
        (("--epsilon", "1", "--study", "nofile.yaml"), InvalidSetting, "nofile.yaml cannot be read"),
        (("--epsilon", "1", "--mapping", "nofile.yaml"), InvalidSetting, "nofile.yaml cannot be read"),
    ],
)
def test_data_are_not_added_with_mistaken_options(crossward, options, kind, words):
    with pytest.raises(kind, match=words):
        crossward(
            "site", "data", "add", "a", "--csv", "a.csv", "--person", "p", *options, "--site-token", "cw_steward_x"
        )


TOKEN = ("--site-token", "cw_steward_x")


def dataset(twice):
    return {"version": 2, "rows": 101, "persons": 101, "epsilon": 3.0, "report": {"persons_in_two_datasets": twice}}


@pytest.mark.parametrize(("twice", "words"), [(4, "4 people are in two datasets and have both budgets."), (0, "")])
def test_the_steward_hears_how_many_have_two_budgets(crossward, monkeypatch, twice, words):
    monkeypatch.setattr(SiteClient, "add_dataset", lambda self, *_, **__: dataset(twice))
    monkeypatch.setattr(SiteClient, "add_version", lambda self, name: dataset(twice))
    for command in (("add", "b", "--csv", "b.csv", "--person", "pid", "--epsilon", "3"), ("update", "b")):
        assert "".join(crossward("site", "data", *command, *TOKEN).splitlines()[1:]) == words


def test_a_report_is_tables_for_people_and_json_for_machines(crossward, monkeypatch):
    report = {
        "dataset": "hearts",
        "version": 1,
        "rows": 1200,
        "persons": 1100,
        "persons_in_two_datasets": 0,
        "records_dropped": 7,
        "columns": ["age", "bmi"],
        "missing": {"age": 0, "bmi": 31},
        "fit": {"study": "s1", "rows": 1100, "positives": 90, "features": {"bmi": {"missing": 30, "clipped": 2}}},
    }
    monkeypatch.setattr(SiteClient, "report", lambda self, name, study: report)
    shown = crossward("site", "data", "report", "hearts", *TOKEN)
    for words in ("1,200 rows of 1,100 persons", "7 records dropped", "31", "study s1", "90 of them positive"):
        assert words in shown
    assert json.loads(crossward("site", "data", "report", "hearts", "--json", *TOKEN)) == report


def test_rules_are_shown_in_words(crossward, monkeypatch):
    rules = {"decide": "ask", "epsilon_per_study": None, "studies": ["diabetes-*"], "pinned_keys_only": False}
    monkeypatch.setattr(SiteClient, "policy", lambda self: rules)
    shown = [line.split(maxsplit=1) for line in crossward("site", "policy", *TOKEN).splitlines()]
    words = ["ask", "no limit", "diabetes-*", "no"]
    assert [[name, value.strip()] for name, value in shown] == [list(pair) for pair in zip(rules, words, strict=True)]
    assert json.loads(crossward("site", "policy", "--json", *TOKEN)) == rules


def test_a_request_is_shown_with_what_the_answer_rests_on(crossward, monkeypatch):
    request = {
        "task": "t1",
        "state": "waiting",
        "cause": "The policy asks.",
        "study": "s1",
        "title": "A title with [markup]",
        "purpose": "Diabetes",
        "method": "simcomb",
        "chosen": "It fits.",
        "explanation": "Each target releases [weights].",
        "lead": "",
        "role": "target",
        "epsilon": 0.5,
        "epsilon_charged": 0.0,
        "epsilon_taken_before": 0.25,
        "dataset": None,
        "datasets": ["hearts", "wards"],
    }
    monkeypatch.setattr(SiteClient, "approvals", lambda self: [request])
    shown = crossward("site", "approvals", *TOKEN)
    for words in (
        "A title with [markup]",
        "epsilon 0.5",
        "releases [weights]",
        "choose one: hearts, wards",
        "approve t1 [--refuse]",
    ):
        assert words in shown
    assert json.loads(crossward("site", "approvals", "--json", *TOKEN)) == [request]
    monkeypatch.setattr(SiteClient, "approvals", lambda self: [])
    assert crossward("site", "approvals", *TOKEN).strip() == "Nothing waits for you."
    assert json.loads(crossward("site", "approvals", "--json", *TOKEN)) == []


@pytest.mark.parametrize("begins", ["-", "-h", "--", "--s", "-="])
def test_a_code_or_a_key_may_begin_with_a_dash(monkeypatch, begins):
    """As one in sixty-four does."""
    seen = []

    def join(self, coordinator, code):
        seen.append(code)
        return {"coordinator": coordinator, "party": "main", "role": "source", "key_id": "k1"}

    def pin(self, party, key):
        seen.append(key)
        return {"party": party, "key_id": "k1"}

    monkeypatch.setattr(SiteClient, "join", join)
    monkeypatch.setattr(SiteClient, "pin", pin)
    monkeypatch.setattr("crossward_cli.site.wait_for_service", lambda *_: None)
    word = begins + "W6BhHhn-PQnOvnAuJ2Zz583mg8I"
    for arguments in (("join", "http://127.0.0.1:1", word), ("pin", "main", word, "--json")):
        done = typer.testing.CliRunner().invoke(commands, ["site", *arguments], env={"CROSSWARD_SITE_TOKEN": "x"})
        assert done.exit_code == 0, done.output
    assert seen == [word, word]
