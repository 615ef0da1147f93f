"""Tokens in a table: shown once, kept hashed, found by their hash, gone when revoked."""

from __future__ import annotations

from enum import StrEnum

import pytest
from sqlalchemy import Engine, MetaData, select, text
from sqlalchemy.exc import IntegrityError

from crossward.errors import Conflict, InvalidSetting, NotFound
from crossward_service.db.engine import read, write
from crossward_service.db.tokens import LONGEST_NAME, HeldToken, Tokens
from crossward_service.http.access import Holder, hash_token


class Role(StrEnum):
    STEWARD = "steward"
    CLINIC = "clinic"


@pytest.fixture
def tokens(engine: Engine) -> Tokens[Role]:
    metadata = MetaData()
    tokens = Tokens(metadata, Role)
    with write(engine) as connection:
        metadata.create_all(connection)
    return tokens


def test_a_token_is_shown_once_and_found_by_its_hash(engine, tokens):
    with write(engine) as connection:
        assert not tokens.any(connection)
        secret = tokens.issue(connection, "steward", "ward 7", 5.0)
        assert tokens.any(connection)
    assert secret.startswith("cw_steward_")
    with read(engine) as connection:
        [row] = connection.execute(select(tokens.table)).all()
        assert secret not in map(str, row)
        holder = tokens.holder(connection, hash_token(secret))
        assert holder == Holder("ward 7", "steward", hash_token(secret))
        assert holder.role is Role.STEWARD
        assert tokens.holder(connection, hash_token(secret + "x")) is None
        assert tokens.holder(connection, secret) is None


def test_all_tokens_the_oldest_first_without_their_hashes(engine, tokens):
    with write(engine) as connection:
        for name, role, now in (("b", "clinic", 3.0), ("c", "clinic", 1.0), ("a", "steward", 3.0)):
            tokens.issue(connection, role, name, now)
        assert tokens.held(connection) == [
            HeldToken("c", Role.CLINIC, 1.0),
            HeldToken("a", Role.STEWARD, 3.0),
            HeldToken("b", Role.CLINIC, 3.0),
        ]


def test_a_revoked_token_opens_nothing(engine, tokens):
    with write(engine) as connection:
        secret, kept = (tokens.issue(connection, "clinic", name, 1.0) for name in ("one", "two"))
        tokens.revoke(connection, "one")
        assert tokens.holder(connection, hash_token(secret)) is None
        assert tokens.holder(connection, hash_token(kept)) is not None
        with pytest.raises(NotFound, match="Nobody named 'one'"):
            tokens.revoke(connection, "one")
        assert tokens.issue(connection, "clinic", "one", 2.0) != secret  # the name is free again


def test_one_name_holds_one_token(engine, tokens):
    with write(engine) as connection:
        tokens.issue(connection, "clinic", "one", 1.0)
        with pytest.raises(Conflict, match="'one' holds a token already"):
            tokens.issue(connection, "steward", "one", 2.0)
        assert len(tokens.held(connection)) == 1


@pytest.mark.parametrize("name", ["", "x" * (LONGEST_NAME + 1), "two\nlines", "\x1b[2J"])
def test_a_name_is_short_and_printable(engine, tokens, name):
    with write(engine) as connection, pytest.raises(InvalidSetting, match="printable"):
        tokens.issue(connection, "clinic", name, 1.0)
    with write(engine) as connection:
        tokens.issue(connection, "clinic", "x" * LONGEST_NAME, 1.0)


@pytest.mark.parametrize("role", ["", "Clinic", "auditor"])
def test_a_role_is_one_of_the_service_in_the_code_and_in_the_database(engine, tokens, role):
    with write(engine) as connection, pytest.raises(InvalidSetting, match="Use steward, clinic"):
        tokens.issue(connection, role, "one", 1.0)
    with pytest.raises(IntegrityError), write(engine) as connection:
        connection.execute(text(f"INSERT INTO tokens (hash, role, name, created) VALUES ('h', '{role}', 'n', 1)"))
