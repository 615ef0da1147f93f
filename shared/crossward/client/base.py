"""What both clients are: a connection with a token, closed when done."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Self

from crossward.client.http import HttpClient, Token

Json = dict[str, Any]


class Connected:
    """A connection to one service, as a person with a token. Use it as a context manager, or close it."""

    def __init__(self, url: str, token: str | None = None, *, ca: Path | None = None, insecure: bool = False) -> None:
        self.url = url
        self._http = HttpClient(url, auth=None if token is None else Token(token), ca=ca, insecure=insecure)

    def close(self) -> None:
        """End the connection."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _get(self, path: str, **params: Any) -> Json:
        found: Json = self._http.get(path, params=params or None).json()
        return found

    def _post(self, path: str, body: Any = None, *, idempotent: bool = False) -> Json:
        found: Json = self._http.post(path, body, idempotent=idempotent).json()
        return found

    def _pages(self, path: str, key: str) -> list[Json]:
        """Every item of a list that comes in pages."""
        items: list[Json] = []
        after: Any = None
        while True:
            page = self._get(path, **({} if after is None else {"after": after}))
            items += page[key]
            after = page.get("next")
            if after is None:
                return items
