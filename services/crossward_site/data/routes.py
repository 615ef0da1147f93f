"""/datasets, /jobs: check, open, refresh, undo and erase data as jobs; read the local report.

Whatever may take a while is answered at once with a job, which the client follows.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from crossward.values import LARGEST, Slug
from crossward_service.db.engine import read
from crossward_service.http.views import Form
from crossward_site.access import OpenSite, SiteJobs
from crossward_site.data import jobs, requests
from crossward_site.data.jobs import JobRunner
from crossward_site.data.report import ReportView
from crossward_site.data.service import Vault, load_datasets
from crossward_site.data.tables import JobKind
from crossward_site.data.views import BudgetView, DatasetsView, DatasetView, JobsView, JobView
from crossward_site.site import Site
from crossward_site.tasks import service as tasks

router = APIRouter(tags=["datasets"])

Number = Annotated[int, Path(ge=1, le=LARGEST)]


def asked(site: Site, runner: JobRunner, kind: JobKind, request: Form, dataset: str | None = None) -> JobView:
    """A job that was asked for; the same again while it has not ended is that job."""
    job = jobs.ask(site, kind, request.model_dump(mode="json"), dataset)
    runner.wake()
    return JobView.of(job)


@router.get("/datasets")
def get_datasets(site: OpenSite) -> DatasetsView:
    """Every dataset, and what everyone's one budget has left."""
    with read(site.engine) as connection:
        balance = site.ledger.balance(connection)
        return DatasetsView(
            datasets=[DatasetView.of(dataset) for dataset in load_datasets(connection)],
            budget=None if balance is None else BudgetView.of(balance),
        )


@router.post("/datasets/check", status_code=202)
def check_data(site: OpenSite, runner: SiteJobs, new: requests.Check) -> JobView:
    """Look at data and tell every problem at once; nothing is opened, nothing is kept."""
    return asked(site, runner, JobKind.CHECK, new)


@router.post("/datasets", status_code=202)
def open_dataset(site: OpenSite, runner: SiteJobs, new: requests.Open) -> JobView:
    """Open a dataset: read it once, seal it, seat its persons."""
    return asked(site, runner, JobKind.OPEN, new, new.name)


@router.post("/datasets/{name}/versions", status_code=202)
def refresh_dataset(site: OpenSite, runner: SiteJobs, name: Slug, new: requests.Refresh) -> JobView:
    """Bring the data as they are now: persons keep their seats and cells their spend."""
    Vault(site).dataset(name)
    return asked(site, runner, JobKind.REFRESH, requests.NamedRefresh(name=name, **new.model_dump()), name)


@router.post("/datasets/{name}/undo", status_code=202)
def undo_version(site: OpenSite, runner: SiteJobs, name: Slug, whole: bool = False) -> JobView:
    """Take the last version back, or the whole dataset; refused once anything was charged for it."""
    Vault(site).dataset(name)
    return asked(site, runner, JobKind.UNDO, requests.Undo(name=name, whole=whole), name)


@router.get("/datasets/{name}/report")
def get_report(site: OpenSite, name: Slug) -> ReportView:
    """Rows, persons and missing values, as they were when the version was sealed. It stays here."""
    return Vault(site).report(name)


@router.post("/datasets/{name}/fit", status_code=202)
def fit_study(site: OpenSite, runner: SiteJobs, name: Slug, new: requests.Fit) -> JobView:
    """How the sealed records fit a study that the site has a task of. It stays here."""
    Vault(site).dataset(name)
    tasks.known_study(site, new.study)
    return asked(site, runner, JobKind.FIT, requests.NamedFit(name=name, study=new.study), name)


@router.post("/erasures", status_code=202)
def erase(site: OpenSite, runner: SiteJobs, new: requests.Erase) -> JobView:
    """Remove persons from every sealed copy, and keep them out; what was spent stays spent."""
    return asked(site, runner, JobKind.ERASE, new)


@router.post("/recovery", status_code=202)
def recover(site: OpenSite, runner: SiteJobs) -> JobView:
    """Go on where the table of seats is lost: every cell is then at the largest spend, and data are opened anew."""
    return asked(site, runner, JobKind.RECOVER, requests.Nothing())


@router.get("/jobs")
def get_jobs(site: OpenSite) -> JobsView:
    """The last jobs, the newest first; what one gave is with the job itself."""
    with read(site.engine) as connection:
        return JobsView(jobs=[JobView.of(job) for job in jobs.listed(connection)])


@router.get("/jobs/{number}")
def get_job(site: OpenSite, number: Number) -> JobView:
    """How far a job has come."""
    with read(site.engine) as connection:
        return JobView.of(jobs.find(connection, number))


@router.delete("/jobs/{number}")
def cancel_job(site: OpenSite, runner: SiteJobs, number: Number) -> JobView:
    """End a job; what it did not finish has not happened.

    An AUC that was charged stays so, and can be asked again. Persons who were erased from some copies are gone there.
    """
    job = jobs.cancel(site, number)
    runner.wake()
    return JobView.of(job)
