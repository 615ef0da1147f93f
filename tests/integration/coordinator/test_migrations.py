"""A database built by migrations is the database that the code expects."""

import stat

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import text

from crossward.client.http import NEVER, HttpClient
from crossward.errors import InvalidSetting, NotReady
from crossward.protocol import keys
from crossward_coordinator.app import create_app
from crossward_coordinator.main import init, issue_token, serve
from crossward_coordinator.migrations import MIGRATIONS, migrate
from crossward_coordinator.settings import CoordinatorSettings
from crossward_coordinator.tables import metadata
from crossward_service.db.engine import connect, read, write


@pytest.fixture
def engine(url):
    made = connect(url)
    yield made
    made.dispose()


@pytest.fixture
def settings(sqlite_url, tmp_path):
    return CoordinatorSettings(data_dir=tmp_path / "data", database_url=sqlite_url, port=0)


def test_migrations_lead_to_the_tables(engine):
    migrate(engine)
    with read(engine) as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, metadata) == []


def test_to_migrate_again_does_nothing(engine):
    migrate(engine)
    migrate(engine)


def test_keys_revoked_before_the_time_was_kept(engine):
    """They were revoked with their party; of a party that came back, nobody knows when."""
    upgrade_to(engine, "0001")
    with write(engine) as connection:
        for party, state, since in (("gone", "revoked", 5.0), ("back", "active", 9.0)):
            row = {"party": party, "state": state, "since": since}
            connection.execute(
                text("INSERT INTO parties VALUES (:party, 'source', :state, '', :since, NULL, NULL)"), row
            )
            for key in ("revoked", "active"):
                row |= {"key": f"{party}-{key}", "key_state": key}
                connection.execute(text("INSERT INTO keys VALUES (:key, :party, 'x', :key_state, 1.0)"), row)
    migrate(engine)
    with read(engine) as connection:
        found = dict(connection.execute(text("SELECT key_id, revoked FROM keys")).all())
    assert found == {"gone-revoked": 5.0, "gone-active": None, "back-revoked": None, "back-active": None}


def upgrade_to(engine, revision):
    config = MIGRATIONS._config()
    with write(engine) as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


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


def test_a_database_of_another_release_is_not_served(settings):
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


def test_health_readiness_and_numbers(world):
    with HttpClient(world.url, retry=NEVER) as client:
        assert client.get("/healthz").json() == {"status": "alive"}
        assert client.get("/readyz").json() == {"status": "ready"}
        assert b"crossward_request_seconds" in client.get("/metrics").body
