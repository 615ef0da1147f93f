"""Who is asking, and what a route works on."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from crossward_service.http.access import Holder, require
from crossward_site.data.jobs import JobRunner
from crossward_site.identity import tokens
from crossward_site.identity.tables import PersonRole
from crossward_site.models.service import Models
from crossward_site.settings import SiteSettings
from crossward_site.site import Site
from crossward_site.tasks.runner import Runner


def _site(request: Request) -> Site:
    site: Site = request.app.state.site
    return site


def _runner(request: Request) -> Runner:
    runner: Runner = request.app.state.runner
    return runner


def _jobs(request: Request) -> JobRunner:
    runner: JobRunner = request.app.state.jobs
    return runner


def _settings(request: Request) -> SiteSettings:
    settings: SiteSettings = request.app.state.settings
    return settings


def _models(request: Request) -> Models:
    models: Models = request.app.state.models
    return models


def _lookup(request: Request, stored_hash: str) -> Holder | None:
    return tokens.holder(_site(request), stored_hash)


steward = require(PersonRole.STEWARD, lookup=_lookup)
anyone = require(PersonRole.STEWARD, PersonRole.CLINIC, lookup=_lookup)

OpenSite = Annotated[Site, Depends(_site)]
SiteJobs = Annotated[JobRunner, Depends(_jobs)]
SiteRunner = Annotated[Runner, Depends(_runner)]
Settings = Annotated[SiteSettings, Depends(_settings)]
KnownModels = Annotated[Models, Depends(_models)]
