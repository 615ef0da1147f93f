"""Single values of a site, by name."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import Connection, delete, select
from sqlalchemy.dialects import postgresql, sqlite

from crossward.protocol.canonical import canonical
from crossward_site.tables import facts


def get(connection: Connection, name: str) -> Any:
    """The value, or None."""
    found = connection.execute(select(facts.c.value).where(facts.c.name == name)).scalar_one_or_none()
    return None if found is None else json.loads(found)


def put(connection: Connection, name: str, value: Any) -> None:
    """Set a value; None forgets it."""
    if value is None:
        connection.execute(delete(facts).where(facts.c.name == name))
        return
    text = canonical(value).decode()
    dialect = postgresql if connection.dialect.name == "postgresql" else sqlite
    row = dialect.insert(facts).values(name=name, value=text)
    connection.execute(row.on_conflict_do_update(index_elements=["name"], set_={"value": text}))
