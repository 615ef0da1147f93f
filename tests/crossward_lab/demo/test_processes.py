"""A service as a process: it says where it answers, and what keeps it from starting."""

import pytest

from crossward.client import Client
from crossward.errors import NotReady
from crossward_coordinator.main import init
from crossward_coordinator.settings import CoordinatorSettings
from crossward_lab.demo.processes import Service


def test_a_service_answers_where_it_says(tmp_path):
    tokens = init(CoordinatorSettings(data_dir=tmp_path)).tokens
    service = Service("coordinator", tmp_path)
    try:
        with Client(service.url, tokens["lead"]) as client:
            assert client.studies() == []
    finally:
        service.stop()


def test_what_does_not_start_says_why_in_its_log(tmp_path):
    for name, words in (("coordinator", "coordinator"), ("banana", "There is no service 'banana'. Use coordinator, ")):
        service = Service(name, tmp_path)
        with pytest.raises(NotReady, match=r"did not start.*service\.log"):
            _ = service.url
        service.stop()
        log = (tmp_path / "service.log").read_text()
        assert words in log
        assert "Traceback" not in log
