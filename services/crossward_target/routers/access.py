"""What a target's routes work on, beside what every site's do."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from crossward_site.models import Models


def _models(request: Request) -> Models:
    models: Models = request.app.state.models
    return models


KnownModels = Annotated[Models, Depends(_models)]
