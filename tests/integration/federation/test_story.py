"""A study from file to predictions over real services, as `crossward demo` and the command line show it."""

import json
import math
import os
import subprocess
import sys

import pytest
import yaml

import forked
from crossward.client.coordinator import Client
from crossward.client.site import SiteClient
from crossward.errors import AccessRefused, BudgetExceeded, CrosswardError, NotFound
from crossward.protocol import keys
from crossward.protocol.certificate import verify_certificate
from crossward.protocol.envelopes import SignedRelease
from crossward.protocol.ledger.chain import first_difference, verify
from crossward_lab.demo.federation import SimulatedOwner
from crossward_lab.demo.people import BUDGET
from crossward_lab.demo.records import DATASET, first_record
from crossward_lab.demo.story import ALONE, TOGETHER, run, studies

REFUSED = 2
COLOURED = ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "TTY_COMPATIBLE")
"""What would put colours between the words, wherever they are printed."""


@pytest.fixture(scope="module")
def story(federation):
    told = []
    patient, owner = first_record(federation.targets[0].hospital), SimulatedOwner(federation)
    progress = lambda study, done: told.append((study, done))  # noqa: E731
    found = run(federation.people, "pst-h", 1.0, patient, progress, owner.nonprivate_auc)
    assert (ALONE, 1.0) in told
    assert (TOGETHER, 1.0) in told
    return found


def crossward(federation, *arguments, role="lead", site=None, code=0):
    environment = {name: value for name, value in os.environ.items() if name not in COLOURED} | {
        "CROSSWARD_COORDINATOR": federation.coordinator.url,
        "CROSSWARD_TOKEN": federation.tokens[role],
        "COLUMNS": "160",
    }
    if site is not None:
        environment |= {"CROSSWARD_SITE": site.service.url, "CROSSWARD_SITE_TOKEN": site.token}
    command = [sys.executable, "-m", "crossward_cli", *map(str, arguments)]
    done = forked.run(command, env=environment)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout if code != REFUSED else done.stderr


def test_every_epsilon_is_accounted_for_on_both_sides(federation, story):
    assert story.ledgers_agree
    assert story.source.epsilon_spent == 1.0
    for row in story.targets:
        assert (row.epsilon_spent, row.epsilon_left) == (2.0, BUDGET - 2.0)
        assert 0.5 < row.auc_nonprivate < 1
    auditor = federation.client("auditor")
    for site in federation.sites:
        own, mirror = site.client.ledger(), auditor.ledger(site.name)
        assert first_difference(own, mirror) is None
        assert verify(own).head == own[-1].head


def test_a_target_predicts_for_its_own_patients(federation, story):
    one = story.prediction["predictions"][0]
    assert 0 < one["probability"] < 1
    assert len(one["contributions"]) == 2 + 1
    assert story.prediction["release"]
    site = federation.targets[0]
    with pytest.raises(CrosswardError):
        site.client.predict("no-such-study", [{}])


def test_the_certificate_says_who_released_what(story):
    for word in ("main", "branch-1", "branch-2", "replace-one-record", "objective-perturbation"):
        assert word in story.certificate


def test_a_study_beyond_the_budget_is_declined_and_nothing_is_charged(federation, story):
    lead = federation.client("lead")
    dear = studies(federation.people, "simcomb", 4.5)[0].model_copy(update={"id": "dear"})
    lead.create(dear.to_yaml())
    lead.start("dear")
    assert [event.kind for event in lead.watch("dear")]
    ended = lead.study("dear")
    assert ended["state"] == "failed"
    assert {task["state"] for task in ended["tasks"]} == {"declined"}
    for site in federation.targets:
        assert site.client.budget()["epsilon_spent"] == 2.0


def test_a_paid_auc_is_charged_to_the_holdout(federation, story):
    site = federation.targets[1]
    before = site.client.budget()
    released = site.client.release_auc(TOGETHER, 0.5)
    assert 0 <= released["auc"] <= 1
    assert site.client.release_auc(TOGETHER, 0.5)["auc"] == released["auc"]
    cells = site.client.budget()["cells"]
    assert [cell["epsilon_spent"] for cell in cells[16:]] == [0.5] * 4
    assert site.client.budget()["epsilon_spent"] == before["epsilon_spent"]
    with pytest.raises(BudgetExceeded, match="per study"):
        site.client.release_auc(TOGETHER, 1.9)
    site.client.set_policy({"decide": "approve"})
    with pytest.raises(BudgetExceeded, match="spent"):
        site.client.release_auc(TOGETHER, 4.9)


def test_wrong_tokens_and_roles_are_refused(federation):
    with Client(federation.coordinator.url, "cw_lead_" + "x" * 43) as stranger, pytest.raises(AccessRefused):
        stranger.studies()
    auditor = federation.client("auditor")
    with pytest.raises(AccessRefused):
        auditor.invite("evil", "source")
    with SiteClient(federation.source.service.url, federation.targets[0].token) as other, pytest.raises(AccessRefused):
        other.status()
    with pytest.raises(NotFound):
        federation.client("lead").study("nothing")


def left_to_auto(study):
    """The file that a lead would write for this study."""
    chosen = {"encoding", "chosen", "method"}
    return yaml.safe_dump(study.model_dump(mode="json", exclude=chosen, exclude_none=True) | {"method": "auto"})


def test_the_command_line_follows_a_study_from_file_to_certificate(federation, story, tmp_path):
    file = tmp_path / "study.yaml"
    study = studies(federation.people, "auto", 0.5)[1].model_copy(update={"id": "by-hand"})
    file.write_text(left_to_auto(study))
    assert "sound" in crossward(federation, "study", "check", file)
    assert study.digest in crossward(federation, "study", "create", file)
    assert json.loads(crossward(federation, "study", "start", "by-hand", "--json"))["id"] == "by-hand"
    crossward(federation, "study", "watch", "by-hand")
    shown = " ".join(crossward(federation, "study", "show", "by-hand").split())
    assert "complete" in shown
    assert "auto chose simcomb" in shown
    assert "by-hand" in crossward(federation, "study", "list")
    assert "epsilon" in crossward(federation, "study", "certificate", "by-hand")
    certificate = tmp_path / "certificate.json"
    certificate.write_text(crossward(federation, "study", "certificate", "by-hand", "--json"))
    key = federation.client("lead").about()["public_key"]
    assert "by-hand" in crossward(federation, "study", "verify", certificate, "--key", key)
    stranger = keys.public_text(keys.generate())
    assert "error" in crossward(federation, "study", "verify", certificate, "--key", stranger, code=2)
    bundle = tmp_path / "bundle"
    assert str(bundle) in crossward(federation, "study", "bundle", "by-hand", bundle, role="auditor")
    assert "exists already" in crossward(federation, "study", "bundle", "by-hand", bundle, role="auditor", code=2)
    alone = [sys.executable, "-I", bundle / "verify.py", "bundle", bundle, "--key", key]
    said = subprocess.run(alone, capture_output=True, text=True, timeout=600, check=True).stdout
    assert "verified" in said
    assert said == crossward(federation, "study", "verify", bundle, "--key", key)
    assert "NOT verified" in crossward(federation, "study", "verify", bundle, "--key", stranger, code=1)
    certified = verify_certificate(certificate.read_text(), key)
    digest = next(party.release.digest for party in certified.parties if party.release is not None)
    assert SignedRelease.from_json(crossward(federation, "study", "release", digest).strip()).digest == digest
    assert json.loads(crossward(federation, "study", "release", digest, "--receipt"))
    assert "branch-1" in crossward(federation, "party", "list", role="operator")
    assert "code" in crossward(federation, "party", "invite", "late", "--role", "target", "--json", role="operator")

    site = federation.targets[0]
    assert "well" in crossward(federation, "site", "status", site=site)
    assert json.loads(crossward(federation, "site", "policy", "--json", site=site))["decide"] == "approve"
    assert "AUC" in crossward(federation, "evaluate", "by-hand", site=site)
    assert "rows" in crossward(federation, "site", "data", "report", DATASET, site=site)
    ledger = tmp_path / "ledger.txt"
    crossward(federation, "ledger", "export", ledger, site=site)
    assert "verified" in crossward(federation, "ledger", "verify", ledger)
    mirror = tmp_path / "mirror.txt"
    crossward(federation, "ledger", "mirror", site.name, mirror, role="auditor")
    assert mirror.read_bytes() == ledger.read_bytes()
    paid = crossward(federation, "release-auc", "by-hand", "--epsilon", "0.25", "--json", site=site)
    assert 0 <= json.loads(paid)["auc"] <= 1
    records = tmp_path / "patients.csv"
    lines = site.records.read_text().splitlines()[:4]
    records.write_text("\n".join(lines))
    predicted = json.loads(crossward(federation, "predict", "by-hand", records, "--json", site=site))
    assert len(predicted["predictions"]) == 3
    for one in predicted["predictions"]:  # of the columns that auto kept, and the declared rate
        margin = math.fsum(part["contribution"] for part in one["contributions"])
        assert one["probability"] == pytest.approx(1 / (1 + math.exp(-margin)))
        assert one["contributions"][-1]["group"] == "intercept"
    assert "error" in crossward(federation, "study", "show", "nothing", code=2)
