"""Every refusal in one shape: RFC 9457 ``application/problem+json``.

``type`` is a stable URN, ``title`` its meaning, ``detail`` what happened this time, ``fix`` what to do, ``instance``
the request's id (also in the X-Request-ID header and in the log). Errors that may quote private values keep their
words to themselves unless the app is a site's own (`crossward.protocol.problems.Text`); an unexpected exception says
nothing but its request id, wherever it happens.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from starlette.exceptions import HTTPException

from crossward.errors import CrosswardError, StudyInvalid
from crossward.protocol.problems import INVALID_REQUEST, MEDIA_TYPE, PREFIX, TABLE, UNEXPECTED, Text, nearest_entry, urn

KEPT = "The details stay where the data are."
KEPT_FIX = "Look for this request id in the log of the service that answered."
CLASH = "It contradicts what is stored, perhaps by another request at the same time."
UNSTORABLE = "A value cannot be stored."
FIXES = {
    409: "Look at what is there, then ask again.",
    422: "Send plain text and numbers in range.",
    404: "Check the address; /openapi.json lists what there is.",
    405: "Use a method that the Allow header names.",
}

log = logging.getLogger("crossward.problems")

_TEXT = {"type": "string"}
_FIELD = {"type": "object", "properties": {"where": _TEXT, "problem": _TEXT}, "required": ["where", "problem"]}
_SCHEMA = {
    "type": "object",
    "properties": {
        **dict.fromkeys(("type", "title", "detail", "fix", "instance"), _TEXT),
        "status": {"type": "integer"},
        "fields": {"type": "array", "items": _FIELD},
    },
    "required": ["type", "title", "status", "detail", "fix", "instance"],
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {"description": words, "content": {MEDIA_TYPE: {"schema": _SCHEMA}}}
    for status, words in ((422, "Refused as it stands"), ("default", "Any other refusal"))
}


class ProblemResponse(JSONResponse):
    """A problem on its way out; `kind` is the last part of its type, for the access log."""

    media_type = MEDIA_TYPE

    def __init__(self, problem: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> None:
        super().__init__(problem, problem["status"], headers)
        self.kind = str(problem["type"]).removeprefix(PREFIX)


def request_id(scope: Mapping[str, Any]) -> str:
    """The id that the edge gave this request; empty for an app without the edge."""
    return str(scope.get("state", {}).get("request_id", ""))


def of_error(error: CrosswardError, instance: str, *, local: bool) -> ProblemResponse:
    """The problem of one of our own errors, with its words if the reader may have them."""
    kind = nearest_entry(type(error))
    form = TABLE[kind]
    public = local or form.text is Text.PUBLIC
    problem = {
        "type": urn(kind),
        "title": form.title,
        "status": form.status,
        "detail": error.cause if public else KEPT,
        "fix": error.fix if public else KEPT_FIX,
        "instance": instance,
        **({"problems": [asdict(each) for each in error.problems]} if isinstance(error, StudyInvalid) else {}),
    }
    return ProblemResponse(problem, {"WWW-Authenticate": form.challenge} if form.challenge else None)


def of_http(error: HTTPException, instance: str) -> ProblemResponse:
    """The problem of the framework's own refusals: no such path, no such method."""
    title = HTTPStatus(error.status_code).phrase
    problem = {
        "type": f"{PREFIX}http-{error.status_code}",
        "title": title,
        "status": error.status_code,
        "detail": error.detail or title,
        "fix": FIXES.get(error.status_code, ""),
        "instance": instance,
    }
    return ProblemResponse(problem, error.headers)


def of_validation(error: RequestValidationError, instance: str) -> ProblemResponse:
    """The problem of a request that does not fit its schema: where and why, never the value that was sent."""
    fields = [{"where": ".".join(map(str, e["loc"])), "problem": e["msg"]} for e in error.errors()]
    problem = {
        "type": INVALID_REQUEST,
        "title": "Invalid request",
        "status": 422,
        "detail": f"{len(fields)} field(s) of the request are not as they must be.",
        "fix": "Correct the fields listed; /openapi.json has their form.",
        "instance": instance,
        "fields": fields,
    }
    return ProblemResponse(problem)


def unexpected(instance: str) -> ProblemResponse:
    """The problem of an exception nobody foresaw: an id to find it by, and nothing else."""
    problem = {
        "type": UNEXPECTED,
        "title": "Unexpected error",
        "status": 500,
        "detail": "The service met an error it did not expect.",
        "fix": KEPT_FIX,
        "instance": instance,
    }
    return ProblemResponse(problem)


def install(app: FastAPI, *, local: bool = False) -> None:
    """Answer every error of `app` with a problem; `local` says that its callers may read what its data say."""

    def crossward_error(request: Request, error: CrosswardError) -> ProblemResponse:
        response = of_error(error, request_id(request.scope), local=local)
        if response.status_code >= 500:
            log.error("%s: %s", type(error).__name__, error, extra={"request_id": request_id(request.scope)})
        return response

    def http_exception(request: Request, error: HTTPException) -> ProblemResponse:
        # FastAPI lets only HTTPExceptions through while it reads a body, so the edge hides its own errors in one.
        if isinstance(error.__cause__, CrosswardError):
            return of_error(error.__cause__, request_id(request.scope), local=local)
        return of_http(error, request_id(request.scope))

    def database_refusal(request: Request, error: DBAPIError) -> ProblemResponse:
        clash = isinstance(error, IntegrityError)
        refusal = HTTPException(409 if clash else 422, CLASH if clash else UNSTORABLE)
        return of_http(refusal, request_id(request.scope))

    handlers: dict[type[Exception], Callable[[Request, Any], ProblemResponse]] = {
        CrosswardError: crossward_error,
        HTTPException: http_exception,
        IntegrityError: database_refusal,
        DataError: database_refusal,
        RequestValidationError: lambda request, error: of_validation(error, request_id(request.scope)),
        Exception: lambda request, _: unexpected(request_id(request.scope)),
    }
    for kind, handler in handlers.items():
        app.add_exception_handler(kind, _named_in_log(handler))


def _named_in_log(handler: Callable[[Request, Any], ProblemResponse]) -> Callable[[Request, Any], Any]:
    """Leaves the problem's name with the request, where the access log finds it; async, to stay off the thread pool."""

    async def answer(request: Request, error: Exception) -> ProblemResponse:
        response = handler(request, error)
        request.state.problem = response.kind
        return response

    return answer
