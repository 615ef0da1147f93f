"""One site, in one role or both: whose invitations it accepts, and whose routes it serves."""

from __future__ import annotations

import pytest

from crossward.client.http import HttpClient
from crossward.errors import InvalidSetting, RemoteProblem
from crossward.protocol import keys
from crossward.protocol.constants import Role
from crossward_site import main
from crossward_site.app import create_app
from crossward_site.settings import SiteSettings
from crossward_source.settings import SourceSettings
from crossward_target.settings import TargetSettings


def routes(settings: SiteSettings) -> set[str]:
    app = create_app(settings)
    app.state.site.close()
    return set(app.openapi()["paths"])


def test_only_a_target_serves_predictions_and_models(tmp_path) -> None:
    source = routes(SourceSettings(data_dir=tmp_path / "source"))
    target = routes(TargetSettings(data_dir=tmp_path / "target"))
    both = routes(SiteSettings(data_dir=tmp_path / "site"))
    assert target - source == {
        "/v1/predict",
        "/v1/studies",
        "/v1/studies/{study}/model",
        "/v1/studies/{study}/evaluation",
        "/v1/studies/{study}/auc",
    }
    assert source < both == target


@pytest.fixture
def coordinator(monkeypatch):
    """Enrols whoever comes, as what a test says."""
    granted = {"party": "here", "role": "target", "coordinator": {"public_key": keys.public_text(keys.generate())}}
    answer = type("Answer", (), {"json": lambda self: granted})
    monkeypatch.setattr(HttpClient, "post", lambda self, path, body: answer())
    return granted


@pytest.mark.parametrize("role", list(Role))
def test_a_site_with_both_roles_enrols_as_either(tmp_path, coordinator, role) -> None:
    coordinator["role"] = role
    joined = main.join_coordinator(SiteSettings(data_dir=tmp_path), "http://127.0.0.1:1", "code")
    assert (joined.party, joined.role) == ("here", role)


def test_a_code_of_another_role_is_refused(tmp_path, coordinator) -> None:
    with pytest.raises(InvalidSetting, match="enrols a target, and this is a source"):
        main.join_coordinator(SourceSettings(data_dir=tmp_path), "http://127.0.0.1:1", "code")


@pytest.mark.parametrize("answer", [{"role": "king"}, {"coordinator": None}])
def test_an_answer_that_is_no_enrolment_is_named(tmp_path, coordinator, answer) -> None:
    coordinator |= answer
    with pytest.raises(RemoteProblem, match="not an enrolment"):
        main.join_coordinator(SiteSettings(data_dir=tmp_path), "http://127.0.0.1:1", "code")
