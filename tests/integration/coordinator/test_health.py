"""A coordinator says that it lives, that it is ready, and how much of what there is."""

from crossward.client.http import NEVER, HttpClient
from crossward_coordinator.clock import Gauges
from crossward_service.db.engine import connect, read
from crossward_service.http.telemetry import RequestMetrics


def test_health_readiness_and_numbers(world):
    with HttpClient(world.url, retry=NEVER) as client:
        assert client.get("/healthz").json() == {"status": "alive"}
        assert client.get("/readyz").json() == {"status": "ready"}
        assert b"crossward_request_seconds" in client.get("/metrics").body


def test_states_are_counted(small):
    small.begin()
    metrics, engine = RequestMetrics(), connect(small.settings["database_url"])
    with read(engine) as connection:
        Gauges(metrics).count(connection)
    engine.dispose()
    counted = metrics.exposition().decode()
    assert 'crossward_studies{state="sources"} 1.0' in counted
    assert 'crossward_tasks{state="ready"} 1.0' in counted
    assert 'crossward_parties{state="active"} 2.0' in counted
