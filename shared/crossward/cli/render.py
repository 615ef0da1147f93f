"""Small things that several commands print."""

from __future__ import annotations

import json
from typing import Any


def print_json(value: Any) -> None:
    """A value for machines."""
    print(json.dumps(value, indent=2))
