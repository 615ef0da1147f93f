"""/policy and /approvals: what is refused, approved by itself, or asked."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from crossward.protocol.messages.base import TaskId
from crossward.values import Note, Slug
from crossward_service.db.engine import read, write
from crossward_site import approvals
from crossward_site.api.access import OpenSite, SiteRunner
from crossward_site.api.views import ApprovalsView, TaskView
from crossward_site.policy import Policy
from crossward_site.status import task_of

router = APIRouter(tags=["decisions"])


class Decision(BaseModel):
    """The steward's answer. `dataset`: which to use, where several fit. `words` go with a refusal: they are public."""

    model_config = ConfigDict(extra="forbid")

    approve: bool
    dataset: Slug | None = None
    words: Annotated[Note, Field(max_length=500)] = ""


@router.get("/policy")
def get_policy(site: OpenSite) -> Policy:
    """The rules now."""
    with read(site.engine) as connection:
        return Policy.load(connection)


@router.put("/policy")
def put_policy(site: OpenSite, policy: Policy) -> Policy:
    """New rules, for tasks that are not decided yet."""
    with write(site.engine) as connection:
        policy.save(connection)
    return policy


@router.get("/approvals", response_model=ApprovalsView, response_model_exclude_unset=True)
def get_approvals(site: OpenSite) -> dict[str, Any]:
    """What the steward is asked."""
    return {"approvals": approvals.waiting(site)}


@router.post("/approvals/{task}", response_model=TaskView)
def decide(site: OpenSite, runner: SiteRunner, task: TaskId, decision: Decision) -> dict[str, Any]:
    """Approve a task, or refuse it."""
    decided = approvals.answer(site, task, decision.approve, decision.dataset, decision.words)
    runner.wake()
    return task_of(decided)
