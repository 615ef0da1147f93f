"""/approvals: what the steward is asked, and the answers."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field

from crossward.protocol.messages import TaskId
from crossward.values import Note, Slug
from crossward_service.http.views import Form
from crossward_site.access import OpenSite, SiteRunner
from crossward_site.approvals import service
from crossward_site.approvals.views import ApprovalsView
from crossward_site.tasks.views import TaskView

router = APIRouter(tags=["approvals"])


class Answer(Form):
    """The steward's answer. `dataset`: which to use, where several fit. `words` go with a refusal: they are public."""

    approve: bool
    dataset: Slug | None = None
    words: Annotated[Note, Field(max_length=500)] = ""


@router.get("/approvals")
def get_approvals(site: OpenSite) -> ApprovalsView:
    """What the steward is asked."""
    return ApprovalsView(approvals=service.waiting(site))


@router.post("/approvals/{task}")
def decide(site: OpenSite, runner: SiteRunner, task: TaskId, answer: Answer) -> TaskView:
    """Approve a task, or refuse it."""
    decided = service.answer(site, task, answer.approve, answer.dataset, answer.words)
    runner.wake()
    return TaskView.of(decided)
