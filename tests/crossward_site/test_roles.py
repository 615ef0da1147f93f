"""One site, in one role or both: whose invitations it accepts, and whose routes it serves."""

from __future__ import annotations

import pytest

from crossward.client.http import HttpClient
from crossward.errors import Conflict, InvalidSetting, RemoteProblem
from crossward.protocol import keys
from crossward.protocol.constants import FilterKind, Role
from crossward.protocol.ledger.lines import OpenBody
from crossward_service.db.engine import read, write
from crossward_site import main
from crossward_site.app import create_app
from crossward_site.settings import SiteSettings
from crossward_site.site import Site
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


@pytest.mark.parametrize("role", list(Role))
def test_what_joined_in_one_role_is_not_served_in_the_other(tmp_path, coordinator, role) -> None:
    coordinator["role"] = role
    main.join_coordinator(SiteSettings(data_dir=tmp_path), "http://127.0.0.1:1", "code")
    right, wrong = (SourceSettings, TargetSettings) if role is Role.SOURCE else (TargetSettings, SourceSettings)
    with pytest.raises(Conflict, match=f"here joined as a {role}, and this is a {wrong.service}") as refusal:
        create_app(wrong(data_dir=tmp_path))
    assert f"crossward {role} serve" in refusal.value.fix
    assert routes(right(data_dir=tmp_path))  # what was refused holds no lock


def test_the_role_can_be_seen_without_making_anything(tmp_path, coordinator) -> None:
    settings = SiteSettings(data_dir=tmp_path / "site")
    assert main.enrolled_role(settings) is None
    assert not settings.data_dir.exists()
    main.init(settings)
    assert main.enrolled_role(settings) is None
    main.join_coordinator(settings, "http://127.0.0.1:1", "code")
    assert main.enrolled_role(settings) is Role.TARGET
    assert settings.sqlite_file is not None
    settings.sqlite_file.write_bytes(b"no database at all" * 100)
    assert main.enrolled_role(settings) is None


@pytest.mark.parametrize("other", [SiteSettings, TargetSettings])
def test_a_change_of_role_opens_no_second_ledger(tmp_path, other) -> None:
    """The same people have one budget, whatever their hospital is called."""
    assert main.init(SourceSettings(data_dir=tmp_path))
    source = Site.open(SourceSettings(data_dir=tmp_path).database_url, tmp_path)
    with write(source.engine) as connection:
        source.append(connection, OpenBody(1, 20, FilterKind.BASIC, 10**9))
    source.close()
    assert main.init(other(data_dir=tmp_path)) is None  # it has its first token already
    assert [path.name for path in tmp_path.glob("*.sqlite3")] == ["site.sqlite3"]
    again = Site.open(other(data_dir=tmp_path).database_url, tmp_path)
    with read(again.engine) as connection:
        assert again.ledger.opened(connection) == OpenBody(1, 20, FilterKind.BASIC, 10**9)
    again.close()


@pytest.mark.parametrize("answer", [{"role": "king"}, {"coordinator": None}])
def test_an_answer_that_is_no_enrolment_is_named(tmp_path, coordinator, answer) -> None:
    coordinator |= answer
    with pytest.raises(RemoteProblem, match="not an enrolment"):
        main.join_coordinator(SiteSettings(data_dir=tmp_path), "http://127.0.0.1:1", "code")
