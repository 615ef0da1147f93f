"""/status: the whole site at a glance."""

from __future__ import annotations

from fastapi import APIRouter

from crossward_site.access import OpenSite, SiteRunner
from crossward_site.desk import service
from crossward_site.desk.views import StatusView

router = APIRouter(tags=["desk"])


@router.get("/status")
def get_status(site: OpenSite, runner: SiteRunner) -> StatusView:
    """The whole site at a glance."""
    return service.status(site, runner.trouble)
