"""A service as a process: it says where it answers, and what keeps it from starting."""

import subprocess
import sys

import pytest

from crossward.client import Client
from crossward.errors import NotReady
from crossward_coordinator.main import init
from crossward_coordinator.settings import CoordinatorSettings
from crossward_lab.demo.processes import Service
from endings import alive, wait_for_end


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


STARTER = """
import sys, time
from pathlib import Path
from crossward_lab.demo.processes import Service
service = Service("coordinator", Path(sys.argv[1]))
if sys.argv[2] == "ready":
    service.url
print(service._process.pid, flush=True)
time.sleep(3600)
"""


@pytest.mark.parametrize("moment", ["starting", "ready"])
def test_a_service_ends_with_the_process_that_started_it(tmp_path, moment):
    init(CoordinatorSettings(data_dir=tmp_path))
    command = [sys.executable, "-c", STARTER, str(tmp_path), moment]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as starter:
        service = int(starter.stdout.readline())
        assert alive(service)
        starter.kill()
    wait_for_end([service])
