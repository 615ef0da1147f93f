"""What opens data is declared in the settings file, and opens nothing of the site's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossward.errors import InvalidSetting
from crossward_connector.tables import Limits
from crossward_site.settings import SiteSettings


@pytest.fixture
def load(tmp_path: Path, monkeypatch):
    """Load settings from a file with these lines."""

    def load(text: str, **overrides):
        (tmp_path / "etc").mkdir(exist_ok=True)
        file = tmp_path / "etc" / "site.toml"
        file.write_text(f'data_dir = "{tmp_path}/site"\n{text}')
        monkeypatch.setenv("CROSSWARD_CONFIG", str(file))
        return SiteSettings.load(**overrides)

    return load


def test_roots_connections_and_limits_come_from_the_file(load, tmp_path) -> None:
    settings = load(
        f"""
        [data_roots]
        exports = "{tmp_path}/exports"
        [data_connections.clinic]
        url = "postgresql://reader:hunter2@db/clinic"
        seconds = 600
        [data_limits]
        rows = 1000
        """
    )
    assert settings.sources.roots == {"exports": tmp_path / "exports"}
    assert settings.sources.connections["clinic"].seconds == 600
    assert settings.data_limits.limits == Limits(rows=1000)
    assert load("").data_limits.limits == Limits()
    shown = str(settings.describe())
    assert "exports" in shown
    assert "hunter2" not in shown + repr(settings)


@pytest.mark.parametrize("name", ["DATA_ROOTS", "DATA_CONNECTIONS", "DATA_LIMITS", "data_roots"])
def test_the_environment_opens_nothing(load, name, monkeypatch) -> None:
    monkeypatch.setenv(f"CROSSWARD_{name}", '{"x": "/srv"}')
    with pytest.raises(InvalidSetting, match=f"{name.lower()} cannot come from the environment. Remove"):
        load("")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[data_roots]\nx = "/"', "the system's"),
        ('[data_roots]\nx = "HOME/site"', "keeps to itself"),
        ('[data_roots]\nx = "HOME"', "keeps to itself"),
        ('[data_roots]\nx = "HOME/site/deep"', "keeps to itself"),
        ('[data_roots]\nx = "HOME/etc"', "keeps to itself"),
        ('[data_roots]\n"No Slug" = "HOME/x"', "data_roots"),
        ('[data_connections.x]\nurl = "mysql://u:hunter2@host/db"', "is not read"),
        ('[data_connections.x]\nurl = "sqlite:///HOME/site/site.sqlite3"', "site itself"),
        ('[data_connections.x]\nurl = "sqlite:///HOME/x.db"\nmore = 1', "data_connections"),
        (
            'database_url = "postgresql://s@db/site"\n[data_connections.x]\nurl = "postgresql://r:hunter2@DB:5432/site"',
            "own",
        ),
        (
            'database_url = "postgresql://s@/site?host=/run/x"\n[data_connections.x]\nurl = "postgresql://r@localhost/site"',
            "own",
        ),
        (
            'database_url = "sqlite:///HOME/other.db"\n[data_connections.x]\nurl = "sqlite:///HOME/other.db"',
            "site itself",
        ),
        ("[data_limits]\nrows = 0", "data_limits"),
        ("[data_limits]\nmemory = 5", "data_limits"),
    ],
)
def test_what_reaches_the_sites_own_is_refused_at_start(load, tmp_path, text, words) -> None:
    with pytest.raises(InvalidSetting, match=words) as refusal:
        load(text.replace("HOME", str(tmp_path)))
    assert "hunter2" not in str(refusal.value)


def test_another_database_of_the_same_server_may_be_read(load) -> None:
    load('database_url = "postgresql://s@db/site"\n[data_connections.x]\nurl = "postgresql://r@db/clinic"')
