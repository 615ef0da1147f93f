"""A study from file to prediction, by every road a site has: policy, steward, data, methods, its own API."""

from __future__ import annotations

import base64
import json
import pickle
import time

import httpx
import pytest
from sqlalchemy import select, update

from crossward.errors import Forged, InvalidMessage
from crossward_service.db.engine import read, write
from crossward_site.approvals import service as approvals
from crossward_site.data.mapping import DataMap
from crossward_site.data.service import Vault
from crossward_site.identity.service import Identity, rotate
from crossward_site.models.predictions import predict
from crossward_site.models.service import Models, seal, unseal
from crossward_site.models.tables import models
from crossward_source import app as source
from crossward_source.settings import SourceSettings
from envelopes import digest_of


def run(federation, study, **hospital):
    main, branch = federation.hospital("main", "source"), federation.hospital("branch", "target", **hospital)
    federation.start(study)
    main.settle()
    branch.settle()
    return main, branch


RECORD = {"glucose": 9.0, "bmi": 33.0, "family": True, "smoker": "current"}


WELL = {"glucose": 4.0, "bmi": 20.0, "family": False, "smoker": "never"}


def test_transfer_from_a_source_to_a_target(federation, study, api) -> None:
    main, branch = run(federation, study(epsilon=5.0))
    assert federation.study("sugar")["state"] == "complete"
    for hospital in (main, branch):
        assert [line.kind for line in hospital.lines()] == ["open", "seats", "reserve", "release"]
        assert federation.mirror(hospital.party) == hospital.lines()
    with api(branch) as client:
        answer = client.post("/v1/predict", json={"study": "sugar", "records": [RECORD, WELL], "words": "study"}).json()
        ill, well = answer["predictions"]
        assert ill["probability"] > well["probability"]
        served = Models(branch.site).of("sugar")
        X = served.study.schema.encode([RECORD, WELL])
        for row, margin in zip(answer["predictions"], served.model.margins(X), strict=True):
            assert sum(part["contribution"] for part in row["contributions"]) == pytest.approx(margin)
        assert {name for part in ill["contributions"] for name in part["features"]} == set(RECORD)
        certificate = federation.call("auditor", "GET", "/v1/studies/sugar/certificate")
        assert json.loads(base64.b64decode(certificate["payload"]))["id"] == answer["certificate"]
        one = client.post("/v1/predict", json={"study": "sugar", "record": RECORD, "words": "study"}).json()
        assert one["predictions"] == [ill]
        model = client.get("/v1/studies/sugar/model").json()
        assert model["release"] == answer["release"] == digest_of(model["signed_release"])
        assert client.get("/v1/studies").json()["studies"][0]["model"] is True


def test_evaluation_stays_free_and_an_auc_is_paid_once(federation, study, api, ended) -> None:
    _, branch = run(federation, study(epsilon=5.0), rows=1500)
    with api(branch) as client:
        local = ended(client, client.post("/v1/studies/sugar/evaluation"))["result"]
        assert local["records"] == 300
        assert local["interval"][0] < local["auc"] < local["interval"][1]
        assert local["roc"][0] == [0, 0]
        assert local["roc"][-1] == [1, 1]
        assert sum(part["records"] for part in local["calibration"]) == 300
        first, second = (ended(client, client.post("/v1/studies/sugar/auc", json={"epsilon": 2.0})) for _ in range(2))
        paid, again = first["result"], second["result"]
        assert paid == again
        assert first["number"] != second["number"]
        # Its noise is Laplace's: beyond 12 deviations it lies with probability exp(-12 sqrt 2), 4 in 10^8.
        assert abs(paid["auc"] - local["auc"]) < 12 * paid["deviation"]
        assert ended(client, client.post("/v1/studies/sugar/evaluation"))["result"]["released"] == [paid]
        kinds = [json.loads(line)["kind"] for line in client.get("/v1/ledger").json()["lines"]]
        assert kinds == ["open", "seats", "reserve", "release", "reserve", "release"]
        refused = client.post("/v1/studies/sugar/auc", json={"epsilon": 9.0})
        assert (refused.status_code, refused.json()["title"]) == (409, "Cell's budget exceeded")
        cells = client.get("/v1/status").json()["budget"]["cells"]
        assert {cell["epsilon_spent"] for cell in cells[:16]} == {5.0}
        assert {cell["epsilon_spent"] for cell in cells[16:]} == {2.0}


@pytest.mark.parametrize("method", ["sourced", "boosted", "simcomb"])
def test_other_methods(federation, study, method: str) -> None:
    _, branch = run(federation, study(method=method, epsilon=5.0))  # at 5 noise turns no two such patients around
    assert federation.study("sugar")["state"] == "complete"
    pays = method == "simcomb"
    assert len(branch.lines("reserve")) == pays
    served = Models(branch.site).of("sugar")
    assert (served.release is not None) == pays
    ill, well = predict(served, [RECORD, WELL], "study")
    assert ill.probability > well.probability


class Burglar:
    def __reduce__(self):
        return exec, ("raise SystemExit('this was run')",)


def test_a_boosted_model_is_data_and_nothing_in_its_place_is_run(federation, study) -> None:
    _, branch = run(federation, study(method="boosted", epsilon=5.0))
    site = branch.site

    def stored() -> bytes:
        with read(site.engine) as connection:
            return connection.execute(select(models.c.sealed)).scalar_one()

    def stored_is(sealed: bytes) -> None:
        with write(site.engine) as connection:
            connection.execute(update(models).values(sealed=sealed))

    own = stored()
    assert json.loads(unseal(site.secret, own))["columns"] == 1
    expected = [one.probability for one in predict(Models(site).of("sugar"), [RECORD, WELL], "study")]
    burglar = pickle.dumps(Burglar())
    for sealed, refusal in [
        (burglar, Forged),
        (seal(b"x" * 32, burglar), Forged),
        (own[:32] + burglar, Forged),
        (seal(site.secret, burglar), InvalidMessage),
    ]:
        stored_is(sealed)
        with pytest.raises(refusal, match="Train it again"):
            Models(site).of("sugar")
    stored_is(own)
    assert [one.probability for one in predict(Models(site).of("sugar"), [RECORD, WELL], "study")] == expected


def test_the_coordinators_aggregate_is_verified_with_its_own_key(federation, study) -> None:
    main, branch = federation.hospital("main", "source"), federation.hospital("branch", "target")
    given = study(method={"name": "feature", "public_set": "survey"}, epsilon=5.0)
    rows = "".join(f"{4 + k % 8},{18 + k % 20},{k % 2 == 0},never,{k % 8 > 3}\n" for k in range(200))
    with federation.as_role("lead") as http:
        http.request("POST", "/v1/studies", body=given.to_yaml().encode(), headers={"Content-Type": "application/yaml"})
        csv = f"glucose,bmi,family,smoker,diabetes\n{rows}".encode()
        http.request("PUT", "/v1/studies/sugar/public-set", body=csv, headers={"Content-Type": "text/csv"})
        http.post("/v1/studies/sugar/start")
    main.settle()
    end = time.monotonic() + 300
    while federation.study("sugar")["state"] != "complete" and time.monotonic() < end:
        branch.settle()
        time.sleep(0.05)
    assert federation.study("sugar")["state"] == "complete"
    ill, well = predict(Models(branch.site).of("sugar"), [RECORD, WELL], "study")
    assert ill.probability > well.probability


def test_the_steward_is_asked_and_says_yes_or_no(federation, study, api) -> None:
    branch = federation.hospital("branch", "target", decide="ask")
    for id in ("one", "two"):
        federation.start(study(id, method="direct"))
    branch.drive()
    asked = approvals.waiting(branch.site)
    assert [item.state for item in asked] == ["waiting", "waiting"]
    assert {(item.epsilon, item.dataset) for item in asked} == {(2.0, "patients")}
    with api(branch) as client:
        for item, approve in zip(asked, (True, False), strict=True):
            answer = client.post(f"/v1/approvals/{item.task}", json={"approve": approve, "words": "Not now."})
            assert answer.status_code == 200
        late = client.post(f"/v1/approvals/{asked[0].task}", json={"approve": False})
        assert late.status_code == 409
    branch.settle()
    states = {item.study: federation.study(item.study)["tasks"][0] for item in asked}
    assert [states[item.study]["state"] for item in asked] == ["done", "declined"]
    assert "Not now." in states[asked[1].study]["cause"]
    assert len(branch.lines("reserve")) == 1


def test_a_budget_that_is_too_small_and_data_that_are_not_there(federation, study, api) -> None:
    branch = federation.hospital("branch", "target", epsilon=1.0)
    empty = federation.hospital("empty", "target", data=False)
    federation.start(study(method="direct", targets=("branch", "empty")))
    branch.settle()
    empty.settle()
    causes = {task["party"]: task["cause"] for task in federation.study("sugar")["tasks"]}
    assert causes["branch"].startswith("budget: Cell 0: This release costs epsilon 2; 0 of 1 is spent.")
    assert causes["empty"].startswith("no-data")
    assert federation.study("sugar")["state"] == "failed"


def test_a_study_never_notices_what_cells_say_or_what_becomes_of_a_file(federation, study, api, ended) -> None:
    """Values that cannot be read are told to the steward when the copy is made; later nobody reads the file."""
    branch = federation.hospital("branch", "target")
    path = branch.files / "table.csv"
    odd = path.read_text().replace(",N,", ",X,", 40).replace("\np7,", "\np7,<0.3")
    path.write_text(odd)
    with api(branch) as client:
        job = ended(client, client.post("/v1/datasets/patients/versions", json={"study": study().to_yaml()}))
        unread = {name: notes["unread"] for name, notes in job["result"]["fit"]["features"].items()}
        assert unread["glucose"] == 1
        assert unread["family"] + unread["smoker"] == 40
    path.write_text("no table at all")
    federation.start(study("one", method="direct"))
    branch.settle()
    path.unlink()
    federation.start(study("two", method="pst-f"))
    branch.settle()
    for id in ("one", "two"):
        assert federation.study(id)["state"] == "complete"
    assert approvals.waiting(branch.site) == []
    with api(branch) as client:
        job = ended(client, client.post("/v1/datasets/patients/versions", json={}))
        assert (job["state"], job["cause"]) == ("failed", "files/table.csv cannot be opened.")
        assert client.get("/v1/datasets").json()["datasets"][0]["version"] == 2


def test_cells_of_one_class_are_the_stewards_business(federation, study) -> None:
    """It says something about records: the coordinator hears no more than of a task that waits for an approval."""
    branch = federation.hospital("branch", "target")
    vault = Vault(branch.site)
    mapping = vault.dataset("patients").mapping.model_dump() | {"labels": {"diabetes": {"column": "always"}}}
    head, *rows = (branch.files / "table.csv").read_text().splitlines()
    (branch.files / "table.csv").write_text("\n".join([f"{head},always", *(f"{row},1" for row in rows)]))
    vault.refresh("patients", mapping=DataMap.from_data(mapping))
    federation.start(study(method="direct"))
    branch.drive()
    [held] = approvals.waiting(branch.site)
    assert held.state == "held"
    assert "one class" in held.cause
    branch.runners[-1].beat(branch.tasks()[0])
    [seen] = federation.study("sugar")["tasks"]
    assert (seen["state"], seen["note"]) == ("leased", "waiting at the site")
    assert len(branch.lines("reserve")) == 1  # nothing that the records say decides on the charge
    assert (held.epsilon, held.epsilon_charged) == (0.0, 2.0)  # it is paid: to approve costs no more
    assert [(cost.epsilon, cost.delta) for cost in held.costs] == [(0.0, 0.0)]


def test_a_cancelled_study_ends_here_too(federation, study, api) -> None:
    branch = federation.hospital("branch", "target", decide="ask")
    federation.start(study(method="direct"))
    branch.drive()
    federation.call("lead", "POST", "/v1/studies/sugar/cancel", {"reason": "enough"})
    branch.runners[-1].beat(branch.tasks()[0])
    assert branch.tasks()[0].state == "cancelled"


def test_keys_rotate(federation, study, api) -> None:
    branch = federation.hospital("branch", "target")
    before = Identity.load(branch.site)
    after = rotate(branch.site)
    assert before.key_id != after.key_id
    federation.start(study(method="direct"))
    branch.settle()
    assert federation.study("sugar")["state"] == "complete"


def test_a_new_version_keeps_cells_and_spend(federation, study, api, ended) -> None:
    branch = federation.hospital("branch", "target", epsilon=3.0)
    federation.start(study("one", method="direct"))
    branch.settle()
    with api(branch) as client:
        report = ended(client, client.post("/v1/datasets/patients/versions", json={}))["result"]
        assert (report["version"], report["new"], report["stayed"]) == (2, 0, 600)
        budget = client.get("/v1/datasets").json()["budget"]
        assert (budget["epsilon_spent"], budget["epsilon_left"], budget["final"]) == (2.0, 1.0, True)
    federation.start(study("two", method="direct"))
    branch.settle()
    assert federation.study("two")["tasks"][0]["cause"].startswith("budget")


def test_the_service_works_by_itself(federation, study, api) -> None:
    """Threads and all: the site's own API answers while a task runs, and the study ends."""
    branch = federation.hospital("branch", "target", rows=3000)
    with api(branch, work=True, poll_seconds=1, tick_seconds=0.05) as client:
        federation.start(study(method="pst-f"))
        end = time.monotonic() + 300
        while federation.study("sugar")["state"] != "complete" and time.monotonic() < end:
            seen = client.get("/v1/status")
            assert seen.status_code == 200
            time.sleep(0.01)  # the work is done in this process too
        assert federation.study("sugar")["state"] == "complete"
        assert client.get("/v1/ledger/verify").json()["sound"] is True


def test_who_may_ask_what(federation, study, api) -> None:
    branch = federation.hospital("branch", "target")
    with api(branch, "clinic") as client:
        assert client.get("/v1/status").status_code == 403
        assert client.post("/v1/studies/sugar/evaluation").status_code == 403
        assert client.get("/v1/studies").status_code == 200
        assert client.post("/v1/predict", json={"study": "sugar", "record": RECORD}).status_code == 404
        client.headers["Authorization"] = "Bearer wrong"
        assert client.get("/v1/studies").status_code == 401


def test_a_source_predicts_nothing(serving, tmp_path) -> None:
    settings = SourceSettings(data_dir=tmp_path / "source", port=0, work=False)
    with serving(source.create_app(settings), settings) as url:
        assert httpx.get(f"{url}/v1/status", trust_env=False, timeout=60).status_code == 401
        assert httpx.get(f"{url}/readyz", trust_env=False, timeout=60).status_code == 200
        assert "/v1/predict" not in httpx.get(f"{url}/openapi.json", trust_env=False, timeout=60).json()["paths"]
