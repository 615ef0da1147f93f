"""What a deployment begins with: tokens, certificates and secrets in files, made once and kept."""

import stat

import pytest
import typer.testing

from crossward.client import Client, SiteClient
from crossward.errors import CrosswardError, InvalidSetting, NotReady
from crossward_cli.main import commands
from crossward_service.ops.files import secret_of, write_file


def crossward(*arguments):
    done = typer.testing.CliRunner().invoke(commands, [str(word) for word in arguments])
    if isinstance(done.exception, CrosswardError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("role", "kinds"),
    [("coordinator", ("operator", "lead", "auditor")), ("source", ("steward",)), ("target", ("steward",))],
)
def test_first_tokens_go_into_files_and_stay(tmp_path, role, kinds):
    home, folder = tmp_path / "home", tmp_path / "tokens"
    for _ in range(2):
        assert "cw_" not in crossward(role, "init", "--data-dir", home, "--tokens", folder)
        made = {path.name: path.read_text() for path in folder.iterdir()}
        assert made.keys() == set(kinds)
    for kind, token in made.items():
        assert token.startswith(f"cw_{kind}_")
        assert mode(folder / kind) == 0o600
    (folder / kinds[0]).unlink()  # as if it had been killed before writing it
    crossward(role, "init", "--data-dir", home, "--tokens", folder)
    assert (folder / kinds[0]).read_text() != made[kinds[0]]


@pytest.mark.parametrize(
    ("role", "kind", "roles"),
    [
        ("coordinator", "lead", "operator, lead, auditor"),
        ("source", "steward", "steward"),
        ("target", "clinic", "clinic"),
    ],
)
def test_a_token_is_of_a_known_role_and_of_a_service_that_is_there(tmp_path, role, kind, roles):
    home, nowhere = tmp_path / "home", tmp_path / "nowhere"
    crossward(role, "init", "--data-dir", home)
    assert crossward(role, "token", kind, "Dr. Chen", "--data-dir", home).startswith(f"cw_{kind}_")
    with pytest.raises(InvalidSetting, match=r"'banana' is not a role.*" + roles):
        crossward(role, "token", "banana", "x", "--data-dir", home)
    with pytest.raises(InvalidSetting, match="64 printable"):
        crossward(role, "token", kind, "x" * 65, "--data-dir", home)
    for folder in (nowhere, tmp_path):
        with pytest.raises(NotReady, match=r"is not there.*right data directory"):
            crossward(role, "token", kind, "x", "--data-dir", folder)
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_a_secret_is_made_once(tmp_path):
    crossward("secret", tmp_path / "password")
    made = (tmp_path / "password").read_text()
    assert len(made) >= 43
    assert mode(tmp_path / "password") == 0o600
    crossward("secret", tmp_path / "password")
    assert (tmp_path / "password").read_text() == made
    crossward("secret", "--group", tmp_path / "shared")
    assert mode(tmp_path / "shared") == 0o640


def test_certificates_for_several_services(tmp_path):
    services = [f"coordinator,study.example.org={tmp_path / 'c'}", f"main={tmp_path / 'm'}"]
    arguments = ("tls", "--ca", tmp_path / "ca", "--trust", tmp_path / "trust", "--group", *services)
    assert crossward(*arguments).count("made") == 2
    assert mode(tmp_path / "m" / "key.pem") == 0o640
    assert [path.name for path in (tmp_path / "trust").iterdir()] == ["ca.pem"]
    assert crossward(*arguments).count("still good") == 2
    with pytest.raises(InvalidSetting, match="NAME=FOLDER"):
        crossward("tls", "--ca", tmp_path / "ca", "main")


def test_a_token_may_be_given_by_a_file(tmp_path):
    write_file(tmp_path / "token", b"cw_lead_x\n")
    assert secret_of(f"@{tmp_path / 'token'}") == "cw_lead_x"
    assert secret_of("cw_lead_x") == "cw_lead_x"
    with pytest.raises(InvalidSetting, match="nowhere"):
        secret_of(f"@{tmp_path / 'nowhere'}")


def test_the_command_line_reads_it(tmp_path, monkeypatch):
    write_file(tmp_path / "token", b"cw_lead_x\n")
    seen = []
    monkeypatch.setattr(Client, "studies", lambda self: seen.append(self._http._http.auth._secret) or [])
    monkeypatch.setattr(SiteClient, "status", lambda self: seen.append(self._http._http.auth._secret) or {})
    crossward("study", "list", "--json", "--token", f"@{tmp_path / 'token'}")
    monkeypatch.setenv("CROSSWARD_SITE_TOKEN", f"@{tmp_path / 'token'}")
    crossward("site", "status", "--json")
    assert seen == ["cw_lead_x", "cw_lead_x"]


def test_a_simulated_hospitals_records_are_written_once(tmp_path):
    file = tmp_path / "patients.csv"
    assert "2,316" in crossward("demo", "records", "branch-12", file)
    lines = file.read_text().splitlines()
    assert len(lines) == 2317
    assert lines[0].startswith("patient,")
    assert lines[0].endswith(",diabetes")
    file.write_text("kept")
    assert "stays" in crossward("demo", "records", "branch-12", file)
    assert file.read_text() == "kept"
    with pytest.raises(InvalidSetting, match="1 to 16"):
        crossward("demo", "records", "branch-17", tmp_path / "other.csv")
    with pytest.raises(InvalidSetting, match="elsewhere"):
        crossward("demo", "records", "elsewhere", tmp_path / "other.csv")
