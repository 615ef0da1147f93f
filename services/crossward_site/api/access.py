"""Who is asking, and what a route works on."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from crossward_service.http.access import Holder, require
from crossward_site import access
from crossward_site.runner import Runner
from crossward_site.settings import SiteSettings
from crossward_site.site import Site


def _site(request: Request) -> Site:
    site: Site = request.app.state.site
    return site


def _runner(request: Request) -> Runner:
    runner: Runner = request.app.state.runner
    return runner


def _settings(request: Request) -> SiteSettings:
    settings: SiteSettings = request.app.state.settings
    return settings


def _lookup(request: Request, stored_hash: str) -> Holder | None:
    return access.holder_of(_site(request), stored_hash)


steward = require("steward", lookup=_lookup)
anyone = require("steward", "clinic", lookup=_lookup)

OpenSite = Annotated[Site, Depends(_site)]
SiteRunner = Annotated[Runner, Depends(_runner)]
Settings = Annotated[SiteSettings, Depends(_settings)]
