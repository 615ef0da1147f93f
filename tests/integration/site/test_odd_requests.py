"""Names that make no sense in a path, and records that make none to a model."""

from __future__ import annotations

import numpy as np

from crossward_site.data.service import Vault


def test_odd_names_in_a_path_are_refused_as_such(sites, api) -> None:
    main = sites.hospital("main", "target", rows=100)
    with api(main) as client:
        client.base_url = f"{client.base_url}/v1"
        for odd in ("%00", "a%00b", "%0A", "x" * 500):
            answers = [
                client.post(f"/datasets/{odd}/versions", json={}),
                client.get(f"/datasets/{odd}/report"),
                client.post("/datasets/patients/fit", json={"study": odd}),
                client.get(f"/jobs/{odd}"),
                client.post(f"/approvals/{odd}", json={"approve": True}),
                client.get(f"/studies/{odd}/model"),
                client.post(f"/studies/{odd}/evaluation"),
                client.post(f"/studies/{odd}/auc", json={"epsilon": 1.0}),
            ]
            assert {answer.status_code for answer in answers} == {422}
        refused = client.post("/approvals/t1", json={"approve": False, "words": "no\0"})
        assert refused.status_code == 422
        assert client.get("/studies/unknown/model").status_code == 404


RECORD = {"glucose": 9.0, "bmi": 33.0, "family": True, "smoker": "current"}


def test_bad_questions(federation, study, api) -> None:
    branch = federation.hospital("branch", "target")
    federation.start(study(method="direct"))
    branch.settle()
    with api(branch) as client:
        for record, words in (
            ({"glucose": 5.0}, "no column"),
            (RECORD | {"smoker": "pipe"}, "'smoker' is not one of"),
            (RECORD | {"glucose": "high"}, "not a number"),
        ):
            answer = client.post("/v1/predict", json={"study": "sugar", "record": record, "words": "study"})
            assert answer.status_code == 422
            assert words in answer.json()["detail"]
        missing = client.post(
            "/v1/predict", json={"study": "sugar", "record": RECORD | {"glucose": None}, "words": "study"}
        )
        assert missing.status_code == 200
        assert client.post("/v1/predict", json={"study": "sugar"}).status_code == 422
        assert client.post("/v1/predict", json={"study": "sugar", "records": []}).status_code == 422
    assert np.isfinite(Vault(branch.site).balance().left(range(20)))
