"""Sources that the quorum was reached without.

A source that has not paid yet is told to stop, and keeps its budget. One that has paid may finish: its charge stands
whatever happens, so its release is taken and gets its receipt, but nobody learns from it. What the targets learn from
is fixed when the quorum is reached, and is the same for all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row

from crossward_coordinator.workflows import mirror
from crossward_coordinator.workflows.rows import OPEN, RUNNING


def is_gathering(study: Row[Any], tasks: Sequence[Row[Any]]) -> bool:
    """Whether a study still waits for its quorum of sources."""
    return study.state == "sources" and all(task.kind == "train-source" for task in tasks)


def is_late(study: Row[Any], task: Row[Any], tasks: Sequence[Row[Any]]) -> bool:
    """Whether a result of this task would come after the quorum, while the study goes on without it."""
    if task.kind != "train-source" or study.state not in RUNNING or is_gathering(study, tasks):
        return False
    return task.state in OPEN or task.state == "cancelled"


def is_paid(connection: Connection, task: Row[Any]) -> bool:
    """Whether the mirror has the charge of a task. A site shows it there before it reads a record."""
    return mirror.of(task.party).find(connection, "reserve", task.id) is not None
