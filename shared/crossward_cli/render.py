"""Small things that several commands print."""

from __future__ import annotations

import json
from typing import Any


def print_json(value: Any) -> None:
    """A value for machines."""
    print(json.dumps(value, indent=2))


def tell(answer: Any, line: str, *, as_json: bool) -> None:
    """What a service answered: a line for people, all of it for machines."""
    if as_json:
        print_json(answer)
    else:
        print(line)
