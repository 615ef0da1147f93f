"""A coordinator that makes tasks, keys and releases up, and what stops it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import delete, update

from crossward.errors import Forged
from crossward.protocol import keys
from crossward.protocol.envelopes import SignedRelease
from crossward.protocol.tasks import TaskMessage
from crossward_service.db.engine import write
from crossward_site.coordinator import OfferedKey
from crossward_site.identity import pins
from crossward_site.identity.service import Identity
from crossward_site.models import tables as model_tables
from crossward_site.tasks import tables as task_tables
from crossward_site.tasks.steps import advance
from crossward_site.tasks.tables import TaskState


def ran(federation, given, **rules):
    """A study, carried as far as it goes."""
    main, branch = federation.hospital("main", "source"), federation.hospital("branch", "target", rows=1500)
    branch.policy(**{"decide": "approve"} | rules)
    federation.start(given)
    main.settle()
    branch.drive()
    return main, branch


def test_the_coordinators_key_verifies_the_aggregate_only(federation, study) -> None:
    branch = federation.hospital("branch", "target")
    line = branch.new_runner().coordinator()
    with pytest.raises(Forged, match="does not sign models"):
        pins.key_finder(branch.site, line)("coordinator", "any")
    assert pins.key_finder(branch.site, line, aggregate=True)("coordinator", "any") == line.identity.verifier
    with pytest.raises(Forged, match="does not sign aggregates"):
        pins.key_finder(branch.site, line, aggregate=True)("main", "any")


def test_no_source_is_called_coordinator(federation, study) -> None:
    branch = federation.hospital("branch", "target")
    refused = branch.offered(study(method="sourced", sources=("coordinator",)))
    assert (refused.state, refused.reason) == ("declining", "unsupported")
    assert "called 'coordinator'" in refused.cause


def test_no_other_study_takes_a_known_id(federation, study) -> None:
    _, branch = ran(federation, study(method="direct", epsilon=1.0))
    refused = branch.offered(study(method="direct", epsilon=2.0))
    assert (refused.state, refused.reason) == ("declining", "unsupported")
    with write(branch.site.engine) as connection:  # the ledger remembers, even where the tasks are forgotten
        for table in (model_tables.models, task_tables.outbox, task_tables.tasks):
            connection.execute(delete(table))
    assert branch.offered(study(method="direct", epsilon=2.0)).state == "declining"
    assert branch.offered(study(method="direct", epsilon=1.0), "t2").state == "approved"


def test_first_use_pins_the_key_that_signed_and_no_other(federation, study, monkeypatch) -> None:
    main, branch = federation.hospital("main", "source"), federation.hospital("branch", "target")
    line = branch.new_runner().coordinator()
    own, other = Identity.load(main.site), keys.generate()
    offered = [OfferedKey(keys.public_text(key), revoked=None) for key in (other, own.key)]
    monkeypatch.setattr(line, "keys_of", lambda party: offered)
    find = pins.key_finder(branch.site, line)
    find("main", own.key_id)
    with pytest.raises(Forged):
        find("main", keys.key_id(other.public_key()))


def test_no_task_stands_on_an_aucs_charge(federation, study) -> None:
    branch = federation.hospital("branch", "target")
    given = study(method="direct")
    refused = branch.offered(given, "auc:2000000000:x")
    assert (refused.state, refused.reason) == ("declining", "unsupported")
    with write(branch.site.engine) as connection:  # nor one that was cancelled, and goes on as if it were charged
        connection.execute(update(task_tables.tasks).values(state=TaskState.RESERVED))
    assert branch.stepped(replace(refused, state=TaskState.RESERVED)).state == "held"


def test_a_forged_release_is_refused_whoever_the_key_is(federation, study) -> None:
    """A false signature under the right key's name is the coordinator's fault, and is said."""
    main, branch = federation.hospital("main", "source"), federation.hospital("branch", "target")
    federation.start(study())
    main.settle()
    runner = branch.new_runner()
    assert runner.take()
    [task] = branch.tasks()
    release, own = task.message.inputs[0], Identity.load(main.site)
    false = SignedRelease.sign(release.content(), keys.generate())
    false = false.model_copy(update={"key_id": own.key_id})
    refused = branch.offered(task.study, "other", inputs=(false,))
    assert (refused.state, refused.reason) == ("declining", "unfit-inputs")


def test_a_target_believes_no_key_but_the_sources_own(federation, study) -> None:
    main, branch = federation.hospital("main", "source"), federation.hospital("branch", "target")
    branch.policy(decide="approve", pinned_keys_only=True)
    federation.start(study())
    main.settle()
    runner = branch.new_runner()
    runner.take()
    [task] = branch.tasks()
    refused = advance(branch.site, runner.coordinator(), task)
    assert (refused.state, refused.reason) == ("declining", "unfit-inputs")

    find = pins.key_finder(branch.site, runner.coordinator())
    release = TaskMessage.from_json(task.document).inputs[0]
    with pytest.raises(Forged):
        find("main", release.key_id)
    with write(branch.site.engine) as connection:
        pins.pin(connection, "main", keys.public_text(keys.generate()), 1.0)
    with pytest.raises(Forged):
        find("main", release.key_id)
    with write(branch.site.engine) as connection:
        pins.pin(connection, "main", keys.public_text(Identity.load(main.site).key), 1.0)
    assert release.verify(find("main", release.key_id)).party == "main"
