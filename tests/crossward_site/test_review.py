"""Rules that need no coordinator: leads, tasks without data, digests of charges, whose model a study id names."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from crossward.errors import Conflict, NotFound
from crossward.privacy.budget import Cost
from crossward.privacy.release import Release, parallel
from crossward.protocol.messages import TaskMessage
from crossward_service.db.engine import write
from crossward_site import outbox, pins, tasks
from crossward_site.policy import Policy, Request, decide, digest_of


@pytest.mark.parametrize(
    ("rules", "lead", "what"),
    [
        ({"decide": "approve"}, "", "approve"),
        ({"decide": "approve", "leads": ("dr-*",)}, "dr-may", "approve"),
        ({"decide": "approve", "leads": ("dr-*",)}, "mallory", "refuse"),
        ({"decide": "approve", "leads": ("dr-*",)}, "", "refuse"),
        ({"decide": "approve", "methods": ("pst-h",)}, "", "refuse"),
        ({"decide": "approve", "minimum_rows": 10, "epsilon_lifetime": 0.0}, "", "approve"),
        ({}, "", "ask"),
    ],
)
def test_policy_of_a_task_without_data(study, rules, lead, what) -> None:
    assert decide(Policy(**rules), Request(study, Cost(0), None, Cost(0), None, lead)).what == what


def test_a_charge_does_not_name_the_codes_version() -> None:
    part = Release.of("one", 1.0, {"n": 5})
    both, newer = parallel("both", part, part), replace(part, version="99.0")
    assert digest_of(part) == digest_of(newer)
    assert digest_of(both) == digest_of(replace(parallel("both", newer, part), version="98.0"))
    assert digest_of(part) != digest_of(Release.of("one", 1.0, {"n": 6}))
    assert digest_of(both) != digest_of(parallel("both", part, Release.of("one", 1.0, {"n": 6})))


def test_a_task_of_an_older_coordinator_names_no_lead(study) -> None:
    message = TaskMessage.of(study, id="t", kind="train-target", lease_seconds=10)
    assert TaskMessage.model_validate(message.model_dump(exclude={"lead"})).lead == ""


def test_no_other_studys_model_takes_the_place_of_one(site, study) -> None:
    other = study.model_copy(update={"title": "Another"})
    trained = SimpleNamespace(n=0, model=None)
    with write(site.engine) as connection:
        one, two = (
            tasks.take(site, connection, TaskMessage.of(given, id=id, kind="train-target", lease_seconds=10))
            for id, given in (("one", study), ("two", other))
        )
        outbox._keep_model(site, connection, one, trained, None)
        outbox._keep_model(site, connection, one, trained, None)
        with pytest.raises(Conflict, match="another study's model"):
            outbox._keep_model(site, connection, two, trained, None)


def test_only_a_pin_that_is_there_comes_off(site) -> None:
    with write(site.engine) as connection, pytest.raises(NotFound, match="pinned here"):
        pins.unpin(connection, "main", "none")
