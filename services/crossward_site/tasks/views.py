"""What a site answers about its tasks."""

from __future__ import annotations

from typing import Self

from crossward.protocol.constants import DeclineReason, TaskKind
from crossward.protocol.times import Time, moment
from crossward_service.http.views import View
from crossward_site.tasks.service import Task
from crossward_site.tasks.tables import TaskState


class TaskView(View):
    """A task as the steward sees it. `trouble` is why a step last failed; it is never sent."""

    id: str
    study: str
    kind: TaskKind
    state: TaskState
    dataset: str | None
    reason: DeclineReason | None
    cause: str
    trouble: str
    progress: float
    attempt: int
    taken: Time
    updated: Time

    @classmethod
    def of(cls, task: Task) -> Self:
        """A task without what only the site's own steps need."""
        return cls(
            id=task.id,
            study=task.study_id,
            kind=task.kind,
            state=task.state,
            dataset=task.dataset,
            reason=task.reason,
            cause=task.cause,
            trouble=task.trouble,
            progress=task.progress,
            attempt=task.attempt,
            taken=moment(task.taken),
            updated=moment(task.updated),
        )


class TasksView(View):
    """Every task, in the order they came."""

    tasks: list[TaskView]
