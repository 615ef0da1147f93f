"""Settings: file below environment below arguments; nothing unknown, no secret nobody chose, none shown."""

import base64
import math
import random
import secrets

import pytest
from pydantic import SecretStr
from sqlalchemy.engine import make_url

from crossward.errors import InvalidSetting
from crossward_service.http.settings import ServiceSettings


class SiteSettings(ServiceSettings):
    database_name = "site.sqlite3"
    local_token: SecretStr | None = None
    pause: float = 1.0


@pytest.fixture
def config(tmp_path, monkeypatch):
    def write(text):
        path = tmp_path / "service.toml"
        path.write_text(text)
        monkeypatch.setenv("CROSSWARD_CONFIG", str(path))

    return write


def test_defaults_keep_to_this_machine():
    settings = ServiceSettings.load()
    assert settings.host == "127.0.0.1"
    assert settings.database_url == "sqlite:///crossward-data/crossward.sqlite3"
    assert not settings.serves_tls


def test_arguments_over_environment_over_file(config, monkeypatch):
    config('port = 1\nhost = "::1"\nlog_level = "DEBUG"\ndata_dir = "/srv/cw"\n')
    monkeypatch.setenv("CROSSWARD_PORT", "2")
    monkeypatch.setenv("CROSSWARD_HOST", "localhost")
    settings = SiteSettings.load(port=3)
    assert (settings.port, settings.host, settings.log_level) == (3, "localhost", "DEBUG")
    assert settings.database_url == "sqlite:////srv/cw/site.sqlite3"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("prot = 1\n", "prot"),
        ('port = "hunter2"\n', "port"),
        ("port = 70000\n", "port"),
        ('tls_cert = "a.pem"\n', "tls_key"),
        ('public_url = "hunter2"\n', "address"),
        ('log_level = "LOUD"\n', "log_level"),
        ("port = = 1\n", "cannot be read"),
    ],
)
def test_a_wrong_setting_is_named(config, text, named):
    config(text)
    with pytest.raises(InvalidSetting, match=named):
        ServiceSettings.load()


def test_a_missing_file_is_not_ignored(monkeypatch, tmp_path):
    monkeypatch.setenv("CROSSWARD_CONFIG", str(tmp_path / "nowhere.toml"))
    with pytest.raises(InvalidSetting, match="not there"):
        ServiceSettings.load()


@pytest.mark.parametrize("said", [(), ("file",), ("variable",), ("file", "variable")], ids=" and ".join)
def test_what_is_wrong_is_to_be_corrected_where_it_was_said(config, monkeypatch, tmp_path, said):
    if "file" in said:
        config("prot = 1\n")
    if "variable" in said:
        monkeypatch.setenv("CROSSWARD_LOG_LEVEL", "LOUD")
    with pytest.raises(InvalidSetting) as refused:
        ServiceSettings.load(**({} if said else {"port": -1}))
    places = {"file": str(tmp_path / "service.toml"), "variable": "CROSSWARD_LOG_LEVEL"}
    named = " and ".join(places[one] for one in reversed(said)) or "the CROSSWARD_* variables"
    assert refused.value.fix == f"Correct {named}."


@pytest.mark.parametrize(
    "secret", ["", "short", "changeme-changeme", "your-secret-goes-here", "a" * 40, "Password123456789"]
)
def test_a_secret_nobody_chose_is_refused_and_not_repeated(monkeypatch, secret):
    monkeypatch.setenv("CROSSWARD_LOCAL_TOKEN", secret)
    with pytest.raises(InvalidSetting, match="local_token") as refused:
        SiteSettings.load()
    assert not secret or secret not in str(refused.value)


def test_random_secrets_pass():
    """Always the same two hundred: of so many, one in 50,000 runs would draw a word such as "secret"."""
    chance = random.Random(1)
    for _ in range(200):
        SiteSettings.load(local_token=base64.urlsafe_b64encode(chance.randbytes(32)).decode().rstrip("="))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://cw:hunter2@db:5432/cw",
        "postgresql://db/cw?user=cw&password=hunter2",
        "postgresql://cw:hun/ter2@db/cw",
    ],
)
def test_describing_hides_secrets(url):
    chosen = secrets.token_urlsafe(32)
    settings = SiteSettings.load(local_token=chosen, database_url=url)
    shown = str(settings.describe())
    assert "db" in shown
    for hidden in ("hunter2", "ter2", chosen):
        assert hidden not in shown
        assert hidden not in repr(settings)


def test_a_databases_password_comes_from_a_file_and_is_not_shown(tmp_path):
    file = tmp_path / "password"
    file.write_text("hun/ter2@:%\n")
    settings = ServiceSettings.load(database_url="postgresql://cw@db:5432/cw?x=1", database_password_file=file)
    assert make_url(settings.database_url).password == "hun/ter2@:%"
    assert make_url(settings.database_url).host == "db"
    assert "ter2" not in str(settings.describe())


@pytest.mark.parametrize("pause", [0.1, 1e-300, math.inf])
def test_another_process_is_told_all_settings_and_looks_at_nothing_else(tmp_path, monkeypatch, pause):
    file = tmp_path / "password"
    file.write_text("hun/ter2@:%\n")
    given = {"database_url": "postgresql://cw@db/cw", "database_password_file": file, "tls_ca": tmp_path / "ca.pem"}
    settings = SiteSettings.load(**given, port=7, pause=pause)
    file.unlink()
    monkeypatch.setenv("CROSSWARD_PORT", "9")
    monkeypatch.setenv("CROSSWARD_CONFIG", str(tmp_path / "nowhere"))
    told = SiteSettings.from_json(settings.to_json())
    assert told == settings.model_copy(update={"database_password_file": None})


def test_a_secret_is_not_told_and_missed_at_once():
    settings = SiteSettings.load(local_token=secrets.token_urlsafe(32))
    assert settings.local_token.get_secret_value() not in settings.to_json()
    with pytest.raises(ValueError, match="a secret of fewer"):
        SiteSettings.from_json(settings.to_json())


@pytest.mark.parametrize("url", ["postgresql://db/cw", "postgresql://cw:other@db/cw"])
def test_a_password_file_wants_an_address_with_a_user_and_no_password(tmp_path, url):
    (tmp_path / "password").write_text("hunter2")
    with pytest.raises(InvalidSetting, match="user@host") as refused:
        ServiceSettings.load(database_url=url, database_password_file=tmp_path / "password")
    assert "hunter2" not in str(refused.value)
    with pytest.raises(InvalidSetting, match="cannot be read"):
        ServiceSettings.load(database_url="postgresql://cw@db/cw", database_password_file=tmp_path / "nowhere")
