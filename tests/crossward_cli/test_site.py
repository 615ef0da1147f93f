"""What a steward types: `site join` right after `serve`, data, rules and requests; mistakes are said in a line."""

import json
import socket
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import pytest
import typer.testing

from crossward.client import SiteClient
from crossward.errors import Conflict, InvalidEpsilon, InvalidSetting, NotReady, Unreachable
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


TOKEN = ("--site-token", "cw_steward_x")
REPORT = {
    "dataset": "hearts",
    "version": 1,
    "rows": 1200,
    "persons": 1100,
    "records_dropped": 7,
    "columns": ["age", "bmi"],
    "decimal": ".",
    "missing": {"age": 0, "bmi": 31},
    "new": 1000,
    "known": 100,
    "came": 30,
    "left": 20,
    "stayed": 1070,
    "opted_out": 3,
    "changed": 0,
    "fit": {
        "study": "s1",
        "rows": 1100,
        "positives": 90,
        "unlabelled": 2,
        "features": {"bmi": {"missing": 30, "unread": 4, "clipped": 2, "recoded": 0}},
    },
}
BUDGET = {"epsilon": 3.0, "epsilon_spent": 1.5, "epsilon_left": 1.5}


class Asked:
    """What a site was asked, and what it answers."""

    def __init__(self, monkeypatch, budget=None, **answers):
        self.calls = []
        monkeypatch.setattr(SiteClient, "budget", lambda client: budget)
        for name, answer in answers.items():
            monkeypatch.setattr(SiteClient, name, self._hear(name, answer))

    def _hear(self, name, answer):
        def call(client, *given, heard=None, **named):
            self.calls.append((name, *given, {key: value for key, value in named.items() if value is not None}))
            return answer

        return call


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        (("--epsilon", "nan"), InvalidEpsilon, "finite"),
        (("--epsilon", "inf"), InvalidEpsilon, "finite"),
        (("--epsilon", "0"), InvalidEpsilon, "above 0"),
        (("--epsilon", "1", "--delta", "nan"), InvalidEpsilon, "between 0 and 1"),
        (("--epsilon", "1", "--yes", "--study", "nofile.yaml"), InvalidSetting, "nofile.yaml cannot be read"),
        (("--epsilon", "1", "--mapping", "nofile.yaml"), InvalidSetting, "nofile.yaml cannot be read"),
        (("--epsilon", "1", "--connection", "clinic", "--query", "SELECT 1"), InvalidSetting, "in one way"),
        (("--epsilon", "1"), InvalidSetting, "Nobody is there to ask"),
        ((), InvalidSetting, "no budget yet"),
        (("--epsilon", "50"), InvalidSetting, "Nobody is there to ask"),
    ],
)
def test_data_are_not_opened_with_mistaken_options(crossward, monkeypatch, options, kind, words):
    asked = Asked(monkeypatch, open_dataset=REPORT)
    with pytest.raises(kind, match=words):
        crossward("site", "data", "open", "a", "files/a.csv", "--person", "p", *options, *TOKEN)
    assert asked.calls == []


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (("a.csv", "--person", "p"), "names no root"),
        (("--person", "p"), "in one way"),
        (("--connection", "clinic", "--person", "p"), "in one way"),
        (("/srv/files/a.csv", "--person", "p"), "does not begin with the name of a root"),
        (("./files/a.csv", "--person", "p"), "does not begin with the name of a root"),
        (("files/../a.csv", "--person", "p"), "leaves its root"),
        (("files/a.csv", "--person", "p", "--separator", "::"), "cannot separate cells"),
        (("files/a.csv", "--person", "p", "--decimal", "x"), "no decimal sign"),
        (("--connection", "c", "--query", "SELECT 1", "--person", "p", "--decimal", ","), "has no separator"),
        (("files/a.csv",), "whom a record is about"),
    ],
)
def test_a_place_that_is_none_is_named(crossward, words, cause):
    for command in (("check",), ("open", "a", "--epsilon", "1", "--yes")):
        with pytest.raises(InvalidSetting, match=cause):
            crossward("site", "data", *command, *words, *TOKEN)


def test_opening_says_what_the_budget_means_and_how_it_is_undone(crossward, monkeypatch, tmp_path):
    mapping = tmp_path / "map.yaml"
    mapping.write_text("person: pid\nmissing: [NA]\n")
    asked = Asked(monkeypatch, open_dataset=REPORT)
    shown = crossward(
        "site", "data", "open", "hearts", "files/a.pq", "--mapping", mapping, "--epsilon", "2", "--yes", *TOKEN
    )
    for words in ("1,200 rows of 1,100 persons", "100 of them known", "7 records beyond", "data undo hearts"):
        assert words in " ".join(shown.split())
    [(_, name, place, columns, given)] = asked.calls
    assert (name, place) == ("hearts", {"kind": "parquet", "root": "files", "path": "a.pq"})
    assert columns == {"person": "pid", "missing": ["NA"]}
    assert (given["epsilon"], given["filter"], given["records_per_person"]) == (2.0, "basic", 1)
    sql = ("--connection", "clinic", "--query", "SELECT 1", "--person", "pid", "--yes", "--json")
    assert json.loads(crossward("site", "data", "open", "hearts", *sql, *TOKEN)) == REPORT
    assert asked.calls[-1][2] == {"kind": "sql", "connection": "clinic", "query": "SELECT 1"}
    somebody = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr("crossward_cli.data.sys", SimpleNamespace(stdin=somebody, stderr=sys.stderr))
    monkeypatch.setattr("typer.confirm", lambda question, abort: None)
    Asked(monkeypatch, budget=BUDGET, open_dataset=REPORT)
    meant = " ".join(crossward("site", "data", "open", "b", "files/b.csv", "--person", "pid", *TOKEN).split())
    assert "may lose epsilon 3, for life, in all data and studies together" in meant
    assert "with 50 % at most 95.3 %" in meant


def test_opening_says_what_the_study_cannot_use(crossward, monkeypatch):
    """It can be undone now, and not once it is charged."""
    command = ("site", "data", "open", "hearts", "files/a.csv", "--person", "p", "--yes", *TOKEN)
    Asked(monkeypatch, budget=BUDGET, open_dataset=REPORT)
    shown = crossward(*command)
    for words in ("study s1: 2 rows without a label", "count as missing: bmi 4.", "data check`", "undo hearts"):
        assert words in shown
    fit = REPORT["fit"] | {"positives": 0, "unlabelled": 1100}
    Asked(monkeypatch, budget=BUDGET, open_dataset=REPORT | {"fit": fit})
    assert "For the study s1: No label can be read." in crossward(*command)
    Asked(monkeypatch, budget=BUDGET, open_dataset=REPORT | {"fit": fit | {"unlabelled": 0}})
    assert "All labels are negative." in crossward(*command)
    good = fit | {"positives": 5, "unlabelled": 0, "features": {}}
    Asked(monkeypatch, budget=BUDGET, open_dataset=REPORT | {"fit": good})
    assert "For the study" not in crossward(*command)


def test_opening_says_what_lies_outside_of_the_range(crossward, monkeypatch):
    def feature(clipped):
        return {"missing": 100, "unread": 0, "clipped": clipped, "recoded": 0}

    features = {"bmi": feature(1), "hb": feature(900), "age": feature(110)}
    fit = REPORT["fit"] | {"rows": 1100, "positives": 5, "unlabelled": 0, "features": features}
    Asked(monkeypatch, budget=BUDGET, open_dataset=REPORT | {"fit": fit})
    shown = crossward("site", "data", "open", "hearts", "files/a.csv", "--person", "p", "--yes", *TOKEN)
    assert "outside of the study's range, which count as its end: hb 900, age 110." in " ".join(shown.split())


def test_opening_says_that_it_replaces_the_budget(crossward, monkeypatch):
    Asked(monkeypatch, budget=BUDGET, open_dataset=REPORT)
    command = ("site", "data", "open", "hearts", "files/a.csv", "--person", "p", "--yes", *TOKEN)
    assert "epsilon 3 becomes 50" in " ".join(crossward(*command, "--epsilon", "50").split())
    for options in ((), ("--epsilon", "3")):
        assert "becomes" not in crossward(*command, *options)


def test_who_loses_the_site_is_told_that_the_job_goes_on(crossward, monkeypatch):
    def gone(client, number):
        raise Unreachable("No answer.", "Ask again.")

    monkeypatch.setattr(SiteClient, "job", gone)
    with pytest.raises(Unreachable, match="The job goes on: crossward site data follow 7"):
        crossward("site", "data", "follow", "7", *TOKEN)


def test_a_large_budget_is_said_to_promise_little_and_a_name_must_be_plain(crossward, monkeypatch):
    Asked(monkeypatch, open_dataset=REPORT)
    command = ("files/a.csv", "--person", "p", *TOKEN)
    asking = ["site", "data", "open", "hearts", *command, "--epsilon", "50"]
    said = typer.testing.CliRunner().invoke(commands, asking).stdout
    assert "promises next to nothing" in " ".join(said.split())
    with pytest.raises(InvalidSetting, match="'My Hearts' cannot name a dataset"):
        crossward("site", "data", "open", "My Hearts", *command, "--epsilon", "1", "--yes")


def test_how_a_csv_is_written_may_be_told(crossward, monkeypatch):
    asked = Asked(monkeypatch, budget=BUDGET, open_dataset=REPORT, refresh_dataset=REPORT | {"version": 2})
    form = ("files/a.csv", "--separator", "tab", "--decimal", ",", "--encoding", "cp1252", *TOKEN)
    crossward("site", "data", "open", "hearts", "--person", "p", "--yes", *form)
    crossward("site", "data", "refresh", "hearts", *form)
    told = {"delimiter": "\t", "decimal": ",", "encoding": "cp1252"}
    assert [call[2] for call in asked.calls] == [{"kind": "csv", "root": "files", "path": "a.csv"} | told] * 2


def test_names_in_a_mapping_are_as_they_are_written(crossward, monkeypatch, tmp_path):
    """To YAML alone `no` is false, and 01 is 1."""
    mapping = tmp_path / "map.yaml"
    mapping.write_text("person: p\nfeatures: {sex: {column: sex, recode: {no: 1, 01: m, -9: null}}}\n")
    asked = Asked(monkeypatch, budget=BUDGET, open_dataset=REPORT)
    crossward("site", "data", "open", "hearts", "files/a.csv", "--mapping", mapping, "--yes", *TOKEN)
    assert asked.calls[0][3]["features"]["sex"]["recode"] == {"no": 1, "01": "m", "-9": None}
    mapping.write_text("person: [patient\n")
    with pytest.raises(InvalidSetting, match=r"map.yaml, line 2 cannot be read"):
        crossward("site", "data", "open", "hearts", "files/a.csv", "--mapping", mapping, "--yes", *TOKEN)


def test_who_stops_looking_is_told_that_the_job_goes_on(monkeypatch):
    def interrupted(client, *given, heard, **named):
        heard({"number": 7, "state": "running", "progress": 0.5, "step": "reading"})
        raise KeyboardInterrupt

    monkeypatch.setattr(SiteClient, "check_data", interrupted)
    for options in ((), ("--json",)):
        arguments = ["site", "data", "check", "files/a.csv", "--person", "p", *options, *TOKEN]
        left = typer.testing.CliRunner().invoke(commands, arguments)
        assert left.exit_code == 130
        assert "Job 7 goes on" in left.stderr
        assert "follow 7" in left.stderr
    assert json.loads(left.stderr)["error"] == "Interrupted"


def test_a_job_that_was_left_says_what_it_gave(crossward, monkeypatch):
    def leaves(kind, result, dataset="hearts"):
        job = {"number": 7, "kind": kind, "dataset": dataset, "state": "done", "result": result}
        monkeypatch.setattr(SiteClient, "job", lambda client, number: job)
        return " ".join(crossward("site", "data", "follow", "7", *TOKEN).split())

    assert "Job 7 is done: hearts is open: 1,200 rows" in leaves("open", REPORT)
    assert "hearts is at version 2" in leaves("refresh", REPORT | {"version": 2})
    assert "hearts is back at version 3." in leaves("undo", {"version": 3})
    assert "3 rows removed" in leaves("erase", {"rows": 3, "strangers": 0}, None)
    evaluation = {"auc": 0.8123, "interval": [0.75, 0.87], "records": 1234}
    assert "Job 7 is done: AUC 0.812 (95 %: 0.750 to 0.870) on 1,234 records" in leaves("evaluate", evaluation)
    paid = {"auc": 0.81, "deviation": 0.02, "release": {"nano_epsilon": 250_000_000}}
    assert "AUC 0.810, give or take 0.020 of noise. Paid with epsilon 0.25" in leaves("auc", paid)
    assert leaves("recover", {"line": 4}, None) == "Job 7 is done."


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("open", "Nothing was changed"),
        ("auc", "If it was charged, it stays so"),
        ("erase", "may be in sealed copies still"),
    ],
)
def test_a_job_that_was_cancelled_says_what_is_left_of_it(crossward, monkeypatch, kind, words):
    monkeypatch.setattr(SiteClient, "job", lambda client, number: {"kind": kind, "state": "cancelled"})
    with pytest.raises(Conflict, match=words):
        crossward("site", "data", "follow", "7", *TOKEN)


def test_a_refresh_says_who_came_and_who_left(crossward, monkeypatch, tmp_path):
    gone = {"rows": 2, "strangers": 1}
    asked = Asked(monkeypatch, refresh_dataset=REPORT | {"version": 2, "changed": 5}, erase=gone)
    ids = tmp_path / "ids.txt"
    ids.write_text("p1\n\n p2 \n")
    with pytest.raises(InvalidSetting, match="Nobody is there to ask"):
        crossward("site", "data", "refresh", "hearts", "--opt-out", ids, *TOKEN)
    assert asked.calls == []
    shown = " ".join(crossward("site", "data", "refresh", "hearts", "--opt-out", ids, "--yes", *TOKEN).split())
    for words in (
        "at version 2",
        "30 came, 20 whom the version before had are not in it, 1,070 stayed, 5 of them changed beyond belief",
        "undo hearts",
        "1 id named nobody who was ever here",
    ):
        assert words in shown
    assert [call[0] for call in asked.calls] == ["erase", "refresh_dataset"]
    assert asked.calls[0][1] == ["p1", "p2"]
    assert asked.calls[1][1:4] == ("hearts", None, None)


def test_undo_erase_recover_jobs(crossward, monkeypatch):
    job = {"number": 7, "kind": "open", "dataset": "a", "state": "running", "cause": "", "progress": 0.5}
    job |= {"asked": "2026-03-01T12:00:00Z"}
    gone = {"rows": 3, "strangers": 0}
    asked = Asked(monkeypatch, budget=BUDGET, undo_dataset={"version": None}, erase=gone, recover={"line": 9})
    assert "as if it had never been opened" in crossward("site", "data", "undo", "a", *TOKEN)
    assert "3 rows of 2 named persons removed" in crossward("site", "data", "erase", "p1", "p2", "--yes", *TOKEN)
    with pytest.raises(InvalidSetting, match="Nobody is there to ask"):
        crossward("site", "data", "erase", "p1", *TOKEN)
    with pytest.raises(InvalidSetting, match="Nobody is named"):
        crossward("site", "data", "erase", *TOKEN)
    with pytest.raises(InvalidSetting, match="Nobody is there to ask"):
        crossward("site", "recover", *TOKEN)
    assert "line 9" in crossward("site", "recover", "--yes", *TOKEN)
    assert [call[0] for call in asked.calls] == ["undo_dataset", "erase", "recover"]
    monkeypatch.setattr(SiteClient, "jobs", lambda client: [job])
    monkeypatch.setattr(SiteClient, "cancel_job", lambda client, number: job | {"state": "cancelled"})
    assert "50%" in crossward("site", "data", "jobs", *TOKEN)
    assert crossward("site", "data", "cancel", "7", *TOKEN) == "Job 7 is cancelled.\n"


def test_a_report_is_tables_for_people_and_json_for_machines(crossward, monkeypatch):
    monkeypatch.setattr(SiteClient, "report", lambda self, name, study, heard: REPORT)
    shown = crossward("site", "data", "report", "hearts", *TOKEN)
    for words in ("1,200 rows of 1,100 persons", "7 records beyond", "31", "study s1", "90 of them positive", "unread"):
        assert words in shown
    assert json.loads(crossward("site", "data", "report", "hearts", "--json", *TOKEN)) == REPORT


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
