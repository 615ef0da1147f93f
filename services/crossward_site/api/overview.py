"""/status, /tasks, /ledger: what the site is, does, and has spent."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from crossward_service.db.engine import read
from crossward_site import tasks
from crossward_site.api.access import OpenSite, SiteRunner
from crossward_site.api.views import LedgerView, SoundnessView, StatusView, TasksView
from crossward_site.status import status, task_of, verify

router = APIRouter(tags=["overview"])

After = Annotated[int, Query(ge=0, le=2**53)]
Limit = Annotated[int, Query(ge=1, le=1000)]


@router.get("/status", response_model=StatusView)
def get_status(site: OpenSite, runner: SiteRunner) -> dict[str, Any]:
    """The whole site at a glance."""
    return status(site, runner.trouble)


@router.get("/tasks", response_model=TasksView)
def get_tasks(site: OpenSite) -> dict[str, Any]:
    """Every task the site took, in the order they came."""
    with read(site.engine) as connection:
        return {"tasks": [task_of(task) for task in tasks.listed(connection)]}


@router.get("/ledger", response_model=LedgerView)
def get_ledger(site: OpenSite, after: After = 0, limit: Limit = 1000) -> dict[str, Any]:
    """The ledger's lines after this one."""
    with read(site.engine) as connection:
        lines = [line.to_dict() for line in site.ledger.lines(connection, after, limit)]
        head = site.ledger.head(connection)
    return {"lines": lines, "head": {"sequence": head.sequence, "hash": head.hash}}


@router.get("/ledger/verify", response_model=SoundnessView, response_model_exclude_unset=True)
def verify_ledger(site: OpenSite) -> dict[str, Any]:
    """Check every line, and what was made of them."""
    return verify(site)
