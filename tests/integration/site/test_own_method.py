"""A method that somebody adds as one module and one line runs through coordinator, source and target as they are."""

from __future__ import annotations

import pytest

from crossward.methods import METHODS
from halfway import Halfway

RECORDS = [
    {"glucose": 9.0, "bmi": 33.0, "family": True, "smoker": "current"},
    {"glucose": 4.0, "bmi": 20.0, "family": False, "smoker": None},
]


def test_a_study_with_a_method_of_ones_own(federation, study, api, monkeypatch) -> None:
    monkeypatch.setitem(METHODS, "halfway", Halfway)
    main, branch = federation.hospital("main", "source"), federation.hospital("branch", "target")
    federation.start(study(method={"name": "halfway", "lam": 0.05}, epsilon=5.0))
    main.settle()
    branch.settle()
    assert federation.study("sugar")["state"] == "complete"
    for hospital in (main, branch):
        assert [line.kind for line in hospital.lines()] == ["open", "seats", "reserve", "release"]
        assert federation.mirror(hospital.party) == hospital.lines()
    with api(branch) as client:
        ill, well = client.post("/v1/predict", json={"study": "sugar", "records": RECORDS, "words": "study"}).json()[
            "predictions"
        ]
        assert ill["probability"] > well["probability"]
        for prediction in (ill, well):
            total = sum(part["contribution"] for part in prediction["contributions"])
            assert prediction["class"] == (total > 0)
        assert client.get("/v1/studies/sugar/model").json()["method"] == "halfway"


@pytest.mark.parametrize(
    "method",
    [
        {"name": "direct"},
        {"name": "dppsgd"},
        {"name": "pst-s", "combiner": "C-mv"},
        {"name": "pst-f", "combiner": "C-wmv"},
        {"name": "pst-h", "mix": "scores"},
        {"name": "pst-h", "combiner": "C-mv"},
        {"name": "simcomb"},
        {"name": "sourced"},
        {"name": "average"},
        {"name": "boosted", "iterations": 5},
    ],
    ids=lambda method: "-".join(map(str, method.values())),
)
def test_what_a_clinic_is_told_adds_up_to_the_class(federation, study, api, method) -> None:
    """With an offset, under which a vote's parts once did not add up."""
    sources = ("main",) if METHODS[method["name"]].has_sources else ()
    main = federation.hospital("main", "source") if sources else None
    branch = federation.hospital("branch", "target")
    federation.start(study(method=method, epsilon=5.0, sources=sources, encoding={"offset": -1.5}))
    for hospital in (main, branch):
        if hospital is not None:
            hospital.settle()
    assert federation.study("sugar")["state"] == "complete"
    with api(branch) as client:
        predictions = client.post("/v1/predict", json={"study": "sugar", "records": RECORDS, "words": "study"}).json()[
            "predictions"
        ]
    for prediction in predictions:
        total = sum(part["contribution"] for part in prediction["contributions"])
        assert prediction["contributions"]
        assert prediction["class"] == (total > 1e-12)
