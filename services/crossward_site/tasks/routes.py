"""/tasks: what the site was asked to do, and how far it has come."""

from __future__ import annotations

from fastapi import APIRouter

from crossward_service.db.engine import read
from crossward_site.access import OpenSite
from crossward_site.tasks import service
from crossward_site.tasks.views import TasksView, TaskView

router = APIRouter(tags=["tasks"])


@router.get("/tasks")
def get_tasks(site: OpenSite) -> TasksView:
    """Every task the site took, in the order they came."""
    with read(site.engine) as connection:
        return TasksView(tasks=[TaskView.of(task) for task in service.listed(connection)])
