"""Single values of a site, each by its name and of its own type."""

from __future__ import annotations

import json
from typing import Generic, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter
from sqlalchemy import Connection, bindparam, delete, select

from crossward.protocol.canonical import canonical
from crossward.protocol.constants import Role
from crossward.protocol.ledger.lines import Head
from crossward_service.db.engine import InPlace
from crossward_site.tables import facts

T = TypeVar("T")

_VALUE = select(facts.c.value).where(facts.c.name == bindparam("name"))
_PUT = InPlace(facts, facts.c.value)
_FORGET = delete(facts).where(facts.c.name == bindparam("name"))


class Fact(Generic[T]):
    """One value that a site knows, or does not know yet."""

    def __init__(self, name: str, kind: TypeAdapter[T]) -> None:
        self.name, self._kind = name, kind

    def get(self, connection: Connection) -> T | None:
        """The value, or None."""
        text = connection.execute(_VALUE, {"name": self.name}).scalar_one_or_none()
        return None if text is None else self._kind.validate_python(json.loads(text))

    def put(self, connection: Connection, value: T) -> None:
        """Set the value."""
        text = canonical(self._kind.dump_python(value, mode="json")).decode()
        _PUT.put(connection, {"name": self.name, "value": text})

    def forget(self, connection: Connection) -> None:
        """From now on there is no value."""
        connection.execute(_FORGET, {"name": self.name})


class StoredIdentity(BaseModel):
    """Who the site was enrolled as, the file of its key, and the coordinator it joined."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    party: str
    role: Role
    key_file: str
    coordinator_url: str
    coordinator_key: str


IDENTITY = Fact("identity", TypeAdapter(StoredIdentity))

NEXT_KEY = Fact("next_key", TypeAdapter(str))
"""The file of the key that a rotation, or another enrolment, has prepared and not finished."""

SECRET_FINGERPRINT = Fact("secret", TypeAdapter(str))
"""By this the database knows the secret that its persons were hashed with."""

MIRROR_HEAD = Fact("mirror", TypeAdapter(Head))
"""The last head that the coordinator confirmed."""

STOPPED = Fact("stopped", TypeAdapter(str))
"""Why the site has stopped; nothing while it works."""

SEATS_LOST = Fact("seats", TypeAdapter(str))
"""Why the table of seats cannot be used; nothing while it can."""
