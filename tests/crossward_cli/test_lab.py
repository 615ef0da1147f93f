"""`crossward simulate` and `crossward audit`: tables for people, JSON for machines."""

import json


def test_simulate_shows_every_method_side_by_side(program):
    shown = program("simulate", "--branches", "1", "--repeats", "1").stdout
    for word in ("Direct", "SimComb", "PST-F", "PST-H", "SourceD", "non-private", "Branch 1", "4,334"):
        assert word in shown


def test_simulate_as_json_repeats_with_a_seed(program):
    runs = [
        json.loads(program("simulate", "--json", "--branches", "1", "--repeats", "1", "--seed", "3").stdout)
        for _ in range(2)
    ]
    assert runs[0] == runs[1]
    assert runs[0]["seeded"] is True
    by_method = {(row["method"], row["epsilon"]): row["auc"] for row in runs[0]["rows"]}
    assert by_method["SimComb", None] > 0.7
    assert by_method["SimComb", 1.0] > by_method["Direct", 0.1]


def test_the_audit_speaks_json(program):
    some = [word for name in ("PLR", "PLR-FS, sampled", "no Delta", "q for q^2") for word in ("--only", name)]
    report = json.loads(program("audit", "--quick", "--json", "--seed", "1", *some).stdout)
    assert [m["name"] for m in report["mechanisms"]] == ["PLR", "PLR-FS, sampled"]
    assert {"name", "claimed_epsilon", "largest_loss", "verdict"} <= set(report["mechanisms"][0])
    assert all(m["verdict"] == "clear" for m in report["mechanisms"])
    assert all(m["largest_loss"] <= m["claimed_epsilon"] for m in report["mechanisms"])
    assert all(mutant["caught"] for mutant in report["mutants"])
    assert len(report["mutants"]) == 2


def test_what_is_not_audited_is_named(program):
    refused = program("audit", "--only", "nothing", code=2)
    assert "PLR-FS" in refused.stdout + refused.stderr
