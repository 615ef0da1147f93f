"""A key has one id, and is found by it and its party."""

import pytest

from crossward.errors import Forged
from crossward.protocol import keys
from crossward.protocol.constants import Role
from crossward.protocol.states import KeyState
from crossward_coordinator.database import MIGRATIONS
from crossward_coordinator.parties import service
from crossward_coordinator.parties.signatures import DatabaseKeys
from crossward_service.db.engine import connect, write


@pytest.fixture
def engine(url):
    engine = connect(url)
    MIGRATIONS.upgrade(engine)
    yield engine
    engine.dispose()


def enrol(connection, party, key):
    code = service.invite(connection, party, Role.SOURCE, f"code-{party}", now=1.0, lasts=60.0).code
    service.enrol(connection, code, keys.public_text(key), 1, now=2.0)


def test_a_key_is_found_by_its_id_and_its_party(engine):
    key, other = keys.generate(), keys.generate()
    name = keys.key_id(key)
    with write(engine) as connection:
        enrol(connection, "main", key)
        enrol(connection, "west", other)
        assert service.find_key(connection, "main", name).public_key == keys.public_text(key)
        assert service.find_key(connection, "west", name) is None
        assert service.find_key(connection, "main", name[:-1]) is None
        assert service.find_key(connection, "main", name + "0" * 16) is None


def test_what_a_key_may_sign_in_each_state(engine):
    """An active key signs requests and releases, a rotated one what was released before, a revoked one nothing."""
    old, new = keys.generate(), keys.generate()
    requests = DatabaseKeys(engine)
    with write(engine) as connection:
        enrol(connection, "main", old)
        service.rotate(connection, "main", keys.public_text(new), now=3.0)
        assert service.find_key(connection, "main", keys.key_id(old)).state is KeyState.ROTATED
        for key in (old, new):
            found = service.release_key(connection, "main", keys.key_id(key))
            assert keys.public_text(found) == keys.public_text(key)
    assert requests("main", keys.key_id(old)).revoked
    assert not requests("main", keys.key_id(new)).revoked
    with write(engine) as connection:
        assert service.revoke(connection, "main", now=4.0)
        for key in (old, new):
            with pytest.raises(Forged):
                service.release_key(connection, "main", keys.key_id(key))
        assert {key.revoked for key in service.keys_of(connection, ["main"])["main"]} == {4.0}
    assert requests("main", keys.key_id(new)).revoked
    assert requests("west", keys.key_id(new)) is None
