"""create_app(settings): the source's application."""

from __future__ import annotations

from fastapi import FastAPI

from crossward_site import app
from crossward_source.settings import SourceSettings


def create_app(settings: SourceSettings) -> FastAPI:
    """Open the site as a source and wire it; nothing happens at import."""
    return app.create_app(settings)
