"""/ledger, /reconcile: what the site has spent, and that its coordinator agrees."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from crossward.values import LARGEST
from crossward_service.db.engine import read
from crossward_service.http.views import HeadView
from crossward_site.access import OpenSite, SiteRunner
from crossward_site.ledger import service
from crossward_site.ledger.views import AgreedView, LedgerView, SoundnessView

router = APIRouter(tags=["ledger"])

After = Annotated[int, Query(ge=0, le=LARGEST)]
Limit = Annotated[int, Query(ge=1, le=1000)]


@router.get("/ledger")
def get_ledger(site: OpenSite, after: After = 0, limit: Limit = 1000) -> LedgerView:
    """The ledger's lines after this one."""
    with read(site.engine) as connection:
        lines = [line.text for line in site.ledger.lines(connection, after, limit)]
        head = site.ledger.head(connection)
    return LedgerView(lines=lines, head=HeadView.of(head))


@router.get("/ledger/verify")
def verify_ledger(site: OpenSite) -> SoundnessView:
    """Check every line, and what was made of them."""
    return service.verify(site)


@router.post("/reconcile")
def reconcile(site: OpenSite, runner: SiteRunner) -> AgreedView:
    """Take over what the mirror has beyond this ledger, and go on if the two are one chain."""
    head = service.reconcile(site, runner.coordinator())
    runner.renew()
    return AgreedView(head=HeadView.of(head))
