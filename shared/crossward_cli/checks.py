from typing import Any


def print_check(found: Any) -> None:
    print(found)
