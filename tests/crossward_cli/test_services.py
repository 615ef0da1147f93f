"""Tokens of a service: the first ones in files, made once and kept; further ones by whoever runs it. The doctor."""

import json
import re
import stat
import tomllib
from pathlib import Path

import pytest
import typer.testing

from crossward.client import Client, SiteClient
from crossward.errors import InvalidSetting, NotReady
from crossward.protocol.constants import Role
from crossward_cli.main import commands
from crossward_service.db.engine import connect, write
from crossward_service.ops.files import secret_of, write_file
from crossward_site import facts
from crossward_site.settings import DataLimits, SiteSettings


@pytest.mark.parametrize(
    ("role", "kinds"),
    [("coordinator", ("operator", "lead", "auditor")), ("source", ("steward",)), ("target", ("steward",))],
)
def test_first_tokens_go_into_files_and_stay(crossward, tmp_path, role, kinds):
    home, folder = tmp_path / "home", tmp_path / "tokens"
    for _ in range(2):
        assert "cw_" not in crossward(role, "init", "--data-dir", home, "--tokens", folder)
        made = {path.name: path.read_text() for path in folder.iterdir()}
        assert made.keys() == set(kinds)
    for kind, token in made.items():
        assert token.startswith(f"cw_{kind}_")
        assert stat.S_IMODE((folder / kind).stat().st_mode) == 0o600
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
def test_a_token_is_of_a_known_role_and_of_a_service_that_is_there(crossward, tmp_path, role, kind, roles):
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


def test_a_token_may_be_given_by_a_file(crossward, tmp_path):
    write_file(tmp_path / "token", b"cw_lead_x\n")
    assert secret_of(f"@{tmp_path / 'token'}") == "cw_lead_x"
    assert secret_of("cw_lead_x") == "cw_lead_x"
    with pytest.raises(InvalidSetting, match="nowhere"):
        secret_of(f"@{tmp_path / 'nowhere'}")


def test_the_command_line_reads_it(crossward, tmp_path, monkeypatch):
    write_file(tmp_path / "token", b"cw_lead_x\n")
    seen = []
    monkeypatch.setattr(Client, "studies", lambda self: seen.append(self._http._http.auth._secret) or [])
    monkeypatch.setattr(SiteClient, "status", lambda self: seen.append(self._http._http.auth._secret) or {})
    crossward("study", "list", "--json", "--token", f"@{tmp_path / 'token'}")
    monkeypatch.setenv("CROSSWARD_SITE_TOKEN", f"@{tmp_path / 'token'}")
    crossward("site", "status", "--json")
    assert seen == ["cw_lead_x", "cw_lead_x"]


def test_machines_are_told_of_tokens(crossward, tmp_path):
    home, folder = tmp_path / "home", tmp_path / "tokens"
    said = json.loads(crossward("target", "init", "--data-dir", home, "--tokens", folder, "--json"))
    assert said == {"data_dir": str(home), "token_files": {"steward": str(folder / "steward")}}
    said = json.loads(crossward("target", "token", "clinic", "ward-3", "--data-dir", home, "--json"))
    assert (said["role"], said["name"]) == ("clinic", "ward-3")
    assert said["token"].startswith("cw_clinic_")


def test_a_new_site_gets_a_settings_file_with_examples(crossward, tmp_path, monkeypatch):
    home, file = tmp_path / "home", tmp_path / "home" / "settings.toml"
    said = crossward("target", "init", "--data-dir", home)
    assert f"settings are {file}" in said.replace("\n", "")
    assert "which folders and databases may be read" in " ".join(said.split())
    assert file.stat().st_mode & 0o777 == 0o600
    assert tomllib.loads(file.read_text()) == {}  # all of it is commented out
    plain = [line.removeprefix("# ") for line in file.read_text().splitlines() if re.match(r"# (\[|[a-z_]+ = )", line)]
    file.write_text("\n".join(plain))
    settings = SiteSettings.load(data_dir=home)
    assert settings.data_roots == {"exports": Path("/srv/exports")}
    assert settings.data_connections.keys() == {"clinic"}
    assert settings.data_limits == DataLimits()
    again = json.loads(crossward("source", "init", "--data-dir", home, "--json"))  # one that is there stays
    assert (again["settings_file"], file.read_text()) == (str(file), "\n".join(plain))
    assert examined(home)["observation"] == f"A site, by the variables CROSSWARD_* and {file}."
    other = tmp_path / "other.toml"
    other.write_text('[data_roots]\nfiles = "/srv/files"\n')
    monkeypatch.setenv("CROSSWARD_CONFIG", str(other))
    assert str(other) in crossward("site", "init", "--data-dir", tmp_path / "named").replace("\n", "")
    assert not (tmp_path / "named" / "settings.toml").exists()
    monkeypatch.delenv("CROSSWARD_CONFIG")
    assert "settings" not in crossward("coordinator", "init", "--data-dir", tmp_path / "hub")
    assert not (tmp_path / "hub" / "settings.toml").exists()


def examined(home):
    """What the doctor says of the settings, told nothing but a data directory."""
    done = typer.testing.CliRunner().invoke(commands, ["doctor", "--data-dir", str(home), "--json"])
    return json.loads(done.stdout)[0]


def join_as(role, home):
    """As if the site had joined."""
    engine = connect(SiteSettings(data_dir=home).database_url)
    with write(engine) as connection:
        identity = facts.StoredIdentity(
            party="p", role=role, key_file="p.key", coordinator_url="http://127.0.0.1:1", coordinator_key="k"
        )
        facts.IDENTITY.put(connection, identity)
    engine.dispose()


def test_the_doctor_sees_which_service_it_is(crossward, tmp_path):
    crossward("coordinator", "init", "--data-dir", tmp_path / "coordinator")
    assert examined(tmp_path / "coordinator")["observation"].startswith("A coordinator, ")
    for role in Role:
        home = tmp_path / role
        crossward(role, "init", "--data-dir", home)
        assert examined(home)["observation"].startswith("A site, ")
        join_as(role, home)
        assert examined(home)["observation"].startswith(f"A {role}, ")


def test_the_doctor_asks_where_it_cannot_see_which_service_it_is(crossward, tmp_path):
    assert "cannot be seen" in examined(tmp_path)["observation"]
    for service in ("coordinator", "site"):
        crossward(service, "init", "--data-dir", tmp_path)
    said = examined(tmp_path)
    assert (said["check"], said["verdict"]) == ("settings", "fault")
    assert "crossward doctor coordinator | source | target | site" in said["fix"]
