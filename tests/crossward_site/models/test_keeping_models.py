"""Whose model a study id names, and who can open one that was sealed."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from crossward.errors import Conflict, Forged
from crossward.protocol.constants import TaskKind
from crossward.study.wire import task_message
from crossward_service.db.engine import write
from crossward_site.models import service as models
from crossward_site.models.service import seal, unseal
from crossward_site.tasks import service as tasks


def test_a_sealed_model_opens_only_here() -> None:
    sealed = seal(b"a" * 32, b"weights")
    assert unseal(b"a" * 32, sealed) == b"weights"
    with pytest.raises(Forged):
        unseal(b"b" * 32, sealed)
    with pytest.raises(Forged):
        unseal(b"a" * 32, sealed[:-1] + b"x")


def test_no_other_studys_model_takes_the_place_of_one(site, study) -> None:
    other = study.model_copy(update={"title": "Another"})
    trained = SimpleNamespace(n=0, model=None)
    with write(site.engine) as connection:
        one, two = (
            tasks.take(site, connection, task_message(given, id=id, kind=TaskKind.TRAIN_TARGET, lease_seconds=10))
            for id, given in (("one", study), ("two", other))
        )
        models.keep(site, connection, one, trained, None)
        models.keep(site, connection, one, trained, None)
        with pytest.raises(Conflict, match="another study's model"):
            models.keep(site, connection, two, trained, None)
