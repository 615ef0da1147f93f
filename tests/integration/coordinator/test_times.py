"""Every time that the coordinator answers is ISO 8601 in UTC, in one spelling."""

import json
import re
from datetime import datetime

TIMES = {"time", "created", "since", "last_seen", "revoked", "updated", "started", "deadline", "ended", "expires"}
SPELLING = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def times(answer):
    """All times in an answer, wherever they are."""
    if isinstance(answer, list):
        return [time for item in answer for time in times(item)]
    if not isinstance(answer, dict):
        return []
    here = [value for name, value in answer.items() if name in TIMES and value is not None]
    return here + [time for value in answer.values() for time in times(value)]


def test_times_are_spelled_in_one_way(small):
    study = small.begin()
    receipt = small.sites["main"].work()
    small.sites["branch-1"].work()
    small.ask("operator", "DELETE", "/parties/main")
    paths = ["/coordinator", "/parties", "/studies", f"/studies/{study.id}"]
    answers = {path: small.ask("auditor", "GET", path).json() for path in paths}
    streamed = small.person("auditor").lines(f"/v1/studies/{study.id}/events")
    answers["events"] = [json.loads(line[6:]) for line in streamed if line.startswith("data: ")]
    answers["invite"] = small.invite("west")
    answers["receipt"] = receipt.content().model_dump(mode="json")
    certificate = small.ask("auditor", "GET", f"/studies/{study.id}/certificate")
    assert times(certificate.json()) == []  # what it says is signed bytes
    for answer in answers.values():
        assert times(answer)
        for time in times(answer):
            assert SPELLING.fullmatch(time), time
            assert datetime.fromisoformat(time).utcoffset().total_seconds() == 0
