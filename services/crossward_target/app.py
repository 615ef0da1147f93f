"""create_app(settings): the target's application."""

from __future__ import annotations

from fastapi import FastAPI

from crossward_site import app
from crossward_target.settings import TargetSettings


def create_app(settings: TargetSettings) -> FastAPI:
    """Open the site as a target and wire it; nothing happens at import."""
    return app.create_app(settings)
