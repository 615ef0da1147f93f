"""Tokens are listed and revoked by whoever may run commands on the service's machine, while it runs."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from crossward.client import Client, SiteClient
from crossward.errors import Conflict, CrosswardError, NotFound, NotReady, WrongToken
from crossward_cli.main import commands
from crossward_lab.demo.processes import Service


def crossward(*arguments, home) -> str:
    done = CliRunner().invoke(commands, [*arguments, "--data-dir", str(home)], env={"COLUMNS": "200"})
    if isinstance(done.exception, CrosswardError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize(
    ("role", "kind", "first"),
    [
        ("coordinator", "lead", ["first auditor", "first lead", "first operator"]),
        ("source", "steward", ["steward"]),
        ("target", "clinic", ["steward"]),
    ],
)
def test_tokens_are_listed_without_their_secret_and_revoked_by_name(tmp_path, role, kind, first) -> None:
    home = tmp_path / "home"
    shown = crossward(role, "init", home=home)
    token = crossward(role, "token", kind, "ward [3]", home=home).strip()
    with pytest.raises(Conflict, match="holds a token already"):
        crossward(role, "token", kind, "ward [3]", home=home)
    listed, table = crossward(role, "tokens", "--json", home=home), crossward(role, "tokens", home=home)
    held = json.loads(listed)
    assert sorted(one["name"] for one in held) == [*first, "ward [3]"]
    assert held[-1]["role"] == kind
    assert held[-1]["since"].endswith("+00:00")
    assert "ward [3]" in table
    assert "cw_" in shown
    assert not any(word in listed + table for word in ("cw_", token))
    assert "ward [3]" in crossward(role, "revoke-token", "ward [3]", home=home)
    assert "ward [3]" not in crossward(role, "tokens", home=home)
    with pytest.raises(NotFound, match="ward"):
        crossward(role, "revoke-token", "ward [3]", home=home)
    crossward(role, "token", kind, "ward [3]", home=home)  # the name is free again
    for command in (("tokens",), ("revoke-token", "steward")):
        with pytest.raises(NotReady, match="right data directory"):
            crossward(role, *command, home=tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize(
    ("role", "kind", "client", "ask"),
    [("coordinator", "lead", Client, Client.studies), ("target", "steward", SiteClient, SiteClient.status)],
)
def test_a_running_service_refuses_a_revoked_token_at_once(tmp_path, role, kind, client, ask) -> None:
    crossward(role, "init", home=tmp_path)
    tokens = [crossward(role, "token", kind, name, home=tmp_path).strip() for name in ("ward-3", "ward-4")]
    service = Service(role, tmp_path)
    try:
        with client(service.url, tokens[0]) as revoked, client(service.url, tokens[1]) as other:
            ask(revoked)
            crossward(role, "revoke-token", "ward-3", home=tmp_path)
            with pytest.raises(WrongToken):
                ask(revoked)
            ask(other)
    finally:
        service.stop()
