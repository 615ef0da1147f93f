"""What a newcomer gets: the table, a study with everybody, walls that hold, metrics that add up."""

from __future__ import annotations

import json
import re

import engine
import pytest
from federation import PYTHON, SERVICES, SITES

from crossward import verify
from crossward.client.bundle import write_bundle

_REACH = """
import json, socket, sys
def reached(address):
    try:
        socket.create_connection((address, int(sys.argv[1])), timeout=5).close()
    except OSError:
        return False
    return True
print(json.dumps({address: reached(address) for address in sys.argv[2:]}))
"""


def test_up_ends_with_the_table(table):
    for name in SITES:
        assert re.search(rf"│ {name} +│ +[\d,]+ │", table), table
    assert "agree, line by line" in table


def test_a_study_with_every_hospital(federation, tmp_path):
    begun = federation.begin("pst-h", SITES[1:])
    federation.ended(begun)
    assert "eps" in federation.lead.certificate_text(begun.id)
    bundle = write_bundle(federation.auditor, begun.id, tmp_path / "bundle").folder
    report = verify.verify_bundle(bundle, federation.auditor.about()["public_key"])
    assert report.verified, report.failure
    for name in SITES[1:]:
        assert federation.sites[name].evaluation(begun.id)["auc"]


@pytest.mark.parametrize("service", [*SERVICES, "database"])
def test_a_container_may_do_next_to_nothing(federation, service):
    found = engine.inspect(federation.container(service))
    host = found["HostConfig"]
    assert host["ReadonlyRootfs"]
    assert not host["Privileged"]
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert "no-new-privileges:true" in host["SecurityOpt"]
    assert found["Config"]["User"].partition(":")[0] not in ("", "0", "root")
    published = [bound["HostIp"] for ports in host["PortBindings"].values() for bound in ports or ()]
    assert published == (["127.0.0.1"] if service == "coordinator" else [])
    networks = {name.removeprefix(f"{federation.project}_") for name in found["NetworkSettings"]["Networks"]}
    assert networks == ({"front", "database", *SITES} if service == "coordinator" else {service})
    for name in networks - {"front"}:
        assert engine.inspect(f"{federation.project}_{name}")["Internal"], name


def test_a_hospital_reaches_the_coordinator_and_nobody_else(federation):
    others = [federation.address(name) for name in SITES[1:]]
    coordinator = ["coordinator", federation.address("coordinator", "main")]
    reached = json.loads(federation.inside("main", PYTHON, "-c", _REACH, "8400", *others, *coordinator))
    assert reached == dict.fromkeys(others, False) | dict.fromkeys(coordinator, True)
    database = federation.address("database")
    for service, there in (("main", False), ("coordinator", True)):
        assert json.loads(federation.inside(service, PYTHON, "-c", _REACH, "5432", database)) == {database: there}


def test_metrics_of_two_workers_add_up(federation):
    counter = re.compile(r'crossward_requests_total\{.*route="/v1/coordinator",status="200"\} ([\d.]+)')

    def counts():
        """What several scrapes say of one route; each is a connection of its own, to whichever worker takes it."""
        said = set()
        for _ in range(8):
            with federation.person("auditor") as scraper:
                text = scraper._http.get("/metrics").body.decode()
            said |= {float(number) for number in counter.findall(text)} or {0.0}
        return said

    [before] = federation.until("nobody else asks", lambda: len(seen := counts()) == 1 and seen)
    for _ in range(40):
        with federation.person("auditor") as one:
            one.about()
    federation.until("every worker tells of all requests", lambda: counts() == {before + 40})
