"""What was learned from which version of the data: so long as a release is owed, its version stays."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, func, select

from crossward.protocol.ledger.lines import LineKind
from crossward_site.data.tables import datasets
from crossward_site.models.tables import aucs
from crossward_site.site import Site
from crossward_site.tasks.tables import TaskState, tasks

_TASKS = select(tasks.c.id, tasks.c.state).where(
    tasks.c.dataset == bindparam("name"), tasks.c.version == bindparam("version")
)
_AUCS = select(aucs.c.task).where(aucs.c.dataset == bindparam("name"), aucs.c.version == bindparam("version"))
_CURRENT = select(datasets.c.version).where(datasets.c.name == bindparam("name"))


def first_version(connection: Connection, name: str) -> int:
    """The number of a new dataset's first version: one that no task or paid AUC is bound to.

    One of this name may have been here before the table of seats was lost; what was charged for it is not for this one.
    """
    bound = [
        connection.execute(select(func.max(table.c.version)).where(table.c.dataset == name)).scalar_one()
        for table in (tasks, aucs)
    ]
    return 1 + max(version or 0 for version in bound)


def is_needed(site: Site, connection: Connection, name: str, version: int) -> bool:
    """The current version, the one before while the current may be undone, and one of which a release is owed."""
    current = _current(connection, name)
    may_come_back = version == current - 1 and not is_charged(site, connection, name, current)
    return may_come_back or is_wanted(site, connection, name, version)


def is_wanted(site: Site, connection: Connection, name: str, version: int) -> bool:
    """The current version, and one of which a release is owed."""
    return version == _current(connection, name) or _is_owed(site, connection, name, version)


def _current(connection: Connection, name: str) -> int:
    return int(connection.execute(_CURRENT, {"name": name}).scalar_one())


def is_charged(site: Site, connection: Connection, name: str, version: int) -> bool:
    """Whether anybody has paid for a release from this version."""
    return any(_has(site, connection, LineKind.RESERVE, task) for task in _used(connection, name, version))


def _is_owed(site: Site, connection: Connection, name: str, version: int) -> bool:
    """Whether a release from this version was charged and does not exist yet, or is being made for nothing."""
    of = {"name": name, "version": version}
    if any(row.state is TaskState.RESERVED for row in connection.execute(_TASKS, of)):
        return True
    return any(
        _has(site, connection, LineKind.RESERVE, task) and not _has(site, connection, LineKind.RELEASE, task)
        for task in _used(connection, name, version)
    )


def _used(connection: Connection, name: str, version: int) -> list[str]:
    """The tasks and paid AUCs that were bound to a version as they were charged."""
    of = {"name": name, "version": version}
    found = [row.id for row in connection.execute(_TASKS, of)]
    return found + [row.task for row in connection.execute(_AUCS, of)]


def _has(site: Site, connection: Connection, kind: LineKind, task: str) -> bool:
    return site.ledger.find(connection, kind, task) is not None
