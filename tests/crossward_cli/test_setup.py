"""What a deployment begins with: certificates and secrets in files, made once and kept."""

import json
import stat

import pytest

from crossward.errors import InvalidSetting, StorageFailed


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_secret_is_made_once(crossward, tmp_path):
    crossward("secret", tmp_path / "password")
    made = (tmp_path / "password").read_text()
    assert len(made) >= 43
    assert mode(tmp_path / "password") == 0o600
    crossward("secret", tmp_path / "password")
    assert (tmp_path / "password").read_text() == made
    crossward("secret", "--group", tmp_path / "shared")
    assert mode(tmp_path / "shared") == 0o640


def test_a_secret_makes_no_folder(crossward, tmp_path):
    with pytest.raises(StorageFailed, match="nodir is not there"):
        crossward("secret", tmp_path / "nodir" / "x")
    assert not (tmp_path / "nodir").exists()


def test_certificates_for_several_services(crossward, tmp_path):
    services = [f"coordinator,study.example.org={tmp_path / 'c'}", f"main={tmp_path / 'm'}"]
    arguments = ("tls", "--ca", tmp_path / "ca", "--trust", tmp_path / "trust", "--group", *services)
    assert crossward(*arguments).count("made") == 2
    assert mode(tmp_path / "m" / "key.pem") == 0o640
    assert [path.name for path in (tmp_path / "trust").iterdir()] == ["ca.pem"]
    assert crossward(*arguments).count("still good") == 2
    with pytest.raises(InvalidSetting, match="NAME=FOLDER"):
        crossward("tls", "--ca", tmp_path / "ca", "main")


def test_machines_are_told_what_is_new(crossward, tmp_path):
    secret = ("secret", tmp_path / "password", "--json")
    assert [json.loads(crossward(*secret))["new"] for _ in range(2)] == [True, False]
    tls = ("tls", "--ca", tmp_path / "ca", f"main,main.example.org={tmp_path / 'tls'}", "--json")
    assert [json.loads(crossward(*tls))[0]["new"] for _ in range(2)] == [True, False]
    assert json.loads(crossward(*tls))[0]["names"] == ["main", "main.example.org"]
