from typing import Any


def check(*_: Any) -> Any:
    raise NotImplementedError
