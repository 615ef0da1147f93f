"""An unexpected error in a log line: where it came from, and none of its words."""

from __future__ import annotations

import json
import logging
import sys

from crossward_service.http.telemetry import JsonLines


def test_a_log_line_tells_where_an_error_came_from_and_not_what_it_says() -> None:
    def read_cell() -> float:
        return float("secretcell")

    try:
        read_cell()
    except ValueError:
        record = logging.LogRecord("crossward_site", logging.ERROR, "file", 1, "it failed", (), sys.exc_info())
    line = JsonLines().format(record)
    assert "secretcell" not in line
    assert json.loads(line)["exception"].startswith("ValueError at read_cell (test_trace.py:")
