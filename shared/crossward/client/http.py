"""The other end: how sites and the Python client call a service.

It signs or carries a token, refuses plain HTTP beyond this machine, goes through the proxy that the environment
names, trusts a private CA, asks again where asking twice is harmless, and turns a problem back into the error that
caused it.
"""

from __future__ import annotations

import json
import os
import random
import ssl
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from crossward.client.addresses import check_url, is_loopback
from crossward.client.remote import error_of
from crossward.errors import BodyTooLarge, InvalidSetting, RemoteProblem, Unreachable
from crossward.version import __version__

Json = dict[str, Any]

TEMPORARY = frozenset({429, 502, 503, 504})
"""The answers after which to ask again."""

IDEMPOTENT = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})


class Token(httpx.Auth):
    """Carries a role's token."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Put the token on a request."""
        request.headers["Authorization"] = f"Bearer {self._secret}"
        yield request


@dataclass(frozen=True)
class Answer:
    """What a service said: status 2xx, headers and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON; None if it is empty. NaN and infinity, which are no JSON, are refused."""
        try:
            return json.loads(self.body, parse_constant=_refuse) if self.body else None
        except ValueError:
            raise RemoteProblem(
                "The answer is not JSON.", "Check that the address is a Crossward service.", status=self.status
            ) from None


@dataclass(frozen=True)
class Retry:
    """How often to ask again, and how long to wait before: exponential backoff with full jitter.

    Before attempt k + 1 the wait is uniform on [0, min(`longest`, `first` 2^(k-1))] seconds: sites that lost the same
    coordinator at the same moment then do not come back at the same moment. A server's Retry-After is a floor, up to
    `patience`. The jitter is no secret; it is drawn from `uniform` so that a test can fix it.
    """

    attempts: int = 5
    first: float = 0.5
    longest: float = 30.0
    patience: float = 120.0
    sleep: Callable[[float], None] = time.sleep
    uniform: Callable[[float, float], float] = random.uniform
    clock: Callable[[], float] = time.time

    def pause(self, attempt: int, headers: Mapping[str, str] | None = None) -> float:
        """The seconds to wait after attempt number `attempt` (from 1) failed."""
        jittered = self.uniform(0.0, min(self.longest, self.first * 2.0 ** (attempt - 1)))
        asked = self._retry_after(headers["retry-after"]) if headers and "retry-after" in headers else 0.0
        return max(jittered, min(asked, self.patience))

    def _retry_after(self, value: str) -> float:
        """Seconds or an HTTP date; 0 for anything else."""
        try:
            return (
                float(value)
                if value.isascii() and value.isdigit()
                else parsedate_to_datetime(value).timestamp() - self.clock()
            )
        except (ValueError, OverflowError):
            return 0.0


NEVER = Retry(attempts=1)


class HttpClient:
    """A connection to one service; use it as a context manager, or close it.

    `auth` is a `signing.Signer` or a `Token`. `ca` is a PEM bundle to trust instead of the system's. `insecure`
    allows plain HTTP to another machine. `largest` bounds an answer, so that a hostile service cannot fill this
    machine's memory. `transport`, if given, carries the requests instead of the network.
    """

    def __init__(
        self,
        base_url: str,
        *,
        auth: httpx.Auth | None = None,
        ca: Path | None = None,
        insecure: bool = False,
        timeout: float = 30.0,
        connect_timeout: float = 10.0,
        retry: Retry | None = None,
        largest: int = 64 << 20,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.base_url = check_url(base_url, insecure=insecure)
        self._retry = retry or Retry()
        self._timeout = timeout
        self._connect_timeout = connect_timeout
        self._largest = largest
        self._http = httpx.Client(
            auth=auth,
            verify=_trust(ca),
            headers={"User-Agent": f"crossward/{__version__}", "Accept": "application/json"},
            # To this machine never through a proxy: plain HTTP would then leave it.
            trust_env=not is_loopback(httpx.URL(self.base_url).host),
            follow_redirects=False,
            transport=transport,
        )

    def get(self, path: str, *, params: Mapping[str, Any] | None = None, wait: float = 0.0) -> Answer:
        """Read something; `wait` is how long the service may hold a long poll before it answers."""
        return self.request("GET", path, params=params, wait=wait)

    def post(self, path: str, body: Any = None, *, idempotent: bool = False) -> Answer:
        """Send JSON, or bytes as they are; `idempotent` says that the service takes the same content twice as once."""
        return self.request("POST", path, body=body, idempotent=idempotent)

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        idempotent: bool = False,
        wait: float = 0.0,
    ) -> Answer:
        """One call, asked again while that is harmless and may help; raises the error the service answered with."""
        again = idempotent or method in IDEMPOTENT

        def build() -> httpx.Request:
            return self._build(method, path, body, params, headers, wait)

        for attempt in range(1, (self._retry.attempts if again else 1) + 1):
            last = attempt == self._retry.attempts or not again
            try:
                with self._send(build()) as response:
                    if response.status_code not in TEMPORARY or last:
                        return self._answer(response)
                    pause = self._retry.pause(attempt, response.headers)
            except httpx.TransportError as error:
                if last or _is_tls(error):
                    raise self._unreachable(error, harmless=again) from error
                pause = self._retry.pause(attempt)
            self._retry.sleep(pause)
        raise AssertionError("the last attempt answers or raises")

    def lines(self, path: str, *, params: Mapping[str, Any] | None = None, silence: float = 60.0) -> Iterator[str]:
        """The lines of a stream (server-sent events) as they come, until the service ends it or falls silent."""
        request = self._build("GET", path, None, params, {"Accept": "text/event-stream"}, silence)
        try:
            with self._send(request) as response:
                if not response.is_success:
                    self._answer(response)
                yield from response.iter_lines()
        except httpx.TransportError as error:
            raise self._unreachable(error, harmless=True) from error

    def _build(
        self,
        method: str,
        path: str,
        body: Any,
        params: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
        wait: float,
    ) -> httpx.Request:
        if not path.startswith("/"):
            raise InvalidSetting(f"{path!r} is not a path.", "Begin it with a slash.")
        content = body if isinstance(body, bytes) or body is None else json.dumps(body, allow_nan=False).encode()
        kind = {} if isinstance(body, bytes) or body is None else {"Content-Type": "application/json"}
        # A long poll is silent while it waits: reading must outlast it.
        timeout = httpx.Timeout(self._timeout, connect=self._connect_timeout, read=self._timeout + wait)
        return self._http.build_request(
            method,
            self.base_url + path,
            content=content,
            params=params,
            headers={**kind, **(headers or {})},
            timeout=timeout,
        )

    @contextmanager
    def _send(self, request: httpx.Request) -> Iterator[httpx.Response]:
        response = self._http.send(request, stream=True)
        try:
            yield response
        finally:
            response.close()
            # Closed by another thread meanwhile, the pool has forgotten a connection that was made since.
            if self._http.is_closed and (stream := response.extensions.get("network_stream")) is not None:
                stream.close()

    def _answer(self, response: httpx.Response) -> Answer:
        """The whole answer, if it is one; else the error it stands for."""
        body = bytearray()
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > self._largest:
                raise BodyTooLarge(f"The answer is larger than {self._largest:,} bytes.", "Ask for less at a time.")
        if response.is_success:
            return Answer(response.status_code, response.headers, bytes(body))
        raise error_of(response.status_code, response.headers, bytes(body))

    def _unreachable(self, error: httpx.TransportError, *, harmless: bool) -> Unreachable:
        if _is_tls(error):
            fix = "Check the certificate and the CA bundle; never switch verification off."
        elif harmless:
            fix = "Check address, network and proxy; the request can be repeated."
        else:
            fix = "It may have been carried out: look before you repeat it."
        return Unreachable(f"{self.base_url} did not answer ({type(error).__name__}: {error}).", fix)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


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
        answer: Json = self._http.get(path, params=params or None).json()
        return answer

    def _post(self, path: str, body: Any = None, *, idempotent: bool = False) -> Json:
        answer: Json = self._http.post(path, body, idempotent=idempotent).json()
        return answer

    def _pages(self, path: str, key: str) -> list[Any]:
        """Every item of a list that comes in pages."""
        items: list[Any] = []
        after: Any = None
        while True:
            page = self._get(path, **({} if after is None else {"after": after}))
            items += page[key]
            after = page.get("next")
            if after is None:
                return items


@cache
def _system(file: str | None, folder: str | None) -> ssl.SSLContext:
    """The system's certificates, read once for each place that the environment names; nobody changes the context."""
    return ssl.create_default_context()


def _trust(ca: Path | None) -> ssl.SSLContext:
    if ca is None:
        return _system(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError):
        raise InvalidSetting(
            f"The CA bundle {ca} cannot be read.", "Give a PEM file with the CA's certificate."
        ) from None


def _is_tls(error: BaseException | None) -> bool:
    """Whether a certificate or handshake was refused: asking again would not help."""
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _refuse(constant: str) -> Callable[[], None]:
    raise ValueError(f"{constant} is not JSON")
