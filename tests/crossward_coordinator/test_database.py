"""A database built by migrations is the database that the code expects."""

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

import crossward_coordinator.app  # noqa: F401  (all tables)
from crossward_coordinator.database import MIGRATIONS, metadata
from crossward_service.db.engine import connect, read


@pytest.fixture
def engine(url):
    made = connect(url)
    yield made
    made.dispose()


def test_migrations_lead_to_the_tables(engine):
    MIGRATIONS.upgrade(engine)
    with read(engine) as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, metadata) == []


def test_to_migrate_again_does_nothing(engine):
    MIGRATIONS.upgrade(engine)
    MIGRATIONS.upgrade(engine)
