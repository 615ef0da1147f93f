"""Services of two versions of the protocol, as processes: one apart they run a whole study together.

What the next version will change is not known yet, so the later services here differ in the number alone: they show
that everyone finds the version that all can read, and writes it.
"""

import base64
import json
import os
from pathlib import Path

import pytest

from crossward.client.bundle import write_bundle
from crossward.errors import UnknownVersion
from crossward.protocol.certificate import SignedCertificate
from crossward.protocol.envelopes import SignedRelease
from crossward_lab.demo import federation as demo
from crossward_lab.demo.story import studies
from crossward_lab.simulate.hospitals import Federation

STARTUP = "import os\nfrom crossward.protocol import versions\nversions.NEWEST = int(os.environ['TEST_PROTOCOL'])\n"
"""What every Python process under a service runs first, workers too."""


@pytest.fixture
def speaking(tmp_path, monkeypatch):
    """A federation whose services speak these versions."""
    early = tmp_path / "early"
    early.mkdir()
    (early / "sitecustomize.py").write_text(STARTUP)
    start, before = demo.Service, os.environ.get("PYTHONPATH", "")

    def begin(**newest):
        def service(name, folder: Path):
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("PYTHONPATH", f"{early}{os.pathsep}{before}" if before else str(early))
                patch.setenv("TEST_PROTOCOL", str(newest[folder.name.replace("-", "_")]))
                return start(name, folder)

        monkeypatch.setattr(demo, "Service", service)
        hospitals = Federation.simulate(branches=1, seed=1, scale=0.1)
        return demo.LocalFederation(tmp_path / "federation", hospitals)

    return begin


@pytest.mark.parametrize(
    ("newest", "agreed"),
    [({"coordinator": 1, "main": 2, "branch_1": 2}, 1), ({"coordinator": 2, "main": 2, "branch_1": 1}, 1)],
    ids=["later sites", "a later coordinator, and one site as before"],
)
def test_one_version_apart_a_study_runs_to_its_certificate(speaking, newest, agreed, tmp_path):
    with speaking(**newest) as federation:
        lead, auditor = federation.client("lead"), federation.client("auditor")
        assert lead.about()["protocol"] == newest["coordinator"]
        study = studies(federation.people, "simcomb", 1.0)[1]
        for site in federation.sites:
            site.client.set_policy({"decide": "approve"})
        lead.create(study.to_yaml())
        lead.start(study.id)
        assert [event.kind for event in lead.watch(study.id)][-1] == "study-complete"
        signed = SignedCertificate.from_json(auditor.certificate(study.id))
        assert signed.content().version == agreed
        for party in signed.content().parties:
            digest = party.release.digest
            assert SignedRelease.from_json(auditor.release(digest)).content().version == agreed
            receipt = json.loads(base64.b64decode(json.loads(auditor.receipt(digest))["payload"]))
            assert receipt["version"] == min(newest["coordinator"], newest[party.party.replace("-", "_")])
        write_bundle(auditor, study.id, tmp_path / "bundle")


def test_further_apart_a_site_is_refused_and_hears_who_must_upgrade(speaking):
    with pytest.raises(UnknownVersion, match=r"speaks version 3 .* Upgrade the coordinator\."):
        speaking(coordinator=1, main=3, branch_1=3).__enter__()
