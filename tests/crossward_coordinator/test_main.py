"""A coordinator is initialised once, with a key and tokens of its own, and serves no other's database."""

import stat

import pytest
from sqlalchemy import text

from crossward.errors import InvalidSetting, NotReady
from crossward.protocol import keys
from crossward_coordinator.app import create_app
from crossward_coordinator.main import init, issue_token, serve
from crossward_coordinator.settings import CoordinatorSettings
from crossward_service.db.engine import connect, read, write


@pytest.fixture
def settings(sqlite_url, tmp_path):
    return CoordinatorSettings(data_dir=tmp_path / "data", database_url=sqlite_url, port=0)


def test_init_shows_tokens_once_and_keeps_the_key_to_itself(settings):
    first, again = init(settings), init(settings)
    assert sorted(first.tokens) == ["auditor", "lead", "operator"]
    assert again.tokens == {}
    assert again.public_key == first.public_key
    assert stat.S_IMODE(settings.key_path.stat().st_mode) == 0o600
    engine = connect(settings.database_url)
    with read(engine) as connection:
        stored = str(connection.execute(text("SELECT * FROM tokens")).all())
    engine.dispose()
    assert not any(token in stored for token in first.tokens.values())
    assert issue_token(settings, "lead", "Dr. Chen").startswith("cw_lead_")


def test_another_key_does_not_sign_for_this_database(settings):
    init(settings)
    settings.key_path.unlink()
    keys.save(keys.generate(), settings.key_path)
    with pytest.raises(InvalidSetting, match="not the key of this database"):
        init(settings)
    with pytest.raises(InvalidSetting, match="not the key of this database"):
        serve(settings)


def test_a_database_of_another_version_is_not_served(settings):
    init(settings)
    engine = connect(settings.database_url)
    with write(engine) as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0000'"))
    engine.dispose()
    with pytest.raises(NotReady, match="0000"):
        serve(settings)


def test_an_empty_database_is_not_served(settings):
    settings.data_dir.mkdir()
    keys.save(keys.generate(), settings.key_path)
    with pytest.raises(NotReady, match="none"):
        serve(settings)


def test_importing_and_wiring_do_no_work(settings):
    """The app exists before its database does."""
    settings.data_dir.mkdir()
    keys.save(keys.generate(), settings.key_path)
    create_app(settings).state.engine.dispose()
