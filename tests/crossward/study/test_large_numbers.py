"""Numbers beyond all range are refused like any other mistake."""

import pytest

from crossward.errors import InvalidMessage, StudyInvalid
from crossward.protocol.messages import Receipt
from crossward.protocol.tasks import HeartbeatMessage
from crossward.study import Study, example

HUGE = "1" + "0" * 400


@pytest.mark.parametrize("change", [("positive: true", f"positive: {HUGE}"), ("branch-1: 4300", f"branch-1: {HUGE}")])
def test_a_huge_number_in_a_study_is_a_problem(change):
    with pytest.raises(StudyInvalid):
        Study.from_yaml(example().replace(*change))


def test_counts_in_messages_are_bounded():
    beat = {"version": 1, "task": "x", "progress": 0, "note": ""}
    assert HeartbeatMessage.from_data(beat | {"attempt": 2**53 - 1})
    for attempt in (2**53, 10**400):
        with pytest.raises(InvalidMessage, match="attempt"):
            HeartbeatMessage.from_data(beat | {"attempt": attempt})
    receipt = {"version": 1, "party": "p", "task": "x", "release": None, "time": "2026-01-02T03:04:05.000000Z"}
    for sequence in (2**53, -1, 1.5, "1", True):
        with pytest.raises(InvalidMessage, match="sequence"):
            Receipt.from_data(receipt | {"head": {"sequence": sequence, "hash": "0" * 64}})


def test_a_file_of_too_many_values_is_refused_at_once():
    with pytest.raises(StudyInvalid, match="too many values"):
        Study.from_yaml("a: [" + "1," * 300_000 + "]")
