"""A problem on its way in: the answer of another service turned back into the error that caused it.

The words come from elsewhere and may be hostile: they are cut to a length and freed of control characters, which a
terminal would obey.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from crossward.errors import CrosswardError, Problem, RemoteProblem, StudyInvalid
from crossward.protocol.problems import BY_URN, INVALID_REQUEST, MEDIA_TYPE

LONGEST = 2000


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> CrosswardError:
    """The error an answer stands for: of its own class if we know it, with the `RemoteProblem` as its cause."""
    problem = _problem(headers, body)
    kind = BY_URN.get(_words(problem.get("type")))
    cause = _words(problem.get("detail")) or f"The service answered {status} {_phrase(status)}."
    if problem.get("type") == INVALID_REQUEST:
        cause += _fields(problem.get("fields"))
    fix = _words(problem.get("fix"))
    came = RemoteProblem(
        cause, fix, status=status, type=_words(problem.get("type")), instance=_words(problem.get("instance"))
    )
    if kind is None or kind is RemoteProblem:
        return came
    error = StudyInvalid(_problems(problem.get("problems"))) if kind is StudyInvalid else kind(cause, fix)
    error.__cause__ = came
    return error


def error_of_job(problem: str, cause: str, fix: str) -> CrosswardError:
    """What a job failed of: of its own class if we know it and two sentences make it, else a `RemoteProblem`."""
    kind, words = BY_URN.get(_words(problem)), (_words(cause), _words(fix))
    if kind is None or issubclass(kind, RemoteProblem | StudyInvalid):
        return RemoteProblem(*words, type=_words(problem))
    return kind(*words)


def remote(error: BaseException) -> RemoteProblem | None:
    """The answer behind an error that came from another service, with its status; None if the error was born here."""
    if isinstance(error, RemoteProblem):
        return error
    return error.__cause__ if isinstance(error.__cause__, RemoteProblem) else None


def _problem(headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    if headers.get("content-type", "").partition(";")[0].strip().lower() != MEDIA_TYPE:
        return {}
    try:
        problem = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return problem if isinstance(problem, dict) else {}


def _fields(fields: Any) -> str:
    if not isinstance(fields, list):
        return ""
    named = [f for f in fields[:20] if isinstance(f, dict)]
    return "".join(f" {_words(f.get('where'))}: {_words(f.get('problem')).rstrip('.')}." for f in named)[:LONGEST]


def _problems(problems: Any) -> list[Problem]:
    named = [p for p in problems[:100] if isinstance(p, dict)] if isinstance(problems, list) else []
    return [
        Problem(
            p.get("line") if isinstance(p.get("line"), int) else None,
            *(_words(p.get(name)) for name in ("field", "cause", "fix")),
        )
        for p in named
    ]


def _words(value: Any) -> str:
    text = value if isinstance(value, str) else ""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text[:LONGEST])


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
